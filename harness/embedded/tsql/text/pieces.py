"""A long batch in pieces, so that no more is read than its limits allow.

A piece ends where no token can: behind a semicolon, a comma or a parenthesis, or behind white space, but not inside a
string, a quoted name or a comment, nor before a comment or between words of which sqlglot makes one token (`ORDER BY`).
A long comment or constant (a string, a binary one) is a piece of its own, which sqlglot need not read.
"""

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from harness.embedded.errors import SqlServerError, UnsupportedSyntax

PIECE = 2048  # characters; sqlglot needs a few milliseconds for them
LITERAL = 4096  # characters from which on a constant or a comment is a piece of its own
COMMENT = "--"
COMMENTS_MAX = 1000  # in each other, our limit: counting millions of them would take seconds
UNBROKEN_MAX = 256 * 1024  # characters of code without a place to end
_WINDOW = 64 * 1024  # characters searched at a time
_LOOKAHEAD = 128  # longer than a joined word

_OPENING = re.compile(r"""['"\[]|--|/\*|(?<![\w@#$.])0[xX][0-9A-Fa-f]""")
_DIGITS = re.compile(r"[0-9A-Fa-f]*+")
_GOES_ON = re.compile(r"[\w@#$.]")
_COMMENT = re.compile(r"/\*|\*/")
_CLOSINGS = {"'": "'", '"': '"', "[": "]"}


class Piece(NamedTuple):
    start: int
    end: int
    # How the constant begins that is the whole piece: ', N' or 0x, or COMMENT. An N is not part of the piece.
    constant: str = ""


def pieces(text: str, joined: Collection[str]) -> Iterator[Piece]:
    """The pieces of a batch; `joined` are words that may continue a token. Error 105 or 113 for what is not closed."""
    cut = re.compile(rf"[;,()]|(?<!\s)\s++(?!(?:{'|'.join(sorted(joined))})\b|--|/\*)", re.IGNORECASE)
    start = at = 0
    while at < len(text):
        window = min(at + _WINDOW, len(text))
        opening = _OPENING.search(text, at, window)
        # A window ends before signs that may begin a comment or a binary constant.
        code_end = opening.start() if opening else window if window == len(text) else window - 2
        goal = start + PIECE
        while goal < code_end and (match := cut.search(text, max(goal, at), code_end + _LOOKAHEAD)):
            if match.end() > code_end:
                break
            yield Piece(start, match.end())
            start = match.end()
            goal = start + PIECE
        if code_end - start > UNBROKEN_MAX:
            raise SqlServerError(103, "constant", text[start : start + 30], UNBROKEN_MAX, line=line_of(text, start))
        at = code_end
        if opening is None:
            continue
        at = _closed(text, opening)
        if at - code_end > LITERAL and (constant := _constant(text, code_end, at)):
            if (code_end := code_end - constant.startswith("N")) > start:
                yield Piece(start, code_end)
            yield Piece(opening.start(), at, constant)
            start = at
    if start < len(text):
        yield Piece(start, len(text))


def line_of(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _constant(text: str, start: int, end: int) -> str:
    """How the constant or the comment begins that is between these places; "" if something else is there."""
    if text[start] in "-/":
        return COMMENT
    if text[start] == "'":
        return "N'" if _is_national(text, start) else "'"
    return "0x" if text[start] == "0" and not _GOES_ON.match(text, end) else ""


def _is_national(text: str, quote: int) -> bool:
    before = text[max(0, quote - 2) : quote]
    return before[-1:] in ("N", "n") and not (len(before) == 2 and (before[0].isalnum() or before[0] in "_@#$"))


def _closed(text: str, opening: re.Match[str]) -> int:
    """The place behind a string, a quoted name, a binary constant or a comment."""
    sign, at = opening[0], opening.end()
    if sign == "--":
        end = text.find("\n", at)
        return len(text) if end < 0 else end + 1
    if sign == "/*":
        return _comment_end(text, opening)
    if sign[0] == "0":
        return _digits_end(text, at)
    closing = _CLOSINGS[sign]
    while (end := text.find(closing, at)) >= 0:
        if text[end + 1 : end + 2] != closing:
            return end + 1
        at = end + 2
    raise SqlServerError(105, text[-40:].strip(), line=line_of(text, opening.start()))


def _digits_end(text: str, at: int) -> int:
    while (digits := _DIGITS.match(text, at, at + _WINDOW)) and digits[0]:
        at = digits.end()
    return at


def _comment_end(text: str, opening: re.Match[str]) -> int:
    """The end of a comment, in which comments may be nested."""
    depth = 0
    for sign in _COMMENT.finditer(text, opening.start()):
        depth += 1 if sign[0] == "/*" else -1
        if depth > COMMENTS_MAX:
            raise UnsupportedSyntax(f"more than {COMMENTS_MAX} comments in each other", line_of(text, sign.start()))
        if depth == 0:
            return sign.end()
    raise SqlServerError(113, line=line_of(text, opening.start()))
