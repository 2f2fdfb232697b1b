"""What the Transact-SQL manual has and this server has not: an error that would call it wrong says that it is missing.

`manual.tsv` lists functions, system procedures, statements and syntax, from the pages of SQL Server 2005 to 2025. What
is in it is refused; what a later version of this server has must leave it, as its test says.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from harness.embedded.errors import UNSUPPORTED, SqlServerError, UnsupportedSyntax

# The kinds of names that an error may blame, by its number
_KINDS = {
    137: ("global variable",),
    195: ("function",),
    208: ("function",),
    2812: ("procedure", "statement"),
}
_OF_SYNTAX = frozenset({102, 137, 156, 174, 195, 207, 208, 321, 4104})  # that other syntax may cause
_QUOTED = re.compile(r"""['"](.*)['"]""", re.DOTALL)
# What is no syntax: comments and constants
_OTHER = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", re.DOTALL)


class Entry(NamedTuple):
    kind: str  # function, global variable, procedure, statement or syntax
    name: str
    example: str  # "" for a procedure of which there is none
    pattern: str  # of syntax and statements, as a regular expression


@cache
def entries() -> tuple[Entry, ...]:
    lines = (files(__package__) / "manual.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return tuple(Entry(kind, name, *_rest(kind, name, *rest)) for kind, name, *rest in rows)


def _rest(kind: str, name: str, example: str = "", pattern: str = "") -> tuple[str, str]:
    return example, pattern or rf"\b{name}".replace(" ", r"\s+") + (r"\s*\(" if kind == "function" else r"\b")


@cache
def _names() -> dict[tuple[str, str], Entry]:
    return {(entry.kind, entry.name.lower()): entry for entry in entries()}


@cache
def _patterns(*kinds: str) -> list[tuple[re.Pattern[str], Entry]]:
    chosen = [entry for entry in entries() if entry.kind in kinds]
    return [(re.compile(entry.pattern, re.IGNORECASE | re.DOTALL), entry) for entry in chosen]


def named(error: SqlServerError, text: str, line: int) -> SqlServerError:
    """The error, or one that names what is missing here, where the statement in that line of a text needs that."""
    if type(error) not in (SqlServerError, UnsupportedSyntax):
        return error
    quoted = _QUOTED.search(error.text)
    blamed = quoted[1] if quoted is not None else ""
    last = blamed.rpartition(".")[2].lower()
    for kind in _KINDS.get(error.number, ()):
        if (entry := _names().get((kind, last))) is not None:
            return _missing(f"the {kind} {entry.name}", error, line)
    place = _place(text, blamed, error.line or line)
    if error.number == UNSUPPORTED:
        statement = _nearest(text, place, "statement")
        return error if statement is None else _missing(f"the statement {statement.name}", error, line)
    if error.number == 208 and re.search(rf"\bWITH\b.*\b{re.escape(last)}\s*(\([^)]*\))?\s*AS\s*\(", text, re.I | re.S):
        return _missing(f"{blamed}, a common table expression that refers to itself", error, line)
    syntax = _nearest(text, place, "syntax", "function") if error.number in _OF_SYNTAX else None
    if syntax is None:
        return error
    return _missing(syntax.name if syntax.kind == "syntax" else f"the function {syntax.name}", error, line)


def _missing(what: str, error: SqlServerError, line: int) -> SqlServerError:
    return UnsupportedSyntax(what, error.line or line)


def _place(text: str, blamed: str, line: int) -> int:
    """Where an error is in a text: at what it blames in its line."""
    begin = 0
    for _ in range(line - 1):
        begin = text.find("\n", begin) + 1
    return max(text.find(blamed, begin), begin)


def _nearest(text: str, place: int, *kinds: str) -> Entry | None:
    """The entry of these kinds that the statement at a place of a text shows, the one that is nearest to it."""
    text = _OTHER.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    begin = text.rfind(";", 0, place) + 1
    matches = [
        (abs(match.start() - place), -len(match[0]), entry)
        for pattern, entry in _patterns(*kinds)
        for match in pattern.finditer(text, begin)
    ]
    return min(matches)[2] if matches else None
