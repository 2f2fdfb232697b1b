"""Durations and sizes as users write them, with a unit; counts as they read them."""

import re

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}
_SIZE = re.compile(r"(\d+)\s*(bytes|b|kb|mb)?", re.IGNORECASE)
_BYTES = {"bytes": 1, "b": 1, "kb": 1024, "mb": 1024**2, None: 1}


def parse_duration(text: object) -> float:
    """Seconds of `500ms`, `1s`, `2m`, `1h`, or of a bare number of seconds."""
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        return float(text)
    match = _DURATION.fullmatch(str(text).strip())
    if match is None:
        raise ValueError(f"invalid duration {text!r}: write 500ms, 30s, 2m or 1h")
    return float(match[1]) * _SECONDS[match[2]]


def parse_size(text: object) -> int:
    """Bytes of `100`, `100 bytes` or `4 KB`; a KB has 1,024 bytes, as in the paper."""
    match = _SIZE.fullmatch(str(text).strip())
    if match is None or isinstance(text, bool):
        raise ValueError(f"invalid size {text!r}: write 100 or 4KB")
    return int(match[1]) * _BYTES[match[2].lower() if match[2] else None]


def size_text(count: int) -> str:
    """Bytes as 1.5 GB or 300 MB; a GB has 1,024 MB, as in SQL Server."""
    return f"{count / 1024**3:.1f} GB" if count >= 1024**3 else f"{count / 1024**2:.0f} MB"


def counted(number: int, unit: str) -> str:
    """1 row, 2 rows, 12,000 rows"""
    return f"{number:,} {unit}{'' if number == 1 else 's'}"
