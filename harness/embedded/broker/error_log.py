"""The error log of an instance: ERRORLOG."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime

from harness.embedded.runtime.tasks import SECOND, Clock

LINES_MAX = 1000


def datetime_text(utc_ns: int) -> str:
    """Formats a datetime as XML and ERRORLOG do."""
    return datetime.fromtimestamp(utc_ns / SECOND, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")


class ErrorLog:
    """The latest lines of ERRORLOG, newest last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.lines: deque[str] = deque(maxlen=LINES_MAX)

    def write(self, text: str) -> None:
        self.lines.append(f"{datetime_text(self._clock.utc_ns())} {text}")
