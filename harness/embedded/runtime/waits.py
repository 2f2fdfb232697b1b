"""Wait statistics, by SQL Server's wait types: what tasks have waited for, and what they wait for now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from harness.embedded.runtime.tasks import Task


@dataclass(slots=True)
class WaitTotal:
    """A row of sys.dm_os_wait_stats, in nanoseconds."""

    waiting_tasks_count: int = 0
    wait_ns: int = 0
    max_wait_ns: int = 0


class CurrentWait(NamedTuple):
    """A row of sys.dm_os_waiting_tasks, beside its task."""

    wait_type: str
    started_ns: int
    resource_description: str | None


class WaitStatistics:
    """What tasks have waited for since the start (or since `clear`), and `current`, those that wait now.

    A task waits for one thing at a time: `begin`, then `end`, also where the wait was broken off.
    """

    def __init__(self) -> None:
        self.totals: dict[str, WaitTotal] = {}
        self.current: dict[Task | None, CurrentWait] = {}

    def begin(self, task: Task | None, wait_type: str, now_ns: int, resource_description: str | None = None) -> None:
        self.current[task] = CurrentWait(wait_type, now_ns, resource_description)

    def end(self, task: Task | None, now_ns: int) -> None:
        wait = self.current.pop(task)
        self._add(wait.wait_type, now_ns - wait.started_ns)

    def _add(self, wait_type: str, duration_ns: int) -> None:
        total = self.totals.get(wait_type)
        if total is None:
            total = self.totals[wait_type] = WaitTotal()
        total.waiting_tasks_count += 1
        total.wait_ns += duration_ns
        total.max_wait_ns = max(total.max_wait_ns, duration_ns)

    def clear(self) -> None:
        self.totals.clear()
