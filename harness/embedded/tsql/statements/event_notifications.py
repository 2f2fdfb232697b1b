"""CREATE and DROP EVENT NOTIFICATION."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.instance import securables
from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Step
from harness.embedded.tsql.statements.ddl import ddl, queue_name
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.text.parser import Parser, Statement


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


def _check(node: Any, frame: Frame, guard: Guard) -> None:
    queue = securables.find(frame, "OBJECT", node.queue)
    if queue is not None and not securables.is_held(frame, queue, "ALTER"):
        raise SqlServerError(15151, "alter", "queue", ".".join(node.queue))


def compile_create_event_notification(node: CreateEventNotification, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        current = node.broker_instance.lower() == "current database"
        for event in node.events:
            frame.database.create_event_notification(
                tx,
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
    check=_check,
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
            frame.database.drop_event_notification(tx, name, queue=queue_name(frame, node.queue))

    return ddl(work)


register(
    "DROP EVENT NOTIFICATION",
    parse_drop_event_notification,
    DropEventNotification,
    compile_drop_event_notification,
    check=_check,
)
