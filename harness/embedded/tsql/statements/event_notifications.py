"""CREATE and DROP EVENT NOTIFICATION, and the DDL events that statements raise."""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from harness.embedded.broker import ddl, ddl_services
from harness.embedded.broker.database import Database
from harness.embedded.broker.definitions import Watched
from harness.embedded.broker.event_notifications import OF_SERVER, elements
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.tsql.catalog.event_views import EVENT_TYPES, GROUPS, OF_QUEUES, OF_THE_SERVER
from harness.embedded.tsql.instance import securables
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Scope, Step
from harness.embedded.tsql.statements import definitions
from harness.embedded.tsql.statements.registry import COMPILERS
from harness.embedded.tsql.text.ddl_events import DdlStatement
from harness.embedded.tsql.text.parser import Parser
from harness.embedded.tsql.text.tokens import Tokens

OF_SCHEMAS = ("TABLE", "VIEW", "PROCEDURE", "FUNCTION", "TRIGGER", "QUEUE")


class _Place(NamedTuple):
    """ON { SERVER | DATABASE | QUEUE queue }"""

    word: str
    queue: definitions.ObjectName

    def check(self) -> definitions.Check:
        if self.word == "SERVER":
            return definitions.on_server("CREATE DDL EVENT NOTIFICATION")
        if self.word == "DATABASE":
            right = "CREATE DATABASE DDL EVENT NOTIFICATION"
            return lambda frame, guard: definitions.in_database(right, 262, right, frame.database.name)(frame, guard)
        return definitions.on_object("alter", "QUEUE", self.queue)

    def watched(self, frame: Frame) -> tuple[Database, Watched]:
        """What has the notification, and the database that keeps it."""
        database = frame.database
        if self.word == "SERVER":
            keeper = frame.instance.database(OF_SERVER)
            return keeper, keeper.catalog.watched_server
        if self.word == "DATABASE":
            return database, database.catalog.watched
        name = definitions.queue_name(frame, self.queue)
        return database, ddl.find(database.catalog.queues, "find", "queue", name, name.lower())


def _place(tokens: Tokens) -> _Place:
    tokens.expect("ON")
    word = tokens.choose("SERVER", "DATABASE", "QUEUE")
    return _Place(word, tokens.object_name() if word == "QUEUE" else ())


def _events(tokens: Tokens, place: str) -> Iterator[str]:
    """The events that one word names; 1098 for one that does not happen at the place."""
    line, name = tokens.line, tokens.name().upper()
    if name not in EVENT_TYPES and name not in GROUPS:
        tokens.unsupported(f"event notifications for {name}")
    for event in GROUPS[name].events if name in GROUPS else (name,):
        valid = ["QUEUE"] if event in OF_QUEUES else ["SERVER"] if event in OF_THE_SERVER else ["SERVER", "DATABASE"]
        if place not in valid:
            raise SqlServerError(1098, line=line)
        yield event


@definitions.define("CREATE EVENT NOTIFICATION")
def create_event_notification(parser: Parser) -> definitions.Definition:
    """
    CREATE EVENT NOTIFICATION name ON { SERVER | DATABASE | QUEUE queue } [ WITH FAN_IN ]
        FOR { event_type | event_group } [ , ... ] TO SERVICE 'service', { 'broker' | 'current database' }
    """
    tokens = parser.tokens
    name, place = tokens.name(), _place(tokens)
    is_fan_in = tokens.accept("WITH", "FAN_IN")
    tokens.expect("FOR")
    lists = tokens.comma_separated(lambda: list(_events(tokens, place.word)))
    events = list(dict.fromkeys(event for events in lists for event in events))
    tokens.expect("TO", "SERVICE")
    service = tokens.string()
    tokens.expect(",")
    broker = tokens.string()

    def work(frame: Frame, tx: Transaction) -> None:
        database, watched = place.watched(frame)
        is_here = broker.lower() == "current database"
        ddl_services.create_event_notification(
            tx,
            database.catalog,
            name,
            watched=watched,
            events=events,
            service=service,
            broker_instance=frame.database.catalog.service_broker_guid if is_here else broker,
            creator=frame.session.login if is_fan_in else None,
        )

    return definitions.Definition(parser.line, place.check(), work)


@definitions.define("DROP EVENT NOTIFICATION")
def drop_event_notification(parser: Parser) -> definitions.Definition:
    """`DROP EVENT NOTIFICATION name [ , ... ] ON { SERVER | DATABASE | QUEUE queue }`"""
    tokens = parser.tokens
    names = tokens.comma_separated(tokens.name)
    place = _place(tokens)

    def work(frame: Frame, tx: Transaction) -> Waiting[None]:
        database, watched = place.watched(frame)
        dropped = [ddl_services.drop_event_notification(tx, database.catalog, watched, name) for name in names]
        return frame.instance.engine.notifier.end(tx, database, dropped)

    return definitions.Definition(parser.line, place.check(), work)


# -- the events of statements ------------------------------------------------------------------------------------------


def _compile_ddl(node: DdlStatement, scope: Scope) -> Step:
    inner = scope.compile(node.statement).run
    permanent = [name for name in node.names if not name[-1].startswith("#")]

    def run(frame: Frame) -> Waiting[Any]:
        verb, names = node.verb, permanent
        if names and verb == "CREATE OR ALTER":
            verb = "ALTER" if _exists(frame, node.kind, names[0]) else "CREATE"
        elif verb == "DROP" and node.kind in OF_SCHEMAS:  # IF EXISTS
            names = [name for name in names if _exists(frame, node.kind, name)]
        signal = inner(frame)
        if signal is not None:
            signal = yield from signal
        event = f"{verb}_{node.kind.replace(' ', '_')}"
        for name in names:
            database, details = _details(frame, node, name)
            tell = partial(frame.instance.engine.notifier.notify, event, details, database)
            if frame.session.tx is None:
                tell()
            else:
                frame.session.tx.on_commit(tell)
        return signal

    return Step(run)


def _exists(frame: Frame, kind: str, name: tuple[str, ...]) -> bool:
    if kind == "TRIGGER":
        return frame.instance.trigger(name, frame.database) is not None
    return securables.find(frame, "OBJECT", name) is not None


COMPILERS[DdlStatement] = _compile_ddl


def _details(frame: Frame, node: DdlStatement, name: tuple[str, ...]) -> tuple[Database, str]:
    """The database and, as XML, the details of an event about an object: the schema that the manual publishes."""
    session, database, schema = frame.session, frame.database, ""
    if node.kind in OF_SCHEMAS:
        database, schema, _ = frame.instance.located(name, database)
    elif node.kind == "SCHEMA":
        schema = name[-1]
    details = elements(
        ("SPID", session.spid),
        ("ServerName", frame.instance.engine.name),
        ("LoginName", session.login),
        ("UserName", session.user_name()),
        ("DatabaseName", database.name),
        ("SchemaName", schema),
        ("ObjectName", name[-1]),
        ("ObjectType", node.kind),
    )
    options = {
        "ANSI_NULLS": "ON",
        "ANSI_NULL_DEFAULT": "ON",
        "ANSI_PADDING": "ON",
        "QUOTED_IDENTIFIER": "ON" if session.options.quoted_identifier else "OFF",
        "ENCRYPTED": "FALSE",
    }
    attributes = " ".join(f'{option}="{value}"' for option, value in options.items())
    command = f"<SetOptions {attributes}/>{elements(('CommandText', node.text))}"
    return database, f"{details}<TSQLCommand>{command}</TSQLCommand>"
