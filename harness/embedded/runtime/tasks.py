"""Scheduler, tasks and the waits that a task can yield."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from enum import Enum, auto
from heapq import heapify, heappop, heappush
from typing import Any, Protocol, TypeAlias, TypeVar

Result = TypeVar("Result")
Wait: TypeAlias = "Waitable | Delay"  # what a task yields
Waiting = Generator[Wait, Any, Result]  # what every function that may wait returns

Delay = int
"""`yield Delay(ns)` resumes the task after that time. A bare number, because it is by far the most frequent wait."""

MILLISECOND = 1_000_000
SECOND = 1_000_000_000
_FEW_TIMERS = 64


class Cancelled(BaseException):
    """Thrown into a task at its wait when it is cancelled; a task may clean up but must not go on."""


class Clock(Protocol):
    """The source of time: wall clock or virtual."""

    @property
    def now_ns(self) -> int:
        """Monotonic, from any origin: for durations and deadlines. It counts time in which the machine is suspended.
        A property, because tasks read it all the time."""
        ...

    def utc_ns(self) -> int:
        """Nanoseconds since 1970-01-01 UTC: for values that users see."""
        ...


class Entropy(Protocol):
    """The source of randomness: the system or a seed."""

    def random_bytes(self, count: int) -> bytes: ...


class Waitable(Protocol):
    """Something that a task waits for. `arm` is called once and arranges that `scheduler.wake(task, value)` is called;
    `disarm` forgets the task if it is cancelled first."""

    def arm(self, scheduler: Scheduler, task: Task) -> None: ...

    def disarm(self, task: Task) -> None: ...


class TaskState(Enum):
    READY = auto()
    WAITING = auto()
    DONE = auto()


_READY, _WAITING, _DONE = TaskState


class Task:
    """A generator that a scheduler runs."""

    __slots__ = ("entry", "error", "finished", "name", "result", "send", "state", "throw", "value", "wait")

    def __init__(self, generator: Waiting[Any], name: str) -> None:
        self.send, self.throw = generator.send, generator.throw
        self.wait: Waitable | None = None
        self.entry = 0  # number of its delay among the timers; an entry with another number is out of date
        self.name = name
        self.state = _READY
        self.value: Any = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.finished: Signal | None = None  # made by the first join

    def join(self) -> Waiting[Any]:
        """Wait until the task is done, and return its result or raise its error."""
        if self.finished is None:
            self.finished = Signal()
        while self.state is not _DONE:
            yield self.finished.wait()
        if self.error is not None:
            raise self.error
        return self.result


class Timer:
    """An action at a set time, unless it is cancelled before."""

    __slots__ = ("action", "entry")

    def __init__(self, action: Callable[[], object], entry: int) -> None:
        self.action: Callable[[], object] | None = action
        self.entry = entry

    def fire(self) -> None:
        action, self.action = self.action, None  # breaks the cycle if the action refers to the timer
        if action is not None:
            action()

    def cancel(self) -> None:
        self.entry, self.action = 0, None


OnError: TypeAlias = "Callable[[Task, BaseException], None]"
Timers: TypeAlias = "list[tuple[int, int, int, Timer | Task]]"  # a heap: due time, order of scheduler, entry number


class Scheduler:
    """Runs tasks when a driver calls `run` (see the package docstring).

    `on_error` gets the exception of a task that nobody joins. `on_ready` and `on_timer` are called when a task becomes
    ready or a timer is set while the scheduler is idle, so that its driver can run it soon. Schedulers that share a
    clock may share a heap of timers; at one moment the scheduler with the lower `order` comes first.
    """

    def __init__(
        self,
        clock: Clock,
        on_error: OnError,
        *,
        on_ready: Callable[[], None],
        on_timer: Callable[[], None],
        timers: Timers | None = None,
        order: int = 0,
    ) -> None:
        self.clock = clock
        self.order = order
        self.current: Task | None = None  # the task that runs now
        self._on_error, self._on_ready, self._on_timer = on_error, on_ready, on_timer
        self._wall_clock_actions: list[Callable[[], None]] = []
        self._ready: deque[Task] = deque()
        self.timers: Timers = [] if timers is None else timers
        self._crowded = _FEW_TIMERS  # with so many timers it is worth removing cancelled ones
        self._entries = 0
        self._running = False

    @property
    def ready_tasks(self) -> int:
        return len(self._ready)

    def spawn(self, generator: Waiting[Any], name: str) -> Task:
        task = Task(generator, name)
        self._enqueue(task)
        return task

    def wake(self, task: Task, value: Any = None) -> None:
        """Make a waiting task ready; its `yield` returns `value`. Waking a task that does not wait is a bug."""
        assert task.state is _WAITING, f"{task.name} is {task.state.name}"
        task.value = value
        task.wait = None
        self._enqueue(task)

    def cancel(self, task: Task) -> None:
        """End a task at its wait (or before its first step). A task cannot cancel itself."""
        if task.state is _DONE:
            return
        if task.wait is not None:
            task.wait.disarm(task)
            task.wait = None
        task.entry = 0
        if task.state is _READY:
            self._ready.remove(task)
        self._go_on(task, task.throw, Cancelled())

    def call_at(self, due_ns: int, action: Callable[[], object]) -> Timer:
        if len(self.timers) >= self._crowded:
            self._forget_cancelled()
        self._entries = entry = self._entries + 1
        timer = Timer(action, entry)
        heappush(self.timers, (due_ns, self.order, entry, timer))
        if not self._running:
            self._on_timer()
        return timer

    def call_when_wall_clock_is_set(self, action: Callable[[], None]) -> None:
        self._wall_clock_actions.append(action)

    def wall_clock_is_set(self) -> None:
        """Drivers call it when UTC has moved against the monotonic time."""
        for action in self._wall_clock_actions:
            action()

    def _forget_cancelled(self) -> None:
        """Remove cancelled timers: most timeouts are cancelled long before they are due and slow down the heap."""
        self.timers[:] = [timer for timer in self.timers if timer[3].entry == timer[2]]
        heapify(self.timers)
        self._crowded = 2 * len(self.timers) + _FEW_TIMERS

    def run(self) -> None:
        """Fire the timers that are due and run tasks until none is ready."""
        assert not self._running, "run() is not reentrant"
        self._running = True
        ready, timers, order = self._ready, self.timers, self.order
        now_ns, last = self.clock.now_ns, self._entries  # timers set from now on come after ready tasks
        try:
            while timers:
                due_ns, of, entry, timer = timers[0]
                if due_ns > now_ns or of != order or entry > last:
                    break
                heappop(timers)
                if timer.entry != entry:
                    continue
                if isinstance(timer, Timer):
                    timer.fire()
                else:  # a task whose delay is over goes on before tasks that are ready already
                    timer.state = _READY
                    self.current = timer
                    self._go_on(timer, timer.send, None)
                    self.current = None  # for further timers
            while ready:
                self.current = task = ready.popleft()
                self._go_on(task, task.send, task.value)
        finally:
            self._running = False
            self.current = None

    def _enqueue(self, task: Task) -> None:
        task.state = _READY
        self._ready.append(task)
        if not self._running:
            self._on_ready()

    def _go_on(self, task: Task, resume: Callable[[Any], Wait], value: Any) -> None:
        try:
            wait = resume(value)
        except BaseException as end:
            self._end(task, end)
            return
        task.state = _WAITING
        if isinstance(wait, int):
            self._entries = task.entry = entry = self._entries + 1
            heappush(self.timers, (self.clock.now_ns + wait, self.order, entry, task))
            if not self._running:
                self._on_timer()
        else:
            task.wait = wait
            wait.arm(self, task)

    def _end(self, task: Task, end: BaseException) -> None:
        """End a task that returned, was cancelled or raised an error."""
        task.state, finished = _DONE, task.finished
        if isinstance(end, StopIteration):
            task.result = end.value
        elif isinstance(end, Exception):
            task.error = end
            if finished is None or not finished.waiters:
                self._on_error(task, end)
        elif not isinstance(end, Cancelled):
            raise end
        if finished is not None:
            finished.notify_all()


def first_due_ns(timers: Timers) -> int | None:
    """Find when the next timer is due, None without timers; remove cancelled ones that come before it."""
    while timers:
        due_ns, _, entry, timer = timers[0]
        if timer.entry == entry:
            return due_ns
        heappop(timers)
    return None


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
            self.timer = scheduler.call_at(scheduler.clock.now_ns + self.timeout_ns, self._time_out)

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
    """A place where tasks wait to be notified, first come, first served. Keeps no state: test the condition again."""

    __slots__ = ("waiters",)

    def __init__(self) -> None:
        self.waiters: deque[_SignalWait] = deque()

    def wait(self, timeout_ns: int | None = None) -> Wait:
        """Make the wait to `yield`, which returns True when notified, False after the timeout."""
        return _SignalWait(self, timeout_ns)

    def notify_one(self) -> bool:
        """Wake the task that waited longest; False if nobody waits."""
        if not self.waiters:
            return False
        self.waiters.popleft().notify()
        return True

    def notify_all(self) -> None:
        while self.notify_one():
            pass
