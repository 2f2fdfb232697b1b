"""Text of servers, peers and other people's files as it may be shown.

A name or a message may hold what a terminal obeys, what forges a line, or what turns the direction of the text behind
it. Such characters are shown as escapes, once in each way out of the harness and not at each value: `terminal` and
`reporting.SafeConsole` for what commands print, `load.locust_process` and `embedded.server.log` for logs,
`figures.build` for figures, `figures.report` for a report, `load.pages.looks` for what pages get, `records.write_table`
for CSV, `run.run_folder` and `journal` for their files, `support_bundle` for its texts.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

# C0, DEL and C1; the line and paragraph separators; what Unicode calls Bidi_Control; halves of surrogate pairs.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSAFE_IN_LINES = re.compile(_UNSAFE.pattern.replace("\x00-\x1f", "\x00-\x09\x0b-\x1f"))


def visible(text: str) -> str:
    """Return the text on one line, with escapes such as `\\u001b` and `\\n` for what is not to be obeyed."""
    return _UNSAFE.sub(_escape, text)


def visible_lines(text: str) -> str:
    """Do the same with a text of several lines, which stay."""
    return _UNSAFE_IN_LINES.sub(_escape, text)


def visible_values(value: Any) -> Any:
    """Do the same with all texts in a value that becomes JSON."""
    if isinstance(value, str):
        return visible_lines(value)
    if isinstance(value, Mapping):
        return {visible_values(key): visible_values(each) for key, each in value.items()}
    return [visible_values(part) for part in value] if isinstance(value, (list, tuple)) else value


def one_line(text: str, length_max: int) -> str:
    """Return the text on one line, cut to so many characters of its own."""
    rest = len(text) - length_max
    return f"{visible(text[:length_max])}... ({rest} more characters)" if rest > 0 else visible(text)


def _escape(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1]  # so that JSON stays JSON
