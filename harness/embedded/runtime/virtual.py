"""Virtual time: a clock that only a driver moves, entropy from a seed, and a driver that jumps to the next timer.

The same seed gives the same trace. The driver runs what is ready, then sets the clock to the earliest deadline, until a
condition holds, the end time is reached or no timer is left.
"""

import hashlib
from collections.abc import Callable
from functools import partial
from heapq import heapify, heappop, heappush
from typing import TypeVar

from harness.embedded.runtime.tasks import SECOND, Scheduler, Task, TaskState, Timers, Waiting

Result = TypeVar("Result")

# 2024-01-01. Any moment at which the lab's certificates are valid would do; a fixed one keeps traces equal.
EPOCH_UTC_NS = 1_704_067_200 * SECOND
STEPS_MAX = 50_000_000  # a model that never comes to rest is a bug, not a long run


class VirtualClock:
    """A clock that stands still until a driver moves it."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.epoch_utc_ns = EPOCH_UTC_NS

    def utc_ns(self) -> int:
        return self.epoch_utc_ns + self.now_ns


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


class VirtualDriver:
    """Drives any number of schedulers that share one virtual clock. At one moment they run in their order, first those
    in which another scheduler has made a task ready."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self._timers: Timers = []  # of all schedulers
        self._schedulers: dict[int, Scheduler] = {}  # by their order
        self._made = 0
        self._woken: list[int] = []  # a heap: orders of schedulers with a task that another one made ready
        self._errors: list[tuple[Task, BaseException]] = []

    def scheduler(self) -> Scheduler:
        """Make a scheduler in this driver's time; `run_until` raises the errors of tasks that nobody joins."""
        self._made = order = self._made + 1
        scheduler = Scheduler(
            self.clock,
            lambda task, error: self._errors.append((task, error)),
            on_ready=partial(self._wake, order),
            on_timer=lambda: None,  # the heap of timers is this driver's own
            timers=self._timers,
            order=order,
        )
        self._schedulers[order] = scheduler
        return scheduler

    def forget(self, scheduler: Scheduler) -> None:
        """Drop a scheduler: it never runs again, even if its tasks are woken or its timers set."""
        order = scheduler.order
        del self._schedulers[order]
        self._timers[:] = [timer for timer in self._timers if timer[1] != order]
        heapify(self._timers)
        self._woken[:] = [woken for woken in self._woken if woken != order]
        scheduler.timers = []

    def _wake(self, order: int) -> None:
        if order in self._schedulers and order not in self._woken:
            heappush(self._woken, order)

    def run_until(self, condition: Callable[[], bool], *, limit_s: float = 24 * 3600.0) -> bool:
        """Run until the condition holds; False if no timer is left or the limit is reached before."""
        return self._run_until_ns(self.clock.now_ns + round(limit_s * SECOND), condition)

    def run_for(self, duration_s: float) -> None:
        """Run for that long, idle or not."""
        end_ns = self.clock.now_ns + round(duration_s * SECOND)
        self._run_until_ns(end_ns, None)
        self.clock.now_ns = end_ns
        self.settle()

    def settle(self) -> None:
        """Run what can run now, without moving the clock."""
        self.run_until(lambda: True)

    def _run_until_ns(self, limit_ns: int, condition: Callable[[], bool] | None) -> bool:
        clock, timers, woken, schedulers = self.clock, self._timers, self._woken, self._schedulers
        was_asked = condition is None  # the condition was tested since something ran
        for _ in range(STEPS_MAX):
            if woken:
                order = heappop(woken)
            elif timers and timers[0][0] <= clock.now_ns:
                order = timers[0][1]
            else:
                # Nothing more can run at this moment.
                if self._errors:
                    task, error = self._errors.pop(0)
                    raise AssertionError(f"task {task.name} ended with {error!r}") from error
                if not was_asked:
                    assert condition is not None
                    if condition():
                        return True
                    was_asked = True  # the condition itself may have made a task ready
                    continue
                if not timers:
                    return False
                due_ns, order, entry, timer = timers[0]
                if timer.entry != entry:  # cancelled: the clock does not stop there
                    heappop(timers)
                    continue
                if due_ns > limit_ns:
                    clock.now_ns = limit_ns
                    return condition is not None and condition()
                clock.now_ns = due_ns
            schedulers[order].run()
            was_asked = condition is None
        raise AssertionError(f"the schedulers did not come to rest within {STEPS_MAX} steps")

    def finish(self, scheduler: Scheduler, generator: Waiting[Result], name: str = "test") -> Result:
        """Run a task to its end and return its result or raise its error."""
        task = scheduler.spawn(_kept(generator), name)
        assert self.run_until(lambda: task.state is TaskState.DONE), f"{name} waits for ever"
        result, error = task.result
        if error is not None:
            raise error
        value: Result = result
        return value


def _kept(generator: Waiting[Result]) -> Waiting[tuple[Result | None, Exception | None]]:
    """Return the task's error as part of its result, so that the driver raises it and not `on_error`."""
    try:
        result = yield from generator
    except Exception as error:
        return None, error
    return result, None
