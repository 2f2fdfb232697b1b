"""The ways to other instances: routes, remote service bindings and the endpoint."""

from ipaddress import ip_address
from typing import Any

from harness.embedded.broker import ddl_network
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.tsql.permissions.rights import SERVER, Securable
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Scope, Step, waiting
from harness.embedded.tsql.statements import definitions
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.text.parser import Parser, Statement
from harness.embedded.tsql.text.tokens import Tokens

ROUTE_OPTIONS: definitions.Options = {
    "SERVICE_NAME": ("service_name", Tokens.string),
    "BROKER_INSTANCE": ("broker_instance", Tokens.string),
    "LIFETIME": ("lifetime_s", Tokens.integer),
    "ADDRESS": ("address", Tokens.string),
    "MIRROR_ADDRESS": ("mirror_address", Tokens.string),
}


@definitions.define("CREATE ROUTE")
def create_route(parser: Parser) -> definitions.Definition:
    """`CREATE ROUTE name [ AUTHORIZATION owner ] WITH [ SERVICE_NAME = '..', ] ADDRESS = '..' [ , ... ]`"""
    tokens = parser.tokens
    name, owner = tokens.name(), definitions.authorization(tokens)
    tokens.expect("WITH")
    clauses = definitions.options(tokens, ROUTE_OPTIONS)
    if "address" not in clauses:
        tokens.fail()

    def work(frame: Frame, tx: Transaction) -> None:
        ddl_network.create_route(tx, frame.database.catalog, name, **clauses, owner=definitions.owner_of(frame, owner))

    return definitions.Definition(parser.line, definitions.creating("CREATE ROUTE", owner), work)


@definitions.define("ALTER ROUTE")
def alter_route(parser: Parser) -> definitions.Definition:
    """`ALTER ROUTE name WITH option [ , ... ]`"""
    name = parser.tokens.name()
    parser.tokens.expect("WITH")
    clauses = definitions.options(parser.tokens, ROUTE_OPTIONS)

    def work(frame: Frame, tx: Transaction) -> None:
        ddl_network.alter_route(tx, frame.database.catalog, name, **clauses)

    return definitions.Definition(parser.line, definitions.on_object("alter", "ROUTE", (name,)), work)


definitions.register_drop("ROUTE", lambda frame, tx, name: ddl_network.drop_route(tx, frame.database.catalog, name[0]))


BINDING_OPTIONS: definitions.Options = {"USER": ("user", Tokens.name), "ANONYMOUS": ("anonymous", Tokens.on_off)}


@definitions.define("CREATE REMOTE SERVICE BINDING")
def create_remote_service_binding(parser: Parser) -> definitions.Definition:
    """
    CREATE REMOTE SERVICE BINDING name [ AUTHORIZATION owner ] TO SERVICE 'service'
        WITH USER = user [ , ANONYMOUS = { ON | OFF } ]
    """
    tokens = parser.tokens
    name, owner = tokens.name(), definitions.authorization(tokens)
    tokens.expect("TO", "SERVICE")
    service = tokens.string()
    tokens.expect("WITH")
    if not tokens.at("USER"):
        tokens.fail()
    clauses = definitions.options(tokens, BINDING_OPTIONS)

    def work(frame: Frame, tx: Transaction) -> None:
        catalog = frame.database.catalog
        ddl_network.create_remote_service_binding(
            tx, catalog, name, to_service=service, owner=definitions.owner_of(frame, owner), **clauses
        )

    return definitions.Definition(parser.line, definitions.creating("CREATE REMOTE SERVICE BINDING", owner), work)


@definitions.define("ALTER REMOTE SERVICE BINDING")
def alter_remote_service_binding(parser: Parser) -> definitions.Definition:
    """`ALTER REMOTE SERVICE BINDING name WITH [ USER = user ] [ , ANONYMOUS = { ON | OFF } ]`"""
    name = parser.tokens.name()
    parser.tokens.expect("WITH")
    clauses = {"user": None, "anonymous": None} | definitions.options(parser.tokens, BINDING_OPTIONS)

    def work(frame: Frame, tx: Transaction) -> None:
        ddl_network.alter_remote_service_binding(tx, frame.database.catalog, name, **clauses)

    return definitions.Definition(parser.line, definitions.on_object("alter", "REMOTE SERVICE BINDING", (name,)), work)


definitions.register_drop(
    "REMOTE SERVICE BINDING",
    lambda frame, tx, name: ddl_network.drop_remote_service_binding(tx, frame.database.catalog, name[0]),
)


def _listener_ip(tokens: Tokens) -> str | None:
    """`{ ALL | ( a.b.c.d ) | ( 'ip' ) }`; None for ALL."""
    if tokens.accept("ALL"):
        return None
    tokens.expect("(")
    ip = tokens.string() if tokens.at_string() else ""
    while not tokens.accept(")"):
        ip += tokens.advance().text
    try:
        return str(ip_address(ip))
    except ValueError:
        raise SqlServerError(102, ip, line=tokens.line) from None


