"""Turns of requests in the real server (see `runtime.turns`).

Each request runs in a greenlet. One that has used `TURN_NS` of the processor stops at its next `pause` and stands in a
queue. Its next turn comes after 19 times what the last turns used, or at once if nobody else has sent anything in the
last `BUSY_NS`: so requests that take long share a twentieth of the processor while others are busy, and have all of it
when they are not. The turns and the cold caches after them cost the others as much again. Others who wait for a commit
or for their own clients are busy, too. A session whose requests take long is nobody else to another such session. Parts
of a long request are read in turns too, from a queue of their own: an Attention may come behind them. Logins take
turns, and so do the requests of one: many long requests of a login together get no more than one. Activated procedures
share equally with the others: while one waits, its queue grows. Time in which the server waits for a processor that
other processes have is nobody's time: it is added to the debt. What a turn used beyond the longest pause is paid in the
pauses that follow.

To read what a thread has used of the processor is a system call: 2 to 3 µs on a virtual machine. So it is read only
where so much time has passed, and for the next turns of a session in which that happened: time alone would blame who
was only interrupted. A measured turn that was only interrupted does not make the session suspect for longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from pathlib import Path
from typing import Any, TypeVar

from greenlet import greenlet

from harness.embedded.runtime import turns
from harness.embedded.runtime.platform import WaitStatistics
from harness.embedded.runtime.tasks import SECOND, Cancelled, Scheduler, Task, Wait, Waiting

Result = TypeVar("Result")

TURN_NS = 1_000_000
OTHERS_SHARE = 19  # times what a turn used, for everything else
OTHERS_SHARE_OF_ACTIVATED = 1
SUSPECT_TURNS = 100  # that are measured after one of a session has lasted long
PAUSE_NS_MAX = 500_000_000  # between two turns
BUSY_NS = 20_000_000  # after they sent something, others may need the processor: a commit or a client takes less
OWED_NS_MAX = 5_000_000_000  # by turns of half a second
GREENLETS_KEPT = 64  # a new one costs 10 µs, a used one nearly nothing

_now_ns = time.monotonic_ns


def _delayed_ns() -> int:
    """How long this thread has been ready to run without a processor, so far; 0 where the system does not say it."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/thread-self/schedstat").read_bytes().split()[1])
    return 0


class Account:
    """What the last turns of a session used."""

    __slots__ = ("is_heavy", "login", "others_share", "suspect_turns")

    def __init__(self, login: str = "", others_share: int = OTHERS_SHARE) -> None:
        self.login = login
        self.others_share = others_share
        self.suspect_turns = 0  # that are still to be measured
        self.is_heavy = False  # the last one used more than a turn: the next request begins in the queue


class Turns:
    """Which requests take long, and whether others are busy."""

    def __init__(self, loop: asyncio.AbstractEventLoop, waits: WaitStatistics | None = None) -> None:
        self.waits = waits or WaitStatistics()
        self._running = _Queue(self, loop)
        self._reading = _Queue(self, loop)
        self._last_sender: Account | None = None
        self._sent_ns = 0  # when it sent something
        self._others_sent_ns = 0  # when another did, before it
        self._idle: list[_Greenlet] = []

    def sent(self, account: Account) -> None:
        """Note that a session sent something, unless its requests take long."""
        if account.is_heavy:
            return
        if account is not self._last_sender:
            self._last_sender, self._others_sent_ns = account, self._sent_ns
        self._sent_ns = _now_ns()

    def run(self, generator: Waiting[Result], account: Account) -> Waiting[Result]:
        """Run a generator in a greenlet; `turns.current` pauses and waits in it."""
        if account.is_heavy:
            yield _NextTurn(self._running, account)
        idle = self._idle
        inner = idle.pop() if idle else _Greenlet(self._running)
        inner.is_done, inner.account = False, account
        given: Any = generator
        error: BaseException | None = None
        while True:
            turns.current = inner
            began_ns = _now_ns()
            inner.look_ns = began_ns + TURN_NS
            inner.processor_ns = time.thread_time_ns() if account.suspect_turns else 0
            try:
                wait = inner.switch(given) if error is None else inner.throw(error)
            finally:
                turns.current = None
                given = error = None  # an exception that refers to itself would keep all of its frames
                took_ns = _now_ns() - began_ns
                if took_ns > TURN_NS or account.suspect_turns:
                    self._charge(account, took_ns, inner.processor_ns)
            if inner.is_done:
                cancelled, inner.cancelled = inner.cancelled, None
                if len(idle) < GREENLETS_KEPT:
                    idle.append(inner)
                if cancelled is not None:
                    raise cancelled
                return wait  # type: ignore[no-any-return]
            try:
                given, error = (yield wait), None
            except BaseException as thrown:
                error = thrown

    def _charge(self, account: Account, took_ns: int, began_processor_ns: int) -> None:
        is_suspect, account.is_heavy = account.suspect_turns > 0, False
        if is_suspect:
            account.suspect_turns -= 1
            if took_ns <= TURN_NS:
                return
        used_ns = time.thread_time_ns() - began_processor_ns if began_processor_ns else 0
        if used_ns > TURN_NS:
            account.is_heavy = True
            self._running.owed_ns += account.others_share * used_ns
        elif is_suspect:  # it was only interrupted
            return
        account.suspect_turns = SUSPECT_TURNS

    def after_reading(self, account: Account, used_ns: int) -> Waiting[None]:
        """Wait for the next turn after a part of a long request was read."""
        self._reading.owed_ns += account.others_share * used_ns
        yield _NextTurn(self._reading, account)

    def others_are_busy(self, account: Account) -> bool:
        sent_ns = self._others_sent_ns if account is self._last_sender else self._sent_ns
        return _now_ns() < sent_ns + BUSY_NS


