"""datetimeoffset: moments with an offset, compared in UTC and shown where the offset holds.

In SQLite a value is the moment in UTC with all digits, which sorts, and then the offset.
"""

import re
from collections.abc import Callable
from typing import Any

from harness.embedded.errors import UNSUPPORTED, SqlServerError
from harness.embedded.sqltypes import DATETIME2, SqlType
from harness.embedded.tsql.storage import moments
from harness.embedded.tsql.storage.moments import TICKS_A_MINUTE, ticks

UTC_WIDTH = len("YYYY-MM-DD hh:mm:ss.fffffff")
MINUTES_MAX = 14 * 60
SHOWN_STYLES = frozenset({0, 120, 121, 126})
_OFFSET = re.compile(r"(?:Z|([+-])(\d{2}):(\d{2}))\Z", re.ASCII)


def by_utc(first: str, other: str) -> int:
    """Compare two values: the same moment is equal whatever its offset."""
    left, right = first[:UTC_WIDTH], other[:UTC_WIDTH]
    return (left > right) - (left < right)


def _offset_ticks(value: str) -> int:
    sign = -1 if value[UTC_WIDTH + 1] == "-" else 1
    minutes = int(value[UTC_WIDTH + 2 : UTC_WIDTH + 4]) * 60 + int(value[UTC_WIDTH + 5 :])
    return sign * minutes * TICKS_A_MINUTE


def _local_ticks(value: str) -> int:
    return ticks(value[:UTC_WIDTH]) + _offset_ticks(value)


def _value(utc: int, offset: str, scale: int) -> str:
    return moments.of_type(utc, SqlType("datetime2", scale=scale)).ljust(20, ".").ljust(UTC_WIDTH, "0") + offset


def moved(value: str, move: Callable[[str], str], scale: int) -> str:
    """The value whose local time is that of another one after a move; the offset stays."""
    local = ticks(move(moments.moment_text(_local_ticks(value))))
    return _value(local - _offset_ticks(value), value[UTC_WIDTH:], scale)


def offset_minutes(value: str) -> int:
    return _offset_ticks(value) // TICKS_A_MINUTE


def switched(value: str, offset: str | int) -> str:
    """The same moment with another offset, `+hh:mm` or minutes; 9812 if there is no such offset."""
    if isinstance(offset, str):
        match = _OFFSET.fullmatch(offset.strip())
        if match is None or match[1] is None or int(match[3]) > 59:
            raise SqlServerError(9812, "switchoffset")
        offset = (int(match[2]) * 60 + int(match[3])) * (-1 if match[1] == "-" else 1)
    if abs(offset) > MINUTES_MAX:
        raise SqlServerError(9812, "switchoffset")
    hours, minutes = divmod(abs(offset), 60)
    return f"{value[:UTC_WIDTH]} {'-' if offset < 0 else '+'}{hours:02}:{minutes:02}"


def as_text(source: SqlType, style: int) -> Callable[[str], str]:
    """The function that formats values, with as many digits of a second as the type has."""
    local = SqlType("datetime2", scale=source.scale)
    style = moments.SAME_STYLES.get(style, style)
    if style not in SHOWN_STYLES:
        raise SqlServerError(UNSUPPORTED, f"CONVERT of {source.name} with style {style}")
    formatted = moments.as_text(local, style)

    def format_both(value: str) -> str:
        offset = value[UTC_WIDTH:]
        return formatted(moments.of_type(_local_ticks(value), local)) + (offset.strip() if style == 126 else offset)

    return format_both


def to_moment(target: SqlType) -> Callable[[str], str]:
    """The function that converts to another type of moments: the local time, without the offset."""
    return lambda value: moments.of_type(_local_ticks(value), target)


def conversion(source: SqlType | None, target: SqlType) -> Callable[[Any], str]:
    """The function that converts to datetimeoffset. Text without an offset and moments of other types have +00:00."""
    kind = source.name if source is not None else "varchar"
    is_text = kind in ("varchar", "char", "nvarchar", "nchar")
    to_moment = moments.conversion(source, DATETIME2) if kind != "datetimeoffset" else None

    def make(value: Any) -> str:
        if isinstance(value, bytes):
            utc_ticks, offset_min = moments.from_bytes(value, target.name)
            return switched(_value(utc_ticks, " +00:00", target.scale), offset_min)
        if to_moment is None:
            return _value(ticks(value[:UTC_WIDTH]), value[UTC_WIDTH:], target.scale)
        match = _OFFSET.search(value.strip()) if is_text and isinstance(value, str) else None
        if match is None:
            return _value(ticks(to_moment(value)), " +00:00", target.scale)
        sign, hours, minutes = match.groups(default="")
        offset = int(hours or 0) * 60 + int(minutes or 0)
        if offset > MINUTES_MAX or int(minutes or 0) > 59:
            raise SqlServerError(241)
        local = ticks(to_moment(value.strip()[: match.start()]))
        utc = local + (offset if sign == "-" else -offset) * TICKS_A_MINUTE
        return _value(utc, f" {sign or '+'}{hours or '00'}:{minutes or '00'}", target.scale)

    return make
