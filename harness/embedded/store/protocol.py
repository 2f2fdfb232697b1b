"""The interface between the broker and the store of its durable state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness.embedded.runtime.tasks import Waiting

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


class Flush(Protocol):
    """Writes on their way to the disk."""

    def wait(self) -> Waiting[None]:
        """Returns when the writes are on disk; raises StoreFull if they could not be stored."""
        ...


class Store(Protocol):
    @property
    def accounts(self) -> Mapping[int, Account]:
        """Counts of what was written, by the owner of the objects (`owner_of`)."""
        ...

    def load(self) -> Iterator[tuple[str, Key, Value]]:
        """Yields all rows on disk in order of object, for recovery."""
        ...

    def submit(self, writes: Sequence[Write]) -> Flush:
        """Hands writes over: they join the next flush, all or none, whether or not anybody waits for it."""
        ...

    def commit(self, writes: Sequence[Write]) -> Waiting[None]:
        """Submits and waits; concurrent commits share one flush."""
        ...

    def commit_lazily(self, writes: Sequence[Write]) -> None:
        """Submits writes that a crash may lose: every flush tries them again until they are stored. A later `commit` is
        never on disk before them."""
        ...

    def close(self) -> None:
        """Returns when everything submitted is on disk."""
        ...
