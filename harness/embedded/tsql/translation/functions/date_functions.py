"""DATEDIFF, DATEADD, DATEPART and the like."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import BIGINT, INT, SqlType
from harness.embedded.tsql.storage.conversion import TICKS_A_DAY, TICKS_A_SECOND, converter, family, moment_text, ticks
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
MONTHS = {"year": 12, "quarter": 3, "month": 1}


def _part_named(name: str) -> str:
    """The date part that a name means; 155 if there is none."""
    try:
        return _NAMES[name.lower()]
    except KeyError:
        raise SqlServerError(155, name, "datediff") from None


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
    clip = converter(None, result)
    months = MONTHS.get(name)

    def addition(number: Any, moment: Any) -> str | None:
        if number is None or moment is None:
            return None
        number = int(number)
        if months is not None:
            return str(clip(_add_months(moment, number * months)))
        if name == "nanosecond":
            return str(clip(moment_text(ticks(moment) + number // 100)))
        return str(clip(moment_text(ticks(moment) + number * TICKS.get(name, TICKS_A_DAY))))

    return addition


def _add_months(moment: str, months: int) -> str:
    total = _months(moment) + months
    year, month = divmod(total, 12)
    try:
        first = date(year, month + 1, 1)
    except ValueError:
        raise SqlServerError(517, "datetime2") from None
    last = (first.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)
    return first.replace(day=min(int(moment[8:10]), last.day)).isoformat() + moment[10:]


def _part(name: str, result: SqlType) -> Callable[..., Any]:
    def value(moment: Any) -> int | None:
        return None if moment is None else _READ[name](moment)

    return value


def _day(moment: str) -> date:
    return date.fromisoformat(moment[:10])


_READ: dict[str, Callable[[str], int]] = {
    "year": lambda moment: int(moment[:4]),
    "quarter": lambda moment: (int(moment[5:7]) + 2) // 3,
    "month": lambda moment: int(moment[5:7]),
    "dayofyear": lambda moment: _day(moment).timetuple().tm_yday,
    "day": lambda moment: int(moment[8:10]),
    "week": lambda moment: (_day(moment).timetuple().tm_yday + date(int(moment[:4]), 1, 1).isoweekday() % 7 + 6) // 7,
    "weekday": lambda moment: _day(moment).isoweekday() % 7 + 1,
    "hour": lambda moment: int(moment[11:13] or 0),
    "minute": lambda moment: int(moment[14:16] or 0),
    "second": lambda moment: int(moment[17:19] or 0),
    "millisecond": lambda moment: ticks(moment) % TICKS_A_SECOND // 10_000,
    "microsecond": lambda moment: ticks(moment) % TICKS_A_SECOND // 10,
    "nanosecond": lambda moment: ticks(moment) % TICKS_A_SECOND * 100,
}


_MAKERS: dict[str, Callable[[str, SqlType], Callable[..., Any]]] = {
    "datediff": _difference,
    "datediff_big": _difference,
    "dateadd": _addition,
    "datepart": _part,
}


def _date_function(kind: str) -> Render:
    """DATEDIFF, DATEDIFF_BIG, DATEADD, DATEPART, whose first argument names a date part."""

    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        part = _part_named(arguments[0].sql)
        moments = arguments[2:] if kind == "dateadd" else arguments[1:]
        values = [*arguments[1 : len(arguments) - len(moments)], *(_moment(renderer, moment) for moment in moments)]
        result = {"datediff": INT, "datediff_big": BIGINT, "datepart": INT}.get(kind)
        if result is None:
            result = arguments[2].type if family(arguments[2].type) == "date" else SqlType("datetime")
        assert result is not None
        name = f"{kind}_{part}_{result.name}"
        renderer.function(name, len(values), _MAKERS[kind](part, result))
        return Fragment(f"{name}({', '.join(value.sql for value in values)})", result)

    return render


def _moment(renderer: Renderer, value: Fragment) -> Fragment:
    return value if family(value.type) == "date" else renderer.cast(value, SqlType("datetime2", scale=7))


def _part_of_date(part: str) -> Render:
    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        return _date_function("datepart")(renderer, [Fragment(part, None), *arguments])

    return render


FUNCTIONS: Functions = {
    "DATEADD": Function(3, 3, _date_function("dateadd"), takes_word=True),
    "DATEDIFF": Function(3, 3, _date_function("datediff"), takes_word=True),
    "DATEDIFF_BIG": Function(3, 3, _date_function("datediff_big"), takes_word=True),
    "DATEPART": Function(2, 2, _date_function("datepart"), takes_word=True),
    "DAY": Function(1, 1, _part_of_date("day")),
    "MONTH": Function(1, 1, _part_of_date("month")),
    "YEAR": Function(1, 1, _part_of_date("year")),
}
