"""Page latches of a simulated instance: shared and exclusive, first come, first served.

A task that changes a row looks it up under a shared latch (PAGELATCH_SH) and changes it under an exclusive one
(PAGELATCH_EX). The owner of a latch needs a core, so when processors are short a granted latch waits with its owner. A
released latch goes straight to the task that waited longest. Waking that task costs `hand_over_us`, and
`hand_over_us_per_waiter` for each task that continues to wait (T. E. Anderson, 1990: the time to pass on a simple lock
grows with the number of contenders). During that time the page belongs to a task that does not run. This causes the
convoy: once a queue has formed, a page serves few tasks a second, and new arrivals find it held.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from harness.embedded.runtime.platform import Page, WaitStatistics
from harness.embedded.runtime.tasks import Scheduler, Task, Timer, Wait
from harness.simulation.parameters import LatchParameters

SHARED, EXCLUSIVE = "PAGELATCH_SH", "PAGELATCH_EX"


class PageLatches:
    """Latches of all pages of an instance. If `shared_hold_us` is 0, look-ups take no latch.

    `use_core` takes processor time for the current task, in ns.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        waits: WaitStatistics,
        use_core: Callable[[int], Iterable[Wait]],
        costs: LatchParameters,
    ) -> None:
        self.scheduler = scheduler
        self._waits = waits
        self._use_core = use_core
        self._held: dict[Page, _Held] = {}
        self.change_costs(costs)

    def change_costs(self, costs: LatchParameters) -> None:
        self._hold_ns = round(costs.hold_us * 1000)
        self._shared_hold_ns = round(costs.shared_hold_us * 1000)
        self._hand_over_ns = round(costs.hand_over_us * 1000)
        self._hand_over_per_waiter_ns = round(costs.hand_over_us_per_waiter * 1000)

    def touch(self, page: Page) -> Iterator[Wait]:
        """Look up and change a row of the page."""
        latch = self._held.get(page)
        if latch is None:
            # The page is free, so look-up and change are one use of a core. A task that arrives during the look-up,
            # and could have shared the latch, waits for all of it.
            self._held[page] = latch = _Held()
            try:
                yield from self._use_core(self._shared_hold_ns + self._hold_ns)
            finally:
                self._release(page, latch)
            return
        if self._shared_hold_ns:
            yield from self._hold(page, SHARED, self._shared_hold_ns)
        yield from self._hold(page, EXCLUSIVE, self._hold_ns)

    def _hold(self, page: Page, mode: str, duration_ns: int) -> Iterator[Wait]:
        latch = self._held.get(page)
        if latch is None:
            self._held[page] = latch = _Held(mode)
        elif mode is SHARED and latch.mode is SHARED and not latch.waiting:
            latch.owners += 1
        else:
            yield from self._wait(page, latch, mode)
        try:
            yield from self._use_core(duration_ns)
        finally:
            self._release(page, latch)

    def _wait(self, page: Page, latch: _Held, mode: str) -> Iterator[Wait]:
        task, clock = self.scheduler.current, self.scheduler.clock
        wait = _LatchWait(latch, mode)
        self._waits.begin(task, mode, clock.now_ns, page)
        try:
            yield wait
        except BaseException:
            if wait.is_granted:  # but the task was cancelled before it ran
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


@dataclass(slots=True)
class _Held:
    """A latch that at least one task owns."""

    mode: str = EXCLUSIVE
    owners: int = 1
    waiting: deque[_LatchWait] = field(default_factory=deque)


@dataclass(slots=True, eq=False)
class _LatchWait:
    latch: _Held
    mode: str
    is_granted: bool = False
    timer: Timer | None = None
    scheduler: Scheduler = field(init=False)
    task: Task = field(init=False)

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
