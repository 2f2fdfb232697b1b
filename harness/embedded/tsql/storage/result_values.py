"""The columns and rows of result sets: SQLite's values become those of T-SQL types."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harness.embedded import utf16
from harness.embedded.sqltypes import BIGINT, FLOAT, INT, MAX, Column, SqlType
from harness.embedded.tsql.storage.conversion import UNICODE, Converter, converter, family
from harness.embedded.tsql.storage.variants import VARIANT, decoded

Rows = Sequence[tuple[Any, ...]]
READABLE = SqlType("nvarchar", length=4000)


def shown(columns: Sequence[Column]) -> list[Column]:
    """The columns as a client gets them: sql_variant is text."""
    return [replace(column, type=READABLE) if column.type == VARIANT else column for column in columns]


def typed(columns: Sequence[Column], rows: Rows) -> list[Column]:
    """The columns, those of unknown type typed by their values."""
    return [
        column if column.type is not None else _observed(column, place, rows) for place, column in enumerate(columns)
    ]


def _observed(column: Column, place: int, rows: Rows) -> Column:
    """A column typed by its values; int if all are NULL, as in SQL Server."""
    value = next((row[place] for row in rows if row[place] is not None), None)
    return Column(column.name, _type_of_value(value), True)


def _type_of_value(value: Any) -> SqlType:
    if isinstance(value, str):
        return SqlType("nvarchar", length=MAX if utf16.length(value) > 4000 else 4000)
    if isinstance(value, bytes):
        return SqlType("varbinary", length=MAX if len(value) > 8000 else 8000)
    if isinstance(value, float):
        return FLOAT
    if isinstance(value, int) and not -(2**31) <= value < 2**31:
        return BIGINT
    return INT


def shaped(columns: Sequence[Column], rows: Rows, text_size_bytes: int = -1) -> Rows:
    """The rows with values of the Python types that `sqltypes` specifies; those of (max) types with so many bytes."""
    shapers = [(place, _shaper(column.type, text_size_bytes)) for place, column in enumerate(columns)]
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


def _shaper(type_: SqlType, text_size_bytes: int) -> Converter | None:
    """The function that completes SQLite's values: decimals are stored as floats, fixed-length text without padding."""
    if text_size_bytes >= 0 and type_.length == MAX:
        size = text_size_bytes // 2 if type_.name in UNICODE else text_size_bytes
        return lambda value: utf16.cut(value, 0, size) if isinstance(value, str) else value[:size]
    if type_ == VARIANT:
        return _as_text
    if family(type_) == "decimal":
        return converter(FLOAT, type_)
    if type_.name in ("char", "nchar"):
        return lambda value: utf16.padded(value, type_.length)
    if family(type_) == "float":
        return float
    return None


def _as_text(variant: str) -> Any:
    type_, value = decoded(variant)
    return converter(type_, READABLE, style=1 if family(type_) == "binary" else 0)(value)
