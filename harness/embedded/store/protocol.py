"""The seam between the broker and its durable state."""

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
    """What has been written since the start."""

    writes: int = 0  # flushes
    bytes_written: int = 0
    stall_ns: int = 0  # from handing them over to their being on disk


class Flush(Protocol):
    """Some writes on their way to the disk."""

    def wait(self) -> Waiting[None]:
        """Returns when the writes are on disk; raises StoreFull if they will never be."""
        ...


class Store(Protocol):
    @property
    def accounts(self) -> Mapping[int, Account]:
        """By whom objects belong to, as far as the store was told."""
        ...

    def load(self) -> Iterator[tuple[str, Key, Value]]:
        """Everything on disk, in order of object; at recovery."""
        ...

    def submit(self, writes: Sequence[Write]) -> Flush:
        """Hands writes over: they join the next flush, all of them or none, whether anybody waits for it or not."""
        ...

    def commit(self, writes: Sequence[Write]) -> Waiting[None]:
        """`submit` and wait; concurrent commits share one flush."""
        ...

    def commit_lazily(self, writes: Sequence[Write]) -> None:
        """`submit` for writes that a crash may lose: they are tried again with every flush until they are stored. A
        later `commit` is never on disk before these are."""
        ...

    def close(self) -> None:
        """What was submitted is on disk when this returns."""
        ...
