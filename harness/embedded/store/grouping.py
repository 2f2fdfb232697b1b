"""Group commit: writes that come during a flush go to disk together in the next one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from harness.embedded.runtime.tasks import Scheduler, Task, Waiting
from harness.embedded.store.protocol import Account, Key, StoreFull, Value, Write


class Batch:
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
        self.bytes_by_owner: defaultdict[int, int] = defaultdict(int)  # known once the batch is written
        self.commits = 0  # how many commits wait for this flush
        self.is_done = False
        self.error: StoreFull | None = None

    def wait(self) -> Waiting[None]:
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


class GroupingStore(ABC):
    """The common part of FileStore and MemoryStore: everything but the disk.

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
        self._next = Batch(scheduler)
        self._flushes_in_flight_max = flushes_in_flight
        self._in_flight = 0  # with the one that is about to begin
        self._is_beginning = False
        self.flushes = 0
        self.commits = 0

    @abstractmethod
    def load(self) -> Iterator[tuple[str, Key, Value]]: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _flush(self, batch: Batch) -> None:
        """Writes the batch and calls `_finished` on the loop when it is on disk or has failed."""

    def submit(self, writes: Sequence[Write]) -> Batch:
        batch = self._next
        rows = batch.rows
        for table, key, row in writes:
            rows[table, key] = row
        batch.commits += 1
        self.commits += 1
        self._begin_soon()
        return batch

    def commit(self, writes: Sequence[Write]) -> Waiting[None]:
        yield from self.submit(writes).wait()

    def commit_lazily(self, writes: Sequence[Write]) -> None:
        if not writes:
            return
        batch = self._next
        rows = batch.rows
        for table, key, row in writes:
            rows[table, key] = row
        batch.lazy += writes
        self._begin_soon()

    def _begin_soon(self) -> None:
        if not self._is_beginning and self._in_flight < self._flushes_in_flight_max:
            self._is_beginning = True
            self._in_flight += 1
            self._scheduler.spawn(self._begin(), "flush")

    def _begin(self) -> Waiting[None]:
        self._is_beginning = False
        batch, self._next = self._next, Batch(self._scheduler)
        self.flushes += 1
        batch.started_ns = self._scheduler.clock.now_ns
        self._flush(batch)
        return
        yield  # makes this a task, so that commits of tasks that are ready now still join

    def _count(self, batch: Batch, table: str, size: int) -> None:
        """Counts bytes of rows of `table` that the batch writes."""
        batch.bytes_by_owner[self._owner_of(table)] += size

    def _enter(self, batch: Batch) -> None:
        duration_ns = self._scheduler.clock.now_ns - batch.started_ns
        for owner, size in batch.bytes_by_owner.items():
            account = self.accounts[owner]
            account.writes += 1
            account.bytes_written += size
            account.stall_ns += duration_ns

    def _finished(self, batch: Batch, error: StoreFull | None) -> None:
        assert error is None or self._flushes_in_flight_max == 1, "a flush failed with others in flight"
        following = self._next
        if error is None:
            self._enter(batch)
        elif batch.lazy:
            kept = {(table, key): row for table, key, row in batch.lazy}
            following.lazy[:0] = [(*place, row) for place, row in kept.items()]
            following.rows = kept | following.rows
        batch.finish(error)
        self._in_flight -= 1
        if following.rows and (error is None or following.commits):
            self._begin_soon()
