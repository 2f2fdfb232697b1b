"""Real time: the wall clock, the system's entropy, and a driver that runs a scheduler in an asyncio loop."""

from __future__ import annotations

import asyncio
import os
import time

from harness.embedded.runtime.tasks import SECOND, Clock, OnError, Scheduler, first_due_ns

# Python's monotonic clock stands still on Linux while the machine is suspended.
_MONOTONIC = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
LOOK_NS = SECOND
STEP_NS = SECOND // 10  # less is how a wall clock is corrected all the time


class SystemClock:
    @property
    def now_ns(self) -> int:
        return time.clock_gettime_ns(_MONOTONIC)

    def utc_ns(self) -> int:
        return time.time_ns()


class SystemEntropy:
    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)


class RealTimeDriver:
    """Runs a scheduler in an asyncio loop: soon after work appears, and when the next timer is due.

    It also looks at the clocks once a second, because the loop's delays know neither of a suspended machine nor of a
    wall clock that is set.
    """

    def __init__(self, clock: Clock, on_error: OnError, loop: asyncio.AbstractEventLoop) -> None:
        self.scheduler = Scheduler(clock, on_error, on_ready=self.run_soon, on_timer=self.run_soon)
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
        clock = self.scheduler.clock
        return clock.utc_ns() - clock.now_ns