def _authentication(tokens: Tokens) -> dict[str, Any]:
    words: list[str] = []
    settings: dict[str, Any] = {}
    while tokens.word() in ("WINDOWS", "CERTIFICATE", "NTLM", "KERBEROS", "NEGOTIATE"):
        words.append(tokens.advance().text.upper())
        if words[-1] == "CERTIFICATE":
            settings["certificate"] = tokens.name()
    if not words:
        tokens.fail()
    return {"authentication": " ".join(words), **settings}


def _encryption(tokens: Tokens) -> dict[str, Any]:
    encryption = tokens.choose("DISABLED", "SUPPORTED", "REQUIRED")
    words: list[str] = []
    if tokens.accept("ALGORITHM"):
        words.append(tokens.choose("AES", "RC4"))
        if tokens.word() in ("AES", "RC4"):
            words.append(tokens.advance().text.upper())
    return {"encryption": encryption, "algorithm": " ".join(words) or "AES"}


INT_MAX = 2**31 - 1
LISTENER_OPTIONS: definitions.Options = {
    "LISTENER_PORT": ("port", lambda tokens: tokens.integer_between(1, 65535)),
    "LISTENER_IP": ("ip", _listener_ip),
}
ENDPOINT_OPTIONS: definitions.Options = {
    "AUTHENTICATION": ("security", _authentication),
    "ENCRYPTION": ("algorithms", _encryption),
    # Messages are not forwarded.
    "MESSAGE_FORWARDING": ("forwarding", lambda tokens: tokens.choose("ENABLED", "DISABLED")),
    "MESSAGE_FORWARD_SIZE": ("forward_size", lambda tokens: tokens.integer_between(1, INT_MAX)),
}


def _endpoint_settings(tokens: Tokens, verb: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if tokens.accept("STATE", "="):
        settings["state"] = tokens.choose("STARTED", "STOPPED", "DISABLED")
    tokens.accept(",")
    if tokens.accept("AS"):
        tokens.expect("TCP", "(")
        settings |= definitions.options(tokens, LISTENER_OPTIONS, commas=False)
        tokens.expect(")")
    if verb == "CREATE" or tokens.at("FOR"):
        tokens.expect("FOR")
        if not tokens.accept("SERVICE_BROKER"):
            tokens.unsupported(f"an endpoint for {tokens.word()}")
        tokens.expect("(")
        endpoint_options = {} if tokens.at(")") else definitions.options(tokens, ENDPOINT_OPTIONS, commas=False)
        settings |= endpoint_options.get("security", {}) | endpoint_options.get("algorithms", {})
        tokens.expect(")")
    if verb == "CREATE" and "port" not in settings:
        tokens.fail()
    return settings


class EndpointDefinition(definitions.Definition):
    """CREATE or ALTER ENDPOINT: once it is committed, the instance listens or cannot."""


def parse_endpoint(parser: Parser) -> Statement:
    """
    CREATE ENDPOINT name [ AUTHORIZATION login ] [ STATE = { STARTED | STOPPED | DISABLED } ]
        AS TCP ( LISTENER_PORT = n [ , LISTENER_IP = { ALL | ( a.b.c.d ) | ( 'ip' ) } ] )
        FOR SERVICE_BROKER ( [ AUTHENTICATION = ... ] [ , ENCRYPTION = ... ] [ , MESSAGE_FORWARDING = ... ]
                             [ , MESSAGE_FORWARD_SIZE = megabytes ] )
    ALTER ENDPOINT takes each clause alone.
    """
    tokens = parser.tokens
    verb, name = tokens.word(-2), tokens.name()
    definitions.authorization(tokens)
    settings = _endpoint_settings(tokens, verb)

    def work(frame: Frame, tx: Transaction) -> None:
        definitions.outside_transactions(frame, f"{verb} ENDPOINT")
        link = frame.instance.engine.link
        if verb == "ALTER":
            ddl_network.alter_endpoint(tx, link, name, **settings)
            return
        created = ddl_network.create_endpoint(tx, link, name, **settings)
        if frame.session.guard is not None:
            owner = frame.session.guard.login.lower()
            frame.instance.grants.set_owner(tx, Securable(SERVER, "ENDPOINT", created.endpoint_id), owner)

    check = (
        definitions.on_server("CREATE ENDPOINT")
        if verb == "CREATE"
        else definitions.on_object("alter", "ENDPOINT", (name,))
    )
    return EndpointDefinition(parser.line, check, work)


@register("CREATE ENDPOINT|ALTER ENDPOINT", parse_endpoint, EndpointDefinition)
def compile_endpoint(node: EndpointDefinition, scope: Scope) -> Step:
    """The endpoint is changed also where the instance cannot listen: the statement then fails with 9692 or 9693."""
    change = definitions.definition_step(node.check, node.work)

    def run(frame: Frame) -> Waiting[None]:
        yield from change.run(frame)
        failure = frame.instance.engine.link.failure
        if failure is not None:
            raise SqlServerError(*failure)

    return waiting(run)


definitions.register_drop(
    "ENDPOINT",
    lambda frame, tx, name: ddl_network.drop_endpoint(tx, frame.instance.engine.link, name[0]),
    lambda name: definitions.on_object("drop", "ENDPOINT", name, "CONTROL"),
    exists=lambda frame, name: frame.instance.engine.link.endpoint,
)
