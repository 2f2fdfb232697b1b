"""CREATE, ALTER and DROP ENDPOINT."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.embedded.broker import ddl_endpoints
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.instance import securables
from harness.embedded.tsql.permissions.grants import SERVER, Securable
from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Step, writing
from harness.embedded.tsql.statements import checks
from harness.embedded.tsql.statements.ddl import ObjectName, authorization, register_drop
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.text.parser import ParseFunction, Parser, Statement


@dataclass(frozen=True, slots=True)
class Endpoint(Statement):
    """CREATE ENDPOINT and ALTER ENDPOINT for Service Broker; None: the setting keeps its value."""

    verb: str
    name: str
    state: str | None
    port: int | None
    ip: str | None
    authentication: str | None
    certificate: str | None
    encryption: str | None
    algorithm: str | None
    forwarding: bool | None
    forward_size: int | None


def parse_endpoint(verb: str) -> ParseFunction:
    """
    CREATE ENDPOINT name [ AUTHORIZATION login ] [ STATE = { STARTED | STOPPED | DISABLED } ]
        AS TCP ( LISTENER_PORT = n [ , LISTENER_IP = { ALL | ( a.b.c.d ) | ( 'ip' ) } ] )
        FOR SERVICE_BROKER ( [ AUTHENTICATION = ... ] [ , ENCRYPTION = ... ] [ , MESSAGE_FORWARDING = ... ]
                             [ , MESSAGE_FORWARD_SIZE = megabytes ] )
    ALTER ENDPOINT takes each clause alone.
    """

    def parse(parser: Parser) -> Statement:
        tokens, line = parser.tokens, parser.line
        name = tokens.name()
        authorization(parser)
        state: str | None = None
        if tokens.accept("STATE", "="):
            state = tokens.choose("STARTED", "STOPPED", "DISABLED")
        tokens.accept(",")
        port, ip = _listener(parser)
        options = _broker_options(parser, required=verb == "CREATE")
        if verb == "CREATE" and port is None:
            tokens.fail()
        return Endpoint(line, verb, name, state, port, ip, **options)

    return parse


def _listener(parser: Parser) -> tuple[int | None, str | None]:
    tokens = parser.tokens
    port: int | None = None
    ip: str | None = None
    if not tokens.accept("AS"):
        return port, ip
    tokens.expect("TCP", "(")
    while not tokens.accept(")"):
        if tokens.choose("LISTENER_PORT", "LISTENER_IP") == "LISTENER_PORT":
            tokens.expect("=")
            port = tokens.integer()
        else:
            tokens.expect("=")
            ip = _listener_ip(parser)
        tokens.accept(",")
    return port, ip


def _listener_ip(parser: Parser) -> str:
    tokens = parser.tokens
    if tokens.accept("ALL"):
        return "ALL"
    tokens.expect("(")
    if tokens.at_string():
        ip = tokens.string()
    else:
        ip = ""
        while not tokens.at(")"):
            ip += tokens.advance().text
    tokens.expect(")")
    return ip


def _broker_options(parser: Parser, *, required: bool) -> dict[str, Any]:
    tokens = parser.tokens
    options: dict[str, Any] = dict.fromkeys(
        ("authentication", "certificate", "encryption", "algorithm", "forwarding", "forward_size")
    )
    if not (required or tokens.at("FOR")):
        return options
    tokens.expect("FOR")
    if not tokens.accept("SERVICE_BROKER"):
        tokens.unsupported(f"an endpoint for {tokens.word()}")
    tokens.expect("(")
    readers: dict[str, Callable[[Parser], dict[str, Any]]] = {
        "AUTHENTICATION": _authentication,
        "ENCRYPTION": _encryption,
        "MESSAGE_FORWARDING": lambda parser: {"forwarding": parser.tokens.choose("ENABLED", "DISABLED") == "ENABLED"},
        "MESSAGE_FORWARD_SIZE": lambda parser: {"forward_size": parser.tokens.integer()},
    }
    while not tokens.accept(")"):
        option = tokens.choose(*readers)
        tokens.expect("=")
        options.update(readers[option](parser))
        tokens.accept(",")
    return options


def _authentication(parser: Parser) -> dict[str, Any]:
    tokens = parser.tokens
    words: list[str] = []
    certificate = None
    while tokens.word() in ("WINDOWS", "CERTIFICATE", "NTLM", "KERBEROS", "NEGOTIATE"):
        words.append(tokens.advance().text.upper())
        if words[-1] == "CERTIFICATE":
            certificate = tokens.name()
    if not words:
        tokens.fail()
    return {"authentication": " ".join(words), "certificate": certificate}


def _encryption(parser: Parser) -> dict[str, Any]:
    tokens = parser.tokens
    encryption = tokens.choose("DISABLED", "SUPPORTED", "REQUIRED")
    words: list[str] = []
    if tokens.accept("ALGORITHM"):
        words.append(tokens.choose("AES", "RC4"))
        if tokens.word() in ("AES", "RC4"):
            words.append(tokens.advance().text.upper())
    return {"encryption": encryption, "algorithm": " ".join(words) or "AES"}


def _check(node: Endpoint, frame: Frame, guard: Guard) -> None:
    if node.verb == "CREATE":
        if not guard.allows_on_server("CREATE ENDPOINT"):
            raise SqlServerError(15247)
        return
    found = securables.find(frame, "ENDPOINT", (node.name,))
    if found is not None and not securables.is_held(frame, found, "ALTER"):
        raise SqlServerError(15151, "alter", "endpoint", node.name)


def compile_endpoint(node: Endpoint, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        if frame.session.tx is not None:
            raise SqlServerError(226, f"{node.verb} ENDPOINT")
        link = frame.instance.engine.link
        given = {
            "state": node.state,
            "port": node.port,
            "authentication": node.authentication,
            "certificate": node.certificate,
            "encryption": node.encryption,
            "algorithm": node.algorithm,
        }
        options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if node.ip is not None:
            options["ip"] = None if node.ip == "ALL" else node.ip
        if node.verb == "ALTER":
            ddl_endpoints.alter_endpoint(tx, link, node.name, **options)
            return
        created = ddl_endpoints.create_endpoint(tx, link, node.name, **options)
        if frame.session.guard is not None:
            owner = frame.session.guard.login.lower()
            frame.instance.grants.set_owner(tx, Securable(SERVER, "ENDPOINT", created.endpoint_id), owner)

    return writing(work)


for _verb in ("CREATE", "ALTER"):
    register(f"{_verb} ENDPOINT", parse_endpoint(_verb), Endpoint, compile_endpoint, check=_check)


def _drop(frame: Frame, tx: Transaction, name: ObjectName) -> None:
    link = frame.instance.engine.link
    if (endpoint := link.endpoint) is not None:
        frame.instance.grants.forget_securable(tx, Securable(SERVER, "ENDPOINT", endpoint.endpoint_id))
    ddl_endpoints.drop_endpoint(tx, link, name[0])


register_drop(
    "ENDPOINT",
    _drop,
    check=checks.drop_of("ENDPOINT"),
    exists=lambda frame, name: frame.instance.engine.link.endpoint is not None,
)
