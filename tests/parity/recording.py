"""A connection that records the statements a test sends, and the whole of each answer.

An answer is read to its end at once and then served from memory, so that the recording does not depend on how much of it
the test fetches. The test sees one difference from the driver: an error after the first result is already known, and is
raised when the test gets to it.

Statements are kept by connection, because those of two connections in two threads have no order. A test that waits
repeats a query until the answer is right; `attempt` keeps only the last round.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import pyodbc


@dataclass
class Result:
    """One result of a statement: rows and their columns, or a count."""

    columns: list[tuple[Any, ...]] | None
    rows: list[Any]
    row_count: int
    messages: list[tuple[str, str]]  # SQLSTATE with the number of the message, text
    broken: bool = False  # the error occurred while its rows were read


@dataclass
class Sent:
    """A statement and its answer. `connection` counts the connections of the test from 1."""

    connection: int
    text: str
    parameters: tuple[object, ...]
    results: list[Result] = field(default_factory=list)
    error: pyodbc.Error | None = None
    thread: int = field(default_factory=threading.get_ident)


class Recorder:
    """The statements of one test."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self._connections = 0

    def connection(self, connection: pyodbc.Connection) -> RecordedConnection:
        self._connections += 1
        return RecordedConnection(connection, self, self._connections)

    def by_connection(self) -> list[Sent]:
        return sorted(self.sent, key=lambda sent: sent.connection)  # stable: their order on one connection stays

    @contextlib.contextmanager
    def attempt(self) -> Iterator[Callable[[], None]]:
        """Yield a function that removes what this thread has sent since."""
        before = len(self.sent)

        def forget() -> None:
            mine = threading.get_ident()
            self.sent[before:] = [sent for sent in self.sent[before:] if sent.thread != mine]

        yield forget


_current: Recorder | None = None


@contextlib.contextmanager
def recording() -> Iterator[Recorder]:
    """Make a new recorder the one that `attempt` uses."""
    global _current  # noqa: PLW0603  one test runs at a time
    _current = recorder = Recorder()
    try:
        yield recorder
    finally:
        _current = None


@contextlib.contextmanager
def attempt() -> Iterator[Callable[[], None]]:
    """`Recorder.attempt` of the running test; without a recording it does nothing."""
    if _current is None:
        yield lambda: None
    else:
        with _current.attempt() as forget:
            yield forget


def note(question: str, answer: object) -> None:
    """Record what a test derives from values that the recording replaces, such as the order of handles."""
    if _current is not None:
        column = ("answer", type(answer), None, 0, 0, 0, False)
        _current.sent.append(Sent(0, f"-- {question}", (), [Result([column], [(str(answer),)], -1, [])]))


class RecordedConnection:
    """The part of `pyodbc.Connection` that tests use."""

    def __init__(self, connection: pyodbc.Connection, recorder: Recorder, number: int) -> None:
        self._connection = connection
        self._recorder = recorder
        self._number = number

    def execute(self, text: str, *parameters: object) -> RecordedCursor:
        sent = self._note(text, *parameters)
        _read(self._connection.cursor(), sent)
        return RecordedCursor(sent)

    def add_output_converter(self, kind: int, convert: Callable[[bytes], Any]) -> None:
        self._connection.add_output_converter(kind, convert)

    def commit(self) -> None:
        self._transaction("-- commit", self._connection.commit)

    def rollback(self) -> None:
        self._transaction("-- rollback", self._connection.rollback)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        self._connection.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        self._connection.__exit__(*details)

    def _note(self, text: str, *parameters: object) -> Sent:
        sent = Sent(self._number, text, parameters)
        self._recorder.sent.append(sent)
        return sent

    def _transaction(self, text: str, end: Callable[[], None]) -> None:
        sent = self._note(text)
        try:
            end()
        except pyodbc.Error as error:
            sent.error = error
            raise


def _read(cursor: pyodbc.Cursor, sent: Sent) -> None:
    try:
        cursor.execute(sent.text, *sent.parameters)
        while True:
            columns = list(cursor.description) if cursor.description else None
            result = Result(columns, [], cursor.rowcount, list(cursor.messages or []))
            sent.results.append(result)
            if columns:
                result.broken = True
                result.rows = cursor.fetchall()
                result.row_count = cursor.rowcount
                result.broken = False
            if not cursor.nextset():
                break
    except pyodbc.Error as error:
        sent.error = error
    finally:
        cursor.close()


class RecordedCursor:
    """The part of `pyodbc.Cursor` that tests use, over an answer in memory."""

    def __init__(self, sent: Sent) -> None:
        self._sent = sent
        self._at = 0
        self._unread: list[Any] = []
        if not sent.results and sent.error:
            raise sent.error
        self._begin()

    def _begin(self) -> None:
        self._unread = list(self._result.rows)

    @property
    def _result(self) -> Result:
        return self._sent.results[self._at]

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        return self._result.columns

    @property
    def rowcount(self) -> int:
        return self._result.row_count

    def _check(self) -> None:
        if self._result.broken:
            assert self._sent.error is not None
            raise self._sent.error
        if self._result.columns is None:
            raise pyodbc.ProgrammingError("No results.  Previous SQL was not a query.")

    @property
    def messages(self) -> list[tuple[str, str]]:
        return self._result.messages

    def fetchone(self) -> Any:
        self._check()
        return self._unread.pop(0) if self._unread else None

    def fetchval(self) -> Any:
        row = self.fetchone()
        return None if row is None else row[0]

    def fetchall(self) -> list[Any]:
        self._check()
        rows, self._unread = self._unread, []
        return rows

    def nextset(self) -> bool:
        if self._at + 1 < len(self._sent.results):
            self._at += 1
            self._begin()
            return True
        if self._sent.error and not self._result.broken:
            raise self._sent.error
        return False
