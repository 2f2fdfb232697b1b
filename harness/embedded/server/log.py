"""The server's own log on stderr: one line an event, whatever clients send, and bounded in a flood.

Names and texts from clients stand in log records and in messages of exceptions. `LineFormatter` therefore writes
control characters as escapes and cuts what is too long, so that no value begins a line of its own; the lines of a
traceback are indented. `FloodFilter` lets the first records of each place in the code through and then only counts.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable

from harness.output.safe_text import one_line

LINE_MAX = 1000  # characters of a record's message
TRACEBACK_LINES_MAX = 60
# Of one place in the code: records in the first window of a flood, and its length. Later windows show one.
RECORDS_MAX = 10
WINDOW_S = 60.0


class LineFormatter(logging.Formatter):
    """Formats a record as one line; the lines of its traceback follow, each indented."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = one_line(record.message, LINE_MAX)
        return super().formatMessage(record)

    def formatException(self, ei: logging._SysExcInfoType) -> str:
        lines = [one_line(line, LINE_MAX) for line in super().formatException(ei).split("\n")]
        if len(lines) > TRACEBACK_LINES_MAX:
            half = TRACEBACK_LINES_MAX // 2
            lines[half:-half] = [f"... {len(lines) - 2 * half} lines ..."]
        return "\n".join(f"    {line}" for line in lines)


class _Place:
    """How often one place in the code has logged in this window."""

    __slots__ = ("allowed", "hidden", "opened_s", "seen")

    def __init__(self, now_s: float) -> None:
        self.opened_s = now_s
        self.allowed = RECORDS_MAX
        self.seen = self.hidden = 0


class FloodFilter(logging.Filter):
    """Hides records beyond `RECORDS_MAX` of one place and exception in a window, and says how many it hid."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        self._places: dict[tuple[object, ...], _Place] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now_s = self._now_s()
        error = record.exc_info[1] if record.exc_info else None
        key = (record.pathname, record.lineno, *_origin(error))
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = _Place(now_s)
        elif now_s - place.opened_s >= WINDOW_S:
            if place.hidden:
                record.msg, record.args = f"{record.getMessage()} ({place.hidden} more like this were not logged)", ()
            # A flood that goes on is one line a window.
            place.allowed = 1 if place.hidden else RECORDS_MAX
            place.opened_s, place.seen, place.hidden = now_s, 0, 0
        place.seen += 1
        if place.seen > place.allowed:
            place.hidden += 1
            return False
        return True

    def hidden(self) -> int:
        """Record hidden since they were last reported."""
        return sum(place.hidden for place in self._places.values())


def _origin(error: BaseException | None) -> tuple[object, ...]:
    """The place where an exception came from: another bug is another record, the same bug is counted."""
    if error is None:
        return ()
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return (type(error), step and step.tb_frame.f_code, step and step.tb_lineno)


def start() -> FloodFilter:
    """Log to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    flood = FloodFilter()
    handler.addFilter(flood)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    return flood
