"""Wait statistics, by SQL Server's wait types."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class WaitTotal:
    """A row of sys.dm_os_wait_stats, in nanoseconds."""

    waiting_tasks_count: int = 0
    wait_ns: int = 0
    max_wait_ns: int = 0


class WaitStatistics:
    """What tasks have waited for since the start (or since `clear`): sys.dm_os_wait_stats."""

    def __init__(self) -> None:
        self.totals: dict[str, WaitTotal] = {}

    def add(self, wait_type: str, duration_ns: int) -> None:
        total = self.totals.get(wait_type)
        if total is None:
            total = self.totals[wait_type] = WaitTotal()
        total.waiting_tasks_count += 1
        total.wait_ns += duration_ns
        total.max_wait_ns = max(total.max_wait_ns, duration_ns)

    def clear(self) -> None:
        self.totals.clear()
