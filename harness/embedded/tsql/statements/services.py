"""Message types, contracts, services and conversation priorities (BROKER PRIORITY)."""

from __future__ import annotations

from typing import Any

from harness.embedded.broker import ddl_services
from harness.embedded.broker.transactions import Transaction
from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.statements.definitions import (
    Definition,
    Options,
    authorization,
    creating,
    define,
    in_database,
    on_object,
    options,
    owner_of,
    queue_name,
    register_drop,
)
from harness.embedded.tsql.text.parser import Parser
from harness.embedded.tsql.text.tokens import Tokens


def _validation(tokens: Tokens) -> str:
    tokens.expect("VALIDATION", "=")
    kind = tokens.choose("NONE", "EMPTY", "WELL_FORMED_XML", "VALID_XML")
    if kind == "VALID_XML":
        tokens.unsupported("VALID_XML WITH SCHEMA COLLECTION")
    return kind


@define("CREATE MESSAGE TYPE")
def create_message_type(parser: Parser) -> Definition:
    """`CREATE MESSAGE TYPE name [ AUTHORIZATION owner ] [ VALIDATION = { NONE | EMPTY | WELL_FORMED_XML } ]`"""
    tokens = parser.tokens
    name, owner = tokens.name(), authorization(tokens)
    validation = _validation(tokens) if tokens.at("VALIDATION") else "NONE"

    def work(frame: Frame, tx: Transaction) -> None:
        catalog = frame.database.catalog
        ddl_services.create_message_type(tx, catalog, name, validation=validation, owner=owner_of(frame, owner))

    return Definition(parser.line, creating("CREATE MESSAGE TYPE", owner), work)


@define("ALTER MESSAGE TYPE")
def alter_message_type(parser: Parser) -> Definition:
    """`ALTER MESSAGE TYPE name VALIDATION = { NONE | EMPTY | WELL_FORMED_XML }`"""
    name = parser.tokens.name()
    validation = _validation(parser.tokens)

    def work(frame: Frame, tx: Transaction) -> None:
        ddl_services.alter_message_type(tx, frame.database.catalog, name, validation=validation)

    return Definition(parser.line, on_object("alter", "MESSAGE TYPE", (name,)), work)


register_drop(
    "MESSAGE TYPE", lambda frame, tx, name: ddl_services.drop_message_type(tx, frame.database.catalog, name[0])
)


@define("CREATE CONTRACT")
def create_contract(parser: Parser) -> Definition:
    """`CREATE CONTRACT name [ AUTHORIZATION owner ] ( type SENT BY { INITIATOR | TARGET | ANY } [ , ... ] )`"""
    tokens = parser.tokens
    name, owner = tokens.name(), authorization(tokens)

    def message() -> tuple[str, str]:
        message_type = tokens.name()
        tokens.expect("SENT", "BY")
        return message_type, tokens.choose("INITIATOR", "TARGET", "ANY")

    tokens.expect("(")
    usages = tokens.comma_separated(message)
    tokens.expect(")")

    def work(frame: Frame, tx: Transaction) -> None:
        catalog = frame.database.catalog
        ddl_services.create_contract(tx, catalog, name, usages=usages, owner=owner_of(frame, owner))

    return Definition(parser.line, creating("CREATE CONTRACT", owner), work)


register_drop(
    "CONTRACT",
    lambda frame, tx, name: ddl_services.drop_contract(tx, frame.database, frame.instance.engine.severance, name[0]),
)


