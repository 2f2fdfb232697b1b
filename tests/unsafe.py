"""Characters that text of servers must not bring to a terminal, a page or a figure; told by Unicode's own data."""

import unicodedata
from collections.abc import Mapping
from typing import Any

_TURNING = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
_MARKS = "\u061c\u200e\u200f"  # of direction


def is_unsafe(character: str) -> bool:
    return (
        unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(character) in _TURNING
        or character in _MARKS
    )


def unsafe_in(shown: Any, *, besides: str = "") -> list[str]:
    """Those in a text, or in all texts of a value of JSON; `besides` is allowed."""
    if isinstance(shown, str):
        return [one for one in shown if one not in besides and is_unsafe(one)]
    if isinstance(shown, Mapping):
        shown = [*shown.keys(), *shown.values()]
    return [bad for one in shown for bad in unsafe_in(one, besides=besides)] if isinstance(shown, (list, tuple)) else []


EVERY = "".join(one for one in map(chr, range(0x10000)) if is_unsafe(one) and unicodedata.category(one) != "Cs")
NAME = f"q\x1b]0;title\x07[/red]$x${EVERY}"  # of a queue
