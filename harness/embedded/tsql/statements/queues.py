"""Queues and their event notifications."""

from __future__ import annotations

from typing import Any

from harness.embedded.broker import ddl_services
from harness.embedded.broker.definitions import ActivationOptions, QueueOptions
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.statements.definitions import (
    Definition,
    ObjectName,
    creating,
    define,
    dropping_from_schema,
    on_object,
    queue_name,
    register_drop,
)
from harness.embedded.tsql.statements.procedures import compiled
from harness.embedded.tsql.text.parser import Parser
from harness.embedded.tsql.text.tokens import Tokens


@define("CREATE QUEUE")
def create_queue(parser: Parser) -> Definition:
    """
    CREATE QUEUE name [ WITH [ STATUS = { ON | OFF } ] [ , RETENTION = { ON | OFF } ]
        [ , ACTIVATION ( [ STATUS = .. , ] PROCEDURE_NAME = name , MAX_QUEUE_READERS = n , EXECUTE AS user ) ]
        [ , POISON_MESSAGE_HANDLING ( STATUS = { ON | OFF } ) ] ] [ ON filegroup ]
    """
    tokens = parser.tokens
    name = tokens.object_name()
    clauses = _clauses(tokens) if tokens.accept("WITH") else {}
    if tokens.accept("ON"):
        tokens.name()

    def work(frame: Frame, tx: Transaction) -> None:
        database, schema, queue = frame.instance.located(name, frame.database)
        if frame.instance.table(name, frame.database) or frame.instance.procedure(name, frame.database):
            raise SqlServerError(2714, queue)
        ddl_services.create_queue(tx, database.catalog, schema, queue, _options(frame, clauses))

    return Definition(parser.line, creating("CREATE QUEUE", in_schema=True), work)


@define("ALTER QUEUE")
def alter_queue(parser: Parser) -> Definition:
    """`ALTER QUEUE name WITH ...`, the clauses of CREATE QUEUE and ACTIVATION ( DROP )"""
    tokens = parser.tokens
    name = tokens.object_name()
    if tokens.word() in ("REBUILD", "REORGANIZE", "MOVE"):
        tokens.unsupported(f"ALTER QUEUE {tokens.word()}")
    tokens.expect("WITH")
    clauses = _clauses(tokens)

    def work(frame: Frame, tx: Transaction) -> None:
        database, schema, queue = frame.instance.located(name, frame.database)
        ddl_services.alter_queue(tx, database.catalog, schema, queue, _options(frame, clauses))

    return Definition(parser.line, on_object("alter", "QUEUE", name), work)


CLAUSES = ("STATUS", "RETENTION", "ACTIVATION", "POISON_MESSAGE_HANDLING")


def _clauses(tokens: Tokens) -> dict[str, Any]:
    """The clauses of WITH that are written, by the names of `QueueOptions`; the activation is a dict of its own."""
    given: dict[str, Any] = {}
    while True:
        clause = tokens.choose(*CLAUSES)
        if clause == "ACTIVATION":
            given["activation"] = _activation(tokens)
        elif clause == "POISON_MESSAGE_HANDLING":
            tokens.expect("(", "STATUS", "=")
            given["poison_message_handling"] = tokens.on_off()
            tokens.expect(")")
        else:
            tokens.expect("=")
            given[clause.lower()] = tokens.on_off()
        if not tokens.accept(",") and tokens.word() not in CLAUSES:
            return given


def _activation(tokens: Tokens) -> dict[str, Any]:
    given: dict[str, Any] = {}
    tokens.expect("(")
    if tokens.accept("DROP", ")"):
        return {"drop": True}
    while not tokens.accept(")"):
        option = tokens.choose("STATUS", "PROCEDURE_NAME", "MAX_QUEUE_READERS", "EXECUTE")
        tokens.expect("AS" if option == "EXECUTE" else "=")
        if option == "STATUS":
            given["status"] = tokens.on_off()
        elif option == "PROCEDURE_NAME":
            given["procedure"] = tokens.object_name()
        elif option == "MAX_QUEUE_READERS":
            given["max_queue_readers"] = tokens.integer()
        else:
            given["execute_as"] = tokens.string() if tokens.at_string() else tokens.choose("SELF", "OWNER")
        tokens.accept(",")
    return given


def _options(frame: Frame, clauses: dict[str, Any]) -> QueueOptions:
    if "activation" not in clauses:
        return QueueOptions(**clauses)
    activation = dict(clauses["activation"])
    if "procedure" in activation:
        activation["procedure"] = _procedure_name(frame, activation["procedure"])
    if activation.get("execute_as") == "SELF":
        activation["execute_as"] = frame.session.user_name()
    return QueueOptions(**clauses | {"activation": ActivationOptions(**activation)})


def _procedure_name(frame: Frame, parts: ObjectName) -> str:
    """The three-part name in sys.service_queues. The procedure need not exist yet."""
    database, schema, name = frame.instance.located(parts, frame.database)
    if name.startswith("#"):
        raise SqlServerError(9742)
    procedure = frame.instance.procedure(parts, frame.database)
    if procedure is not None and compiled(procedure).names:
        raise SqlServerError(9653)
    return ".".join(f"[{part.replace(']', ']]')}]" for part in (database.name, schema, name))


def _drop_queue(frame: Frame, tx: Transaction, name: ObjectName) -> None:
    database, schema, queue = frame.instance.located(name, frame.database)
    ddl_services.drop_queue(tx, database.catalog, schema, queue)


register_drop("QUEUE", _drop_queue, lambda name: dropping_from_schema("queue", name), in_schema=True)


@define("CREATE EVENT NOTIFICATION")
def create_event_notification(parser: Parser) -> Definition:
    """
    CREATE EVENT NOTIFICATION name ON QUEUE queue [ WITH FAN_IN ]
        FOR { QUEUE_ACTIVATION | BROKER_QUEUE_DISABLED } TO SERVICE 'service', { 'broker' | 'current database' }
    """
    tokens = parser.tokens
    name = tokens.name()
    tokens.expect("ON")
    if not tokens.accept("QUEUE"):
        tokens.unsupported(f"event notifications on {tokens.word()}")
    queue = tokens.object_name()
    tokens.accept("WITH", "FAN_IN")
    tokens.expect("FOR")
    events = tokens.comma_separated(lambda: tokens.choose("QUEUE_ACTIVATION", "BROKER_QUEUE_DISABLED"))
    tokens.expect("TO", "SERVICE")
    service = tokens.string()
    tokens.expect(",")
    broker = tokens.string()

    def work(frame: Frame, tx: Transaction) -> None:
        for event in events:
            ddl_services.create_event_notification(
                tx,
                frame.database.catalog,
                name,
                queue=queue_name(frame, queue),
                event=event,
                service=service,
                broker_instance=None if broker.lower() == "current database" else broker,
            )

    return Definition(parser.line, on_object("alter", "QUEUE", queue), work)


@define("DROP EVENT NOTIFICATION")
def drop_event_notification(parser: Parser) -> Definition:
    """`DROP EVENT NOTIFICATION name [ , ... ] ON QUEUE queue`"""
    tokens = parser.tokens
    names = tokens.comma_separated(tokens.name)
    tokens.expect("ON", "QUEUE")
    queue = tokens.object_name()

    def work(frame: Frame, tx: Transaction) -> None:
        for name in names:
            ddl_services.drop_event_notification(tx, frame.database.catalog, name, queue=queue_name(frame, queue))

    return Definition(parser.line, on_object("alter", "QUEUE", queue), work)
