"""The seam between the broker and its durable state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from harness.embedded.runtime.tasks import Waiting

Scalar = int | str | bytes
Key = Scalar | tuple[Scalar, ...]
Value = tuple[Any, ...]  # plain values that msgpack knows
Write = tuple[str, Key, Value | None]  # object, key, row; None deletes


class Store(Protocol):
    def load(self) -> Iterator[tuple[str, Key, Value]]:
        """Everything on disk, in order of object; at recovery."""
        ...

    def commit(self, writes: Sequence[Write]) -> Waiting[None]:
        """Returns when the writes are on disk; concurrent commits share one flush. A full disk is error 9002 and
        leaves the store as it was."""
        ...

    def commit_lazily(self, writes: Sequence[Write]) -> None:
        """Joins the next flush; waits for nothing. A later `commit` is never on disk before these are."""
        ...

    def close(self) -> None: ...
