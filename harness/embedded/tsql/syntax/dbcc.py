"""DBCC: node and grammar."""

from __future__ import annotations

from dataclasses import dataclass

from harness.embedded.tsql.text.expressions import Expression
from harness.embedded.tsql.text.parser import Parser, Statement

OPTIONS = ("NO_INFOMSGS", "TABLERESULTS")


@dataclass(frozen=True, slots=True)
class Dbcc(Statement):
    command: str
    arguments: list[Expression]
    options: list[str]


def parse_dbcc(parser: Parser) -> Statement:
    """`DBCC command [ ( argument [, ...] ) ] [ WITH { NO_INFOMSGS | TABLERESULTS } [, ...] ]`"""
    tokens, line = parser.tokens, parser.line
    command = tokens.name().upper()
    arguments: list[Expression] = []
    if tokens.accept("(") and not tokens.accept(")"):
        arguments = tokens.comma_separated(lambda: parser.expression(",", ")"))
        tokens.expect(")")
    options = tokens.comma_separated(lambda: tokens.choose(*OPTIONS)) if tokens.accept("WITH") else []
    return Dbcc(line, command, arguments, options)
