"""The platform of a simulated instance: what the broker does, at the prices of the model's hardware."""

from __future__ import annotations

from collections.abc import Iterable

from harness.embedded.runtime.platform import Page, Work
from harness.embedded.runtime.tasks import MILLISECOND, Entropy, Scheduler, Wait
from harness.embedded.runtime.waits import WaitStatistics
from harness.embedded.tsql.instance.instance import Usage
from harness.simulation.cores import Cores
from harness.simulation.log_device import LogDevice
from harness.simulation.page_latches import PageLatches
from harness.simulation.parameters import WORKS, Parameters, ProcessorParameters

HOST_PLATFORM = "a model in virtual time"


class SimulatedPlatform:
    """`runtime.platform.Platform` on cores and latches."""

    def __init__(
        self, cores: Cores, latches: PageLatches | None, prices: ProcessorParameters, *, dispatchers: int
    ) -> None:
        self.dispatchers = dispatchers
        self._cores = cores
        self._latches = latches
        self.change_costs(prices)

    def change_costs(self, prices: ProcessorParameters) -> None:
        self._price_ns = {work: round(prices.price_us(work) * 1000) for work in WORKS}
        self._price_ns_per_kib = {work: round(prices.price_us_per_kib(work) * 1000) for work in WORKS}

    def cpu(self, work: Work, count: int = 1, size_bytes: int = 0) -> Iterable[Wait]:
        return self._cores.use(self._price_ns[work] * count + (self._price_ns_per_kib[work] * size_bytes >> 10))

    def latch(self, page: Page) -> Iterable[Wait]:
        return () if self._latches is None else self._latches.touch(page)


class Computer:
    """The hardware under one running instance: everything that is made anew when the instance starts."""

    def __init__(
        self,
        scheduler: Scheduler,
        waits: WaitStatistics,
        entropy: Entropy,
        parameters: Parameters,
        *,
        cores_of_all: Cores | None = None,
    ) -> None:
        latch = parameters.latch
        self.cores = Cores(scheduler, waits, parameters.processors.count, shared_with=cores_of_all)
        self.latches: PageLatches | None = None
        if latch.hold_us or latch.shared_hold_us:
            self.latches = PageLatches(scheduler, waits, self.cores, latch)
        self.log = LogDevice(scheduler.clock, entropy, parameters.log)
        self.platform = SimulatedPlatform(
            self.cores, self.latches, parameters.processors, dispatchers=parameters.broker.dispatchers
        )

    def change_costs(self, parameters: Parameters) -> None:
        """Other prices from now on, of everything but how many cores, dispatchers and writes in flight there are,
        and whether there are latches."""
        latch = parameters.latch
        if self.latches is not None:
            self.latches.change_costs(latch)
        else:
            assert not (latch.hold_us or latch.shared_hold_us), "whether there are latches is the computer's build"
        self.log.change_costs(parameters.log)
        self.platform.change_costs(parameters.processors)

    def usage(self) -> Usage:
        """For `Instance.usage`: sys.dm_os_sys_info and its kin; memory is not part of the model."""
        return Usage(
            cpu_count=self.cores.count,
            host_platform=HOST_PLATFORM,
            process_user_time_ms=self.cores.busy_ns // MILLISECOND,
        )
