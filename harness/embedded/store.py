"""Durable state behind the broker: commit, group commit, recovery.

A store keeps rows, (object, key) -> tuple of plain values, and does not interpret them. The `Flush` that `submit`
returns ends when the writes are on disk; writes that come while a flush is under way share the next one, so the number
of flushes does not grow with the number of transactions. `commit_lazily` does not wait: its writes join the next flush,
in order. After a crash `load` yields what the last completed flush left: every write whose flush has ended, each
transaction wholly or not at all.

`FileStore` is one SQLite file. `MemoryStore` keeps the same promises for as long as the process lives; tests and the
simulated lab use it. Both group commits in the same way (`Store`).
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import msgspec

from harness.embedded.runtime.tasks import Scheduler, Task, Waiting

log = logging.getLogger(__name__)

_SIZED = (str, bytes)
ASIDE = "aside."  # before the name of an object: its rows that could not be read

Scalar = int | str | bytes
Key = Scalar | tuple[Scalar, ...]
Value = tuple[Any, ...]  # plain values that MessagePack has
Write = tuple[str, Key, Value | None]  # object, key, row; None deletes


class StoreFull(Exception):
    """The writes could not be stored; the store is as it was before."""


class UnreadableStore(Exception):
    """The file is not a store, or its rows have the layout of another version of this program; the text says which."""


@dataclass(slots=True)
class Account:
    """Counts of what has been written since the start."""

    writes: int = 0  # flushes
    bytes_written: int = 0
    stall_ns: int = 0  # from the beginning of a flush until it is on disk


class Flush:
    """The writes of one flush, only the last of each row, and the `Wait` for its end."""

    __slots__ = (
        "_scheduler",
        "_waiting",
        "bytes_by_owner",
        "commits",
        "error",
        "is_done",
        "is_written",
        "lazy",
        "rows",
        "started_ns",
    )

    started_ns: int

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: list[Task] = []
        self.rows: dict[tuple[str, Key], Value | None] = {}
        self.lazy: list[Write] = []  # writes of `rows` to keep for the next flush if this one fails
        self.bytes_by_owner: defaultdict[int, int] = defaultdict(int)  # known once the flush is written
        self.commits = 0  # how many commits wait for this flush
        self.is_written = False  # to the log, but perhaps not on disk
        self.is_done = False
        self.error: StoreFull | None = None

    def wait(self) -> Waiting[None]:
        """Returns when the writes are on disk; raises StoreFull if they could not be stored."""
        if not self.is_done:
            yield self
        if self.error is not None:
            raise self.error

    def arm(self, scheduler: Scheduler, task: Task) -> None:
        self._waiting.append(task)

    def disarm(self, task: Task) -> None:
        self._waiting.remove(task)

    def finish(self, error: StoreFull | None) -> None:
        if self.is_done:
            return
        self.is_done, self.error = True, error
        for task in self._waiting:
            self._scheduler.wake(task)


class Store(ABC):
    """Everything of a store but the disk, which FileStore and MemoryStore add.

    At most `flushes_in_flight` flushes run at a time. A flush begins when the ready tasks have had their turn, so that
    commits of one turn share it; later commits share the next. The device must end flushes in the order in which they
    began, or a crash could keep the later one without the earlier. A flush that fails leaves its lazy writes to the
    next one. With several in flight the next one may be on disk already, so then none may fail. `accounts` counts what
    was written for each owner of objects; `owner_of` gives the owner.
    """

    def __init__(
        self, scheduler: Scheduler, owner_of: Callable[[str], int] = lambda table: 0, *, flushes_in_flight: int = 1
    ) -> None:
        self._scheduler = scheduler
        self._owner_of = cache(owner_of)
        self.accounts: defaultdict[int, Account] = defaultdict(Account)
        self._next = Flush(scheduler)
        self._flushes_in_flight_max = flushes_in_flight
        self._in_flight = 0  # with the one that is about to begin
        self._is_beginning = False
        self.flushes = 0
        self.commits = 0

    @abstractmethod
    def load(self) -> Iterator[tuple[str, Key, Value]]:
        """Yields all rows on disk in order of object, for recovery, but not those that are set aside."""

    @abstractmethod
    def close(self) -> None:
        """Returns when everything submitted is on disk."""

    @abstractmethod
    def _flush(self, flush: Flush) -> None:
        """Writes the flush and calls `_finished` on the loop when it is on disk or has failed."""

    def submit(self, writes: Sequence[Write], pause: Callable[[], None] | None = None) -> Flush:
        """Hands writes over: they join the next flush, all or none, whether or not anybody waits for it. A value that
        cannot be stored raises, and nothing is handed over. Among many writes `pause` lets others go on first."""
        rows = self._rows_of(writes, pause)
        flush = self._next
        flush.rows.update(rows)
        flush.commits += 1
        self.commits += 1
        self._begin_soon()
        return flush

    def commit_lazily(self, writes: Sequence[Write]) -> None:
        """Submits writes that a crash may lose: every flush tries them again until they are stored. Writes
        that are submitted later are never on disk before them."""
        if not writes:
            return
        flush, rows = self._next, self._rows_of(writes)
        flush.rows.update(rows)
        flush.lazy += [(*place, row) for place, row in rows.items()]
        self._begin_soon()

    def _rows_of(
        self, writes: Sequence[Write], pause: Callable[[], None] | None = None
    ) -> dict[tuple[str, Key], Value | None]:
        """The last write of each row, as `Flush.rows` holds it."""
        return {(table, key): row for table, key, row in writes}

    def set_aside(self, table: str, key: Key, row: Value) -> None:
        """Keeps a row that recovery cannot read where `load` does not find it."""
        self.commit_lazily([(table, key, None), (f"{ASIDE}{table}", key, row)])

    def _begin_soon(self) -> None:
        if not self._is_beginning and self._in_flight < self._flushes_in_flight_max:
            self._is_beginning = True
            self._in_flight += 1
            self._scheduler.spawn(self._begin(), "flush")

    def _begin(self) -> Waiting[None]:
        self._is_beginning = False
        flush, self._next = self._next, Flush(self._scheduler)
        self.flushes += 1
        flush.started_ns = self._scheduler.clock.now_ns
        self._flush(flush)
        return
        yield  # makes this a task, so that commits of tasks that are ready now still join

    def _count(self, flush: Flush, sizes: Mapping[str, int]) -> None:
        """Counts the bytes that the flush writes, which are given for each object."""
        for table, size in sizes.items():
            flush.bytes_by_owner[self._owner_of(table)] += size

    def _enter(self, flush: Flush) -> None:
        duration_ns = self._scheduler.clock.now_ns - flush.started_ns
        for owner, size in flush.bytes_by_owner.items():
            account = self.accounts[owner]
            account.writes += 1
            account.bytes_written += size
            account.stall_ns += duration_ns

    def _finished(self, flush: Flush, error: StoreFull | None) -> None:
        assert error is None or self._flushes_in_flight_max == 1, "a flush failed with others in flight"
        following = self._next
        if error is None:
            self._enter(flush)
        elif flush.lazy:
            kept = {(table, key): row for table, key, row in flush.lazy}
            following.lazy[:0] = [(*place, row) for place, row in kept.items()]
            following.rows = kept | following.rows
        flush.finish(error)
        self._in_flight -= 1
        if following.rows and (error is None or following.commits):
            self._begin_soon()


# SQLite

CHECKPOINT_BYTES = 16 * 1024 * 1024  # a longer log is moved into the file
PAGE_BYTES = 2048  # a commit writes whole pages and their checksums: half as many bytes as with pages of 4096
MANY_WRITES = 2000  # of a flush, which take some milliseconds
_FEW_WRITES = 8  # of a transaction, among which it is not worth looking for several of one row
# The number of the layout of rows, kept in the file (PRAGMA user_version). Raise it with every change of the fields
# that the broker or T-SQL store. Files made before there was a number have 0.
LAYOUT = 4

_SCHEMA = """
CREATE TABLE IF NOT EXISTS row (
    object TEXT NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, PRIMARY KEY (object, key)
) WITHOUT ROWID
"""
_UPSERT = "INSERT OR REPLACE INTO row (object, key, value) VALUES (?, ?, ?)"
_LOAD = "SELECT object, key, value FROM row WHERE object NOT GLOB ? ORDER BY object, key"
_SET_ASIDE = "UPDATE OR REPLACE row SET object = ? || object WHERE object = ? AND key = ?"
_DELETE = "DELETE FROM row WHERE object = ? AND key = ?"

_pack: Callable[[Any], Any] = msgspec.msgpack.Encoder().encode  # `Flush.rows` of a file holds what it returns
_DECODER = msgspec.msgpack.Decoder()


def _unpacked(packed: bytes) -> Any:
    return _tuples(_DECODER.decode(packed))


def _tuples(value: Any) -> Any:
    """The value with tuples for arrays, at every depth."""
    return tuple(map(_tuples, value)) if type(value) is list else value


class FileStore(Store):
    """Rows in one table of a SQLite file, `row(object, key, value)`; keys and values in MessagePack.

    SQLite runs in WAL mode with synchronous=NORMAL: its COMMIT writes the log but does not wait for the disk. A thread
    waits (fdatasync on the log file) while the loop goes on, then wakes the waiters: one hand-over per flush. Between
    two flushes the same thread moves a log that has grown into the database file, so that no COMMIT on the loop has to.
    The COMMIT of many writes is its work too. `call_soon` hands a callable from that thread to the loop
    (call_soon_threadsafe).
    """

    def __init__(
        self,
        path: Path,
        *,
        scheduler: Scheduler,
        call_soon: Callable[[Callable[[], None]], object],
        owner_of: Callable[[str], int] = lambda table: 0,
    ) -> None:
        super().__init__(scheduler, owner_of)
        self._path = path
        self._call_soon = call_soon
        # Made here because SQLite would let everybody read it; its log and index get the mode of the file.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        self._connection = self._connect()
        self._check_layout()
        self._connection.execute(_SCHEMA)
        # The log exists until `close`: SQLite removes it with the last connection.
        self._log = os.open(f"{path}-wal", os.O_RDWR | os.O_CREAT, 0o600)
        self._sync_directory()
        # Held while the thread is in SQLite: a process that is forked then may find a lock that nobody releases.
        self.in_sqlite = threading.Lock()
        self._requests: SimpleQueue[Flush | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=f"flush {path.name}", daemon=True)
        self._thread.start()

    @property
    def folder(self) -> Path:
        """The folder of the file."""
        return self._path.parent

    def _check_layout(self) -> None:
        connection = self._connection
        (layout,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()
        if tables and layout != LAYOUT:
            connection.close()
            raise UnreadableStore(f"its rows have layout {layout}, and this version reads layout {LAYOUT}")
        if layout != LAYOUT:
            connection.execute(f"PRAGMA user_version = {LAYOUT}")

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # before WAL: then no commit locks and unlocks
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.DatabaseError as error:
            connection.close()
            raise UnreadableStore(str(error)) from None
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        return connection

    def _sync_directory(self) -> None:
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def load(self) -> Iterator[tuple[str, Key, Value]]:
        damaged: list[tuple[str, bytes]] = []
        for table, key, value in self._connection.execute(_LOAD, (f"{ASIDE}*",)):
            try:
                row = table, _unpacked(key), _unpacked(value)
            except (msgspec.DecodeError, ValueError, TypeError, RecursionError):
                damaged.append((table, key))
                continue
            yield row
        for place in damaged:
            self._connection.execute(_SET_ASIDE, (ASIDE, *place))
        if damaged:
            log.error("%d damaged rows of %s are set aside: %.200s", len(damaged), self._path, damaged)

    def close(self) -> None:
        self._requests.put(None)
        self._thread.join()
        if self._next.rows:
            self._write(self._next)
        os.close(self._log)
        self._connection.close()  # moves the log into the file and removes it

    # On the loop

    def _rows_of(
        self, writes: Sequence[Write], pause: Callable[[], None] | None = None
    ) -> dict[tuple[str, Key], Value | None]:
        """Keys and rows are packed here, and not in the flush, which carries the writes of others too."""
        if len(writes) > _FEW_WRITES:  # several of one row, as when many messages of a dialog arrive at once
            writes = [(*place, row) for place, row in super()._rows_of(writes).items()]
        if pause is None or len(writes) <= MANY_WRITES:
            return {(table, _pack(key)): None if row is None else _pack(row) for table, key, row in writes}
        rows: dict[tuple[str, Key], Value | None] = {}
        for at in range(0, len(writes), MANY_WRITES):
            rows |= self._rows_of(writes[at : at + MANY_WRITES])
            pause()
        return rows

    def _flush(self, flush: Flush) -> None:
        if len(flush.rows) > MANY_WRITES:  # they would stop the loop
            self._requests.put(flush)
            return
        try:
            self._write(flush)
        except sqlite3.Error as error:
            self._finished(flush, StoreFull(str(error)))
            return
        self._requests.put(flush)

    def _write(self, flush: Flush) -> None:
        stored: list[tuple[str, Any, Any]] = []
        deleted: list[tuple[str, Any]] = []
        sizes: defaultdict[str, int] = defaultdict(int)
        for place, row in flush.rows.items():
            table, key = place
            if row is None:
                deleted.append(place)
                sizes[table] += len(key)  # type: ignore[arg-type]
            else:
                stored.append((table, key, row))
                sizes[table] += len(key) + len(row)  # type: ignore[arg-type]
        self._count(flush, sizes)
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            if stored:
                connection.executemany(_UPSERT, stored)
            if deleted:
                connection.executemany(_DELETE, deleted)
            connection.execute("COMMIT")
            flush.is_written = True
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    # In the thread

    def _serve(self) -> None:
        while (flush := self._requests.get()) is not None:
            self._serve_one(flush)

    def _serve_one(self, flush: Flush) -> None:
        try:
            if not flush.is_written:
                with self.in_sqlite:
                    self._write(flush)
            os.fdatasync(self._log)
            if os.lseek(self._log, 0, os.SEEK_END) > CHECKPOINT_BYTES:
                # The waiters go on; the next flush waits until the log is short again.
                self._call_soon(lambda: flush.finish(None))
                with self.in_sqlite:
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except (OSError, sqlite3.Error) as error:
            reason = StoreFull(str(error))
            self._call_soon(lambda: self._finished(flush, None if flush.is_done else reason))
        else:
            self._call_soon(lambda: self._finished(flush, None))


class MemoryStore(Store):
    """Keeps its rows in a dict, for as long as the process lives.

    `rows` survives the engine: give it to the next store, and recovery finds what was flushed. `flush_ns` returns how
    long the log device takes for a flush of so many bytes that begins now. `record_overhead_bytes` is what a row adds
    to the log beside its values: header, lengths, transaction id. `is_full` lets flushes fail. A store that is not
    `is_recoverable` takes the time to write but keeps no rows.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        rows: Mapping[tuple[str, Key], Value] | None = None,
        flush_ns: Callable[[int], int],
        flushes_in_flight: int = 1,
        record_overhead_bytes: int = 60,
        is_recoverable: bool = True,
        owner_of: Callable[[str], int] = lambda table: 0,
    ) -> None:
        super().__init__(scheduler, owner_of, flushes_in_flight=flushes_in_flight)
        self.record_overhead_bytes = record_overhead_bytes
        self.rows: dict[tuple[str, Key], Value] = dict(rows or {})
        self.is_full = False
        self._flush_ns = flush_ns
        self._is_recoverable = is_recoverable

    def load(self) -> Iterator[tuple[str, Key, Value]]:
        tables: dict[str, list[tuple[Key, Value]]] = {}
        for (table, key), row in self.rows.items():
            tables.setdefault(table, []).append((key, row))
        for table in sorted(tables):
            for key, row in tables[table]:
                if not table.startswith(ASIDE):
                    yield table, key, row

    def close(self) -> None:
        self._apply(self._next)

    def _flush(self, flush: Flush) -> None:
        done_ns = flush.started_ns + self._flush_ns(self._measure(flush))
        self._scheduler.call_at(done_ns, partial(self._flushed, flush))

    def _flushed(self, flush: Flush) -> None:
        if self.is_full:
            self._finished(flush, StoreFull("the store is full"))
            return
        if self._is_recoverable:
            self._apply(flush)
        self._finished(flush, None)

    def _measure(self, flush: Flush) -> int:
        """Counts what the flush adds to the log, in bytes: for each owner in the flush, and in all as the result."""
        sizes: defaultdict[str, int] = defaultdict(int)
        for (table, _), row in flush.rows.items():
            size = self.record_overhead_bytes
            for value in row or ():
                size += len(value) if type(value) in _SIZED else 8
            sizes[table] += size
        self._count(flush, sizes)
        return sum(sizes.values())

    def _apply(self, flush: Flush) -> None:
        rows = self.rows
        rows.update(flush.rows)  # type: ignore[arg-type]
        for place, row in flush.rows.items():
            if row is None:
                del rows[place]
