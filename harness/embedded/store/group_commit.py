"""Group commit: transactions that commit at about the same time share one flush.

There is always one flush that gathers writes, and at most so many that run. The gathering one begins when a place is
free and all tasks that are ready have had their turn: under load each flush takes what came during the one before, so
the number of flushes stays the device's, however many transactions commit.

A commit waits for its flush. Lazy writes, such as the removal of acknowledged rows, have nobody who waits: a crash may
lose them, and then they are made again. They only must not be overtaken, so a flush that failed for want of room puts
them before those of the next. A flush fails as a whole, before anything of it is on disk; anything worse ends the
instance (`FileStore`).
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from harness.embedded.runtime.tasks import Scheduler, Task, Waiting

ASIDE = "aside."  # before the name of an object: its rows that could not be read

Scalar = int | str | bytes
Key = Scalar | tuple[Scalar, ...]
Value = tuple[Any, ...]  # plain values that MessagePack has
Written = Value | bytes | None  # bytes: packed, as FileStore writes it; None deletes
Write = tuple[str, Key, Written]  # object, key, row


class StoreFull(Exception):
    """The disk has no room for the writes; the store is as it was before."""


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
        self.rows: dict[tuple[str, Key], Written] = {}
        self.lazy: list[Write] = []  # writes of `rows` to keep for the next flush if this one fails
        self.bytes_by_owner: defaultdict[int, int] = defaultdict(int)  # known once the flush is written
        self.commits = 0  # how many commits wait for this flush
        self.is_done = False
        self.error: StoreFull | None = None

    def wait(self) -> Waiting[None]:
        """Return when the writes are on disk; raise StoreFull if they could not be stored."""
        if not self.is_done:
            yield self
        if self.error is not None:
            raise self.error

    def arm(self, scheduler: Scheduler, task: Task) -> None:
        self._waiting.append(task)

    def disarm(self, task: Task) -> None:
        self._waiting.remove(task)

    def finish(self, error: StoreFull | None) -> None:
        self.is_done, self.error = True, error
        for task in self._waiting:
            self._scheduler.wake(task)


class Store(ABC):
    """Everything of a store but what keeps the rows, which FileStore and MemoryStore add.

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

    @property
    def is_busy(self) -> bool:
        """Whether a flush is under way or about to begin."""
        return self._in_flight > 0

    @abstractmethod
    def load(self) -> Iterator[tuple[str, Key, Value]]:
        """Yield all rows on disk, for recovery, but not those that are set aside."""

    @abstractmethod
    def close(self) -> None:
        """Return when everything submitted is on disk."""

    @abstractmethod
    def _flush(self, flush: Flush) -> None:
        """Write the flush and call `_finished` on the loop when it is on disk or has failed."""

    def submit(self, writes: Sequence[Write]) -> Flush:
        """Hand writes over: they join the next flush, all or none, whether or not anybody waits for it. A value that
        cannot be stored raises, and nothing is handed over."""
        rows = self._rows_of(writes)
        flush = self._next
        flush.rows.update(rows)
        flush.commits += 1
        self.commits += 1
        self._begin_soon()
        return flush

    def commit_lazily(self, writes: Sequence[Write]) -> None:
        """Submit writes that a crash may lose: every flush tries them again until they are stored. Writes
        that are submitted later are never on disk before them."""
        if not writes:
            return
        flush, rows = self._next, self._rows_of(writes)
        flush.rows.update(rows)
        flush.lazy += [(*place, row) for place, row in rows.items()]
        self._begin_soon()

    def _rows_of(self, writes: Sequence[Write]) -> dict[tuple[str, Key], Written]:
        """The last write of each row, as `Flush.rows` holds it."""
        return {(table, key): row for table, key, row in writes}

    def set_aside(self, table: str, key: Key, row: Value) -> None:
        """Keep a row that recovery cannot read where `load` does not find it."""
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
        """Count the bytes that the flush writes, which are given for each object."""
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
            rows = {(table, key): row for table, key, row in flush.lazy}
            following.lazy[:0] = [(*place, row) for place, row in rows.items()]
            following.rows = rows | following.rows
        flush.finish(error)
        self._in_flight -= 1
        if following.rows and (error is None or following.commits):
            self._begin_soon()
