"""Parameters of an RPC, and the sink that takes results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from harness.embedded.sqltypes import Column, SqlType


class Parameter(NamedTuple):
    """A parameter of an RPC; `name` is "" when it is passed by position, and begins with @ otherwise."""

    name: str
    type: SqlType
    value: Any
    output: bool


class ResultSink(Protocol):
    """Takes results for the client, in order.

    A result set is `columns`, any number of `rows`, `done`. `done` alone says how many rows a statement touched; it is
    not called for statements that count nothing. The end of a batch or RPC is the end of `ClientSession.batch` or
    `ClientSession.rpc` and has no call of its own.
    """

    def columns(self, columns: Sequence[Column]) -> None: ...

    def rows(self, rows: Sequence[Sequence[Any]]) -> None: ...

    def done(self, row_count: int | None, *, in_procedure: bool) -> None:
        """The end of a statement; `row_count` None: not counted (NOCOUNT)."""
        ...

    def message(self, number: int, severity: int, state: int, text: str, procedure: str, line: int) -> None:  # noqa: PLR0917
        """PRINT, RAISERROR and errors; up to severity 10 it is information, above that an error."""
        ...

    def return_status(self, value: int) -> None: ...

    def return_value(self, ordinal: int, name: str, type: SqlType, value: Any) -> None: ...

    def database_changed(self, old: str, new: str) -> None: ...


class DiscardedResults:
    """A sink that discards everything; subclasses keep what they need."""

    def columns(self, columns: Sequence[Column]) -> None:
        pass

    def rows(self, rows: Sequence[Sequence[Any]]) -> None:
        pass

    def done(self, row_count: int | None, *, in_procedure: bool) -> None:
        pass

    def message(self, number: int, severity: int, state: int, text: str, procedure: str, line: int) -> None:  # noqa: PLR0917
        pass

    def return_status(self, value: int) -> None:
        pass

    def return_value(self, ordinal: int, name: str, type: SqlType, value: Any) -> None:
        pass

    def database_changed(self, old: str, new: str) -> None:
        pass
