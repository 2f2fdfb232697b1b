"""DDL events: which statements raise one, and the node that carries what they tell."""

import re
from dataclasses import dataclass
from functools import cache

from harness.embedded.tsql.text.parser import ParseFunction, Parser, Statement

# The kinds of objects with the events CREATE_, ALTER_ and DROP_, each with the number of the first of its three in
# sys.event_notification_event_types. SQL Server has events of more kinds, which are not raised here.
KINDS = {
    "TABLE": 21,
    "VIEW": 41,
    "PROCEDURE": 51,
    "FUNCTION": 61,
    "TRIGGER": 71,
    "SCHEMA": 141,
    "MESSAGE TYPE": 151,
    "CONTRACT": 154,
    "QUEUE": 157,
    "SERVICE": 161,
    "ROUTE": 164,
}
VERBS = ("CREATE", "ALTER", "DROP")
BEGINNING = re.compile(rf"(?P<verb>CREATE OR ALTER|{'|'.join(VERBS)}) (?P<kind>{'|'.join(KINDS)}|PROC)")


@dataclass(frozen=True, slots=True)
class DdlStatement(Statement):
    """A statement that raises an event for each object that it names."""

    verb: str  # CREATE, ALTER, DROP or CREATE OR ALTER
    kind: str
    names: list[tuple[str, ...]]
    text: str
    statement: Statement


@cache
def observed(words: str, parse: ParseFunction) -> ParseFunction:
    """The parse function of a statement that begins with these words: one of a `DdlStatement` if it raises events."""
    match = BEGINNING.fullmatch(words)
    if match is None:
        return parse
    verb, kind = match["verb"], "PROCEDURE" if match["kind"] == "PROC" else match["kind"]

    def parse_observed(parser: Parser) -> DdlStatement:
        tokens = parser.tokens
        start, node = tokens.position, parse(parser)
        end, tokens.position = tokens.position, start
        tokens.accept("IF", "EXISTS")
        tokens.accept("AUTHORIZATION")  # a schema may have the name of its owner
        names = tokens.comma_separated(tokens.object_name)
        tokens.position = end
        first, last = tokens.all[start - len(words.split())], tokens.all[end - 1]
        return DdlStatement(node.line, verb, kind, names, tokens.text[first.start : last.end + 1], node)

    return parse_observed
