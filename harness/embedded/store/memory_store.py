"""A store whose rows are in memory."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from harness.embedded.runtime.tasks import Scheduler
from harness.embedded.store.group_commit import ASIDE, Flush, Key, Store, StoreFull, Value

_SIZED = (str, bytes)


class MemoryStore(Store):
    """Keeps its rows in a dict, for as long as the process lives.

    `rows` survives the engine: give it to the next store, and recovery finds what was flushed. `flush_ns` returns how
    long the log device takes for a flush of so many bytes that begins now. `record_overhead_bytes` is what a row adds
    to the log beside its values: header, lengths, transaction id. A deleted row is logged whole, as SQL
    Server does so that it can be rolled back. `is_full` lets flushes fail. A store that is not `is_recoverable` takes
    the time to write but keeps no rows.
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
        self._sizes_bytes = {place: _size_bytes(row) for place, row in self.rows.items()}  # also of rows not kept
        self.is_full = False
        self._flush_ns = flush_ns
        self._is_recoverable = is_recoverable

    def load(self) -> Iterator[tuple[str, Key, Value]]:
        for (table, key), row in self.rows.items():
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
        """Count what the flush adds to the log, in bytes: for each owner in the flush, and in all as the result."""
        sizes: defaultdict[str, int] = defaultdict(int)
        for place, row in flush.rows.items():
            if row is None:
                size_bytes = self._sizes_bytes.pop(place, 0)
            else:
                size_bytes = self._sizes_bytes[place] = _size_bytes(row)
            sizes[place[0]] += self.record_overhead_bytes + size_bytes
        self._count(flush, sizes)
        return sum(sizes.values())

    def _apply(self, flush: Flush) -> None:
        rows = self.rows
        rows.update(flush.rows)  # type: ignore[arg-type]
        for place, row in flush.rows.items():
            if row is None:
                del rows[place]


def _size_bytes(row: Iterable[Any]) -> int:
    """Return the length of a row's values."""
    size_bytes = 0
    for value in row:
        size_bytes += len(value) if type(value) in _SIZED else 8
    return size_bytes
