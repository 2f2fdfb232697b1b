"""Convert dates, times and identifiers between their wire forms and the text that represents them above TDS.

[MS-TDS] section 2.2.5.5.1.8, "Date/Times": days since 0001-01-01 and units of 10^-scale seconds since midnight for the
types of TDS 7.3, days since 1900-01-01 and three-hundredths of a second for datetime. A guid's first three groups are
little-endian.
"""

from __future__ import annotations

import uuid
from datetime import date

from harness.embedded.errors import SqlServerError

DAY_1900 = date(1900, 1, 1).toordinal()
DAY_MAX = date.max.toordinal() - 1


def guid_to_text(value: bytes) -> str:
    text = value.hex().upper()
    return (
        f"{text[6:8]}{text[4:6]}{text[2:4]}{text[0:2]}-{text[10:12]}{text[8:10]}-{text[14:16]}{text[12:14]}"
        f"-{text[16:20]}-{text[20:]}"
    )


def guid_to_bytes(text: str) -> bytes:
    return uuid.UUID(text).bytes_le


def days_to_text(days: int) -> str:
    """Days since 0001-01-01."""
    if not 0 <= days <= DAY_MAX:
        raise SqlServerError(8023, "date")
    return date.fromordinal(days + 1).isoformat()


def text_to_days(text: str) -> int:
    return date.fromisoformat(text[:10]).toordinal() - 1


def units_to_text(units: int, scale: int) -> str:
    """Units of 10^-scale seconds since midnight, with exactly `scale` digits."""
    seconds, fraction = divmod(units, 10**scale)
    if seconds >= 86_400:
        raise SqlServerError(8023, "time")
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02}:{minute:02}:{second:02}" + (f".{fraction:0{scale}}" if scale else "")


def text_to_units(text: str, scale: int) -> int:
    """The inverse; digits beyond `scale` are cut. Midnight if the text holds no time."""
    if not text:
        return 0
    clock, _, fraction = text.partition(".")
    hour, minute, second = clock.split(":") if clock.count(":") == 2 else (*clock.split(":"), "0")
    seconds = 3600 * int(hour) + 60 * int(minute) + int(second)
    return int(f"{seconds}{fraction[:scale]:0<{scale}}") if scale else seconds


def split_moment(text: str) -> tuple[str, str]:
    """The day and the time of day of `YYYY-MM-DD[ hh:mm:ss[.fffffff]]`."""
    return text[:10], text[11:].strip()


def datetime_to_text(days: int, ticks: int) -> str:
    """datetime: days since 1900-01-01 and three-hundredths of a second, shown in milliseconds."""
    day, milliseconds = divmod((days + DAY_1900 - 1) * 86_400_000 + (ticks * 10 + 1) // 3, 86_400_000)
    return f"{days_to_text(day)} {units_to_text(milliseconds, 3)}"


def text_to_datetime(text: str) -> tuple[int, int]:
    day, time = split_moment(text)
    days = text_to_days(day) + 1 - DAY_1900
    ticks = (text_to_units(time, 7) * 3 + 50_000) // 100_000
    return (days, ticks) if ticks < 25_920_000 else (days + 1, 0)
