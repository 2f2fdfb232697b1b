"""Moments: text in SQLite, computed in ticks of 100 nanoseconds."""

from __future__ import annotations

from datetime import date
from functools import lru_cache

from harness.embedded.errors import SqlServerError

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


def text(total: int) -> str:
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
    return text(EPOCH_DAYS * TICKS_A_DAY + utc_ns // 100)


def datetime_from_utc_ns(utc_ns: int | None) -> str | None:
    """Format nanoseconds since 1970 as datetime, with milliseconds."""
    return None if utc_ns is None else from_utc_ns(utc_ns)[:23]
