"""FileStore: one SQLite file.

It has one table, `row(object, key, value)`; msgpack packs keys and values. SQLite runs in WAL mode with
synchronous=NORMAL: its COMMIT writes the log but does not wait for the disk. A thread waits (fdatasync on the log file)
while the loop goes on, then wakes the waiters: one hand-over per flush. Between two flushes the same thread moves a log
that has grown into the database file, so that no COMMIT on the loop has to.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue

import msgpack

from harness.embedded.runtime.tasks import Scheduler
from harness.embedded.store.store import Flush, Key, Store, StoreFull, Value

CHECKPOINT_BYTES = 16 * 1024 * 1024  # a longer log is moved into the file
PAGE_BYTES = 4096

_SCHEMA = """
CREATE TABLE IF NOT EXISTS row (
    object TEXT NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, PRIMARY KEY (object, key)
) WITHOUT ROWID
"""
_UPSERT = "INSERT INTO row (object, key, value) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
_DELETE = "DELETE FROM row WHERE object = ? AND key = ?"


class FileStore(Store):
    """Rows in a SQLite file. `call_soon` hands a callable from the flush thread to the loop (call_soon_threadsafe)."""

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
        self._pack = msgpack.Packer(autoreset=True).pack
        self._connection = self._connect()
        self._connection.execute(_SCHEMA)
        # The log exists until `close`: SQLite removes it with the last connection.
        self._log = os.open(f"{path}-wal", os.O_RDWR | os.O_CREAT)
        self._sync_directory()
        self._requests: SimpleQueue[Flush | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=f"flush {path.name}", daemon=True)
        self._thread.start()

    @property
    def folder(self) -> Path:
        """The folder of the file."""
        return self._path.parent

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("PRAGMA locking_mode = NORMAL")
        return connection

    def _sync_directory(self) -> None:
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def load(self) -> Iterator[tuple[str, Key, Value]]:
        unpack = msgpack.unpackb
        for table, key, value in self._connection.execute("SELECT object, key, value FROM row ORDER BY object, key"):
            yield table, unpack(key, use_list=False), unpack(value, use_list=False)

    def close(self) -> None:
        if self._next.rows:
            self._write(self._next)
        self._requests.put(None)
        self._thread.join()
        os.close(self._log)
        self._connection.close()  # moves the log into the file and removes it

    # On the loop

    def _flush(self, flush: Flush) -> None:
        try:
            self._write(flush)
        except sqlite3.Error as error:
            self._finished(flush, StoreFull(str(error)))
            return
        self._requests.put(flush)

    def _write(self, flush: Flush) -> None:
        pack = self._pack
        stored: list[tuple[str, bytes, bytes]] = []
        deleted: list[tuple[str, bytes]] = []
        for (table, key), row in flush.rows.items():
            packed = pack(key)
            if row is None:
                deleted.append((table, packed))
                self._count(flush, table, len(packed))
            else:
                value = pack(row)
                stored.append((table, packed, value))
                self._count(flush, table, len(packed) + len(value))
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            if stored:
                connection.executemany(_UPSERT, stored)
            if deleted:
                connection.executemany(_DELETE, deleted)
            connection.execute("COMMIT")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    # In the thread

    def _serve(self) -> None:
        connection = self._connect()
        try:
            while (flush := self._requests.get()) is not None:
                self._serve_one(connection, flush)
        finally:
            connection.close()

    def _serve_one(self, connection: sqlite3.Connection, flush: Flush) -> None:
        try:
            os.fdatasync(self._log)
            if os.fstat(self._log).st_size > CHECKPOINT_BYTES:
                # The waiters go on; the next flush waits until the log is short again.
                self._call_soon(lambda: flush.finish(None))
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except (OSError, sqlite3.Error) as error:
            reason = StoreFull(str(error))
            self._call_soon(lambda: self._finished(flush, None if flush.is_done else reason))
        else:
            self._call_soon(lambda: self._finished(flush, None))
