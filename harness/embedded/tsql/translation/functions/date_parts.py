"""DATEPART, YEAR, MONTH and DAY: parts of a moment. Weeks begin on Sunday, as where DATEFIRST is 7."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import DATETIME2, INT
from harness.embedded.tsql.storage.conversion import family
from harness.embedded.tsql.storage.moments import TICKS_A_SECOND, ticks
from harness.embedded.tsql.storage.offsets import offset_minutes, to_moment
from harness.embedded.tsql.translation.fragments import Fragment
from harness.embedded.tsql.translation.functions.date_functions import TICKS, check_part, moment_of, part_named
from harness.embedded.tsql.translation.functions.kinds import Arguments, Function, Functions
from harness.embedded.tsql.translation.renderer import Renderer


def _day(moment: str) -> date:
    return date.fromisoformat(moment[:10])


def _week(moment: str) -> int:
    """The first week of a year begins on January 1, the others on Sunday."""
    day = _day(moment)
    return (day.timetuple().tm_yday + day.replace(month=1, day=1).isoweekday() % 7 - 1) // 7 + 1


READERS: dict[str, Callable[[str], int]] = {
    "year": lambda moment: int(moment[:4]),
    "quarter": lambda moment: (int(moment[5:7]) + 2) // 3,
    "month": lambda moment: int(moment[5:7]),
    "dayofyear": lambda moment: _day(moment).timetuple().tm_yday,
    "day": lambda moment: int(moment[8:10]),
    "week": _week,
    "weekday": lambda moment: _day(moment).isoweekday() % 7 + 1,
    "hour": lambda moment: ticks(moment) // TICKS["hour"] % 24,
    "minute": lambda moment: ticks(moment) // TICKS["minute"] % 60,
    "second": lambda moment: ticks(moment) // TICKS_A_SECOND % 60,
    "millisecond": lambda moment: ticks(moment) % TICKS_A_SECOND // TICKS["millisecond"],
    "microsecond": lambda moment: ticks(moment) % TICKS_A_SECOND // TICKS["microsecond"],
    "nanosecond": lambda moment: ticks(moment) % TICKS_A_SECOND * 100,
    "iso_week": lambda moment: _day(moment).isocalendar().week,
}


def _part(renderer: Renderer, function: str, part: str, value: Fragment) -> Fragment:
    """A call that reads a part of a value: of its local time, if it has an offset."""
    name, read = f"{function}_{part}", READERS[part]
    if family(value.type) == "datetimeoffset":
        local = to_moment(DATETIME2)
        name += "_local"
        renderer.function(name, 1, lambda moment: None if moment is None else read(local(moment)))
        return Fragment(f"{name}({value.sql})", INT)
    if value.type is not None:
        check_part(part, function, value.type)
    renderer.function(name, 1, lambda moment: None if moment is None else read(moment))
    return Fragment(f"{name}({moment_of(renderer, value).sql})", INT)


def _datepart(renderer: Renderer, arguments: Arguments) -> Fragment:
    """DATEPART ( part , moment )"""
    part, value = part_named(arguments[0].sql, "datepart"), arguments[1]
    if part == "tzoffset":
        if family(value.type) != "datetimeoffset":
            raise SqlServerError(9810, part, "datepart", "datetime2" if value.type is None else value.type.name)
        renderer.function("datepart_tzoffset", 1, lambda moment: None if moment is None else offset_minutes(moment))
        return Fragment(f"datepart_tzoffset({value.sql})", INT)
    return _part(renderer, "datepart", part, value)


def _fixed(part: str) -> Function:
    """YEAR, MONTH or DAY ( moment )"""
    return Function(1, 1, lambda renderer, arguments: _part(renderer, part, part, arguments[0]))


FUNCTIONS: Functions = {
    "DATEPART": Function(2, 2, _datepart, takes_word=True),
    "DAY": _fixed("day"),
    "MONTH": _fixed("month"),
    "YEAR": _fixed("year"),
}
