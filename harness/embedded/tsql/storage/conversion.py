"""Conversion of values between types: in casts, in assignments, and from SQLite's values to those of result sets.

A cast and an assignment to a variable truncate what is too long; an assignment to a column raises 8152, as in SQL
Server. Text converts to binary as bytes: nvarchar as UTF-16LE, varchar in code page 1252. Integers convert to binary
big-endian.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from math import isfinite
from typing import Any

from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import BIGINT, FLOAT, INT, MAX, Column, SqlType
from harness.embedded.tsql.text.tokens import DIGITS_MAX

Converter = Callable[[Any], Any]
Rows = Sequence[tuple[Any, ...]]

INTEGER_RANGES = {
    "bit": (0, 1),
    "tinyint": (0, 255),
    "smallint": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
}
INTEGER_BYTES = {"bit": 1, "tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}
FLOATS_MAX = {"real": 3.4028234663852886e38, "float": 1.7976931348623157e308}
_EXACT = Context(prec=4 * DIGITS_MAX)  # enough for every value of a type, so that `quantize` never fails
FLOATS = frozenset({"float", "real"})
DECIMALS = frozenset({"decimal", "numeric", "money"})
UNICODE = frozenset({"nchar", "nvarchar"})
ANSI = frozenset({"char", "varchar"})
TEXT = UNICODE | ANSI
BINARY = frozenset({"binary", "varbinary"})
DATES = frozenset({"date", "time", "datetime", "smalldatetime", "datetime2"})
NUMBERS = frozenset(INTEGER_RANGES) | FLOATS | DECIMALS

_HEXADECIMAL = re.compile("[0-9A-Fa-f]*")
_GUID = re.compile(r"\{?([0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})(?:\}|$)")
_MOMENT = re.compile(
    r"\s*(?:(\d{4})-?(\d{2})-?(\d{2}))?(?:(?:T|\s+|^)(\d{1,2}):(\d{2})(?::(\d{2})(?:[.:](\d{1,9}))?)?)?\s*(?:Z|[+-]00:00)?$"
)


def family(type_: SqlType | None) -> str:
    """text, binary, integer, float, decimal, date, uniqueidentifier, or "" if the type is unknown."""
    if type_ is None:
        return ""
    for name, members in _FAMILIES:
        if type_.name in members:
            return name
    return type_.name


_FAMILIES = (
    ("text", TEXT),
    ("binary", BINARY),
    ("integer", frozenset(INTEGER_RANGES)),
    ("float", FLOATS),
    ("decimal", DECIMALS),
    ("date", DATES),
)


def fits(source: SqlType | None, target: SqlType) -> bool:
    """Whether every value of `source` is a value of `target` without conversion."""
    if source is None:
        return False
    if source == target:
        return target.name not in ("char", "nchar", "binary")
    if source.name in INTEGER_RANGES and target.name in INTEGER_RANGES:
        low, high = INTEGER_RANGES[source.name]
        return INTEGER_RANGES[target.name][0] <= low and high <= INTEGER_RANGES[target.name][1]
    same = (source.name in TEXT and target.name in ("varchar", "nvarchar")) or (
        source.name in BINARY and target.name == "varbinary"
    )
    if not same or (source.name in UNICODE and target.name in ANSI):
        return False
    return target.length == MAX or (source.length != MAX and 0 < source.length <= target.length)


@lru_cache(maxsize=4096)
def converter(source: SqlType | None, target: SqlType, *, strict: bool = False, style: int = 0) -> Converter:
    """The function that converts to `target`; a strict one raises 8152 where a cast would truncate."""
    if source is not None and source.name in BINARY and target.name in INTEGER_RANGES and target.name != "bit":
        return _from_binary(target)  # always within the range
    make = _MAKERS[family(target)](source, target, strict, style)

    def convert(value: Any) -> Any:
        return None if value is None else make(value)

    return convert


def convert(value: Any, source: SqlType | None, target: SqlType) -> Any:
    return converter(source, target)(value)


# -- text --------------------------------------------------------------------------------------------------------------


def _to_text(source: SqlType | None, target: SqlType, strict: bool, style: int) -> Converter:
    limit, padded = target.length, target.name in ("char", "nchar")
    encoding = "utf-16-le" if target.name in UNICODE else "cp1252"

    def make(value: Any) -> str:
        if isinstance(value, bytes):
            text = _binary_as_text(value, encoding, style)
        else:
            text = value if isinstance(value, str) else _format(value, source)
            if family(source) == "date" and style:
                text = _styled(text, style)
        if limit != MAX and len(text) > limit:
            if strict and text[limit:].strip(" "):
                raise SqlServerError(8152)
            text = text[:limit]
        return text.ljust(limit) if padded else text

    return make


def _binary_as_text(value: bytes, encoding: str, style: int) -> str:
    if style in (1, 2):
        return ("0x" if style == 1 else "") + value.hex().upper()
    return value.decode(encoding, "replace")


def _format(value: Any, source: SqlType | None) -> str:
    if isinstance(value, float):
        if source is not None and source.name in DECIMALS:
            return f"{value:.{source.scale}f}"
        return f"{value:.6g}"
    return str(value)


# CONVERT's styles for dates: https://learn.microsoft.com/sql/t-sql/functions/cast-and-convert-transact-sql
def _styled(text: str, style: int) -> str:
    day, _, clock = text.partition(" ")
    formats = {
        112: day.replace("-", ""),
        23: day,
        108: clock[:8],
        114: clock[:12],
        120: text[:19],
        20: text[:19],
        121: text,
        21: text,
        126: f"{day}T{clock}",
        127: f"{day}T{clock}Z",
    }
    if style not in formats:
        raise SqlServerError(281, style, "datetime")
    return formats[style]


# -- binary ------------------------------------------------------------------------------------------------------------


def _to_binary(source: SqlType | None, target: SqlType, strict: bool, style: int) -> Converter:
    limit, padded = target.length, target.name == "binary"
    encoding = "cp1252" if source is not None and source.name in ANSI else "utf-16-le"
    width = INTEGER_BYTES.get(source.name, 8) if source is not None else 4

    def make(value: Any) -> bytes:
        if isinstance(value, bytes):
            data = value
        elif isinstance(value, str):
            data = _text_as_binary(value, source, encoding, style)
        elif isinstance(value, int):
            data = (value % (1 << (8 * width))).to_bytes(width, "big")
            if limit != MAX and limit < width:
                return data[width - limit :]
            return data.rjust(limit, b"\0") if padded else data
        else:
            raise SqlServerError(529, source.name if source else "float", target.name)
        if limit != MAX and len(data) > limit:
            if strict:
                raise SqlServerError(8152)
            data = data[:limit]
        return data.ljust(limit, b"\0") if padded else data

    return make


def _text_as_binary(value: str, source: SqlType | None, encoding: str, style: int) -> bytes:
    if source is not None and source.name == "uniqueidentifier":
        return guid_bytes(value)
    if style in (1, 2):
        digits = value[2:] if style == 1 else value
        if (style == 1 and value[:2].lower() != "0x") or len(digits) % 2 or not _HEXADECIMAL.fullmatch(digits):
            raise SqlServerError(8114, source.name if source is not None else "varchar", "varbinary")
        return bytes.fromhex(digits)
    return value.encode(encoding, "replace")


def guid_bytes(text: str) -> bytes:
    """The bytes of a uniqueidentifier as SQL Server stores them: the first three groups little-endian."""
    raw = bytes.fromhex(text.replace("-", ""))
    return raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]


def guid_text(data: bytes) -> str:
    raw = data[:16].ljust(16, b"\0")
    digits = (raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]).hex().upper()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


# -- numbers -----------------------------------------------------------------------------------------------------------


def _from_binary(target: SqlType) -> Converter:
    """Read the last bytes of a binary; fewer than the type has are unsigned. One function: it runs for every row."""
    width = INTEGER_BYTES[target.name]
    is_signed = target.name not in ("bit", "tinyint")
    from_bytes = int.from_bytes

    def from_binary(value: bytes | None) -> int | None:
        if value is None:
            return None
        if len(value) < width:
            return from_bytes(value, "big")
        return from_bytes(value[-width:], "big", signed=is_signed)

    return from_binary


def _to_integer(source: SqlType | None, target: SqlType, strict: bool, style: int) -> Converter:
    low, high = INTEGER_RANGES[target.name]
    from_binary = _from_binary(target)

    def make(value: Any) -> int:
        if isinstance(value, bytes):
            number: int = from_binary(value)
        elif isinstance(value, str):
            number = _integer_from_text(value, target)
        elif isinstance(value, float) and not isfinite(value):
            raise SqlServerError(232, target.name, value)
        else:
            number = int(value)
        if target.name == "bit":
            return int(bool(value if isinstance(value, float | Decimal) else number))
        if not low <= number <= high:
            raise _overflow(value, source, target)
        return number

    return make


# As the errors 244 call the types
_COLUMN_NAMES = {"tinyint": "INT1", "smallint": "INT2"}


def _overflow(value: Any, source: SqlType | None, target: SqlType) -> SqlServerError:
    """The error for a value beyond the range of an integer type, which depends on the type that it has."""
    if isinstance(value, str) and target.name != "bigint":
        shown = (source.name if source is not None else "nvarchar", value.strip()[:100])
        return (
            SqlServerError(248, *shown)
            if target.name == "int"
            else SqlServerError(244, *shown, _COLUMN_NAMES[target.name])
        )
    if isinstance(value, float) and family(source) != "decimal":
        return SqlServerError(232, target.name, f"{value:f}")
    if isinstance(value, int) and target.name in _COLUMN_NAMES and -(2**31) <= value < 2**31:
        return SqlServerError(220, target.name, value)
    return SqlServerError(8115, target.name)


def _integer_from_text(value: str, target: SqlType) -> int:
    text = value.strip()
    if target.name == "bit" and text.lower() in ("true", "false"):
        return int(text.lower() == "true")
    if text == "":
        return 0
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise SqlServerError(245, value[:100], target.name)
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > DIGITS_MAX:  # beyond every type, and int() refuses thousands of digits
        digits = digits[:DIGITS_MAX]
    return -int(digits or "0") if text[0] == "-" else int(digits or "0")


def _to_float(source: SqlType | None, target: SqlType, strict: bool, style: int) -> Converter:
    bound = FLOATS_MAX[target.name]

    def make(value: Any) -> float:
        if isinstance(value, str):
            value = _number_text(value, source, target)
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise SqlServerError(8114, source.name if source else "nvarchar", target.name) from None
        if not abs(number) <= bound:
            raise SqlServerError(8115, target.name)
        return number

    return make


_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")


def _number_text(value: str, source: SqlType | None, target: SqlType) -> str:
    """The text of a number without the spaces around it; Python's `inf`, `nan` and `1_0` are none."""
    text = value.strip()
    if _NUMBER.fullmatch(text) is None:
        raise SqlServerError(8114, source.name if source else "nvarchar", target.name)
    return text


