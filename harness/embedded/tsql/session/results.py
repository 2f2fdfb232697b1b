"""Results for the client: the sink that takes them, and the types and values of result sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Protocol

from harness.embedded.sqltypes import BIGINT, FLOAT, INT, MAX, Column, SqlType
from harness.embedded.tsql.storage.conversion import family

Rows = Sequence[tuple[Any, ...]]


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


# -- result sets -------------------------------------------------------------------------------------------------------


def typed(columns: Sequence[Column], rows: Rows) -> list[Column]:
    """The columns, those of unknown type typed by their values."""
    return [
        column if column.type is not None else _observed(column, place, rows) for place, column in enumerate(columns)
    ]


def _observed(column: Column, place: int, rows: Rows) -> Column:
    """A column typed by its values; int if all are NULL, as in SQL Server."""
    value = next((row[place] for row in rows if row[place] is not None), None)
    return Column(column.name, type_of_value(value), True)


def type_of_value(value: Any) -> SqlType:
    if isinstance(value, str):
        return SqlType("nvarchar", length=MAX if len(value) > 4000 else 4000)
    if isinstance(value, bytes):
        return SqlType("varbinary", length=MAX if len(value) > 8000 else 8000)
    if isinstance(value, float):
        return FLOAT
    if isinstance(value, int) and not -(2**31) <= value < 2**31:
        return BIGINT
    return INT


def shaped(columns: Sequence[Column], rows: Rows) -> Rows:
    """The rows with values of the Python types that `sqltypes` specifies."""
    shapers = [(place, _shaper(column.type)) for place, column in enumerate(columns)]
    needed = [(place, shape) for place, shape in shapers if shape is not None]
    if not needed:
        return rows
    shaped = []
    for row in rows:
        values = list(row)
        for place, shape in needed:
            if values[place] is not None:
                values[place] = shape(values[place])
        shaped.append(tuple(values))
    return shaped


def _shaper(type_: SqlType) -> Callable[[Any], Any] | None:
    """The function that completes SQLite's values: decimals are stored as floats, fixed-length text without padding."""
    if family(type_) == "decimal":
        quantum = Decimal(1).scaleb(-type_.scale)
        return lambda value: Decimal(repr(value)).quantize(quantum)
    if type_.name in ("char", "nchar"):
        return lambda value: value.ljust(type_.length)
    if family(type_) == "float":
        return float
    return None
