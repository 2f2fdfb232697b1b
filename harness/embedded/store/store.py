"""The interface between the broker and the store of its durable state, group commit, and MemoryStore.

Writes that come during a flush go to disk together in the next one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from harness.embedded.runtime.tasks import Scheduler, Task, Waiting

_SIZED = (str, bytes)

Scalar = int | str | bytes
Key = Scalar | tuple[Scalar, ...]
Value = tuple[Any, ...]  # plain values that msgpack knows
Write = tuple[str, Key, Value | None]  # object, key, row; None deletes


class StoreFull(Exception):
    """The writes could not be stored; the store is as it was before."""


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
        """Yields all rows on disk in order of object, for recovery."""

    @abstractmethod
    def close(self) -> None:
        """Returns when everything submitted is on disk."""

    @abstractmethod
    def _flush(self, flush: Flush) -> None:
        """Writes the flush and calls `_finished` on the loop when it is on disk or has failed."""

    def submit(self, writes: Sequence[Write]) -> Flush:
        """Hands writes over: they join the next flush, all or none, whether or not anybody waits for it."""
        flush = self._next
        rows = flush.rows
        for table, key, row in writes:
            rows[table, key] = row
        flush.commits += 1
        self.commits += 1
        self._begin_soon()
        return flush

    def commit(self, writes: Sequence[Write]) -> Waiting[None]:
        """Submits and waits; concurrent commits share one flush."""
        yield from self.submit(writes).wait()

    def commit_lazily(self, writes: Sequence[Write]) -> None:
        """Submits writes that a crash may lose: every flush tries them again until they are stored. A later `commit` is
        never on disk before them."""
        if not writes:
            return
        flush = self._next
        rows = flush.rows
        for table, key, row in writes:
            rows[table, key] = row
        flush.lazy += writes
        self._begin_soon()

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

    def _count(self, flush: Flush, table: str, size: int) -> None:
        """Counts bytes of rows of `table` that the flush writes."""
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
        for table, size in sizes.items():
            self._count(flush, table, size)
        return sum(sizes.values())

    def _apply(self, flush: Flush) -> None:
        rows = self.rows
        rows.update(flush.rows)  # type: ignore[arg-type]
        for place, row in flush.rows.items():
            if row is None:
                del rows[place]
