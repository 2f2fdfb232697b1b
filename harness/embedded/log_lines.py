"""Text from clients as it may stand in a log: on one line, and of bounded length."""

from __future__ import annotations

import re

# Control characters, the line and paragraph separators, and those that turn the direction of what follows.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def one_line(text: str, length_max: int) -> str:
    """The text with escapes (as `\\n`) for what could forge a line, cut to so many characters of its own."""
    rest = len(text) - length_max
    if rest > 0:
        text = text[:length_max]
    safe = _UNSAFE.sub(_escape, text)
    return f"{safe}... ({rest} more characters)" if rest > 0 else safe


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
