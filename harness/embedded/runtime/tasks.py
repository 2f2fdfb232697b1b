"""Scheduler, tasks and the waits that a task can yield."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from enum import Enum, auto
from heapq import heapify, heappop, heappush
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")
Waiting = Generator["Wait", Any, Result]  # what every function that may wait returns

MILLISECOND = 1_000_000
SECOND = 1_000_000_000
_FEW_TIMERS = 64


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
        self.finished: Signal | None = None  # made when somebody joins

    def join(self) -> Waiting[Any]:
        """Waits until the task is done and returns its result or raises its error."""
        if self.finished is None:
            self.finished = Signal()
        while self.state is not TaskState.DONE:
            yield self.finished.wait()
        if self.error is not None:
            raise self.error
        return self.result


class Timer:
    """Something to do at its time, unless it is cancelled before."""

    __slots__ = ("action", "is_cancelled")

    def __init__(self, action: Callable[[], object]) -> None:
        self.action: Callable[[], object] | None = action
        self.is_cancelled = False

    def fire(self) -> None:
        action, self.action = self.action, None  # which may know who has the timer: no cycle is left
        if action is not None:
            action()

    def cancel(self) -> None:
        self.is_cancelled, self.action = True, None


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
        self._crowded = _FEW_TIMERS  # so many timers make it worth while to look for cancelled ones
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

    def resume(self, task: Task) -> None:
        """`wake` for a delay that is over: the task goes on now, before those that are ready already."""
        task.state, task._wait = TaskState.READY, None
        self.current = task
        self._go_on(task, task._generator.send, None)
        self.current = None  # further timers may fire before the next task goes on

    def cancel(self, task: Task) -> None:
        """Ends a task at its wait (or before its first step). A task cannot cancel itself."""
        if task.state is TaskState.DONE:
            return
        if task._wait is not None:
            task._wait.disarm(task)
            task._wait = None
        if task.state is TaskState.READY:
            self._ready.remove(task)
        self._go_on(task, task._generator.throw, Cancelled())

    def call_at(self, due_ns: int, action: Callable[[], None]) -> Timer:
        if len(self._timers) >= self._crowded:
            self._forget_cancelled()
        timer = Timer(action)
        self.set_timer(due_ns, timer)
        return timer

    def set_timer(self, due_ns: int, timer: Timer) -> None:
        """`call_at` for a timer that is there already."""
        self._sequence += 1
        heappush(self._timers, (due_ns, self._sequence, timer))
        if not self._running:
            self.on_work()

    def _forget_cancelled(self) -> None:
        """Most timeouts are cancelled long before they are due; in the heap they make other timers dearer."""
        self._timers[:] = [entry for entry in self._timers if not entry[2].is_cancelled]
        heapify(self._timers)
        self._crowded = 2 * len(self._timers) + _FEW_TIMERS

    def next_due_ns(self) -> int | None:
        """When the next timer is due; None without one."""
        timers = self._timers
        while timers:
            if not timers[0][2].is_cancelled:
                return timers[0][0]
            heappop(timers)
        return None

    def run(self) -> None:
        """Fires the timers that are due and runs tasks until none is ready."""
        assert not self._running, "run() is not reentrant"
        self._running = True
        ready, timers = self._ready, self._timers
        try:
            if timers:
                due = (self.clock.now_ns(), self._sequence + 1)  # those set meanwhile come after who is ready
                while timers and timers[0] <= due:
                    heappop(timers)[2].fire()
            while ready:
                task = ready.popleft()
                self.current = task
                self._go_on(task, task._generator.send, task.value)
        finally:
            self._running = False
            self.current = None

    def _enqueue(self, task: Task) -> None:
        task.state = TaskState.READY
        self._ready.append(task)
        if not self._running:
            self.on_work()

    def _go_on(self, task: Task, resume: Callable[[Any], Wait], value: Any) -> None:
        try:
            wait = resume(value)
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
        finished = task.finished
        if error is not None and (finished is None or not finished.waiters):
            self._on_error(task, error)
        if finished is not None:
            finished.notify_all()


class Delay(Timer):
    """`yield Delay(ns)`: the task goes on after that time."""

    __slots__ = ("duration_ns", "scheduler", "task")

    scheduler: Scheduler
    task: Task

    def __init__(self, duration_ns: int) -> None:
        self.duration_ns = duration_ns
        self.is_cancelled = False

    def arm(self, scheduler: Scheduler, task: Task) -> None:
        self.scheduler, self.task = scheduler, task
        scheduler.set_timer(scheduler.clock.now_ns() + self.duration_ns, self)

    def fire(self) -> None:
        if not self.is_cancelled:
            self.scheduler.resume(self.task)

    def disarm(self, task: Task) -> None:
        self.is_cancelled = True


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

    def wait(self, timeout_ns: int | None = None) -> Wait:
        """`yield` it to wait for a notification; False if the time ran out first."""
        return _SignalWait(self, timeout_ns)

    def notify_one(self) -> bool:
        """Wakes the task that waited longest; False if nobody waits."""
        if not self.waiters:
            return False
        self.waiters.popleft().notify()
        return True

    def notify_all(self) -> None:
        while self.notify_one():
            pass
