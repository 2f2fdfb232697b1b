"""Ctrl-C that cannot get lost during ODBC calls.

A signal that arrives while the main thread is inside an ODBC driver interrupts the driver's own wait (EINTR). Python
then raises KeyboardInterrupt while pyodbc builds its error, and pyodbc clears it: the call fails with "The driver did
not supply an error!", or the interrupt leaves no trace. Therefore the handler also sets a flag, which every loop that
waits checks.

A signal that arrives just before the main thread sleeps for a lock is noticed only when it wakes. Therefore nothing
here waits without a timeout.

A thread inside the driver notices no signal until the server answers. Therefore a statement of the main thread runs in
a thread of its own while the main thread waits where a signal reaches it. Ctrl-C cancels all running statements, and
leaves those alone that the server does not even cancel: the threads are daemons, so the process ends without them. A
statement in virtual time runs in this process and can be interrupted as it is: it needs no thread.
"""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from harness.lab.drivers import Connection, Cursor

Result = TypeVar("Result")

CANCEL_TIMEOUT_S = 5.0  # a server that does not even answer a cancellation is given up
_LOOK_EVERY_S = 0.2
_CANCEL_EVERY_S = 0.1  # repeated, because a cancellation between two calls has no effect
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_noted: list[int] = []  # signals that came inside `noted`
watchers: list[Callable[[], None]] = []  # each raises an error to end the waits of the main thread


def check() -> None:
    """Raise the KeyboardInterrupt of a signal that came inside `noted`."""
    if _noted:
        raise KeyboardInterrupt


def look() -> None:
    """Raise what a watcher has to say. Whatever waits in the main thread, and is not told by `check`, calls it."""
    for watcher in watchers:
        watcher()


@contextlib.contextmanager
def noted() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGINT and SIGTERM, at once or, if that is lost, at the next `check`."""

    def handle(number: int, _: object) -> None:
        _noted.append(number)
        raise KeyboardInterrupt

    previous = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
        check()
    finally:
        _noted.clear()
        for number, handler in previous.items():
            signal.signal(number, handler)


@dataclass(eq=False)
class _Statement:
    """A statement and the cancellation of it, which may run on after the statement has ended."""

    cursor: Cursor
    connection: Connection  # a cursor that has been closed does not know it
    cancellation: threading.Thread = field(default_factory=threading.Thread)  # does nothing
    closings: list[Callable[[], None]] = field(default_factory=list)  # of what nobody needs once it has ended


_under_way: set[_Statement] = set()
_cancelled: set[_Statement] = set()
_lock = threading.Lock()  # a connection is not closed while a cancellation of its statement begins


def call(cursor: Cursor, action: Callable[[], Result]) -> Result:
    """Call `action`, which uses this cursor. Ctrl-C cancels it."""
    statement = _Statement(cursor, cursor.connection)

    def run() -> Result:
        try:
            return action()
        finally:
            with _lock:
                _under_way.discard(statement)
            for close_now in statement.closings:
                close_now()

    with _lock:
        _under_way.add(statement)
    if getattr(cursor, "runs_here", False) or threading.current_thread() is not threading.main_thread():
        return run()
    return call_all([run])[0]


def start(action: Callable[[], Result], answer: Future[Result]) -> None:
    """Call `action` in a thread of its own. Ctrl-C does not end it: `cancel` does.

    The caller makes the future, and keeps it before the thread starts: Ctrl-C may come between the two.
    """
    threading.Thread(target=_act, args=(action, answer), daemon=True).start()


def call_all(actions: Sequence[Callable[[], Result]], on_interrupt: Callable[[], None] = lambda: None) -> list[Result]:
    """Call each action in a thread of its own. Raises the first one's error after all have ended.

    Ctrl-C, and what a watcher raises, cancel their statements; `on_interrupt` may end whatever else they wait for.
    """
    answers: list[Future[Result]] = []
    try:
        for action in actions:
            answers.append(Future())
            start(action, answers[-1])
        # Not without a timeout: a signal that arrives just before the thread sleeps wakes it no more.
        while wait(answers, timeout=_LOOK_EVERY_S).not_done:
            look()
    except BaseException:
        on_interrupt()
        cancel(answers)
        raise
    return [answer.result() for answer in answers]


def result(answer: Future[Result], timeout_s: float) -> Result:
    """Wait for the answer of another thread. Raises TimeoutError, and what a watcher raises."""
    deadline = time.monotonic() + timeout_s
    while wait([answer], timeout=min(_LOOK_EVERY_S, max(0.0, deadline - time.monotonic()))).not_done:
        look()
        if time.monotonic() > deadline:
            raise TimeoutError
    return answer.result()


def close(connection: Connection) -> None:
    """Close a connection; never raises. If a statement that was given up still runs on it, for which a driver would
    wait, it is closed afterwards. A cancellation that still runs is waited for: a driver crashes when its connection is
    taken away."""
    _close(connection, lambda statement: statement.connection is connection)


def close_cursor(cursor: Cursor) -> None:
    """Close a cursor as a connection is closed: a cancellation crashes when its cursor is taken away, too."""
    _close(cursor, lambda statement: statement.cursor is cursor)


def _close(what: Connection | Cursor, is_of_it: Callable[[_Statement], bool]) -> None:
    with _lock:
        for statement in filter(is_of_it, _under_way):
            statement.closings.append(partial(_close, what, is_of_it))
            return
        cancelled = set(filter(is_of_it, _cancelled))
    deadline = time.monotonic() + CANCEL_TIMEOUT_S
    for statement in cancelled:
        statement.cancellation.join(max(0, deadline - time.monotonic()))
    if not any(statement.cancellation.is_alive() for statement in cancelled):
        with _lock:
            _cancelled.difference_update(cancelled)
        with contextlib.suppress(Exception):
            what.close()


def cancel(awaited: Sequence[Future[Any]]) -> None:
    """Cancel all running statements until the awaited calls have ended, with or without success.

    A driver may wait for the server's answer to a cancellation too: each is in a thread of its own.
    """
    deadline = time.monotonic() + CANCEL_TIMEOUT_S
    while wait(awaited, timeout=_CANCEL_EVERY_S).not_done and time.monotonic() < deadline:
        with _lock:
            for statement in _under_way:
                if not statement.cancellation.is_alive():
                    cancel = partial(_cancel_one, statement.cursor)
                    statement.cancellation = threading.Thread(target=cancel, daemon=True)
                    statement.cancellation.start()
                    _cancelled.add(statement)


def _cancel_one(cursor: Cursor) -> None:
    with contextlib.suppress(Exception):
        cursor.cancel()


def _act(action: Callable[[], Result], answer: Future[Result]) -> None:
    try:
        answer.set_result(action())
    except BaseException as error:
        answer.set_exception(error)
