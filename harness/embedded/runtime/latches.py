"""Page latches that are waited for: exclusive, first come first served, counted as PAGELATCH_EX.

The real platform needs none: there one task runs at a time. Where a change to a page is to take time, as in SQL Server
with many processors, those who want the same page queue up here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from harness.embedded.runtime.platform import Page, RealPlatform
from harness.embedded.runtime.tasks import Delay, Scheduler, Task, Wait
from harness.embedded.runtime.waits import WaitStatistics


class PageLatches(RealPlatform):
    """A platform on which every change of a row holds its page's latch for `hold_ns`."""

    def __init__(self, scheduler: Scheduler, waits: WaitStatistics, *, hold_ns: int) -> None:
        self._scheduler = scheduler
        self._waits = waits
        self._hold_ns = hold_ns
        self._held: dict[Page, deque[_LatchWait]] = {}  # latches that somebody has -> who waits for them

    def latch(self, page: Page) -> Iterator[Wait]:
        waiting = self._held.get(page)
        if waiting is None:
            self._held[page] = deque()
        else:
            yield from self._wait(page, waiting)
        try:
            yield Delay(self._hold_ns)
        finally:
            self._hand_over(page)

    def _wait(self, page: Page, waiting: deque[_LatchWait]) -> Iterator[Wait]:
        task = self._scheduler.current
        wait = _LatchWait(waiting)
        self._waits.begin(task, "PAGELATCH_EX", self._scheduler.clock.now_ns(), str(page))
        try:
            yield wait
        except BaseException:
            if wait.is_granted:  # and cancelled before it ran
                self._hand_over(page)
            raise
        finally:
            self._waits.end(task, self._scheduler.clock.now_ns())

    def _hand_over(self, page: Page) -> None:
        waiting = self._held[page]
        if waiting:
            waiting.popleft().grant()
        else:
            del self._held[page]


class _LatchWait:
    __slots__ = ("is_granted", "scheduler", "task", "waiting")

    scheduler: Scheduler
    task: Task

    def __init__(self, waiting: deque[_LatchWait]) -> None:
        self.waiting = waiting
        self.is_granted = False

    def arm(self, scheduler: Scheduler, task: Task) -> None:
        self.scheduler, self.task = scheduler, task
        self.waiting.append(self)

    def disarm(self, task: Task) -> None:
        self.waiting.remove(self)

    def grant(self) -> None:
        self.is_granted = True
        self.scheduler.wake(self.task)
