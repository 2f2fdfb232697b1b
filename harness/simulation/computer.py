"""The computer of a simulated instance: cores, page latches and log device, charged through the broker's platform."""

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
    """Implement `runtime.platform.Platform` on cores and latches."""

    def __init__(
        self, cores: Cores, latches: PageLatches | None, costs: ProcessorParameters, *, dispatchers: int
    ) -> None:
        self.dispatchers = dispatchers
        self._cores = cores
        self._latches = latches
        self.change_costs(costs)

    def change_costs(self, costs: ProcessorParameters) -> None:
        self._cost_ns = {work: round(costs.cost_us(work) * 1000) for work in WORKS}
        self._cost_ns_per_kib = {work: round(costs.cost_us_per_kib(work) * 1000) for work in WORKS}

    def cpu(self, work: Work, count: int = 1, size_bytes: int = 0) -> Iterable[Wait]:
        return self._cores.use(self._cost_ns[work] * count + (self._cost_ns_per_kib[work] * size_bytes >> 10))

    def latch(self, page: Page) -> Iterable[Wait]:
        return () if self._latches is None else self._latches.touch(page)


class Computer:
    """The hardware of one running instance, created anew at each start."""

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
        """Charge these costs from now on; the counts of cores, dispatchers and writes in flight stay, and so does
        whether there are latches."""
        latch = parameters.latch
        if self.latches is not None:
            self.latches.change_costs(latch)
        else:
            assert not (latch.hold_us or latch.shared_hold_us), "a computer built without latches cannot get them"
        self.log.change_costs(parameters.log)
        self.platform.change_costs(parameters.processors)

    def usage(self) -> Usage:
        """Processors for sys.dm_os_sys_info and similar views; memory is not modelled."""
        return Usage(
            cpu_count=self.cores.count,
            host_platform=HOST_PLATFORM,
            process_user_time_ms=self.cores.busy_ns // MILLISECOND,
        )
