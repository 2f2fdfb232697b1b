"""Group commit: writes gather while a flush is under way and go to disk together in the next one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

from harness.embedded.runtime.tasks import Scheduler, Signal, Waiting
from harness.embedded.store.protocol import Account, Key, StoreFull, Value, Write


class Batch:
    """The writes of one flush, the last one of each row."""

    __slots__ = ("bytes_by_owner", "commits", "error", "is_done", "rows", "signal")

    def __init__(self) -> None:
        self.rows: dict[tuple[str, Key], Value | None] = {}
        self.bytes_by_owner: dict[int, int] = {}  # once it is written
        self.commits = 0  # how many submitted writes here and want to hear of it
        self.is_done = False
        self.error: StoreFull | None = None
        self.signal = Signal()

    def wait(self) -> Waiting[None]:
        while not self.is_done:
            yield self.signal.wait()
        if self.error is not None:
            raise self.error

    def finish(self, error: StoreFull | None) -> None:
        if self.is_done:
            return
        self.is_done, self.error = True, error
        self.signal.notify_all()


class GroupingStore(ABC):
    """What FileStore and MemoryStore have in common: everything but the disk.

    At most `flushes_in_flight` at a time. A flush begins when the tasks that are ready have had their turn, so commits
    of one turn share it; commits that come later share the next. Flushes end in the order in which they began, or a
    crash would find the later one without the earlier: that is the device's to keep. A flush that fails leaves its lazy
    writes to the next one; with several in flight that may be on disk before them, so then none may fail. `flushes` and
    `commits` count them; `accounts` keeps what was written by the owner of objects, which `owner_of` gives.
    """

    def __init__(
        self, scheduler: Scheduler, owner_of: Callable[[str], int] = lambda table: 0, *, flushes_in_flight: int = 1
    ) -> None:
        self._scheduler = scheduler
        self._owner_of = owner_of
        self._owners: dict[str, int] = {}
        self.accounts: dict[int, Account] = {}
        self._next = Batch()
        self._lazy: dict[tuple[str, Key], Value | None] = {}  # of the next batch, to be kept if it fails
        self._flushes_in_flight_max = flushes_in_flight
        self._in_flight = 0  # the one that is about to begin counts
        self._is_beginning = False
        self.flushes = 0
        self.commits = 0

    @abstractmethod
    def load(self) -> Iterator[tuple[str, Key, Value]]: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _flush(self, batch: Batch, then: Callable[[StoreFull | None], None]) -> None:
        """Writes the batch and calls `then` on the loop when it is on disk, or with the reason why it is not."""

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
        rows, lazy = self._next.rows, self._lazy
        for table, key, row in writes:
            rows[table, key] = lazy[table, key] = row
        self._begin_soon()

    def _begin_soon(self) -> None:
        if not self._is_beginning and self._in_flight < self._flushes_in_flight_max:
            self._is_beginning = True
            self._in_flight += 1
            self._scheduler.spawn(self._begin(), "flush")

    def _begin(self) -> Waiting[None]:
        self._begin_now()
        return
        yield  # a task, so that whoever is ready now still joins

    def _begin_now(self) -> None:
        self._is_beginning = False
        batch, lazy = self._next, self._lazy
        self._next, self._lazy = Batch(), {}
        self.flushes += 1
        started_ns = self._scheduler.clock.now_ns()

        def finished(error: StoreFull | None) -> None:
            if error is None:
                self._enter(batch, self._scheduler.clock.now_ns() - started_ns)
            self._finished(batch, lazy, error)

        self._flush(batch, finished)

    def _count(self, batch: Batch, table: str, size: int) -> None:
        """So many bytes are on their way to the disk for a row of `table`."""
        owner = self._owners.get(table)
        if owner is None:
            owner = self._owners[table] = self._owner_of(table)
        batch.bytes_by_owner[owner] = batch.bytes_by_owner.get(owner, 0) + size

    def _enter(self, batch: Batch, duration_ns: int) -> None:
        for owner, size in batch.bytes_by_owner.items():
            account = self.accounts.setdefault(owner, Account())
            account.writes += 1
            account.bytes_written += size
            account.stall_ns += duration_ns

    def _finished(self, batch: Batch, lazy: dict[tuple[str, Key], Value | None], error: StoreFull | None) -> None:
        assert error is None or self._flushes_in_flight_max == 1, "a flush failed with others in flight"
        if error is not None and lazy:
            self._lazy = lazy | self._lazy
            self._next.rows = lazy | self._next.rows
        batch.finish(error)
        self._in_flight -= 1
        if self._next.rows and (error is None or self._next.commits):
            self._begin_soon()
