"""Page latches of a simulated instance: shared and exclusive, first come, first served.

Who changes a row looks it up under a shared latch (PAGELATCH_SH) and changes it under an exclusive one (PAGELATCH_EX).
While a latch is held its owner needs a core, so where processors are short a granted latch waits with its owner. A
latch goes from its owner straight to the one that waited longest; that one has to be woken first, which costs
`hand_over_us` and `hand_over_us_per_waiter` for each that goes on waiting (T. E. Anderson, 1990: with a plain lock the
time to pass it on grows with those who want it), and all that time the page belongs to a task that does not run. Hence
the convoy: once a queue has formed, a page serves few tasks a second, and those that come find it held.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from harness.embedded.runtime.platform import Page
from harness.embedded.runtime.tasks import Scheduler, Task, Timer, Wait
from harness.embedded.runtime.waits import WaitStatistics
from harness.simulation.cores import Cores
from harness.simulation.parameters import LatchParameters

SHARED, EXCLUSIVE = "PAGELATCH_SH", "PAGELATCH_EX"


class PageLatches:
    """Latches of all pages of an instance. Without `shared_hold_us` nobody looks rows up."""

    def __init__(self, scheduler: Scheduler, waits: WaitStatistics, cores: Cores, prices: LatchParameters) -> None:
        self.scheduler = scheduler
        self._waits = waits
        self._cores = cores
        self._held: dict[Page, _Held] = {}
        self.change_costs(prices)

    def change_costs(self, prices: LatchParameters) -> None:
        self._hold_ns = round(prices.hold_us * 1000)
        self._shared_hold_ns = round(prices.shared_hold_us * 1000)
        self._hand_over_ns = round(prices.hand_over_us * 1000)
        self._hand_over_per_waiter_ns = round(prices.hand_over_us_per_waiter * 1000)

    def touch(self, page: Page) -> Iterator[Wait]:
        """A row of the page is looked up and changed."""
        latch = self._held.get(page)
        if latch is None:
            # Nobody is there, so the look-up and the change are one use of a core. Who comes in its first part, and
            # might have looked up a row of his own beside it, waits for all of it.
            self._held[page] = latch = _Held()
            try:
                yield from self._cores.use(self._shared_hold_ns + self._hold_ns)
            finally:
                self._release(page, latch)
            return
        if self._shared_hold_ns:
            yield from self._hold(page, SHARED, self._shared_hold_ns)
        yield from self._hold(page, EXCLUSIVE, self._hold_ns)

    def _hold(self, page: Page, mode: str, duration_ns: int) -> Iterator[Wait]:
        latch = self._held.get(page)
        if latch is None:
            latch = self._held[page] = _Held()
            latch.mode = mode
        elif mode is SHARED and latch.mode is SHARED and not latch.waiting:
            latch.owners += 1
        else:
            yield from self._wait(page, latch, mode)
        try:
            yield from self._cores.use(duration_ns)
        finally:
            self._release(page, latch)

    def _wait(self, page: Page, latch: _Held, mode: str) -> Iterator[Wait]:
        task, clock = self.scheduler.current, self.scheduler.clock
        wait = _LatchWait(latch, mode)
        self._waits.begin(task, mode, clock.now_ns, page)
        try:
            yield wait
        except BaseException:
            if wait.is_granted:  # and cancelled before it ran
                self._release(page, latch)
            raise
        finally:
            self._waits.end(task, clock.now_ns)

    def _release(self, page: Page, latch: _Held) -> None:
        latch.owners -= 1
        if latch.owners:
            return
        waiting = latch.waiting
        if not waiting:
            del self._held[page]
            return
        granted = [waiting.popleft()]
        latch.mode = granted[0].mode
        while latch.mode is SHARED and waiting and waiting[0].mode is SHARED:
            granted.append(waiting.popleft())
        latch.owners = len(granted)
        hand_over_ns = self._hand_over_ns + self._hand_over_per_waiter_ns * len(waiting)
        for wait in granted:
            wait.grant(hand_over_ns)


class _Held:
    """A latch that somebody has."""

    __slots__ = ("mode", "owners", "waiting")

    def __init__(self) -> None:
        self.mode = EXCLUSIVE
        self.owners = 1
        self.waiting: deque[_LatchWait] = deque()


class _LatchWait:
    __slots__ = ("is_granted", "latch", "mode", "scheduler", "task", "timer")

    scheduler: Scheduler
    task: Task

    def __init__(self, latch: _Held, mode: str) -> None:
        self.latch = latch
        self.mode = mode
        self.is_granted = False
        self.timer: Timer | None = None

    def arm(self, scheduler: Scheduler, task: Task) -> None:
        self.scheduler, self.task = scheduler, task
        self.latch.waiting.append(self)

    def disarm(self, task: Task) -> None:
        if self.timer is not None:
            self.timer.cancel()
        else:
            self.latch.waiting.remove(self)

    def grant(self, hand_over_ns: int) -> None:
        self.is_granted = True
        if hand_over_ns:
            scheduler = self.scheduler
            self.timer = scheduler.call_at(scheduler.clock.now_ns + hand_over_ns, self._wake)
        else:
            self._wake()

    def _wake(self) -> None:
        self.scheduler.wake(self.task)
