"""Objects, columns and principals may have any name, and a blank may be a comment: a script does the same with each."""

import re
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.embedded.tsql.sides import World
from tests.examples import share

SCRIPT = Path("tests/listings/any_names.sql").read_text(encoding="utf-8")
NAME = re.compile(r"n_[a-z]+")
NAMES = sorted(set(NAME.findall(SCRIPT)))
# SQL Server's own limits: a name of blanks, or # before it, is another thing; so is @ before that of a cursor.
ANY = st.text("ab.,][ '\"%@:?$-;*\\/\né{}()#=&<", min_size=1, max_size=6).filter(
    lambda name: name == name.strip() and name[0] not in "#@"
)


def written(text: str, names: dict[str, str]) -> str:
    """A script with other names: in brackets, and in texts."""

    def bracketed(match: re.Match[str]) -> str:
        return f"[{match[1]}{names[match[2]].replace(']', ']]')}]"

    def replaced(match: re.Match[str]) -> str:
        if match[3] is None:
            return bracketed(match)
        inner = re.sub(r"\[()(n_[a-z]+)\]", bracketed, match[3])
        return "N'" + NAME.sub(lambda name: names[name[0]], inner).replace("'", "''") + "'"

    return re.sub(r"\[(#?)(n_[a-z]+)\]|N'([^']*)'", replaced, text)


def renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, str):
        return NAME.sub(lambda match: names[match[0]], value)
    return type(value)(renamed(item, names) for item in value) if isinstance(value, list | tuple) else value


def answers(text: str) -> list[list[Any]]:
    """Of each batch: the numbers and texts of its errors, and its rows."""
    side = World().side("Here", "2022", set_up="CREATE DATABASE db\nGO\nUSE db")
    results = [side.results(batch) for batch in text.split("\nGO\n")]
    return [[[(error.number, error.text) for error in r.errors], [rows for _, rows in r.sets]] for r in results]


PLAIN = answers(SCRIPT)
# A quoted name, a text, a blank, or what is between them
PART = re.compile(r"\[[^\]]*\]|'[^']*'| |[^\[' ]+")
BLANKS = [" ", "\n", "\t", "  \r\n ", " /* c; ' */ ", "/**/", " -- it's\n"]


@settings(max_examples=share(20))
@given(st.lists(ANY, min_size=len(NAMES), max_size=len(NAMES), unique_by=str.lower))
def test_any_name_does(values: list[str]) -> None:
    names = dict(zip(NAMES, values, strict=True))
    got = answers("\nGO\n".join(written(batch, names) for batch in SCRIPT.split("\nGO\n")))
    for batch, plain, answer in zip(SCRIPT.split("\nGO\n"), PLAIN, got, strict=True):
        assert answer == renamed(plain, names), batch


@settings(max_examples=share(5))
@given(st.randoms(use_true_random=False))
def test_any_blank_does(random: Random) -> None:
    parts = PART.findall(SCRIPT.replace("\nGO\n", "\0"))
    text = "".join(random.choice(BLANKS) if part == " " else part for part in parts)
    for batch, plain, answer in zip(text.split("\0"), PLAIN, answers(text.replace("\0", "\nGO\n")), strict=True):
        assert answer == plain, batch
