"""A T-SQL cursor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness.embedded.sqltypes import Column

# Takes the frame that opens the cursor; returns the columns and rows of its query.
Fetch = Callable[[Any], tuple[Sequence[Column], list[tuple[Any, ...]]]]


class Cursor:
    """A STATIC cursor: OPEN fetches its rows."""

    __slots__ = ("columns", "fetch", "is_open", "position", "rows")

    def __init__(self, fetch: Fetch) -> None:
        self.fetch = fetch
        self.is_open = False
        self.columns: Sequence[Column] = ()
        self.rows: list[tuple[Any, ...]] = []
        self.position = 0
