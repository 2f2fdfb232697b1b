"""Wait statistics by SQL Server's wait types: past waits and current ones."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.embedded.runtime.platform import Page
    from harness.embedded.runtime.tasks import Task


@dataclass(slots=True)
class WaitTotal:
    """A row of sys.dm_os_wait_stats, in nanoseconds."""

    waiting_tasks_count: int = 0
    wait_ns: int = 0
    max_wait_ns: int = 0
    signal_ns: int = 0  # part of `wait_ns`: ready to go on, but waiting for a processor


@dataclass(slots=True)
class CurrentWait:
    """A row of sys.dm_os_waiting_tasks, without its task."""

    wait_type: str
    started_ns: int
    page: Page | None  # of a page latch

    @property
    def resource_description(self) -> str | None:
        return None if self.page is None else str(self.page)


class WaitStatistics:
    """Waits since the start (or since `clear`), and `current`, the tasks that wait now.

    A task waits for one thing at a time: `begin`, then `end`, even if the wait was cancelled.
    """

    def __init__(self) -> None:
        self.totals: defaultdict[str, WaitTotal] = defaultdict(WaitTotal)
        self.current: dict[Task | None, CurrentWait] = {}
        self._ended: tuple[Task | None, int, WaitTotal, int] | None = None  # the latest: task, end, total, duration

    def begin(self, task: Task | None, wait_type: str, now_ns: int, page: Page | None = None) -> None:
        self.current[task] = CurrentWait(wait_type, now_ns, page)

    def end(self, task: Task | None, now_ns: int) -> None:
        wait = self.current.pop(task)
        duration_ns = now_ns - wait.started_ns
        total = self.totals[wait.wait_type]
        self._ended = (task, now_ns, total, duration_ns)
        total.waiting_tasks_count += 1
        total.wait_ns += duration_ns
        if duration_ns > total.max_wait_ns:  # noqa: PLR1730 - every wait passes here, and max() is a call
            total.max_wait_ns = duration_ns

    def runnable(self, task: Task | None, now_ns: int, duration_ns: int) -> None:
        """Counts a ready task's wait for a processor as signal wait time of the wait that has just ended, or of
        SOS_SCHEDULER_YIELD if there was none."""
        ended, self._ended = self._ended, None
        if ended is not None and ended[0] is task and ended[1] == now_ns:
            total = ended[2]
            whole_ns = ended[3] + duration_ns
        else:
            total = self.totals["SOS_SCHEDULER_YIELD"]
            total.waiting_tasks_count += 1
            whole_ns = duration_ns
        total.wait_ns += duration_ns
        total.signal_ns += duration_ns
        if whole_ns > total.max_wait_ns:  # noqa: PLR1730
            total.max_wait_ns = whole_ns

    def clear(self) -> None:
        self.totals.clear()
        self._ended = None
