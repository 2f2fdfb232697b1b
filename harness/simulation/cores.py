"""The cores of a simulated computer, first come, first served; several instances may share them.

A use is one delay: the moments at which the cores become free are kept, so the end of a use is known when it begins and
no queue of events is needed. A long use is cut into quanta, as SQL Server's schedulers do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapreplace

from harness.embedded.runtime.tasks import MILLISECOND, Scheduler, Wait
from harness.embedded.runtime.waits import WaitStatistics

# SQLOS: a worker that has run for 4 ms yields (SOS_SCHEDULER_YIELD) and queues up behind those that are runnable.
QUANTUM_NS = 4 * MILLISECOND


class Cores:
    """`count` cores with one queue; a task stays on its core until its use or its quantum ends.

    The time that a task waits for a core is signal wait time of the wait that just ended, or of SOS_SCHEDULER_YIELD.
    """

    def __init__(
        self, scheduler: Scheduler, waits: WaitStatistics, count: int, *, shared_with: Cores | None = None
    ) -> None:
        self.count = count
        self._scheduler = scheduler
        self._clock = scheduler.clock
        self._waits = waits
        self._are_shared = shared_with is not None
        self._free_at_ns: list[int] = shared_with._free_at_ns if shared_with else [self._clock.now_ns] * count  # heap
        self._used_ns = 0  # includes what ends in the future

    def use(self, duration_ns: int) -> Iterable[Wait]:
        """Take processor time for the current task. It is assigned now, so yield from the result at once."""
        if duration_ns > QUANTUM_NS:
            return self._in_quanta(duration_ns)
        if duration_ns <= 0:
            return ()
        now_ns = self._clock.now_ns
        free_at_ns = self._free_at_ns
        begins_ns = free_at_ns[0]
        if begins_ns <= now_ns:
            begins_ns = now_ns
        else:
            self._waits.runnable(self._scheduler.current, now_ns, begins_ns - now_ns)
        ends_ns = begins_ns + duration_ns
        heapreplace(free_at_ns, ends_ns)
        self._used_ns += duration_ns
        return (ends_ns - now_ns,)

    def _in_quanta(self, duration_ns: int) -> Iterator[Wait]:
        while duration_ns > 0:
            yield from self.use(min(duration_ns, QUANTUM_NS))
            duration_ns -= QUANTUM_NS

    @property
    def busy_ns(self) -> int:
        """Processor time spent until now on all cores; on shared cores, time assigned in the future counts too."""
        if self._are_shared:
            return self._used_ns
        now_ns = self._clock.now_ns
        return self._used_ns - sum(at_ns - now_ns for at_ns in self._free_at_ns if at_ns > now_ns)
