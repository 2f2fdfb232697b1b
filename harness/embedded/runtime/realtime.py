"""Real time: the wall clock, the system's entropy, and a driver that runs a scheduler in an asyncio loop."""

import asyncio
import os
import time
from collections.abc import Callable

from harness.embedded.runtime.tasks import SECOND, OnError, Scheduler, first_due_ns

# Python's monotonic clock stands still on Linux while the machine is suspended.
_MONOTONIC = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
LOOK_NS = SECOND
STEP_NS = SECOND // 10  # less is how a wall clock is corrected all the time
REST_S_MAX = 30.0


class SystemClock:
    """The system's clocks, and how far a test has moved them forward (`RealTimeDriver.advance`)."""

    ahead_ns = 0

    @property
    def now_ns(self) -> int:
        return time.clock_gettime_ns(_MONOTONIC) + self.ahead_ns

    def utc_ns(self) -> int:
        return time.time_ns() + self.ahead_ns


class SystemEntropy:
    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)


class RealTimeDriver:
    """Runs a scheduler in an asyncio loop: soon after work appears, and when the next timer is due.

    It also looks at the clocks once a second, because the loop's delays know neither of a suspended machine nor of a
    wall clock that is set.
    """

    def __init__(self, clock: SystemClock, on_error: OnError, loop: asyncio.AbstractEventLoop) -> None:
        self.scheduler = Scheduler(clock, on_error, on_ready=self.run_soon, on_timer=self.run_soon)
        self._clock = clock
        self._loop = loop
        self._soon: asyncio.Handle | None = None
        self._later: asyncio.TimerHandle | None = None
        self._later_due_ns = 0
        self._ahead_ns = self._wall_ahead_ns()
        self._runs_next = False  # without a turn of the loop

    def run_soon(self) -> None:
        if self._soon is None and not self._runs_next:
            self._soon = self._loop.call_soon(self._run)

    def arrive(self) -> None:
        """Protocols call it at the beginning of `data_received`, and `run` at its end: it saves a turn of the loop."""
        self._runs_next = True

    def run(self) -> None:
        """Run what is ready now."""
        self._runs_next = False
        self._run()

    async def advance(self, duration_ns: int, is_busy: Callable[[], bool]) -> None:
        """Let time pass at once: go from one deadline to the next, each time when what the one before began is done.

        `is_busy` says whether something that no task does, such as a flush, is under way. TimeoutError if tasks have
        work for longer than `REST_S_MAX`.
        """
        end_ns = self._clock.now_ns + duration_ns
        await self._rest(is_busy)
        while (due_ns := first_due_ns(self.scheduler.timers)) is not None and due_ns < end_ns:
            self._go_to(due_ns)
            await self._rest(is_busy)
        self._go_to(end_ns)
        await self._rest(is_busy)

    def _go_to(self, moment_ns: int) -> None:
        self._clock.ahead_ns += max(0, moment_ns - self._clock.now_ns)
        if self._later is not None:  # it would come too late
            self._later.cancel()
            self._later = None
        self.run()

    async def _rest(self, is_busy: Callable[[], bool]) -> None:
        deadline = time.monotonic() + REST_S_MAX
        while self.scheduler.ready_tasks or is_busy():
            if time.monotonic() > deadline:
                raise TimeoutError
            await asyncio.sleep(0.001)

    def _run(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        self.scheduler.run()
        self._set_alarm()

    def _set_alarm(self) -> None:
        due_ns = first_due_ns(self.scheduler.timers)
        if self._later is not None:
            if due_ns is None or self._later_due_ns <= due_ns:
                return
            self._later.cancel()
        now_ns = self.scheduler.clock.now_ns
        look_ns = now_ns + LOOK_NS
        self._later_due_ns = look_ns if due_ns is None else min(due_ns, look_ns)
        self._later = self._loop.call_later(max(0, self._later_due_ns - now_ns) / SECOND, self._alarm)

    def _alarm(self) -> None:
        self._later = None
        ahead_ns = self._wall_ahead_ns()
        if abs(ahead_ns - self._ahead_ns) > STEP_NS:
            self._ahead_ns = ahead_ns
            self.scheduler.wall_clock_is_set()
        self._run()

    def _wall_ahead_ns(self) -> int:
        return self._clock.utc_ns() - self._clock.now_ns
