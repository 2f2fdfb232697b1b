"""Queues and their event notifications."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.embedded.broker import ddl_queues
from harness.embedded.broker.definitions import ActivationOptions, QueueOptions
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.instance import securables
from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Step
from harness.embedded.tsql.statements import checks
from harness.embedded.tsql.statements.ddl import ddl, queue_name, register_drop
from harness.embedded.tsql.statements.procedures import compiled
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.text.parser import Parser, Statement


@dataclass(slots=True)
class QueueClauses:
    """The clauses of WITH; None: not written."""

    status: bool | None = None
    retention: bool | None = None
    poison_message_handling: bool | None = None
    has_activation: bool = False
    drop_activation: bool = False
    activation_status: bool | None = None
    procedure: tuple[str, ...] | None = None
    max_queue_readers: int | None = None
    execute_as: str | None = None


QUEUE_CLAUSES = ("STATUS", "RETENTION", "ACTIVATION", "POISON_MESSAGE_HANDLING")


@dataclass(frozen=True, slots=True)
class CreateQueue(Statement):
    name: tuple[str, ...]
    clauses: QueueClauses


def parse_create_queue(parser: Parser) -> Statement:
    """
    CREATE QUEUE name [ WITH [ STATUS = { ON | OFF } ] [ , RETENTION = { ON | OFF } ]
        [ , ACTIVATION ( [ STATUS = .. , ] PROCEDURE_NAME = name , MAX_QUEUE_READERS = n , EXECUTE AS user ) ]
        [ , POISON_MESSAGE_HANDLING ( STATUS = { ON | OFF } ) ] ] [ ON filegroup ]
    """
    line, name = parser.line, parser.tokens.object_name()
    clauses = _queue_clauses(parser) if parser.tokens.accept("WITH") else QueueClauses()
    if parser.tokens.accept("ON"):
        parser.tokens.name()
    return CreateQueue(line, name, clauses)


def compile_create_queue(node: CreateQueue, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        database, schema, name = frame.instance.located(node.name, frame.database)
        if frame.instance.table(node.name, frame.database) or frame.instance.procedure(node.name, frame.database):
            raise SqlServerError(2714, name)
        ddl_queues.create_queue(tx, database.catalog, schema, name, _queue_options(frame, node.clauses))

    return ddl(work)


register(
    "CREATE QUEUE",
    parse_create_queue,
    CreateQueue,
    compile_create_queue,
    check=checks.create("CREATE QUEUE", in_schema=True),
)


@dataclass(frozen=True, slots=True)
class AlterQueue(Statement):
    name: tuple[str, ...]
    clauses: QueueClauses


def parse_alter_queue(parser: Parser) -> Statement:
    """`ALTER QUEUE name WITH ...`, the clauses of CREATE QUEUE and ACTIVATION ( DROP )"""
    line, name = parser.line, parser.tokens.object_name()
    if parser.tokens.word() in ("REBUILD", "REORGANIZE", "MOVE"):
        parser.tokens.unsupported(f"ALTER QUEUE {parser.tokens.word()}")
    parser.tokens.expect("WITH")
    return AlterQueue(line, name, _queue_clauses(parser))


def compile_alter_queue(node: AlterQueue, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        database, schema, name = frame.instance.located(node.name, frame.database)
        ddl_queues.alter_queue(tx, database.catalog, schema, name, _queue_options(frame, node.clauses))

    return ddl(work)


register(
    "ALTER QUEUE", parse_alter_queue, AlterQueue, compile_alter_queue, check=checks.on_broker_object("alter", "QUEUE")
)


def _queue_clauses(parser: Parser) -> QueueClauses:
    tokens, clauses = parser.tokens, QueueClauses()
    while True:
        clause = tokens.choose(*QUEUE_CLAUSES)
        if clause == "STATUS":
            tokens.expect("=")
            clauses.status = tokens.on_off()
        elif clause == "RETENTION":
            tokens.expect("=")
            clauses.retention = tokens.on_off()
        elif clause == "ACTIVATION":
            _activation(parser, clauses)
        else:
            tokens.expect("(", "STATUS", "=")
            clauses.poison_message_handling = tokens.on_off()
            tokens.expect(")")
        if not tokens.accept(",") and tokens.word() not in QUEUE_CLAUSES:
            return clauses


def _activation(parser: Parser, clauses: QueueClauses) -> None:
    tokens = parser.tokens
    clauses.has_activation = True
    tokens.expect("(")
    if tokens.accept("DROP", ")"):
        clauses.drop_activation = True
        return
    while not tokens.accept(")"):
        option = tokens.choose("STATUS", "PROCEDURE_NAME", "MAX_QUEUE_READERS", "EXECUTE")
        if option == "EXECUTE":
            tokens.expect("AS")
            clauses.execute_as = tokens.string() if tokens.at_string() else tokens.choose("SELF", "OWNER")
        else:
            tokens.expect("=")
            if option == "STATUS":
                clauses.activation_status = tokens.on_off()
            elif option == "PROCEDURE_NAME":
                clauses.procedure = tokens.object_name()
            else:
                clauses.max_queue_readers = tokens.integer()
        tokens.accept(",")


def _queue_options(frame: Frame, clauses: QueueClauses) -> QueueOptions:
    activation: ActivationOptions | None = None
    if clauses.has_activation:
        activation = ActivationOptions(
            status=clauses.activation_status,
            procedure=_procedure_name(frame, clauses.procedure) if clauses.procedure else None,
            max_queue_readers=clauses.max_queue_readers,
            execute_as=frame.session.user_name() if clauses.execute_as == "SELF" else clauses.execute_as,
            drop=clauses.drop_activation,
        )
    return QueueOptions(
        status=clauses.status,
        retention=clauses.retention,
        activation=activation,
        poison_message_handling=clauses.poison_message_handling,
    )


def _procedure_name(frame: Frame, parts: tuple[str, ...]) -> str:
    """The three-part name in sys.service_queues. The procedure need not exist yet."""
    database, schema, name = frame.instance.located(parts, frame.database)
    if name.startswith("#"):
        raise SqlServerError(9742)
    procedure = frame.instance.procedure(parts, frame.database)
    if procedure is not None and compiled(procedure).names:
        raise SqlServerError(9653)
    return ".".join(f"[{part.replace(']', ']]')}]" for part in (database.name, schema, name))


def _drop_queue(frame: Frame, tx: Transaction, name: tuple[str, ...]) -> None:
    database, schema, queue = frame.instance.located(name, frame.database)
    ddl_queues.drop_queue(tx, database.catalog, schema, queue)


register_drop("QUEUE", _drop_queue)


@dataclass(frozen=True, slots=True)
class CreateEventNotification(Statement):
    name: str
    queue: tuple[str, ...]
    events: list[str]
    service: str
    broker_instance: str


def parse_create_event_notification(parser: Parser) -> Statement:
    """
    CREATE EVENT NOTIFICATION name ON QUEUE queue [ WITH FAN_IN ]
        FOR { QUEUE_ACTIVATION | BROKER_QUEUE_DISABLED } TO SERVICE 'service', { 'broker' | 'current database' }
    """
    tokens, line = parser.tokens, parser.line
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
    return CreateEventNotification(line, name, queue, events, service, tokens.string())


def _check_notification(node: Any, frame: Frame, guard: Guard) -> None:
    queue = securables.find(frame, "OBJECT", node.queue)
    if queue is not None and not securables.is_held(frame, queue, "ALTER"):
        raise SqlServerError(15151, "alter", "queue", ".".join(node.queue))


def compile_create_event_notification(node: CreateEventNotification, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        current = node.broker_instance.lower() == "current database"
        for event in node.events:
            ddl_queues.create_event_notification(
                tx,
                frame.database.catalog,
                node.name,
                queue=queue_name(frame, node.queue),
                event=event,
                service=node.service,
                broker_instance=None if current else node.broker_instance,
            )

    return ddl(work)


register(
    "CREATE EVENT NOTIFICATION",
    parse_create_event_notification,
    CreateEventNotification,
    compile_create_event_notification,
    check=_check_notification,
)


@dataclass(frozen=True, slots=True)
class DropEventNotification(Statement):
    names: list[str]
    queue: tuple[str, ...]


def parse_drop_event_notification(parser: Parser) -> Statement:
    """`DROP EVENT NOTIFICATION name [ , ... ] ON QUEUE queue`"""
    tokens, line = parser.tokens, parser.line
    names = tokens.comma_separated(tokens.name)
    tokens.expect("ON", "QUEUE")
    return DropEventNotification(line, names, tokens.object_name())


def compile_drop_event_notification(node: DropEventNotification, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        for name in node.names:
            ddl_queues.drop_event_notification(tx, frame.database.catalog, name, queue=queue_name(frame, node.queue))

    return ddl(work)


register(
    "DROP EVENT NOTIFICATION",
    parse_drop_event_notification,
    DropEventNotification,
    compile_drop_event_notification,
    check=_check_notification,
)
