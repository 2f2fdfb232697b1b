"""Durable state behind the broker: commit, group commit, recovery.

A store keeps rows, (object, key) -> tuple of plain values, and does not interpret them. The `Flush` that `submit`
returns ends when the writes are on disk; writes that come while a flush is under way share the next one, so the number
of flushes does not grow with the number of transactions. `commit_lazily` does not wait: its writes join the next flush,
in order. After a crash `load` yields what the last completed flush left: every write whose flush has ended, each
transaction wholly or not at all.

| module | what it holds |
|---|---|
| `group_commit` | `Store`: what both stores share |
| `file_store` | `FileStore`: rows in a data folder |
| `row_file` | the files of a data folder, their checksums, and what a start makes of damage |
| `disk` | the operating system's files, which a simulation replaces by files that fail |
| `memory_store` | `MemoryStore`: the same promises for as long as the process lives, for tests and the simulated lab |

A disk that is full before a commit is whole fails that commit alone (`StoreFull`). After any other error nobody knows
what is on the disk, so the store ends the instance, and the next start reads what is there. Clients then see a broken
connection, which says that a commit may have happened or not; an error would say that it has not.
"""