def _to_decimal(source: SqlType | None, target: SqlType, strict: bool, style: int) -> Converter:
    quantum = Decimal(1).scaleb(-target.scale)
    bound = Decimal(10) ** (target.precision - target.scale)

    def make(value: Any) -> Decimal:
        if isinstance(value, bytes):
            raise SqlServerError(8114, source.name if source else "varbinary", target.name)
        number = Decimal(_number_text(value, source, target) if isinstance(value, str) else str(value))
        if not number.is_finite() or number.adjusted() > DIGITS_MAX:
            raise SqlServerError(8115, target.name)
        number = number.quantize(quantum, ROUND_HALF_UP, _EXACT)
        if abs(number) >= bound:
            raise SqlServerError(8115, target.name)
        return number

    return make


# -- moments and identifiers ------------------------------------------------------------------------------------------
# Moments are text in SQLite, and computed in ticks of 100 nanoseconds.

TICKS_A_SECOND = 10_000_000
SECONDS_A_DAY = 86_400
TICKS_A_DAY = SECONDS_A_DAY * TICKS_A_SECOND
EPOCH_DAYS = date(1970, 1, 1).toordinal()


@lru_cache(maxsize=1024)
def _second_ticks(text: str) -> int:
    total = date.fromisoformat(text[:10]).toordinal() * TICKS_A_DAY
    if len(text) > 10:
        total += (int(text[11:13]) * 3600 + int(text[14:16]) * 60 + int(text[17:19])) * TICKS_A_SECOND
    return total


