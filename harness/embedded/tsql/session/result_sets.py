"""Result sets for the client: columns get types, values the Python types that `sqltypes` specifies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from harness.embedded.sqltypes import BIGINT, FLOAT, INT, MAX, Column, SqlType
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.storage.conversion import family

Rows = Sequence[tuple[Any, ...]]


def send(frame: Frame, columns: Sequence[Column], rows: Rows) -> None:
    """Send a result set."""
    session = frame.session
    typed = [
        column if column.type is not None else _observed(column, place, rows) for place, column in enumerate(columns)
    ]
    if session.options.fmtonly:
        rows = ()
    session.row_count = len(rows)
    sink = frame.sink
    sink.columns(typed)
    if rows:
        sink.rows(_shaped(typed, rows))
    sink.done(None if session.options.nocount else len(rows), in_procedure=frame.depth > 0)


def count(frame: Frame, touched: int) -> None:
    """End a statement that only counts rows."""
    session = frame.session
    session.row_count = touched
    if not session.options.nocount:
        frame.sink.done(touched, in_procedure=frame.depth > 0)


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


def _shaped(columns: Sequence[Column], rows: Rows) -> Rows:
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
