"""Ctrl-C that cannot get lost.

A signal that arrives while the main thread is inside an ODBC driver makes the driver's own wait fail (EINTR), and the
KeyboardInterrupt is raised while pyodbc builds its error from that, where it is cleared: the call fails with "The
driver did not supply an error!", or the interrupt leaves no trace at all. So the handler notes it as well, and whoever
waits or goes on to the next step asks.

And a thread inside the driver hears of nothing until the server answers. So a statement of the main thread runs in a
thread of its own, which the main thread waits for where a signal reaches it; Ctrl-C cancels whatever is under way.
A statement that this process itself carries out, in virtual time, hears of signals as it is: it needs no thread.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pyodbc

Result = TypeVar("Result")

CANCEL_TIMEOUT_S = 5.0  # a server that answers not even a cancellation is left alone
_CANCEL_EVERY_S = 0.1  # one that comes between two calls has no effect
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_noted: list[int] = []  # signals that came inside `noted`


def check() -> None:
    """Raises the KeyboardInterrupt of a signal that came inside `noted`."""
    if _noted:
        raise KeyboardInterrupt


@contextlib.contextmanager
def noted() -> Iterator[None]:
    """SIGINT and SIGTERM raise KeyboardInterrupt, now or, if that was lost, at the next `check`."""

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


_under_way: set[pyodbc.Cursor] = set()


def call(cursor: pyodbc.Cursor, action: Callable[[], Result]) -> Result:
    """`action()`, which uses this cursor; on Ctrl-C it is cancelled."""
    _under_way.add(cursor)
    try:
        if getattr(cursor, "runs_here", False) or threading.current_thread() is not threading.main_thread():
            return action()
        answer: Future[Result] = Future()
        threading.Thread(target=_act, args=(action, answer), daemon=True).start()
        try:
            return answer.result()
        except KeyboardInterrupt:
            cancel([answer])
            raise
    finally:
        _under_way.discard(cursor)


def cancel(awaited: Sequence[Future[Any]]) -> None:
    """Cancels every statement under way until what is awaited has ended, with or without success."""
    deadline = time.monotonic() + CANCEL_TIMEOUT_S
    while wait(awaited, timeout=_CANCEL_EVERY_S).not_done and time.monotonic() < deadline:
        for cursor in list(_under_way):
            with contextlib.suppress(Exception):
                cursor.cancel()


def _act(action: Callable[[], Result], answer: Future[Result]) -> None:
    try:
        answer.set_result(action())
    except BaseException as error:
        answer.set_exception(error)
