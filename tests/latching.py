"""The real platform but for page latches: every change of a row holds its page for so long."""

from collections.abc import Iterable

from harness.embedded.runtime.platform import Page, RealPlatform, WaitStatistics
from harness.embedded.runtime.tasks import Scheduler, Wait
from harness.simulation.computer import Cores, PageLatches
from harness.simulation.parameters import LatchParameters

CORES = 64  # nobody waits for one


class LatchingPlatform(RealPlatform):
    def __init__(self, scheduler: Scheduler, waits: WaitStatistics, *, hold_ns: int) -> None:
        costs = LatchParameters(hold_us=hold_ns / 1000, shared_hold_us=0, hand_over_us=0, hand_over_us_per_waiter=0)
        self._latches = PageLatches(scheduler, waits, Cores(scheduler, waits, CORES).use, costs)

    def latch(self, page: Page) -> Iterable[Wait]:
        return self._latches.touch(page)
