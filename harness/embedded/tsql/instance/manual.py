"""What the Transact-SQL manual has and this server has not: an error that would call it wrong says that it is missing.

`manual.tsv` lists functions, system procedures, statements, syntax and views outside of schema sys, from the pages of
SQL Server 2005 to 2025. What is in it is refused; what a later version of this server has must leave it, as its test
says.
"""

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from harness.embedded.errors import UNSUPPORTED, SqlServerError, UnsupportedSyntax

# The kinds of names that an error may blame, by its number
_KINDS = {137: ("global variable",), 195: ("function",), 208: ("function", "view"), 2812: ("procedure", "statement")}
_OF_SYNTAX = frozenset({102, 137, 156, 174, 195, 207, 208, 321, 4104, 4121})  # that other syntax may cause
_QUOTED = re.compile(r"""['"](.*)['"]""", re.DOTALL)
# What is no syntax: comments and constants
_OTHER = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", re.DOTALL)
_BEFORE, _BEHIND = 1000, 300  # characters of a text around an error that are looked at


class Entry(NamedTuple):
    kind: str  # function, global variable, procedure, statement, syntax or view
    name: str
    example: str = ""  # none for some procedures
    pattern: str = ""  # of syntax, as a regular expression; "" for its name


@cache
def entries() -> tuple[Entry, ...]:
    lines = (files(__package__) / "manual.tsv").read_text(encoding="utf-8").splitlines()
    return tuple(Entry(*line.split("\t")) for line in lines if not line.startswith("#"))


@cache
def _names() -> dict[tuple[str, str], Entry]:
    return {(entry.kind, entry.name.lower()): entry for entry in entries()}


@cache
def _patterns(kind: str) -> list[tuple[re.Pattern[str], str]]:
    """Patterns of all entries of a kind, each with what an error says of it; {} stands for the text that was found."""
    if kind == "syntax":
        patterns = [(entry.pattern or _words([entry.name]), entry.name) for entry in entries() if entry.kind == kind]
    else:
        names = _words([entry.name for entry in entries() if entry.kind == kind])
        patterns = [(rf"{names}(?=\s*\()" if kind == "function" else names, f"the {kind} {{}}")]
    return [(re.compile(pattern, re.IGNORECASE | re.DOTALL), what) for pattern, what in patterns]


def _words(names: list[str]) -> str:
    longest_first = sorted(names, key=len, reverse=True)
    alternatives = "|".join(r"\s+".join(map(re.escape, name.split())) for name in longest_first)
    return rf"\b(?:{alternatives})\b"


def named(error: SqlServerError, text: str, line: int) -> SqlServerError:
    """The error, or one that names what is missing here, where the statement in that line of a text needs that."""
    if type(error) not in (SqlServerError, UnsupportedSyntax):
        return error
    quoted = _QUOTED.search(error.text)
    blamed = quoted[1] if quoted is not None else ""
    last, line = blamed.rpartition(".")[2], error.line or line
    for kind in _KINDS.get(error.number, ()):
        if (entry := _names().get((kind, last.lower()))) is not None:
            return UnsupportedSyntax(f"the {kind} {entry.name}", line)
    kinds = ("statement",) if error.number == UNSUPPORTED else ("statement", "syntax", "function")
    if error.number != UNSUPPORTED and error.number not in _OF_SYNTAX:
        return error
    part, place = _around(text, blamed, line)
    if error.number == 208 and re.search(rf"\bWITH\b.*\b{re.escape(last)}\s*(\([^)]*\))?\s*AS\s*\(", part, re.I | re.S):
        return UnsupportedSyntax(f"{blamed}, a common table expression that refers to itself", line)
    matches = [
        (abs(match.start() - place), -len(match[0]), what.replace("{}", " ".join(match[0].upper().split())))
        for kind in kinds
        for pattern, what in _patterns(kind)
        for match in pattern.finditer(part)
        if kind != "statement" or error.number == UNSUPPORTED or not part[: match.start()].strip()
    ]
    return UnsupportedSyntax(min(matches)[2], line) if matches else error


def _around(text: str, blamed: str, line: int) -> tuple[str, int]:
    """The statement around what an error blames in a line of a text, cut, and the place of that in it."""
    place = 0
    for _ in range(line - 1):
        place = text.find("\n", place) + 1
    place = max(text.find(blamed, place, place + _BEFORE), place)
    begin = max(0, place - _BEFORE)
    part = _OTHER.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text[begin : place + _BEHIND])
    begin_of_statement = part.rfind(";", 0, place - begin) + 1
    return part[begin_of_statement:], place - begin - begin_of_statement
