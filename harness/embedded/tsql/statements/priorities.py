"""CREATE, ALTER and DROP BROKER PRIORITY."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.embedded.broker.transactions import Transaction
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Step
from harness.embedded.tsql.statements import checks
from harness.embedded.tsql.statements.ddl import ddl, register_drop
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.text.parser import ParseFunction, Parser, Statement

PRIORITY_ARGUMENTS = {
    "CONTRACT_NAME": "contract",
    "LOCAL_SERVICE_NAME": "local_service",
    "REMOTE_SERVICE_NAME": "remote_service",
    "PRIORITY_LEVEL": "level",
}


@dataclass(frozen=True, slots=True)
class BrokerPriority(Statement):
    """CREATE and ALTER BROKER PRIORITY; `options` holds those written, with None for ANY."""

    verb: str
    name: str
    options: dict[str, str | int | None] = field(default_factory=dict)


def parse_broker_priority(verb: str) -> ParseFunction:
    """
    { CREATE | ALTER } BROKER PRIORITY name FOR CONVERSATION SET ( [ CONTRACT_NAME = { name | ANY } ]
        [ , LOCAL_SERVICE_NAME = { name | ANY } ] [ , REMOTE_SERVICE_NAME = { 'name' | ANY } ]
        [ , PRIORITY_LEVEL = { 1 .. 10 | DEFAULT } ] )
    """

    def parse(parser: Parser) -> Statement:
        tokens, line = parser.tokens, parser.line
        name = tokens.name()
        options: dict[str, str | int | None] = {}

        def option() -> None:
            which = tokens.choose("CONTRACT_NAME", "LOCAL_SERVICE_NAME", "REMOTE_SERVICE_NAME", "PRIORITY_LEVEL")
            tokens.expect("=")
            if tokens.accept("ANY"):
                options[which] = None
            elif which == "PRIORITY_LEVEL":
                options[which] = 5 if tokens.accept("DEFAULT") else tokens.integer()
            else:
                options[which] = tokens.string() if tokens.at_string() else tokens.name()

        tokens.expect("FOR", "CONVERSATION")
        if tokens.accept("SET"):
            tokens.expect("(")
            tokens.comma_separated(option)
            tokens.expect(")")
        return BrokerPriority(line, verb, name, options)

    return parse


def compile_broker_priority(node: BrokerPriority, scope: Scope) -> Step:
    given: dict[str, Any] = {PRIORITY_ARGUMENTS[name]: value for name, value in node.options.items()}

    def work(frame: Frame, tx: Transaction) -> None:
        if node.verb == "ALTER":
            frame.database.alter_priority(tx, node.name, **given)
        else:
            frame.database.create_priority(tx, node.name, **given)

    return ddl(work)


for _verb in ("CREATE", "ALTER"):
    register(
        f"{_verb} BROKER PRIORITY",
        parse_broker_priority(_verb),
        BrokerPriority,
        compile_broker_priority,
        check=checks.on_broker_object("alter", "BROKER PRIORITY"),
    )
register_drop("BROKER PRIORITY", lambda frame, tx, name: frame.database.drop_priority(tx, name[0]))
