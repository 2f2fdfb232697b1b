"""Scheduler, tasks and the waits that a task can yield."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")
Waiting = Generator["Wait", Any, Result]  # what every function that may wait returns

MILLISECOND = 1_000_000
SECOND = 1_000_000_000


class Cancelled(BaseException):
    """Thrown into a task at its wait when it is cancelled; a task may clean up but must not go on."""


class Clock(Protocol):
    """Where time comes from: wall clock or virtual."""

    def now_ns(self) -> int:
        """Monotonic, from any origin: for durations and deadlines."""
        ...

    def utc_ns(self) -> int:
        """Nanoseconds since 1970-01-01 UTC: for values that users see."""
        ...


class Entropy(Protocol):
    """Where randomness comes from: the system or a seed."""

    def random_bytes(self, count: int) -> bytes: ...


class Wait(Protocol):
    """Something a task yields. `arm` is called once and must arrange that `scheduler.wake(task, value)` happens;
    `disarm` forgets the task if it is cancelled first."""

    def arm(self, scheduler: Scheduler, task: Task) -> None: ...

    def disarm(self, task: Task) -> None: ...


class TaskState(Enum):
    READY = auto()
    WAITING = auto()
    DONE = auto()


class Task:
    """A generator on its way through the scheduler."""

    __slots__ = ("_generator", "_wait", "error", "finished", "name", "result", "state", "value")

    def __init__(self, generator: Waiting[Any], name: str) -> None:
        self._generator = generator
        self._wait: Wait | None = None
        self.name = name
        self.state = TaskState.READY
        self.value: Any = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.finished = Signal()

    def join(self) -> Waiting[Any]:
        """Waits until the task is done and returns its result or raises its error."""
        while self.state is not TaskState.DONE:
            yield from self.finished.wait()
        if self.error is not None:
            raise self.error
        return self.result


@dataclass(slots=True, eq=False)
class Timer:
    due_ns: int
    action: Callable[[], None] | None

    def cancel(self) -> None:
        self.action = None


class Scheduler:
    """Runs tasks; driven by somebody who knows the time (see the package docstring).

    `on_error` hears of tasks that end with an exception nobody joins; `on_work` is called when work appears while the
    scheduler is idle, so that a real-time driver can run it soon.
    """

    def __init__(self, clock: Clock, on_error: Callable[[Task, BaseException], None]) -> None:
        self.clock = clock
        self.on_work: Callable[[], None] = lambda: None
        self._on_error = on_error
        self._ready: deque[Task] = deque()
        self._timers: list[tuple[int, int, Timer]] = []  # by (due, sequence)
        self.current: Task | None = None  # the task that runs now
        self._sequence = 0
        self._running = False

    def spawn(self, generator: Waiting[Any], name: str) -> Task:
        task = Task(generator, name)
        self._enqueue(task)
        return task

    def wake(self, task: Task, value: Any = None) -> None:
        """Makes a waiting task ready; its `yield` returns `value`. Waking a task that does not wait is a bug."""
        assert task.state is TaskState.WAITING, f"{task.name} is {task.state.name}"
        task.value = value
        task._wait = None
        self._enqueue(task)

    def cancel(self, task: Task) -> None:
        """Ends a task at its wait (or before its first step). A task cannot cancel itself."""
        if task.state is TaskState.DONE:
            return
        if task._wait is not None:
            task._wait.disarm(task)
            task._wait = None
        if task.state is TaskState.READY:
            self._ready.remove(task)
        self._finish_with(task, lambda: task._generator.throw(Cancelled()))

    def call_at(self, due_ns: int, action: Callable[[], None]) -> Timer:
        self._sequence += 1
        timer = Timer(due_ns, action)
        heapq.heappush(self._timers, (due_ns, self._sequence, timer))
        if not self._running:
            self.on_work()
        return timer

    def next_due_ns(self) -> int | None:
        """When the next timer is due; None without one."""
        while self._timers and self._timers[0][2].action is None:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def has_work(self) -> bool:
        """Whether `run` would run anything now."""
        due_ns = self.next_due_ns()
        return bool(self._ready) or (due_ns is not None and due_ns <= self.clock.now_ns())

    def run(self) -> None:
        """Fires the timers that are due and runs tasks until none is ready."""
        assert not self._running, "run() is not reentrant"
        self._running = True
        try:
            self._fire_due_timers()
            while self._ready:
                self._step(self._ready.popleft())
        finally:
            self._running = False
            self.current = None

    def _fire_due_timers(self) -> None:
        if not self._timers:
            return
        now_ns = self.clock.now_ns()
        while self._timers and self._timers[0][0] <= now_ns:
            action = heapq.heappop(self._timers)[2].action
            if action is not None:
                action()

    def _enqueue(self, task: Task) -> None:
        task.state = TaskState.READY
        self._ready.append(task)
        if not self._running:
            self.on_work()

    def _step(self, task: Task) -> None:
        value, task.value = task.value, None
        self.current = task
        self._finish_with(task, lambda: task._generator.send(value))

    def _finish_with(self, task: Task, resume: Callable[[], Wait]) -> None:
        try:
            wait = resume()
        except StopIteration as end:
            self._done(task, end.value, None)
        except Cancelled:
            self._done(task, None, None)
        except Exception as error:
            self._done(task, None, error)
        else:
            task.state = TaskState.WAITING
            task._wait = wait
            wait.arm(self, task)

    def _done(self, task: Task, result: Any, error: BaseException | None) -> None:
        task.state, task.result, task.error = TaskState.DONE, result, error
        if error is not None and not task.finished.waiters:
            self._on_error(task, error)
        task.finished.notify_all()


class Delay:
    """`yield Delay(ns)`: the task goes on after that time."""

    __slots__ = ("_timer", "duration_ns")

    def __init__(self, duration_ns: int) -> None:
        self.duration_ns = duration_ns
        self._timer: Timer | None = None

    def arm(self, scheduler: Scheduler, task: Task) -> None:
        self._timer = scheduler.call_at(scheduler.clock.now_ns() + self.duration_ns, lambda: scheduler.wake(task))

    def disarm(self, task: Task) -> None:
        if self._timer is not None:
            self._timer.cancel()


class _SignalWait:
    __slots__ = ("scheduler", "signal", "task", "timeout_ns", "timer")

    def __init__(self, signal: Signal, timeout_ns: int | None) -> None:
        self.signal = signal
        self.timeout_ns = timeout_ns
        self.timer: Timer | None = None

    def arm(self, scheduler: Scheduler, task: Task) -> None:
        self.scheduler, self.task = scheduler, task
        self.signal.waiters.append(self)
        if self.timeout_ns is not None:
            self.timer = scheduler.call_at(scheduler.clock.now_ns() + self.timeout_ns, self._time_out)

    def disarm(self, task: Task) -> None:
        self.signal.waiters.remove(self)
        if self.timer is not None:
            self.timer.cancel()

    def notify(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.scheduler.wake(self.task, True)

    def _time_out(self) -> None:
        self.signal.waiters.remove(self)
        self.scheduler.wake(self.task, False)


class Signal:
    """A place where tasks wait to be notified, first come first served. Keeps no state: test the condition again."""

    __slots__ = ("waiters",)

    def __init__(self) -> None:
        self.waiters: deque[_SignalWait] = deque()

    def wait(self, timeout_ns: int | None = None) -> Waiting[bool]:
        """Waits for a notification; False if the time ran out first."""
        notified: bool = yield _SignalWait(self, timeout_ns)
        return notified

    def notify_one(self) -> bool:
        """Wakes the task that waited longest; False if nobody waits."""
        if not self.waiters:
            return False
        self.waiters.popleft().notify()
        return True

    def notify_all(self) -> None:
        while self.notify_one():
            pass
