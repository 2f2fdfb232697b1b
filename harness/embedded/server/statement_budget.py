"""The budget of a statement in the real server: see `tsql.storage.budget`.

It counts the processor time of the server's thread, not time in which other processes have the processor. To read it is
a system call, and to look at the memory is another: so both are read at most every `LOOK_NS`.
"""

import time
from collections.abc import Callable

from harness.embedded.errors import OVER_BUDGET, SqlServerError
from harness.embedded.runtime.tasks import SECOND, Scheduler, Task
from harness.embedded.server.memory import resident_bytes
from harness.embedded.tsql.storage.budget import Budget

DEFAULT_S = 10.0
ROWS_A_SECOND = 200_000  # of the budget: what a query reads in that time
LOOK_NS = 10_000_000
GROWTH_BYTES = 64 * 1024 * 1024  # while a statement runs; one that takes less may go on where memory is short


class StatementBudget(Budget):
    """Bounds each statement of a server's tasks."""

    def __init__(self, seconds: float, scheduler: Scheduler, memory_is_short: Callable[[], bool]) -> None:
        self.rows_max = min(round(seconds * ROWS_A_SECOND), Budget.rows_max)
        self._seconds = seconds
        self._scheduler = scheduler
        self._memory_is_short = memory_is_short
        self._look_ns = 0  # when it is time for the next look
        self._task: Task | None = None  # whose statement has looked
        self._began_ns = self._began_bytes = 0  # processor time and memory at its first look

    def look(self) -> None:
        if time.monotonic_ns() > self._look_ns:
            self.check()

    def check(self, work_ns: int = 0) -> None:
        task, spent_ns = self._scheduler.current, time.thread_time_ns()
        if task is not self._task:
            self._task, self._began_ns, self._began_bytes = task, spent_ns, resident_bytes()
        self.is_long = True
        self._look_ns = time.monotonic_ns() + LOOK_NS
        if spent_ns - self._began_ns + work_ns > self._seconds * SECOND:
            raise SqlServerError(OVER_BUDGET, f"{self._seconds:g} s of processor time")
        if self._memory_is_short() and resident_bytes() > self._began_bytes + GROWTH_BYTES:
            raise SqlServerError(701, "default")

    def refuse_rows(self) -> None:
        raise SqlServerError(OVER_BUDGET, f"{self.rows_max} rows")

    def begin(self) -> None:
        self._task = None
