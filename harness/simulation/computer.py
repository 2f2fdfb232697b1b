"""The computer of a simulated instance: cores, page latches, the device of its log, and the costs of the broker's work.

A use of the cores is one delay: the moments at which they become free are kept, so the end of a use is known when it
begins and no queue of events is needed. A long use is cut into quanta, as SQL Server's schedulers do.

The store does group commit: commits gather while as many flushes are in flight as allowed. The log device says how long
a flush takes. A flush is cut into writes of at most `bytes_per_flush`, of which `writes_in_flight` may be under way for
all flushes together. Their bytes pass one after another through a channel of `bytes_per_s`. A write ends one latency
after its last byte, and never before the previous write, because a log is written in order.

Page latches are shared or exclusive, first come, first served. A task that changes a row looks it up under a shared
latch (PAGELATCH_SH) and changes it under an exclusive one (PAGELATCH_EX). The owner of a latch needs a core, so when
processors are short a granted latch waits with its owner. A released latch goes straight to the task that waited
longest. Waking that task costs `hand_over_us`, and `hand_over_us_per_waiter` for each task that continues to wait (T.
E. Anderson, 1990: the time to pass on a simple lock grows with the number of contenders). During that time the page
belongs to a task that does not run. This causes the convoy: once a queue has formed, a page serves few tasks a second,
and new arrivals find it held.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heapreplace

from harness.embedded.runtime.platform import Page, WaitStatistics, Work
from harness.embedded.runtime.tasks import MILLISECOND, SECOND, Clock, Entropy, Scheduler, Task, Timer, Wait
from harness.embedded.tsql.instance.instance import Usage
from harness.simulation.parameters import WORKS, LatchParameters, LogParameters, Parameters

HOST_PLATFORM = "a model in virtual time"
# SQLOS: a worker that has run for 4 ms yields (SOS_SCHEDULER_YIELD) and queues up behind those that are runnable.
QUANTUM_NS = 4 * MILLISECOND
_DRAWS = 256  # random numbers drawn ahead at a time
SHARED, EXCLUSIVE = "PAGELATCH_SH", "PAGELATCH_EX"


class Cores:
    """`count` cores with one queue, first come, first served; several instances may share them.

    A task stays on its core until its use or its quantum ends.
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
        self._queued: deque[int] = deque()  # when the uses that had to wait begin, the earliest first

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
            queued = self._queued
            queued.append(begins_ns)
            if queued[0] <= now_ns:  # so it never has more than have waited at once
                queued.popleft()
        ends_ns = begins_ns + duration_ns
        heapreplace(free_at_ns, ends_ns)
        self._used_ns += duration_ns
        return (ends_ns - now_ns,)

    def _in_quanta(self, duration_ns: int) -> Iterator[Wait]:
        while duration_ns > 0:
            yield from self.use(min(duration_ns, QUANTUM_NS))
            duration_ns -= QUANTUM_NS

    @property
    def waiting_tasks(self) -> int:
        """How many tasks wait for a core now."""
        now_ns, queued = self._clock.now_ns, self._queued
        while queued and queued[0] <= now_ns:
            queued.popleft()
        return len(queued)

    @property
    def busy_ns(self) -> int:
        """Processor time spent until now on all cores; on shared cores, time assigned in the future counts too."""
        if self._are_shared:
            return self._used_ns
        now_ns = self._clock.now_ns
        return self._used_ns - sum(at_ns - now_ns for at_ns in self._free_at_ns if at_ns > now_ns)


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


class LogDevice:
    """A device with latency and bandwidth; `slowdown` stretches every write, for faults and the launch of readers."""

    def __init__(self, clock: Clock, entropy: Entropy, parameters: LogParameters) -> None:
        self.slowdown = 1.0
        self._clock = clock
        self.reseed(entropy)
        count = parameters.writes_in_flight
        self._done_at_ns = deque([0] * count, maxlen=count)  # ends of the last writes, the oldest first
        self._channel_free_at_ns = 0
        self.change_costs(parameters)

    def change_costs(self, parameters: LogParameters) -> None:
        self._parameters = parameters
        self._latency_ns = parameters.flush_latency_us * 1000

    def reseed(self, entropy: Entropy) -> None:
        """Draw from other entropy from now on; discard what was drawn ahead."""
        self._entropy = entropy
        self._draws: list[float] = []

    def duration_ns(self, size_bytes: int) -> int:
        """The duration of a flush that begins now; every call draws a latency for each write."""
        now_ns = self._clock.now_ns
        left_bytes = size_bytes
        while True:
            piece_bytes = min(left_bytes, self._parameters.bytes_per_flush)
            self._write(now_ns, piece_bytes)
            left_bytes -= piece_bytes
            if left_bytes <= 0:
                return self._done_at_ns[-1] - now_ns

    def _write(self, now_ns: int, size_bytes: int) -> None:
        done_at_ns = self._done_at_ns
        transfer_ns = int(size_bytes * SECOND / self._parameters.bytes_per_s * self.slowdown)
        sent_ns = max(now_ns, done_at_ns[0], self._channel_free_at_ns) + transfer_ns
        self._channel_free_at_ns = sent_ns
        done_at_ns.append(max(sent_ns + int(self._draw_latency_ns() * self.slowdown), done_at_ns[-1]))

    def _draw_latency_ns(self) -> float:
        if not self._draws:
            words = struct.unpack(f"<{_DRAWS}I", self._entropy.random_bytes(4 * _DRAWS))
            self._draws = [word / 2**31 - 1 for word in words]  # from -1 to 1
        return self._latency_ns * (1 + self._parameters.flush_latency_spread * self._draws.pop())


class Computer:
    """The hardware of one running instance, created anew at each start. Implements `runtime.platform.Platform`."""

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
        self.dispatchers = parameters.broker.dispatchers
        self.cores = Cores(scheduler, waits, parameters.processors.count, shared_with=cores_of_all)
        self.latches: PageLatches | None = None
        if latch.hold_us or latch.shared_hold_us:
            self.latches = PageLatches(scheduler, waits, self.cores.use, latch)
        self.log = LogDevice(scheduler.clock, entropy, parameters.log)
        self.change_costs(parameters)

    def change_costs(self, parameters: Parameters) -> None:
        """Charge these costs from now on; the counts of cores, dispatchers and writes in flight stay, and so does
        whether there are latches."""
        latch, processors = parameters.latch, parameters.processors
        if self.latches is not None:
            self.latches.change_costs(latch)
        else:
            assert not (latch.hold_us or latch.shared_hold_us), "a computer built without latches cannot get them"
        self.log.change_costs(parameters.log)
        self._cost_ns = {work: round(getattr(processors, f"{work}_us") * 1000) for work in WORKS}
        self._cost_ns_per_kib = {work: round(getattr(processors, f"{work}_us_per_kib", 0) * 1000) for work in WORKS}

    def cpu(self, work: Work, count: int = 1, size_bytes: int = 0) -> Iterable[Wait]:
        return self.cores.use(self._cost_ns[work] * count + (self._cost_ns_per_kib[work] * size_bytes >> 10))

    def latch(self, page: Page) -> Iterable[Wait]:
        return () if self.latches is None else self.latches.touch(page)

    def usage(self) -> Usage:
        """Processors for sys.dm_os_sys_info and similar views; memory is not modelled."""
        return Usage(
            cpu_count=self.cores.count,
            host_platform=HOST_PLATFORM,
            process_user_time_ms=self.cores.busy_ns // MILLISECOND,
            runnable_tasks=self.cores.waiting_tasks,
        )
