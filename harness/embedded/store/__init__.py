"""Durable state behind the broker: commit, group commit, recovery.

A store keeps rows, (object, key) -> tuple of plain values, and does not interpret them. `commit` returns when
the writes are on disk; commits that arrive while a flush is under way share the next one, so the number of flushes
does not grow with the number of transactions. `commit_lazily` does not wait: its writes join the next flush, in
order. After a crash `load` yields what the last completed flush left: every write whose `commit` returned, each
transaction wholly or not at all.

`FileStore` is one SQLite file. `MemoryStore` keeps the same promises for as long as the process lives; tests and the
simulated lab use it. Both group commits in the same way (`store`).
"""

from harness.embedded.store.file import FileStore
from harness.embedded.store.store import Account, Flush, Key, MemoryStore, Store, StoreFull, Value, Write

__all__ = ["Account", "FileStore", "Flush", "Key", "MemoryStore", "Store", "StoreFull", "Value", "Write"]
