"""Message types and contracts."""

from __future__ import annotations

from dataclasses import dataclass

from harness.embedded.broker import ddl_contracts
from harness.embedded.tsql.session.steps import Scope, Step
from harness.embedded.tsql.statements import checks
from harness.embedded.tsql.statements.ddl import authorization, ddl, owner_of, register_drop
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.text.parser import Parser, Statement


@dataclass(frozen=True, slots=True)
class CreateMessageType(Statement):
    name: str
    owner: str
    validation: str  # NONE, EMPTY, WELL_FORMED_XML
    schema_collection: str


def _validation(parser: Parser) -> tuple[str, str]:
    tokens = parser.tokens
    tokens.expect("VALIDATION", "=")
    kind = tokens.choose("NONE", "EMPTY", "WELL_FORMED_XML", "VALID_XML")
    if kind == "VALID_XML":
        tokens.unsupported("VALID_XML WITH SCHEMA COLLECTION")
    return kind, ""


def parse_create_message_type(parser: Parser) -> Statement:
    """`CREATE MESSAGE TYPE name [ AUTHORIZATION owner ] [ VALIDATION = { NONE | EMPTY | WELL_FORMED_XML } ]`"""
    line, name, owner = parser.line, parser.tokens.name(), authorization(parser)
    validation = _validation(parser) if parser.tokens.at("VALIDATION") else ("NONE", "")
    return CreateMessageType(line, name, owner, *validation)


def compile_create_message_type(node: CreateMessageType, scope: Scope) -> Step:
    return ddl(
        lambda frame, tx: ddl_contracts.create_message_type(
            tx, frame.database.catalog, node.name, validation=node.validation, owner=owner_of(frame, node.owner)
        )
    )


register(
    "CREATE MESSAGE TYPE",
    parse_create_message_type,
    CreateMessageType,
    compile_create_message_type,
    check=checks.create("CREATE MESSAGE TYPE"),
)


@dataclass(frozen=True, slots=True)
class AlterMessageType(Statement):
    name: str
    validation: str
    schema_collection: str


def parse_alter_message_type(parser: Parser) -> Statement:
    """`ALTER MESSAGE TYPE name VALIDATION = { NONE | EMPTY | WELL_FORMED_XML }`"""
    return AlterMessageType(parser.line, parser.tokens.name(), *_validation(parser))


def compile_alter_message_type(node: AlterMessageType, scope: Scope) -> Step:
    return ddl(
        lambda frame, tx: ddl_contracts.alter_message_type(
            tx, frame.database.catalog, node.name, validation=node.validation
        )
    )


register(
    "ALTER MESSAGE TYPE",
    parse_alter_message_type,
    AlterMessageType,
    compile_alter_message_type,
    check=checks.on_broker_object("alter", "MESSAGE TYPE"),
)


register_drop(
    "MESSAGE TYPE", lambda frame, tx, name: ddl_contracts.drop_message_type(tx, frame.database.catalog, name[0])
)


@dataclass(frozen=True, slots=True)
class CreateContract(Statement):
    name: str
    owner: str
    messages: list[tuple[str, str]]  # message type, sent by


def parse_create_contract(parser: Parser) -> Statement:
    """`CREATE CONTRACT name [ AUTHORIZATION owner ] ( type SENT BY { INITIATOR | TARGET | ANY } [ , ... ] )`"""
    tokens, line = parser.tokens, parser.line
    name, owner = tokens.name(), authorization(parser)

    def message() -> tuple[str, str]:
        message_type = tokens.name()
        tokens.expect("SENT", "BY")
        return message_type, tokens.choose("INITIATOR", "TARGET", "ANY")

    tokens.expect("(")
    messages = tokens.comma_separated(message)
    tokens.expect(")")
    return CreateContract(line, name, owner, messages)


def compile_create_contract(node: CreateContract, scope: Scope) -> Step:
    return ddl(
        lambda frame, tx: ddl_contracts.create_contract(
            tx, frame.database.catalog, node.name, usages=node.messages, owner=owner_of(frame, node.owner)
        )
    )


register(
    "CREATE CONTRACT",
    parse_create_contract,
    CreateContract,
    compile_create_contract,
    check=checks.create("CREATE CONTRACT"),
)


register_drop(
    "CONTRACT",
    lambda frame, tx, name: ddl_contracts.drop_contract(tx, frame.database, frame.instance.engine.severance, name[0]),
)
