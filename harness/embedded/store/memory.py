"""MemoryStore: the promises of a store for as long as the process lives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from harness.embedded.runtime.tasks import Scheduler, Waiting
from harness.embedded.store.grouping import Batch, GroupingStore
from harness.embedded.store.protocol import Key, StoreFull, Value

# What a write costs a log beside its values: header, lengths, transaction id.
_OVERHEAD_BYTES = 60


class MemoryStore(GroupingStore):
    """Rows in a dict. `rows` survives the engine: give it to the next store and recovery finds what was flushed.

    `flush` is how long the log device takes for a number of bytes; `is_full` lets flushes fail.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        rows: Mapping[tuple[str, Key], Value] | None = None,
        flush: Callable[[int], Waiting[None]] | None = None,
        owner_of: Callable[[str], int] = lambda table: 0,
    ) -> None:
        super().__init__(scheduler, owner_of)
        self.rows: dict[tuple[str, Key], Value] = dict(rows or {})
        self.is_full = False
        self._log = flush

    def load(self) -> Iterator[tuple[str, Key, Value]]:
        tables: dict[str, list[tuple[Key, Value]]] = {}
        for (table, key), row in self.rows.items():
            tables.setdefault(table, []).append((key, row))
        for table in sorted(tables):
            for key, row in tables[table]:
                yield table, key, row

    def close(self) -> None:
        self._apply(self._next)

    def _flush(self, batch: Batch, then: Callable[[StoreFull | None], None]) -> None:
        self._scheduler.spawn(self._write(batch, then), "log writer")

    def _write(self, batch: Batch, then: Callable[[StoreFull | None], None]) -> Waiting[None]:
        sizes = [(table, _size(row)) for (table, _), row in batch.rows.items()]
        for table, size in sizes:
            self._count(batch, table, size)
        if self._log is not None:
            yield from self._log(sum(size for _, size in sizes))
        if self.is_full:
            then(StoreFull("the store is full"))
            return
        self._apply(batch)
        then(None)

    def _apply(self, batch: Batch) -> None:
        for place, row in batch.rows.items():
            if row is None:
                self.rows.pop(place, None)
            else:
                self.rows[place] = row


def _size(row: Value | None) -> int:
    if row is None:
        return _OVERHEAD_BYTES
    return _OVERHEAD_BYTES + sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)
