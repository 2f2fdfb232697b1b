"""Virtual time: a clock that only a driver moves, entropy from a seed, and a driver that jumps to the next timer.

Same seed, same trace. The driver runs what is ready, then sets the clock to the earliest deadline, until a condition
holds, a moment has come, or nothing is left to happen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypeVar

from harness.embedded.runtime.tasks import SECOND, Scheduler, Task, TaskState, Waiting

Result = TypeVar("Result")

# 2024-01-01. Any moment at which the lab's certificates are valid would do; a fixed one keeps traces equal.
EPOCH_UTC_NS = 1_704_067_200 * SECOND
_NEVER_NS = 1 << 63
STEPS_MAX = 50_000_000  # a model that never comes to rest is a bug, not a long run


class VirtualClock:
    """Time that stands still until somebody moves it."""

    def __init__(self) -> None:
        self._now_ns = 0

    def now_ns(self) -> int:
        return self._now_ns

    def utc_ns(self) -> int:
        return EPOCH_UTC_NS + self._now_ns

    def advance_to(self, now_ns: int) -> None:
        assert now_ns >= self._now_ns, "time does not run backwards"
        self._now_ns = now_ns


class SeededEntropy:
    """Bytes that follow from a seed: SHA-256 of a counter."""

    def __init__(self, seed: int) -> None:
        self._prefix = seed.to_bytes(16, "big", signed=True)
        self._count = 0

    def random_bytes(self, count: int) -> bytes:
        out = b""
        while len(out) < count:
            self._count += 1
            out += hashlib.sha256(self._prefix + self._count.to_bytes(8, "big")).digest()
        return out[:count]


class VirtualScheduler(Scheduler):
    """A scheduler that says when its driver has to look at it: never later than when it has something to run."""

    def __init__(self, clock: VirtualClock, on_error: Callable[[Task, BaseException], None]) -> None:
        super().__init__(clock, on_error)
        self.look_at_ns = 0
        self.on_work = self._look_at_once

    def _look_at_once(self) -> None:
        """Somebody else woke a task or set a timer; which of them, it shows when it runs."""
        self.look_at_ns = 0


class VirtualDriver:
    """Drives any number of schedulers that share one virtual clock. What is to run at one moment runs in their order,
    those first to which another gave something to do."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.schedulers: list[VirtualScheduler] = []
        self.errors: list[tuple[Task, BaseException]] = []

    def scheduler(self) -> VirtualScheduler:
        """A new scheduler in this driver's time; errors that nobody joins are raised by `run_until`."""
        scheduler = VirtualScheduler(self.clock, lambda task, error: self.errors.append((task, error)))
        self.schedulers.append(scheduler)
        return scheduler

    def run_until(self, condition: Callable[[], bool], *, limit_s: float = 24 * 3600.0) -> bool:
        """Runs until the condition holds; False if nothing is left to happen, or the limit is reached, before."""
        return self._run_until_ns(self.clock.now_ns() + round(limit_s * SECOND), condition)

    def run_for(self, duration_s: float) -> None:
        """Runs for that long, idle or not."""
        end_ns = self.clock.now_ns() + round(duration_s * SECOND)
        self._run_until_ns(end_ns, None)
        self.clock.advance_to(end_ns)
        self.settle()

    def settle(self) -> None:
        """Runs what can run now; time stands still."""
        self.run_until(lambda: True)

    def _run_until_ns(self, limit_ns: int, condition: Callable[[], bool] | None) -> bool:
        clock, schedulers = self.clock, self.schedulers
        now_ns = clock.now_ns()
        was_asked = condition is None  # since something ran
        for _ in range(STEPS_MAX):
            first, first_ns = None, _NEVER_NS
            for scheduler in schedulers:
                if scheduler.look_at_ns < first_ns:
                    first, first_ns = scheduler, scheduler.look_at_ns
            if first_ns > now_ns:
                # All that could run at this moment has.
                if self.errors:
                    task, error = self.errors.pop(0)
                    raise AssertionError(f"task {task.name} ended with {error!r}") from error
                if not was_asked:
                    assert condition is not None
                    if condition():
                        return True
                    was_asked = True  # and may have set something going
                    continue
                if first is None:
                    return False
                if first._timers[0][2].is_cancelled:  # time does not stop there
                    due_ns = first.next_due_ns()
                    first.look_at_ns = _NEVER_NS if due_ns is None else due_ns
                    continue
                if first_ns > limit_ns:
                    clock.advance_to(limit_ns)
                    return condition is not None and condition()
                clock.advance_to(first_ns)
                now_ns = first_ns
            assert first is not None
            first.look_at_ns = 0  # and stays so if an action raises
            first.run()
            # That timer may have been cancelled: it is asked before the clock is moved.
            first.look_at_ns = first._timers[0][0] if first._timers else _NEVER_NS
            was_asked = condition is None
        raise AssertionError(f"nothing comes to rest within {STEPS_MAX} steps")

    def finish(self, scheduler: Scheduler, generator: Waiting[Result], name: str = "test") -> Result:
        """Runs a task to its end and returns its result or raises its error."""
        task = scheduler.spawn(_kept(generator), name)
        assert self.run_until(lambda: task.state is TaskState.DONE), f"{name} waits for ever"
        result, error = task.result
        if error is not None:
            raise error
        value: Result = result
        return value


def _kept(generator: Waiting[Result]) -> Waiting[tuple[Result | None, Exception | None]]:
    """The task's error becomes part of its result: the driver, not `on_error`, hands it on."""
    try:
        result = yield from generator
    except Exception as error:
        return None, error
    return result, None
