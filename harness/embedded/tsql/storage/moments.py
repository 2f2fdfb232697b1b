"""Moments: the values of date, time, datetime, smalldatetime and datetime2.

In SQLite they are text, which sorts as moments do. They are computed in ticks of 100 nanoseconds.
"""

import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from functools import lru_cache
from typing import Any

from harness.embedded.errors import UNSUPPORTED, SqlServerError
from harness.embedded.sqltypes import SqlType

TICKS_A_SECOND = 10_000_000
SECONDS_A_DAY = 86_400
TICKS_A_DAY = SECONDS_A_DAY * TICKS_A_SECOND
TICKS_A_MINUTE = 60 * TICKS_A_SECOND
EPOCH_DAYS = date(1970, 1, 1).toordinal()
DAY_ZERO = date(1900, 1, 1).toordinal()  # the number 0 as a datetime

DATETIMES = frozenset({"datetime", "smalldatetime"})
FIRST_DAYS = {"datetime": date(1753, 1, 1).toordinal(), "smalldatetime": DAY_ZERO}
LAST_DAYS = {"smalldatetime": date(2079, 6, 6).toordinal()}

_TEXT = re.compile(
    r"\s*(?:(\d{4})(\d{2})(\d{2})|(\d{4})([-/.])(\d{1,2})\5(\d{1,2})|(\d{1,2})([-/.])(\d{1,2})\9(\d{4}))?"
    r"(?:(?:T|\s+|^)(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:([.:])(\d{1,9}))?)?|(?=\s*[AP]M))(?:\s*([AP]M))?)?"
    r"\s*(?:Z|[+-]00:00)?$",
    re.ASCII | re.IGNORECASE,
)
# The day in words: a month, and numbers before, between or behind.
_WORDS = re.compile(
    r"\s*((?:\d{1,4}[\s,-]+){0,2})"
    r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:tember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)(?![a-z])"
    r"((?:[\s,-]+\d{1,4}(?![\d:]|\s*[ap]m)){0,2})",
    re.ASCII | re.IGNORECASE,
)
TWO_DIGIT_YEAR_MAX = 49  # "the two digit year cutoff" is 2049
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@lru_cache(maxsize=1024)
def _second_ticks(text: str) -> int:
    total = date.fromisoformat(text[:10]).toordinal() * TICKS_A_DAY
    if len(text) > 10:
        total += (int(text[11:13]) * 3600 + int(text[14:16]) * 60 + int(text[17:19])) * TICKS_A_SECOND
    return total


