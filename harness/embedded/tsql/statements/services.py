"""Services, and conversation priorities (BROKER PRIORITY)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.embedded.broker import ddl_services
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.instance import securables
from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Step
from harness.embedded.tsql.statements import checks
from harness.embedded.tsql.statements.ddl import authorization, ddl, owner_of, queue_name, register_drop
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.text.parser import ParseFunction, Parser, Statement


@dataclass(frozen=True, slots=True)
class CreateService(Statement):
    name: str
    owner: str
    queue: tuple[str, ...]
    contracts: list[str]


def parse_create_service(parser: Parser) -> Statement:
    """`CREATE SERVICE name [ AUTHORIZATION owner ] ON QUEUE queue [ ( contract [ , ... ] ) ]`"""
    tokens, line = parser.tokens, parser.line
    name, owner = tokens.name(), authorization(parser)
    tokens.expect("ON", "QUEUE")
    queue = tokens.object_name()
    contracts: list[str] = []
    if tokens.accept("("):
        contracts = tokens.comma_separated(tokens.name)
        tokens.expect(")")
    return CreateService(line, name, owner, queue, contracts)


def _check_create(node: CreateService, frame: Frame, guard: Guard) -> None:
    checks.create("CREATE SERVICE")(node, frame, guard)
    queue = securables.find(frame, "OBJECT", node.queue)
    if queue is not None and not securables.is_held(frame, queue, "CONTROL"):
        raise SqlServerError(15151, "find", "queue", ".".join(node.queue))


def compile_create_service(node: CreateService, scope: Scope) -> Step:
    return ddl(
        lambda frame, tx: ddl_services.create_service(
            tx,
            frame.database.catalog,
            node.name,
            queue=queue_name(frame, node.queue),
            contracts=node.contracts,
            owner=owner_of(frame, node.owner),
        )
    )


register("CREATE SERVICE", parse_create_service, CreateService, compile_create_service, check=_check_create)


@dataclass(frozen=True, slots=True)
class AlterService(Statement):
    name: str
    queue: tuple[str, ...] | None
    add: list[str]
    drop: list[str]


def parse_alter_service(parser: Parser) -> Statement:
    """`ALTER SERVICE name [ ON QUEUE queue ] [ ( { ADD | DROP } CONTRACT contract [ , ... ] ) ]`"""
    tokens, line = parser.tokens, parser.line
    name = tokens.name()
    queue = tokens.object_name() if tokens.accept("ON", "QUEUE") else None
    changes: dict[str, list[str]] = {"ADD": [], "DROP": []}
    if tokens.accept("("):

        def change() -> None:
            verb = tokens.choose("ADD", "DROP")
            tokens.expect("CONTRACT")
            changes[verb].append(tokens.name())

        tokens.comma_separated(change)
        tokens.expect(")")
    return AlterService(line, name, queue, changes["ADD"], changes["DROP"])


def compile_alter_service(node: AlterService, scope: Scope) -> Step:
    return ddl(
        lambda frame, tx: ddl_services.alter_service(
            tx,
            frame.database,
            frame.instance.engine.delivery,
            node.name,
            queue=queue_name(frame, node.queue) if node.queue else None,
            add_contracts=node.add,
            drop_contracts=node.drop,
        )
    )


register(
    "ALTER SERVICE",
    parse_alter_service,
    AlterService,
    compile_alter_service,
    check=checks.on_broker_object("alter", "SERVICE"),
)


register_drop(
    "SERVICE",
    lambda frame, tx, name: ddl_services.drop_service(tx, frame.database, frame.instance.engine.severance, name[0]),
)


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
            ddl_services.alter_priority(tx, frame.database.catalog, node.name, **given)
        else:
            ddl_services.create_priority(tx, frame.database.catalog, node.name, **given)

    return ddl(work)


for _verb in ("CREATE", "ALTER"):
    register(
        f"{_verb} BROKER PRIORITY",
        parse_broker_priority(_verb),
        BrokerPriority,
        compile_broker_priority,
        check=checks.on_broker_object("alter", "BROKER PRIORITY"),
    )
register_drop(
    "BROKER PRIORITY", lambda frame, tx, name: ddl_services.drop_priority(tx, frame.database.catalog, name[0])
)
