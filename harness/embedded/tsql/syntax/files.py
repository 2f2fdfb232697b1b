"""ALTER DATABASE on files, and RECONFIGURE: nodes and grammars."""

from __future__ import annotations

from dataclasses import dataclass

from harness.embedded.tsql.text.parser import Parser, Statement
from harness.embedded.tsql.text.tokens import Tokens

# To pages of 8 KB; a bare number means megabytes.
_PAGES = {"KB": 1 / 8, "": 128, "MB": 128, "GB": 128 * 1024, "TB": 128 * 1024 * 1024}


@dataclass(frozen=True, slots=True)
class FileSpecification:
    """`( NAME = n [ , FILENAME = 'p' ] [ , SIZE = s ] [ , MAXSIZE = m | UNLIMITED ] [ , FILEGROWTH = g | g% ] )`

    What is not given is None; sizes are in pages.
    """

    name: str
    physical_name: str | None = None
    size: int | None = None
    max_size: int | None = None
    growth: int | None = None
    is_percent_growth: bool = False


@dataclass(frozen=True, slots=True)
class AlterDatabaseFiles(Statement):
    """`ALTER DATABASE name { ADD FILE spec [ , ... ] | ADD LOG FILE spec [ , ... ] | MODIFY FILE spec }`"""

    name: str  # "" for CURRENT
    verb: str  # ADD FILE, ADD LOG FILE or MODIFY FILE
    files: list[FileSpecification]


@dataclass(frozen=True, slots=True)
class Reconfigure(Statement):
    """`RECONFIGURE [ WITH OVERRIDE ]`"""


def parse_file_clause(parser: Parser, line: int, name: str) -> Statement:
    """What follows `ALTER DATABASE name`, where that is not SET."""
    tokens = parser.tokens
    if tokens.accept("MODIFY", "FILE"):
        return AlterDatabaseFiles(line, name, "MODIFY FILE", [_specification(tokens)])
    for verb in ("ADD LOG FILE", "ADD FILE"):
        if tokens.accept(*verb.split()):
            files = tokens.comma_separated(lambda: _specification(tokens))
            if any(file.physical_name is None for file in files):
                tokens.fail()
            return AlterDatabaseFiles(line, name, verb, files)
    tokens.unsupported(f"ALTER DATABASE {tokens.word()} {tokens.word(1)}".rstrip())


def parse_reconfigure(parser: Parser) -> Statement:
    parser.tokens.accept("WITH", "OVERRIDE")
    return Reconfigure(parser.line)


def _specification(tokens: Tokens) -> FileSpecification:
    given: dict[str, int | str | bool | None] = {}

    def option() -> None:
        word = tokens.choose("NAME", "FILENAME", "SIZE", "MAXSIZE", "FILEGROWTH")
        tokens.expect("=")
        if word == "NAME":
            given["name"] = tokens.string() if tokens.at_string() else tokens.name()
        elif word == "FILENAME":
            given["physical_name"] = tokens.string()
        elif word == "MAXSIZE" and tokens.accept("UNLIMITED"):
            given["max_size"] = -1
        elif word == "FILEGROWTH":
            number = tokens.integer()
            given["is_percent_growth"] = tokens.accept("%")
            given["growth"] = number if given["is_percent_growth"] else _pages(tokens, number)
        else:
            given["size" if word == "SIZE" else "max_size"] = _pages(tokens, tokens.integer())

    tokens.expect("(")
    tokens.comma_separated(option)
    tokens.expect(")")
    if "name" not in given:
        tokens.fail()
    return FileSpecification(**given)  # type: ignore[arg-type]


def _pages(tokens: Tokens, number: int) -> int:
    unit = next((word for word in ("KB", "MB", "GB", "TB") if tokens.accept(word)), "")
    return int(number * _PAGES[unit])
