"""Queries that take long, read in a fork of the process.

A query is first read where it stands. SQLite's progress handler stops it after `READ_NS`; then a fork of the process,
which has a copy of everything as it is now, reads it again and sends its rows through a pipe. So it takes another
processor and its own memory, a cancelled one is killed, and one whose client does not read waits at its pipe. The next
`FORKS_IN_A_ROW` runs of the same query begin in a fork at once, and then it is tried in place again. A fork's own time
says nothing of that: it copies each page of memory that it writes to, even if only to count a reference. And after a
fork the process itself pays for each page that it writes to first, so that try may take `AFTER_FORKS_NS`. These are
times of a processor, not of the clock: a short query that is late because the machine is busy is not long.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import pickle
import resource
import signal
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum, auto
from pathlib import Path
from typing import Any, NoReturn

from harness.embedded.errors import UNSUPPORTED, SqlServerError
from harness.embedded.runtime import turns
from harness.embedded.runtime.tasks import Signal
from harness.embedded.runtime.turns import Turn
from harness.embedded.server.parent import die_with_parent
from harness.embedded.tsql.storage.reads import Pieces, Query, Reads, ReadTooLong, Rows
from harness.embedded.tsql.storage.sqlite import Sqlite

READ_NS = 20_000_000
AFTER_FORKS_NS = 2 * READ_NS
FORKS_IN_A_ROW = 10
STEPS_A_LOOK = 10_000  # of SQLite's virtual machine between two looks at the time: a fraction of a millisecond
LOOKS_MIN = 5  # a query with fewer is short, even if a collection of garbage fell into it
WORK_NS_MAX = 1_000_000_000  # of one function in a query that no fork can read
FORKS_MAX = 16
FORKS_OF_A_LOGIN_MAX = 8
FORK_MEMORY = 1024 * 1024 * 1024  # bytes that a fork may use more than the server; else error 701
NICENESS = 19

_LENGTH_BYTES = 4
_now_ns = time.thread_time_ns


class LongReads(Reads):
    """Reads queries at once or, if they take long, in forks."""

    def __init__(self, sqlite: Sqlite, loop: asyncio.AbstractEventLoop) -> None:
        self._sqlite = sqlite
        self._loop = loop
        self._deadline_ns = 0  # of the query that is read now
        self._looks = 0  # at the time, while it is read
        self._forks: Counter[str] = Counter()  # by login
        self._ended = Signal()  # a fork
        sqlite.connection.set_progress_handler(self._stops, STEPS_A_LOOK)

    def _stops(self) -> bool:
        self._looks += 1
        return self._looks > LOOKS_MIN and self._sqlite.is_reading and self._is_over()

    def _is_over(self) -> bool:
        return self._deadline_ns != 0 and _now_ns() > self._deadline_ns

    def check(self) -> None:
        self._looks += 1
        if self._looks > LOOKS_MIN and self._is_over():
            raise ReadTooLong

    def begin(self, work_ns: int) -> None:
        if self._deadline_ns:
            if work_ns > READ_NS:
                raise ReadTooLong
        elif turns.current is not None and work_ns > WORK_NS_MAX:
            raise SqlServerError(UNSUPPORTED, "so long a value in an expression of RECEIVE: receive it into a variable")

    def at_once(self, query: Query, read: Callable[[], Rows]) -> Rows:
        return read() if turns.current is None else self._here(query, read)

    def value(self, query: Query, login: str, read: Callable[[], Any]) -> Any:
        if turns.current is None:  # or inside another query
            return read()
        with contextlib.suppress(ReadTooLong):
            return self._here(query, read)
        with self._fork(login, lambda: iter((read(),))) as fork:
            [value] = fork.pieces()
            return value

    def rows(
        self, query: Query, login: str, read: Callable[[], Rows], pieces: Callable[[], Pieces]
    ) -> tuple[Rows, Pieces | None]:
        if turns.current is None:
            return read(), None
        try:
            return self._here(query, read), None
        except ReadTooLong:
            pass
        more = self._pieces(login, pieces)
        return next(more, []), more

    def _here(self, query: Query, read: Callable[[], Any]) -> Any:
        if query.forks_due > 1:
            query.forks_due -= 1
            raise ReadTooLong
        turn, turns.current = turns.current, None  # nothing pauses inside a query: others use the same connection
        self._looks = 0
        self._deadline_ns = _now_ns() + (AFTER_FORKS_NS if query.forks_due else READ_NS)
        try:
            found = read()
            query.forks_due = 0
            return found
        except ReadTooLong:
            query.forks_due = FORKS_IN_A_ROW + 1
            raise
        finally:
            self._deadline_ns = 0
            turns.current = turn

    def _pieces(self, login: str, pieces: Callable[[], Pieces]) -> Pieces:
        with self._fork(login, pieces) as fork:
            yield from fork.pieces()

    @contextlib.contextmanager
    def _fork(self, login: str, read: Callable[[], Iterator[Any]]) -> Iterator[_Fork]:
        turn = turns.current
        assert turn is not None
        while self._forks.total() >= FORKS_MAX or self._forks[login] >= FORKS_OF_A_LOGIN_MAX:
            turn.wait(self._ended.wait())
        self._forks[login] += 1
        try:
            fork = _Fork(read, self._loop, turn)
            try:
                yield fork
            finally:
                fork.end()
        finally:
            self._forks[login] -= 1
            self._ended.notify_all()


class _Fork:
    """A fork of this process that reads a query."""

    def __init__(self, read: Callable[[], Iterator[Any]], loop: asyncio.AbstractEventLoop, turn: Turn) -> None:
        self._loop = loop
        self._turn = turn
        self._readable = Signal()
        self._received = bytearray()
        self._pipe, end = os.pipe()
        os.set_blocking(self._pipe, False)
        blocked = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
        with warnings.catch_warnings():
            # Of a fork where there are threads: the store's hold no lock that the fork needs.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if self._pid == 0:
            _serve(read, end)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.close(end)

    def pieces(self) -> Iterator[Any]:
        """What the fork reads, as it comes."""
        while True:
            kind, item = pickle.loads(self._message())
            if kind is _Kind.ERROR:
                class_, arguments, attributes = item
                error = class_.__new__(class_, *arguments)
                error.__dict__.update(attributes)
                raise error
            if kind is _Kind.END:
                return
            yield item
            self._turn.pause()

    def _message(self) -> bytes:
        received = self._received
        size = _LENGTH_BYTES
        while True:
            if len(received) >= size:
                size = _LENGTH_BYTES + int.from_bytes(received[:_LENGTH_BYTES], "big")
                if len(received) >= size:
                    message = bytes(received[_LENGTH_BYTES:size])
                    del received[:size]
                    return message
            received += self._more()

    def _more(self) -> bytes:
        while True:
            try:
                data = os.read(self._pipe, 1024 * 1024)
            except BlockingIOError:
                self._loop.add_reader(self._pipe, self._readable.notify_all)
                try:
                    self._turn.wait(self._readable.wait())
                finally:
                    self._loop.remove_reader(self._pipe)
                continue
            if not data:
                raise SqlServerError(701, "default")  # the system or its limit ended it
            return data

    def end(self) -> None:
        """End the fork, which may be in the middle of its work."""
        os.close(self._pipe)
        process = os.pidfd_open(self._pid)
        os.kill(self._pid, signal.SIGKILL)

        def reap() -> None:
            self._loop.remove_reader(process)
            os.close(process)
            os.waitpid(self._pid, 0)

        if self._loop.is_closed():  # the server ends
            os.close(process)
            return
        self._loop.add_reader(process, reap)


class _Kind(Enum):
    """What a fork sends."""

    PIECE = auto()
    ERROR = auto()
    END = auto()


def _serve(read: Callable[[], Iterator[Any]], pipe: int) -> NoReturn:
    """Run in the fork: send what is read, and end the process."""
    try:
        _settle(pipe)
        try:
            for item in read():
                _send(pipe, _Kind.PIECE, item)
            _send(pipe, _Kind.END, None)
        except MemoryError:
            _send_error(pipe, SqlServerError(701, "default"))
        except Exception as error:
            _send_error(pipe, error)
    finally:
        os._exit(0)


def _settle(pipe: int) -> None:
    """Make the fork a process that shares nothing with the server but the pipe."""
    turns.current = None
    gc.disable()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    die_with_parent()
    # The sockets too: a connection that the server closes would stay open.
    os.closerange(3, pipe)
    os.closerange(pipe + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    os.nice(NICENESS)
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + FORK_MEMORY, used + FORK_MEMORY))


def _send_error(pipe: int, error: Exception) -> None:
    # Not the exception itself: those of SQL Server are not made from their `args`.
    _send(pipe, _Kind.ERROR, (type(error), error.args, error.__dict__))


def _send(pipe: int, kind: _Kind, item: Any) -> None:
    message = pickle.dumps((kind, item), pickle.HIGHEST_PROTOCOL)
    data = memoryview(len(message).to_bytes(_LENGTH_BYTES, "big") + message)
    while data:
        data = data[os.write(pipe, data) :]
