"""DATEDIFF, DATEDIFF_BIG, DATEADD and SWITCHOFFSET."""

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import BIGINT, DATETIME, DATETIME2, INT, SqlType
from harness.embedded.tsql.storage.conversion import family
from harness.embedded.tsql.storage.moments import DATETIMES, TICKS_A_DAY, TICKS_A_SECOND, of_type, ticks
from harness.embedded.tsql.storage.offsets import UTC_WIDTH, moved, switched
from harness.embedded.tsql.translation.fragments import Fragment
from harness.embedded.tsql.translation.functions.kinds import Arguments, Function, Functions, Render
from harness.embedded.tsql.translation.renderer import Renderer

PARTS = {
    "year": "year yy yyyy",
    "quarter": "quarter qq q",
    "month": "month mm m",
    "dayofyear": "dayofyear dy y",
    "day": "day dd d",
    "week": "week wk ww",
    "weekday": "weekday dw w",
    "hour": "hour hh",
    "minute": "minute mi n",
    "second": "second ss s",
    "millisecond": "millisecond ms",
    "microsecond": "microsecond mcs",
    "nanosecond": "nanosecond ns",
    "iso_week": "iso_week isowk isoww",
    "tzoffset": "tzoffset tz",
}
_NAMES = {name: part for part, names in PARTS.items() for name in names.split()}
TICKS = {
    "week": 7 * TICKS_A_DAY,
    "day": TICKS_A_DAY,
    "hour": 3600 * TICKS_A_SECOND,
    "minute": 60 * TICKS_A_SECOND,
    "second": TICKS_A_SECOND,
    "millisecond": TICKS_A_SECOND // 1000,
    "microsecond": 10,
}
PARTS_OF_CLOCKS = frozenset({"hour", "minute", "second", "millisecond", "microsecond", "nanosecond"})
MONTHS = {"year": 12, "quarter": 3, "month": 1}


def part_named(name: str, function: str) -> str:
    """The date part that a name means; 155 if the function has none of that name."""
    part = _NAMES.get(name.lower())
    if part is None or (part in ("iso_week", "tzoffset") and function in ("dateadd", "datediff")):
        raise SqlServerError(155, name, function)
    return part


def check_part(part: str, function: str, type_: SqlType) -> None:
    """Raise 9810 if moments of a type do not have a part."""
    if (type_.name == "date" and part in PARTS_OF_CLOCKS) or (type_.name == "time" and part not in PARTS_OF_CLOCKS):
        raise SqlServerError(9810, part, function, type_.name)


def _difference(name: str, result: SqlType) -> Callable[..., Any]:
    """DATEDIFF counts the boundaries between two moments. Overflow is error 535."""
    limit = 2**31 if result.name == "int" else 2**63
    count = _months if name in MONTHS else ticks
    factor, size = (100, 1) if name == "nanosecond" else (1, MONTHS.get(name) or TICKS.get(name, TICKS_A_DAY))

    def difference(start: Any, end: Any) -> int | None:
        if start is None or end is None:
            return None
        borders = count(end) * factor // size - count(start) * factor // size
        if not -limit <= borders < limit:
            raise SqlServerError(535, "datediff")
        return borders

    return difference


def _months(moment: str) -> int:
    return int(moment[:4]) * 12 + int(moment[5:7]) - 1


def _addition(name: str, result: SqlType) -> Callable[..., Any]:
    months = MONTHS.get(name)

    def addition(number: Any, moment: Any) -> str | None:
        if number is None or moment is None:
            return None
        number = int(number)
        if months is not None:
            return of_type(ticks(_add_months(moment, number * months)), result)
        if name == "nanosecond":
            return of_type(ticks(moment) + (number + 50) // 100, result)
        return of_type(ticks(moment) + number * TICKS.get(name, TICKS_A_DAY), result)

    return addition


def _addition_with_offset(name: str, result: SqlType) -> Callable[..., Any]:
    add = _addition(name, DATETIME2)

    def addition(number: Any, value: Any) -> str | None:
        if number is None or value is None:
            return None
        return moved(value, lambda local: add(number, local), result.scale)

    return addition


def _add_months(moment: str, months: int) -> str:
    total = _months(moment) + months
    year, month = divmod(total, 12)
    try:
        first = date(year, month + 1, 1)
    except (ValueError, OverflowError):
        raise SqlServerError(517, "datetime2") from None
    last = (first.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)
    return first.replace(day=min(int(moment[8:10]), last.day)).isoformat() + moment[10:]


def _datediff(result: SqlType) -> Render:
    """DATEDIFF or DATEDIFF_BIG ( part , start , end )"""

    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        part = part_named(arguments[0].sql, "datediff")
        start, end = (moment_of(renderer, value) for value in arguments[1:])
        name = f"datediff_{part}_{result.name}"
        renderer.function(name, 2, _difference(part, result))
        return Fragment(f"{name}({start.sql}, {end.sql})", result)

    return render


def _dateadd(renderer: Renderer, arguments: Arguments) -> Fragment:
    """DATEADD ( part , number , moment )"""
    part, (number, moment) = part_named(arguments[0].sql, "dateadd"), arguments[1:]
    kind = family(moment.type)
    result = moment.type if moment.type is not None and kind in ("date", "datetimeoffset") else DATETIME
    check_part(part, "dateadd", result)
    if result.name in DATETIMES and part in ("microsecond", "nanosecond"):
        raise SqlServerError(9810, part, "dateadd", result.name)
    name = f"dateadd_{part}_{result.name}_{result.scale}"
    if kind == "datetimeoffset":
        renderer.function(name, 2, _addition_with_offset(part, result))
        return Fragment(f"{name}({number.sql}, {moment.sql})", result)
    renderer.function(name, 2, _addition(part, result))
    return Fragment(f"{name}({number.sql}, {moment_of(renderer, moment).sql})", result)


def _switchoffset(renderer: Renderer, arguments: Arguments) -> Fragment:
    """SWITCHOFFSET ( datetimeoffset , offset )"""
    value, offset = arguments
    if family(value.type) != "datetimeoffset":
        value = renderer.cast(value, SqlType("datetimeoffset", scale=7))
    renderer.function("switchoffset", 2, lambda moment, to: None if None in (moment, to) else switched(moment, to))
    return Fragment(f"switchoffset({value.sql}, {offset.sql})", value.type)


def moment_of(renderer: Renderer, value: Fragment) -> Fragment:
    if family(value.type) == "datetimeoffset":  # the moment in UTC, whose boundaries DATEDIFF counts
        return Fragment(f"substr({value.sql}, 1, {UTC_WIDTH})", DATETIME2)
    if value.type is not None and family(value.type) == "date" and value.type.name != "time":
        return value
    # A number is one of days since 1900, as datetime has it and datetime2 has not.
    return renderer.cast(
        value, DATETIME if family(value.type) in ("integer", "float", "decimal") else SqlType("datetime2", scale=7)
    )


FUNCTIONS: Functions = {
    "DATEADD": Function(3, 3, _dateadd, takes_word=True),
    "DATEDIFF": Function(3, 3, _datediff(INT), takes_word=True),
    "DATEDIFF_BIG": Function(3, 3, _datediff(BIGINT), takes_word=True),
    "SWITCHOFFSET": Function(2, 2, _switchoffset),
}