class _Queue:
    """The waits for a turn, and what their requests owe to the others."""

    def __init__(self, turns: Turns, loop: asyncio.AbstractEventLoop) -> None:
        self.turns = turns
        self.owed_ns = 0
        self._loop = loop
        self._waits: dict[str, deque[_NextTurn]] = {}  # by login, the one whose turn is next first
        self._is_scheduled = False

    def stand(self, wait: _NextTurn) -> None:
        self._waits.setdefault(wait.account.login, deque()).append(wait)
        self._schedule()

    def leave(self, wait: _NextTurn) -> None:
        login = wait.account.login
        self._waits[login].remove(wait)
        if not self._waits[login]:
            del self._waits[login]

    def _schedule(self) -> None:
        if self._is_scheduled or not self._waits:
            return
        self._is_scheduled = True
        # After what has arrived during the last turn: it is read between the two.
        self._loop.call_soon(self._loop.call_soon, self._look)

    def _look(self) -> None:
        if not self._waits:  # the last one has left
            self._is_scheduled = False
        elif self.turns.others_are_busy(next(iter(self._waits.values()))[0].account):
            pause_ns = min(self.owed_ns, PAUSE_NS_MAX)
            self.owed_ns = min(self.owed_ns, OWED_NS_MAX) - pause_ns
            self._loop.call_later(pause_ns / SECOND, self._end_pause, _delayed_ns())
        else:
            self.owed_ns = 0
            self._give()

    def _end_pause(self, delayed_before_ns: int) -> None:
        self.owed_ns += _delayed_ns() - delayed_before_ns
        self._give()

    def _give(self) -> None:
        self._is_scheduled = False
        if self._waits:
            login, waits = next(iter(self._waits.items()))
            wait = waits.popleft()
            del self._waits[login]
            if waits:
                self._waits[login] = waits  # behind the other logins
            wait.end()
            self._schedule()


class _NextTurn:
    """The wait for the next turn: SOS_SCHEDULER_YIELD."""

    __slots__ = ("_began_ns", "_queue", "_scheduler", "_task", "account")

    def __init__(self, queue: _Queue, account: Account) -> None:
        self._queue = queue
        self.account = account

    def arm(self, scheduler: Scheduler, task: Task) -> None:
        self._scheduler, self._task = scheduler, task
        self._began_ns = _now_ns()
        self._queue.stand(self)

    def disarm(self, task: Task) -> None:
        self._queue.leave(self)

    def end(self) -> None:
        now_ns = _now_ns()
        self._queue.turns.waits.runnable(self._task, now_ns, now_ns - self._began_ns)
        self._scheduler.wake(self._task)


class _Greenlet(greenlet):  # type: ignore[misc]
    """Runs one generator after another, each to its end."""

    account: Account
    cancelled: Cancelled | None = None  # in the middle of a cleanup
    is_done: bool  # with the generator
    look_ns: int  # when it is time to look what this turn has used
    processor_ns: int  # used by the thread at the beginning of this turn, or at the first look; 0: not read yet

    def __init__(self, queue: _Queue) -> None:
        super().__init__()
        self._queue = queue

    def run(self, generator: Waiting[Any]) -> Any:
        hub = self.parent
        assert hub is not None
        while True:
            result = self._finish(generator, hub)
            del generator  # it may hold much
            self.is_done = True
            generator = hub.switch(result)

    def _finish(self, generator: Waiting[Any], hub: greenlet) -> Any:
        resume, value = generator.send, None
        while True:
            try:
                wait = resume(value)
            except StopIteration as end:
                return end.value
            finally:
                value = None  # as above
            try:
                if self.cancelled is not None:
                    raise self._cancelled_now()
                value, resume = hub.switch(wait), generator.send
            except BaseException as error:
                value, resume = error, generator.throw

    def pause(self) -> None:
        if _now_ns() > self.look_ns and self._has_used_its_turn():
            self.wait(_NextTurn(self._queue, self.account))

    def pause_in_cleanup(self) -> None:
        if _now_ns() > self.look_ns and self._has_used_its_turn():
            try:
                self._leave(_NextTurn(self._queue, self.account))
            except Cancelled as cancelled:
                self.cancelled = cancelled

    def _has_used_its_turn(self) -> bool:
        used_ns = time.thread_time_ns()
        if not self.processor_ns:
            self.processor_ns = used_ns
        self.look_ns = _now_ns() + TURN_NS
        return used_ns - self.processor_ns > TURN_NS

    def _cancelled_now(self) -> Cancelled:
        cancelled, self.cancelled = self.cancelled, None
        assert cancelled is not None
        return cancelled

    def wait(self, wait: Wait) -> Any:
        if self.cancelled is not None:
            raise self._cancelled_now()
        return self._leave(wait)

    def _leave(self, wait: Wait) -> Any:
        assert self.parent is not None
        return self.parent.switch(wait)