@lru_cache(maxsize=1024)  # all rows of a statement have the same moment
def ticks(text: str) -> int:
    """Count the ticks since the day before 0001-01-01 of `YYYY-MM-DD[ hh:mm:ss[.fffffff]]`."""
    whole_ticks = _second_ticks(text[:19])
    return whole_ticks + int(text[20:27].ljust(7, "0")) if len(text) > 20 else whole_ticks


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
    """Format nanoseconds since 1970 as datetime."""
    return None if utc_ns is None else _as_datetime(EPOCH_DAYS * TICKS_A_DAY + utc_ns // 100)


# -- values of a type --------------------------------------------------------------------------------------------------


def of_type(total: int, type_: SqlType) -> str:
    """The value of a type that is nearest to a moment in ticks; error 517 outside the type's years."""
    name = type_.name
    days = total // TICKS_A_DAY
    if not FIRST_DAYS.get(name, 1) <= days <= LAST_DAYS.get(name, date.max.toordinal()):
        raise SqlServerError(517, name)
    if name == "date":
        return moment_text(total)[:10]
    if name == "datetime":
        return _as_datetime(total)
    if name == "smalldatetime":
        nearest = (total + TICKS_A_MINUTE // 2 + TICKS_A_SECOND // 600) // TICKS_A_MINUTE * TICKS_A_MINUTE
        return moment_text(nearest)[:19]
    scale = type_.scale
    unit = 10 ** (7 - scale)
    nearest = (total + unit // 2) // unit * unit
    if nearest // TICKS_A_DAY > date.max.toordinal():  # there is no next day
        nearest = total // unit * unit
    text = moment_text(nearest)[: 20 + scale if scale else 19]
    return text[11:] if name == "time" else text


def _as_datetime(total: int) -> str:
    """ "Datetime values are rounded to increments of .000, .003, or .007 seconds": to 1/300 s."""
    thirds = (total * 3 + 50_000) // 100_000  # of a hundredth of a second
    seconds, rest = divmod(thirds, 300)
    return f"{_second(seconds)}.{(rest * 10 + 1) // 3:03}"


def conversion(source: SqlType | None, target: SqlType) -> Callable[[Any], str]:
    """The function that converts text, moments and numbers to a type of moments."""
    kind = source.name if source is not None else "varchar"
    if {kind, target.name} == {"date", "time"}:
        raise SqlServerError(529, kind, target.name)
    is_moment = kind in ("date", "time", "datetime", "smalldatetime", "datetime2")

    def make(value: Any) -> str:
        if not isinstance(value, str):
            return _from_number(value, kind, target)
        moment = f"1900-01-01 {value}" if kind == "time" else value
        total = ticks(moment) if is_moment else _read(value, kind, target)
        try:
            return of_type(total, target)
        except SqlServerError:
            raise SqlServerError(242, kind, target.name) from None

    return make


def from_bytes(value: bytes, target: str) -> tuple[int, int]:
    """The ticks of a moment as SQL Server stores it, which scripts of its tools write as `CAST(0x... AS datetime)`; and
    the minutes of the offset of a datetimeoffset, whose ticks are in UTC."""
    if target in DATETIMES:
        half, units = (4, 300) if target == "datetime" else (2, 1)  # of a second, or minutes
        data = value[-2 * half :].rjust(2 * half, b"\0")
        days, clock = int.from_bytes(data[:half], signed=half == 4), int.from_bytes(data[half:])
        return (DAY_ZERO + days) * TICKS_A_DAY + clock * (TICKS_A_SECOND if half == 4 else TICKS_A_MINUTE) // units, 0
    clock, offset = 0, 0
    if target != "date" and value:
        scale, value = value[0], value[1:]
        width = 3 if scale < 3 else 4 if scale < 5 else 5
        clock, value = int.from_bytes(value[:width], "little") * 10 ** (7 - min(scale, 7)), value[width:]
    if target == "datetimeoffset":
        offset, value = int.from_bytes(value[3:5], "little", signed=True), value[:3]
    days = int.from_bytes(value, "little") + 1 if target != "time" else DAY_ZERO
    return days * TICKS_A_DAY + clock, offset


def _from_number(value: Any, kind: str, target: SqlType) -> str:
    """Days since 1900, which only datetime and smalldatetime take."""
    if isinstance(value, bytes):
        return of_type(from_bytes(value, target.name)[0], target)
    if target.name not in DATETIMES:
        raise SqlServerError(529, kind, target.name)
    try:
        return of_type(DAY_ZERO * TICKS_A_DAY + round(value * TICKS_A_DAY), target)
    except (SqlServerError, OverflowError, ValueError):
        raise SqlServerError(8115, target.name) from None


def days_since_1900(value: str) -> Decimal:
    """The number that a datetime or smalldatetime is: its days, to 1/300 of a second."""
    thirds = ((ticks(value) - DAY_ZERO * TICKS_A_DAY) * 3 + 50_000) // 100_000  # of a hundredth of a second
    return Decimal(thirds) / (300 * SECONDS_A_DAY)


def _read(value: str, kind: str, target: SqlType) -> int:
    """Read `[YYYYMMDD | YYYY-MM-DD | MM-DD-YYYY | a day in words][ T][hh:mm[:ss[.fraction | :milliseconds]]][AM | PM]`,
    in which - may be / or a point. All other forms are error 241, and a datetime has at most three digits after its
    seconds."""
    match = _TEXT.match(_without_words(value))
    if match is None:
        raise SqlServerError(241)
    *parts, hour, minute, second, sign, fraction, half = match.groups(default="")
    # The month comes before the day in all DATEFORMATs that SET accepts.
    year, month, day = (
        parts[0] or parts[3] or parts[10],
        parts[1] or parts[5] or parts[7],
        parts[2] or parts[6] or parts[9],
    )
    if len(fraction) > (3 if target.name in DATETIMES or sign == ":" else 7):
        raise SqlServerError(241)
    if sign == ":":
        fraction = fraction.zfill(3)
    clock = int(hour or 0), int(minute or 0), int(second or 0)
    if half:
        is_morning = half.upper() == "AM"
        if is_morning and clock[0] > 12:
            raise SqlServerError(241)
        if clock[0] <= 12:
            clock = clock[0] % 12 + (0 if is_morning else 12), *clock[1:]
    try:
        days = date(int(year or 1900), int(month or 1), int(day or 1)).toordinal()
    except ValueError:
        days = 0
    if not days or clock[0] > 23 or clock[1] > 59 or clock[2] > 59:
        raise SqlServerError(242, kind, target.name) if target.name in DATETIMES else SqlServerError(241)
    seconds = clock[0] * 3600 + clock[1] * 60 + clock[2]
    return days * TICKS_A_DAY + seconds * TICKS_A_SECOND + int(fraction.ljust(7, "0"))


def _without_words(text: str) -> str:
    """`Jan 15 2024 3:04PM`, `15 January, 2024`, `2024 Jan 15` or `Jan 2024` with the day as YYYYMMDD."""
    match = _WORDS.match(text)
    if match is None:
        return text
    numbers = re.findall(r"\d+", f"{match[1]} {match[3]}")
    year = next((number for number in numbers if len(number) == 4), "")
    if year:
        numbers.remove(year)
    elif len(numbers) == 2:
        last = numbers.pop()
        year = f"{20 if int(last) <= TWO_DIGIT_YEAR_MAX else 19}{int(last):02}"
    day = numbers[0] if numbers else "1"
    if not year or len(day) > 2:
        return text
    month = [name.lower() for name in MONTHS].index(match[2].lower()[:3]) + 1
    return f"{year}{month:02}{int(day):02}{text[match.end() :]}"


# -- as text -----------------------------------------------------------------------------------------------------------

# CONVERT's styles, https://learn.microsoft.com/sql/t-sql/functions/cast-and-convert-transact-sql: day and time of each.
# {y} is the year, {yy} its last two digits, {b} the name of the month; {h} the hour of twelve, {half} AM or PM, {f} the
# fraction with its sign.
Style = tuple[str, str]
_DAYS = {
    101: "{m}/{d}/{y}",
    102: "{y}.{m}.{d}",
    103: "{d}/{m}/{y}",
    104: "{d}.{m}.{y}",
    105: "{d}-{m}-{y}",
    106: "{d} {b} {y}",
    107: "{b} {d}, {y}",
    110: "{m}-{d}-{y}",
    111: "{y}/{m}/{d}",
    112: "{y}{m}{d}",
}
STYLES: dict[int, Style] = {
    **{style: (form, "") for style, form in _DAYS.items()},
    **{style - 100: (form.replace("{y}", "{yy}"), "") for style, form in _DAYS.items()},
    22: ("{m}/{d}/{yy}", "{h:>2}:{minute}:{second} {half}"),
    23: ("{y}-{m}-{d}", ""),
    100: ("{b} {day:>2} {y}", "{h}:{minute}{half}"),
    108: ("", "{hour}:{minute}:{second}"),
    109: ("{b} {day:>2} {y}", "{h}:{minute}:{second}{f}{half}"),
    113: ("{d} {b} {y}", "{hour}:{minute}:{second}{f}"),
    114: ("", "{hour}:{minute}:{second}{f}"),
    120: ("{y}-{m}-{d}", "{hour}:{minute}:{second}"),
    121: ("{y}-{m}-{d}", "{hour}:{minute}:{second}{f}"),
    126: ("{y}-{m}-{d}", "{hour}:{minute}:{second}{f}"),
}
OTHER_STYLES = frozenset({127, 130, 131})  # that the manual has too
SAME_STYLES = {8: 108, 9: 109, 13: 113, 14: 114, 20: 120, 21: 121, 24: 108, 25: 121}
_WITH_COLON = frozenset({109, 113, 114})  # before the milliseconds of a datetime


def as_text(source: SqlType, style: int) -> Callable[[str], str]:
    """The function that formats moments. Style 0 is that of CAST: `Jan  2 2026  3:04AM` for datetime and smalldatetime,
    ISO 8601 for the others."""
    is_legacy = source.name in DATETIMES
    style = SAME_STYLES.get(style, style) or (100 if is_legacy else 0)
    if not style:
        return str
    if style in OTHER_STYLES:
        raise SqlServerError(UNSUPPORTED, f"CONVERT of {source.name} with style {style}")
    day_form, clock_form = STYLES.get(style, ("", ""))
    if not (day_form or clock_form) or (source.name == "date" and style == 114):
        raise SqlServerError(281, style, source.name)
    day_form, clock_form = "" if source.name == "time" else day_form, "" if source.name == "date" else clock_form
    if not (day_form or clock_form):
        raise SqlServerError(8114, source.name, "varchar")
    if day_form and style in (100, 109):
        clock_form = clock_form.replace("{h}", "{h:>2}")
    sign = ":" if is_legacy and style in _WITH_COLON else "."

    def formatted(text: str) -> str:
        day, clock = (text[:10], text[11:]) if source.name != "time" else ("1900-01-01", text)
        y, m, d = day.split("-")
        hour, minute, rest = (clock or "00:00:00").split(":")
        second, _, fraction = rest.partition(".")
        fraction = fraction or ("000" if is_legacy else "")
        if style == 126 and is_legacy and fraction == "000":
            fraction = ""
        parts: dict[str, str | int] = {"y": y, "yy": y[2:], "m": m, "d": d, "day": int(d), "b": MONTHS[int(m) - 1]}
        parts |= {"hour": hour, "minute": minute, "second": second, "f": fraction and sign + fraction}
        parts |= {"h": int(hour) % 12 or 12, "half": "AM" if int(hour) < 12 else "PM"}
        halves = [form.format(**parts) for form in (day_form, clock_form) if form]
        return ("T" if style == 126 else " ").join(halves)

    return formatted


def check_reading_style(style: int, target: SqlType) -> None:
    """Refuse CONVERT from text with a style whose form of a date is not read."""
    if SAME_STYLES.get(style, style) not in (0, 112, 120, 121, 126):
        raise SqlServerError(UNSUPPORTED, f"CONVERT of text to {target.name} with style {style}")
