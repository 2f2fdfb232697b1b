"""The real platform but for page latches: every change of a row holds its page for so long."""

from __future__ import annotations

from collections.abc import Iterable

from harness.embedded.runtime.platform import Page, RealPlatform
from harness.embedded.runtime.tasks import Scheduler, Wait
from harness.embedded.runtime.waits import WaitStatistics
from harness.simulation.cores import Cores
from harness.simulation.latches import PageLatches

CORES = 64  # nobody waits for one


class LatchingPlatform(RealPlatform):
    def __init__(self, scheduler: Scheduler, waits: WaitStatistics, *, hold_ns: int) -> None:
        self._latches = PageLatches(scheduler, waits, Cores(scheduler, waits, CORES), hold_ns=hold_ns)

    def latch(self, page: Page) -> Iterable[Wait]:
        return self._latches.touch(page)
