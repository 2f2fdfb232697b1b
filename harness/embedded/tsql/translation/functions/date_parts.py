"""DATEPART, DATENAME, YEAR, MONTH and DAY: parts of a moment. Weeks begin on Sunday, as where DATEFIRST is 7."""

from calendar import day_name, month_name
from collections.abc import Callable
from datetime import date
from typing import Any

from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import DATETIME2, INT, SqlType
from harness.embedded.tsql.storage.conversion import family
from harness.embedded.tsql.storage.moments import TICKS_A_SECOND, ticks
from harness.embedded.tsql.storage.offsets import UTC_WIDTH, offset_minutes, to_moment
from harness.embedded.tsql.translation.fragments import Fragment
from harness.embedded.tsql.translation.functions.date_functions import TICKS, check_part, moment_of, part_named
from harness.embedded.tsql.translation.functions.kinds import Arguments, Function, Functions
from harness.embedded.tsql.translation.renderer import Renderer

NAME = SqlType("nvarchar", length=30)


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
    "tzoffset": offset_minutes,  # of a datetimeoffset, unlike the others
}
NAMERS: dict[str, Callable[[str], str]] = {
    **{part: lambda moment, read=read: str(read(moment)) for part, read in READERS.items()},  # type: ignore[misc]
    "month": lambda moment: month_name[int(moment[5:7])],
    "weekday": lambda moment: day_name[_day(moment).weekday()],
    "tzoffset": lambda moment: moment[UTC_WIDTH + 1 :],
}


def _part(  # noqa: PLR0917
    renderer: Renderer, function: str, part: str, read: Callable[[str], Any], value: Fragment, result: SqlType
) -> Fragment:
    """A call that reads a part of a value: of its local time, if it has an offset."""
    name = f"{function}_{part}"
    if family(value.type) == "datetimeoffset":
        local = to_moment(DATETIME2)
        name += "_local"
        renderer.function(name, 1, lambda moment: None if moment is None else read(local(moment)))
        return Fragment(f"{name}({value.sql})", result)
    if value.type is not None:
        check_part(part, function, value.type)
    renderer.function(name, 1, lambda moment: None if moment is None else read(moment))
    return Fragment(f"{name}({moment_of(renderer, value).sql})", result)


def _named(function: str, readers: dict[str, Callable[[str], Any]], result: SqlType) -> Function:
    """DATEPART or DATENAME ( part , moment )"""

    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        part, value = part_named(arguments[0].sql, function), arguments[1]
        if part == "tzoffset":
            if family(value.type) != "datetimeoffset":
                raise SqlServerError(9810, part, function, "datetime2" if value.type is None else value.type.name)
            renderer.function(f"{function}_{part}", 1, lambda moment: None if moment is None else readers[part](moment))
            return Fragment(f"{function}_{part}({value.sql})", result)
        return _part(renderer, function, part, readers[part], value, result)

    return Function(2, 2, render, takes_word=True)


def _fixed(part: str) -> Function:
    """YEAR, MONTH or DAY ( moment )"""
    return Function(1, 1, lambda renderer, arguments: _part(renderer, part, part, READERS[part], arguments[0], INT))


FUNCTIONS: Functions = {
    "DATENAME": _named("datename", NAMERS, NAME),
    "DATEPART": _named("datepart", READERS, INT),
    "DAY": _fixed("day"),
    "MONTH": _fixed("month"),
    "YEAR": _fixed("year"),
}