@define("CREATE SERVICE")
def create_service(parser: Parser) -> Definition:
    """`CREATE SERVICE name [ AUTHORIZATION owner ] ON QUEUE queue [ ( contract [ , ... ] ) ]`"""
    tokens = parser.tokens
    name, owner = tokens.name(), authorization(tokens)
    tokens.expect("ON", "QUEUE")
    queue = tokens.object_name()
    contracts: list[str] = []
    if tokens.accept("("):
        contracts = tokens.comma_separated(tokens.name)
        tokens.expect(")")

    def check(frame: Frame, guard: Guard) -> None:
        creating("CREATE SERVICE", owner)(frame, guard)
        on_object("find", "QUEUE", queue, "CONTROL")(frame, guard)

    def work(frame: Frame, tx: Transaction) -> None:
        ddl_services.create_service(
            tx,
            frame.database.catalog,
            name,
            queue=queue_name(frame, queue),
            contracts=contracts,
            owner=owner_of(frame, owner),
        )

    return Definition(parser.line, check, work)


@define("ALTER SERVICE")
def alter_service(parser: Parser) -> Definition:
    """`ALTER SERVICE name [ ON QUEUE queue ] [ ( { ADD | DROP } CONTRACT contract [ , ... ] ) ]`"""
    tokens = parser.tokens
    name = tokens.name()
    queue = tokens.object_name() if tokens.accept("ON", "QUEUE") else None
    changes: dict[str, list[str]] = {"ADD": [], "DROP": []}

    def change() -> None:
        verb = tokens.choose("ADD", "DROP")
        tokens.expect("CONTRACT")
        changes[verb].append(tokens.name())

    if tokens.accept("("):
        tokens.comma_separated(change)
        tokens.expect(")")

    def work(frame: Frame, tx: Transaction) -> None:
        ddl_services.alter_service(
            tx,
            frame.database,
            frame.instance.engine.delivery,
            name,
            queue=queue_name(frame, queue) if queue else None,
            add_contracts=changes["ADD"],
            drop_contracts=changes["DROP"],
        )

    return Definition(parser.line, on_object("alter", "SERVICE", (name,)), work)


register_drop(
    "SERVICE",
    lambda frame, tx, name: ddl_services.drop_service(tx, frame.database, frame.instance.engine.severance, name[0]),
)


def _name_or_any(tokens: Tokens) -> str | None:
    if tokens.accept("ANY"):
        return None
    return tokens.string() if tokens.at_string() else tokens.name()


PRIORITY_OPTIONS: Options = {
    "CONTRACT_NAME": ("contract", _name_or_any),
    "LOCAL_SERVICE_NAME": ("local_service", _name_or_any),
    "REMOTE_SERVICE_NAME": ("remote_service", _name_or_any),
    "PRIORITY_LEVEL": ("level", lambda tokens: 5 if tokens.accept("DEFAULT") else tokens.integer()),
}


@define("CREATE BROKER PRIORITY|ALTER BROKER PRIORITY")
def broker_priority(parser: Parser) -> Definition:
    """
    { CREATE | ALTER } BROKER PRIORITY name FOR CONVERSATION SET ( [ CONTRACT_NAME = { name | ANY } ]
        [ , LOCAL_SERVICE_NAME = { name | ANY } ] [ , REMOTE_SERVICE_NAME = { 'name' | ANY } ]
        [ , PRIORITY_LEVEL = { 1 .. 10 | DEFAULT } ] )
    """
    tokens = parser.tokens
    verb, name = tokens.word(-3), tokens.name()
    change = ddl_services.alter_priority if verb == "ALTER" else ddl_services.create_priority
    tokens.expect("FOR", "CONVERSATION")
    given: dict[str, Any] = {}
    if tokens.accept("SET"):
        tokens.expect("(")
        given = options(tokens, PRIORITY_OPTIONS)
        tokens.expect(")")

    def work(frame: Frame, tx: Transaction) -> None:
        change(tx, frame.database.catalog, name, **given)

    return Definition(parser.line, in_database("ALTER", 15151, "alter", "broker priority", name), work)


register_drop(
    "BROKER PRIORITY",
    lambda frame, tx, name: ddl_services.drop_priority(tx, frame.database.catalog, name[0]),
    lambda name: in_database("ALTER", 15151, "drop", "broker priority", name[0]),
)
