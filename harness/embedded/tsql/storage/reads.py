"""How queries are read: at once, or by what a server puts in the place of that.

A query that takes long must not stop a server. `server.long_reads` stops it after a while and reads it again in a fork
of the process. In virtual time every query is read at once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol

Rows = list[tuple[Any, ...]]
Pieces = Generator[Rows, None, None]  # of the rows of a query, in order


class ReadTooLong(BaseException):
    """The server stopped a query. No `Exception`, because no statement may take it for its own."""


class Query(Protocol):
    """A query that may be read many times."""

    forks_due: int  # 0, or how many runs until it is tried in place again, because it took long


class Reads:
    """Reads every query at once."""

    def check(self) -> None:
        """Raise `ReadTooLong` if the query that is read now has taken too long; called where rows of views are made."""

    def begin(self, work_ns: int) -> None:
        """Called before a function works on long values for about so many ns: `ReadTooLong` if the query that is read
        now must not take so long."""

    def at_once(self, query: Query, read: Callable[[], Rows]) -> Rows:
        """What `read` returns, and nobody else has run meanwhile; `ReadTooLong` if that takes too long."""
        return read()

    def value(self, query: Query, login: str, read: Callable[[], Any]) -> Any:
        """What `read` returns."""
        return read()

    def rows(
        self, query: Query, login: str, read: Callable[[], Rows], pieces: Callable[[], Pieces]
    ) -> tuple[Rows, Pieces | None]:
        """Rows, and the pieces that follow. `pieces` reads the same as `read`, but not all at once."""
        return read(), None