@lru_cache(maxsize=1024)  # all rows of a statement have the same moment
def ticks(text: str) -> int:
    """Count the ticks since the day before 0001-01-01 of `YYYY-MM-DD[ hh:mm:ss[.fffffff]]`."""
    whole = _second_ticks(text[:19])
    return whole + int(text[20:27].ljust(7, "0")) if len(text) > 20 else whole


def moment_text(total: int) -> str:
    """Format ticks as `YYYY-MM-DD hh:mm:ss.fffffff`, of which every date type is a part."""
    seconds, fraction = divmod(total, TICKS_A_SECOND)
    return f"{_second(seconds)}.{fraction:07}"


@lru_cache(maxsize=1024)
def _second(total_s: int) -> str:
    days, seconds = divmod(total_s, SECONDS_A_DAY)
    try:
        day = date.fromordinal(days).isoformat()
    except (ValueError, OverflowError):
        raise SqlServerError(517, "datetime2") from None
    return f"{day} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def from_utc_ns(utc_ns: int) -> str:
    """Format nanoseconds since 1970 as datetime2(7)."""
    return moment_text(EPOCH_DAYS * TICKS_A_DAY + utc_ns // 100)


def datetime_from_utc_ns(utc_ns: int | None) -> str | None:
    """Format nanoseconds since 1970 as datetime, with milliseconds."""
    return None if utc_ns is None else from_utc_ns(utc_ns)[:23]


def _to_date(source: SqlType | None, target: SqlType, strict: bool, style: int) -> Converter:
    def make(value: Any) -> str:
        match = _MOMENT.match(value) if isinstance(value, str) else None
        if match is None:
            raise SqlServerError(241)
        year, month, day, hour, minute, second, fraction = match.groups()
        day_text = f"{year or '1900'}-{month or '01'}-{day or '01'}"
        if not _is_moment(day_text, int(hour or 0), int(minute or 0), int(second or 0)):
            raise SqlServerError(242)
        clock = f"{int(hour or 0):02}:{minute or '00'}:{second or '00'}"
        digits = (fraction or "").ljust(9, "0")
        return _clipped(day_text, clock, digits, target)

    return make


def _is_moment(day: str, hour: int, minute: int, second: int) -> bool:
    try:
        date.fromisoformat(day)
    except ValueError:
        return False
    return hour < 24 and minute < 60 and second < 60


def _clipped(day: str, clock: str, digits: str, target: SqlType) -> str:
    if target.name == "date":
        return day
    if target.name == "smalldatetime":
        return f"{day} {clock[:5]}:00"
    scale = 3 if target.name == "datetime" else target.scale
    moment = f"{clock}.{digits[:scale]}" if scale else clock
    return moment if target.name == "time" else f"{day} {moment}"


def _to_guid(source: SqlType | None, target: SqlType, strict: bool, style: int) -> Converter:
    def make(value: Any) -> str:
        if isinstance(value, bytes):
            return guid_text(value)
        match = _GUID.match(value) if isinstance(value, str) else None
        if match is None:
            raise SqlServerError(8169)
        return match[1].upper()

    return make


_MAKERS: dict[str, Callable[[SqlType | None, SqlType, bool, int], Converter]] = {
    "text": _to_text,
    "binary": _to_binary,
    "integer": _to_integer,
    "float": _to_float,
    "decimal": _to_decimal,
    "date": _to_date,
    "uniqueidentifier": _to_guid,
}


# -- result sets -------------------------------------------------------------------------------------------------------


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


def _shaper(type_: SqlType) -> Converter | None:
    """The function that completes SQLite's values: decimals are stored as floats, fixed-length text without padding."""
    if family(type_) == "decimal":
        exact = _to_decimal(FLOAT, type_, False, 0)
        return lambda value: exact(float(value))
    if type_.name in ("char", "nchar"):
        return lambda value: value.ljust(type_.length)
    if family(type_) == "float":
        return float
    return None
