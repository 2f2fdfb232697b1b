import contextlib
import os
import signal
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

import pytest

from harness.lab import interruption


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_swallowed_interrupt_is_raised_at_the_next_check(number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt), interruption.noted():
        interruption.check()
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        interruption.check()
        pytest.fail("the interrupt got lost")


def test_an_interrupt_swallowed_in_the_last_step_is_raised_at_the_end() -> None:
    with pytest.raises(KeyboardInterrupt), interruption.noted(), contextlib.suppress(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_the_handlers_are_as_before_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with interruption.noted():
        pass
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_an_interrupt_while_calls_are_begun_ends_those_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    start, ended = threading.Thread.start, threading.Event()

    def start_and_interrupt(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", start_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        interruption.call_all([ended.wait, ended.wait], on_interrupt=ended.set)
    assert ended.is_set()


def test_a_call_that_cannot_be_cancelled_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruption, "CANCEL_TIMEOUT_S", 0.1)
    released = threading.Event()

    def interrupt_and_wait() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        released.wait()

    with pytest.raises(KeyboardInterrupt), interruption.noted():
        interruption.call_all([interrupt_and_wait])
    assert not released.is_set()
    released.set()


def test_an_interrupt_that_does_not_wake_the_main_thread_ends_its_wait_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A signal just before the thread sleeps for a lock leaves only a mark, which Python sees when the thread wakes."""
    released = threading.Event()
    wait = futures.wait

    def marked(awaited: Any, timeout: float | None = None) -> Any:
        assert timeout is not None, "nothing would wake the thread"
        monkeypatch.setattr(interruption, "wait", wait)
        done = wait(awaited, timeout)
        os.kill(os.getpid(), signal.SIGINT)
        return done

    monkeypatch.setattr(interruption, "wait", marked)
    with pytest.raises(KeyboardInterrupt), interruption.noted():
        interruption.call_all([released.wait], on_interrupt=released.set)
    assert released.is_set()


class _HeldUpConnection:
    """A connection with one statement, whose cancellation is answered when `answered` is set."""

    def __init__(self) -> None:
        self.connection = self  # of its only cursor
        self.begun, self.answered, self.closed = threading.Event(), threading.Event(), threading.Event()

    def cancel(self) -> None:
        self.begun.set()
        self.answered.wait()
        assert not self.closed.is_set(), "a driver would crash"

    def close(self) -> None:
        self.closed.set()


def cancelled_statement() -> _HeldUpConnection:
    connection = _HeldUpConnection()

    def interrupt_and_wait() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        connection.begun.wait()

    cursor: Any = connection
    with pytest.raises(KeyboardInterrupt), interruption.noted():
        interruption.call(cursor, interrupt_and_wait)
    return connection


@pytest.mark.parametrize("close", [interruption.close, interruption.close_cursor])
def test_connection_and_cursor_are_closed_after_the_cancellation_of_their_statement_has_ended(
    close: Callable[[Any], None],
) -> None:
    connection: Any = cancelled_statement()
    closing = threading.Thread(target=close, args=(connection,))
    closing.start()
    closing.join(0.05)
    assert not connection.closed.is_set()
    connection.answered.set()
    closing.join()
    assert connection.closed.is_set()


def test_a_connection_is_closed_whose_cursor_was_closed_after_the_cancellation() -> None:
    connection: Any = cancelled_statement()
    connection.answered.set()
    del connection.connection  # as pyodbc's cursor has it no more when it is closed
    interruption.close(connection)
    assert connection.closed.is_set()


def test_a_connection_whose_statement_was_given_up_is_closed_when_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    connection, ended = _HeldUpConnection(), threading.Event()
    connection.answered.set()

    def lost() -> None:
        raise TimeoutError

    monkeypatch.setattr(interruption, "watchers", [lost])
    monkeypatch.setattr(interruption, "CANCEL_TIMEOUT_S", 0.1)
    cursor: Any = connection
    with pytest.raises(TimeoutError):
        interruption.call(cursor, ended.wait)
    interruption.close(cursor)
    assert not connection.closed.is_set(), "a driver would wait for the statement"
    ended.set()
    assert connection.closed.wait(10)


def test_a_connection_stays_open_if_a_cancellation_is_never_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    connection: Any = cancelled_statement()
    monkeypatch.setattr(interruption, "CANCEL_TIMEOUT_S", 0.1)
    interruption.close(connection)
    assert not connection.closed.is_set()
    connection.answered.set()
