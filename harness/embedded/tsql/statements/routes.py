"""Routes and remote service bindings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.embedded.broker import ddl_routes
from harness.embedded.tsql.session.steps import Scope, Step
from harness.embedded.tsql.statements import checks
from harness.embedded.tsql.statements.ddl import authorization, ddl, owner_of, register_drop
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.text.parser import Parser, Statement

ROUTE_ARGUMENTS = {
    "SERVICE_NAME": "service_name",
    "BROKER_INSTANCE": "broker_instance",
    "LIFETIME": "lifetime_s",
    "ADDRESS": "address",
    "MIRROR_ADDRESS": "mirror_address",
}


@dataclass(frozen=True, slots=True)
class RouteOptions(Statement):
    """CREATE ROUTE and ALTER ROUTE."""

    name: str
    owner: str
    options: dict[str, str | int]


def _route_options(parser: Parser) -> dict[str, str | int]:
    tokens = parser.tokens
    options: dict[str, str | int] = {}

    def option() -> None:
        name = tokens.choose(*ROUTE_ARGUMENTS)
        tokens.expect("=")
        options[name] = tokens.integer() if name == "LIFETIME" else tokens.string()

    tokens.expect("WITH")
    tokens.comma_separated(option)
    return options


def _route_arguments(node: RouteOptions) -> dict[str, Any]:
    return {ROUTE_ARGUMENTS[name]: value for name, value in node.options.items()}


@dataclass(frozen=True, slots=True)
class CreateRoute(RouteOptions):
    pass


def parse_create_route(parser: Parser) -> Statement:
    """`CREATE ROUTE name [ AUTHORIZATION owner ] WITH [ SERVICE_NAME = '..', ] ADDRESS = '..' [ , ... ]`"""
    line, name, owner = parser.line, parser.tokens.name(), authorization(parser)
    options = _route_options(parser)
    if "ADDRESS" not in options:
        parser.tokens.fail()
    return CreateRoute(line, name, owner, options)


def compile_create_route(node: CreateRoute, scope: Scope) -> Step:
    arguments = _route_arguments(node)
    return ddl(
        lambda frame, tx: ddl_routes.create_route(
            tx, frame.database.catalog, node.name, **arguments, owner=owner_of(frame, node.owner)
        )
    )


register("CREATE ROUTE", parse_create_route, CreateRoute, compile_create_route, check=checks.create("CREATE ROUTE"))


@dataclass(frozen=True, slots=True)
class AlterRoute(RouteOptions):
    pass


def parse_alter_route(parser: Parser) -> Statement:
    """`ALTER ROUTE name WITH option [ , ... ]`"""
    return AlterRoute(parser.line, parser.tokens.name(), "", _route_options(parser))


def compile_alter_route(node: AlterRoute, scope: Scope) -> Step:
    arguments = _route_arguments(node)
    return ddl(lambda frame, tx: ddl_routes.alter_route(tx, frame.database.catalog, node.name, **arguments))


register(
    "ALTER ROUTE", parse_alter_route, AlterRoute, compile_alter_route, check=checks.on_broker_object("alter", "ROUTE")
)


register_drop("ROUTE", lambda frame, tx, name: ddl_routes.drop_route(tx, frame.database.catalog, name[0]))


@dataclass(frozen=True, slots=True)
class CreateRemoteServiceBinding(Statement):
    name: str
    owner: str
    service: str
    user: str
    anonymous: bool


def parse_create_remote_service_binding(parser: Parser) -> Statement:
    """
    CREATE REMOTE SERVICE BINDING name [ AUTHORIZATION owner ] TO SERVICE 'service'
        WITH USER = user [ , ANONYMOUS = { ON | OFF } ]
    """
    tokens, line = parser.tokens, parser.line
    name, owner = tokens.name(), authorization(parser)
    tokens.expect("TO", "SERVICE")
    service = tokens.string()
    tokens.expect("WITH", "USER", "=")
    user, anonymous = tokens.name(), False
    if tokens.accept(",", "ANONYMOUS", "="):
        anonymous = tokens.on_off()
    return CreateRemoteServiceBinding(line, name, owner, service, user, anonymous)


def compile_create_remote_service_binding(node: CreateRemoteServiceBinding, scope: Scope) -> Step:
    return ddl(
        lambda frame, tx: ddl_routes.create_remote_service_binding(
            tx,
            frame.database.catalog,
            node.name,
            to_service=node.service,
            user=node.user,
            anonymous=node.anonymous,
            owner=owner_of(frame, node.owner),
        )
    )


register(
    "CREATE REMOTE SERVICE BINDING",
    parse_create_remote_service_binding,
    CreateRemoteServiceBinding,
    compile_create_remote_service_binding,
    check=checks.create("CREATE REMOTE SERVICE BINDING"),
)


@dataclass(frozen=True, slots=True)
class AlterRemoteServiceBinding(Statement):
    name: str
    user: str | None
    anonymous: bool | None


def parse_alter_remote_service_binding(parser: Parser) -> Statement:
    """`ALTER REMOTE SERVICE BINDING name WITH [ USER = user ] [ , ANONYMOUS = { ON | OFF } ]`"""
    tokens, line = parser.tokens, parser.line
    name = tokens.name()
    tokens.expect("WITH")
    user = tokens.name() if tokens.accept("USER", "=") else None
    anonymous = None
    if (user is None or tokens.accept(",")) and tokens.accept("ANONYMOUS", "="):
        anonymous = tokens.on_off()
    return AlterRemoteServiceBinding(line, name, user, anonymous)


def compile_alter_remote_service_binding(node: AlterRemoteServiceBinding, scope: Scope) -> Step:
    return ddl(
        lambda frame, tx: ddl_routes.alter_remote_service_binding(
            tx, frame.database.catalog, node.name, user=node.user, anonymous=node.anonymous
        )
    )


register(
    "ALTER REMOTE SERVICE BINDING",
    parse_alter_remote_service_binding,
    AlterRemoteServiceBinding,
    compile_alter_remote_service_binding,
    check=checks.on_broker_object("alter", "REMOTE SERVICE BINDING"),
)


register_drop(
    "REMOTE SERVICE BINDING",
    lambda frame, tx, name: ddl_routes.drop_remote_service_binding(tx, frame.database.catalog, name[0]),
)
