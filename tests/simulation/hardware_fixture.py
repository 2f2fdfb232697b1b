"""Time for tests of single pieces of hardware, and what their tasks did when."""

import random
from collections.abc import Iterable

from harness.embedded.runtime.platform import WaitStatistics
from harness.embedded.runtime.tasks import Delay, Task, Wait, Waiting
from harness.embedded.runtime.virtual import VirtualClock, VirtualDriver
from harness.simulation.computer import Cores

US = 1_000


class Bench:
    """One instance's scheduler in virtual time."""

    def __init__(self, cores: int = 64) -> None:
        self.driver = VirtualDriver(VirtualClock())
        self.scheduler = self.driver.scheduler()
        self.waits = WaitStatistics()
        self.cores = Cores(self.scheduler, self.waits, cores)
        self.done: list[tuple[str, int]] = []  # (name, when in us)

    def now_us(self) -> float:
        return self.driver.clock.now_ns / US

    def spawn(self, work: Iterable[Wait], name: str) -> Task:
        """A task whose end is noted."""

        def working() -> Waiting[None]:
            yield from work
            self.done.append((name, self.driver.clock.now_ns // US))

        return self.scheduler.spawn(working(), name)

    def use(self, duration_us: int, name: str, *, at_us: int = 0) -> Task:
        """A task that uses a core, from some moment on."""

        def using() -> Waiting[None]:
            yield Delay(at_us * US)
            yield from self.cores.use(duration_us * US)

        return self.spawn(using(), name)

    def run(self, seconds: float = 1.0) -> None:
        self.driver.run_for(seconds)


def poisson_arrivals_us(rate_per_s: float, count: int, seed: int) -> list[int]:
    """Moments of a Poisson process."""
    random_ = random.Random(seed)
    at_us, moments = 0.0, []
    for _ in range(count):
        at_us += random_.expovariate(rate_per_s) * 1e6
        moments.append(round(at_us))
    return moments
