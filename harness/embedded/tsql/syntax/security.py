"""Logins, users, certificates, master keys, endpoints, permissions: nodes and grammars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.embedded.tsql.syntax.broker_objects import authorization
from harness.embedded.tsql.text.parser import ParseFunction, Parser, Statement


@dataclass(frozen=True, slots=True)
class CreateMasterKey(Statement):
    pass


@dataclass(frozen=True, slots=True)
class DropMasterKey(Statement):
    pass


@dataclass(frozen=True, slots=True)
class CreateCertificate(Statement):
    name: str
    owner: str
    subject: str
    start_date: str
    expiry_date: str
    binary: bytes | None
    private_key: bytes | None
    has_password: bool
    active_for_begin_dialog: bool


@dataclass(frozen=True, slots=True)
class CreateLogin(Statement):
    name: str
    password: str | None
    certificate: str | None


@dataclass(frozen=True, slots=True)
class AlterLogin(Statement):
    name: str
    password: str | None
    enable: bool | None


@dataclass(frozen=True, slots=True)
class CreateUser(Statement):
    name: str
    login: str | None  # None: WITHOUT LOGIN


@dataclass(frozen=True, slots=True)
class AlterUser(Statement):
    name: str
    login: str


@dataclass(frozen=True, slots=True)
class DropPrincipal(Statement):
    kind: str  # LOGIN, USER, CERTIFICATE, ENDPOINT
    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class Endpoint(Statement):
    """CREATE ENDPOINT and ALTER ENDPOINT for Service Broker; None leaves a setting as it is."""

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


@dataclass(frozen=True, slots=True)
class Permission(Statement):
    verb: str  # GRANT, DENY, REVOKE
    permissions: list[str]
    securable_class: str  # ENDPOINT, SERVICE, OBJECT, ...; "" for the database or the server
    securable: tuple[str, ...]
    grantees: list[str]
    with_grant_option: bool = False


@dataclass(frozen=True, slots=True)
class AlterRole(Statement):
    """ALTER ROLE and ALTER SERVER ROLE"""

    of_server: bool
    role: str
    adds: bool
    member: str


@dataclass(frozen=True, slots=True)
class AlterAuthorization(Statement):
    securable_class: str
    securable: tuple[str, ...]
    owner: str


def _secret(parser: Parser) -> str:
    parser.tokens.expect("PASSWORD", "=")
    return parser.tokens.string()


def parse_create_master_key(parser: Parser) -> Statement:
    """`CREATE MASTER KEY [ ENCRYPTION BY PASSWORD = 'password' ]`"""
    if parser.tokens.accept("ENCRYPTION", "BY"):
        _secret(parser)
    return CreateMasterKey(parser.line)


def parse_drop_master_key(parser: Parser) -> Statement:
    """`DROP MASTER KEY`"""
    return DropMasterKey(parser.line)


def parse_create_certificate(parser: Parser) -> Statement:
    """
    CREATE CERTIFICATE name [ AUTHORIZATION user ]
        { [ ENCRYPTION BY PASSWORD = '..' ] WITH SUBJECT = '..' [ , START_DATE = '..' ] [ , EXPIRY_DATE = '..' ]
        | FROM BINARY = 0x.. [ WITH PRIVATE KEY ( BINARY = 0x.., DECRYPTION BY PASSWORD = '..' ) ] }
        [ ACTIVE FOR BEGIN_DIALOG = { ON | OFF } ]
    """
    tokens, line = parser.tokens, parser.line
    name, owner = tokens.name(), authorization(parser)
    binary: bytes | None = None
    private_key: bytes | None = None
    has_password = False
    options = {"SUBJECT": "", "START_DATE": "", "EXPIRY_DATE": ""}
    if tokens.accept("ENCRYPTION", "BY"):
        _secret(parser)
        has_password = True
    if tokens.accept("FROM"):
        if not tokens.accept("BINARY", "="):
            tokens.unsupported("CREATE CERTIFICATE FROM a file")
        binary = tokens.binary()
        if tokens.accept("WITH", "PRIVATE", "KEY"):
            private_key = _private_key(parser)
    else:
        tokens.expect("WITH")

        def option() -> None:
            which = tokens.choose(*options)
            tokens.expect("=")
            options[which] = tokens.string()

        tokens.comma_separated(option)
    active = True
    if tokens.accept("ACTIVE", "FOR", "BEGIN_DIALOG", "="):
        active = tokens.on_off()
    return CreateCertificate(
        line,
        name,
        owner,
        options["SUBJECT"],
        options["START_DATE"],
        options["EXPIRY_DATE"],
        binary,
        private_key,
        has_password,
        active,
    )


def _private_key(parser: Parser) -> bytes:
    tokens = parser.tokens
    key = b""
    tokens.expect("(")
    while not tokens.accept(")"):
        if tokens.accept("BINARY", "="):
            key = tokens.binary()
        else:
            tokens.choose("DECRYPTION", "ENCRYPTION")
            tokens.expect("BY")
            _secret(parser)
        tokens.accept(",")
    return key


def parse_create_login(parser: Parser) -> Statement:
    """`CREATE LOGIN name { WITH PASSWORD = '..' [ , option = value ]... | FROM { CERTIFICATE name | WINDOWS } }`"""
    tokens, line = parser.tokens, parser.line
    name = tokens.name()
    if tokens.accept("FROM"):
        if tokens.accept("CERTIFICATE"):
            return CreateLogin(line, name, None, tokens.name())
        tokens.unsupported(f"CREATE LOGIN FROM {tokens.word()}")
    tokens.expect("WITH")
    password = _secret(parser)
    _login_options(parser)
    return CreateLogin(line, name, password, None)


def _login_options(parser: Parser) -> None:
    tokens = parser.tokens
    while tokens.accept(","):
        tokens.choose("CHECK_POLICY", "CHECK_EXPIRATION", "DEFAULT_DATABASE", "DEFAULT_LANGUAGE", "SID")
        tokens.expect("=")
        tokens.advance()


def parse_alter_login(parser: Parser) -> Statement:
    """`ALTER LOGIN name { ENABLE | DISABLE | WITH PASSWORD = '..' }`"""
    tokens, line = parser.tokens, parser.line
    name = tokens.name()
    if tokens.accept("WITH"):
        password = _secret(parser)
        _login_options(parser)
        return AlterLogin(line, name, password, None)
    return AlterLogin(line, name, None, tokens.choose("ENABLE", "DISABLE") == "ENABLE")


def parse_create_user(parser: Parser) -> Statement:
    """`CREATE USER name [ { FOR | FROM } LOGIN login | WITHOUT LOGIN ] [ WITH DEFAULT_SCHEMA = name ]`"""
    tokens, line = parser.tokens, parser.line
    name = tokens.name()
    login: str | None = name
    if tokens.accept("WITHOUT", "LOGIN"):
        login = None
    elif tokens.accept("FOR") or tokens.accept("FROM"):
        if not tokens.accept("LOGIN"):
            tokens.unsupported(f"CREATE USER FOR {tokens.word()}")
        login = tokens.name()
    if tokens.accept("WITH", "DEFAULT_SCHEMA", "="):
        tokens.name()
    return CreateUser(line, name, login)


def parse_alter_user(parser: Parser) -> Statement:
    """`ALTER USER name WITH LOGIN = login`"""
    tokens, line = parser.tokens, parser.line
    name = tokens.name()
    tokens.expect("WITH")
    if not tokens.accept("LOGIN", "="):
        tokens.unsupported(f"ALTER USER WITH {tokens.word()}")
    return AlterUser(line, name, tokens.name())


def parse_drop_principal(kind: str) -> ParseFunction:
    """`DROP { LOGIN | USER | CERTIFICATE | ENDPOINT } [ IF EXISTS ] name`"""

    def parse(parser: Parser) -> Statement:
        if_exists = parser.tokens.accept("IF", "EXISTS")
        return DropPrincipal(parser.line, kind, parser.tokens.name(), if_exists)

    return parse


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


SECURABLE_CLASSES = """
    ENDPOINT SERVICE OBJECT CONTRACT ROUTE SCHEMA LOGIN USER CERTIFICATE DATABASE QUEUE TYPE
""".split()  # noqa: SIM905


def _securable(parser: Parser) -> tuple[str, tuple[str, ...]]:
    """`[ class :: ] name`; `MESSAGE TYPE ::` and `REMOTE SERVICE BINDING ::` are classes of several words."""
    tokens = parser.tokens
    for words in (("MESSAGE", "TYPE"), ("REMOTE", "SERVICE", "BINDING")):
        if tokens.accept(*words, "::"):
            return " ".join(words), tokens.object_name()
    if tokens.word() in SECURABLE_CLASSES and tokens.word(1) == "::":
        securable_class = tokens.advance().text.upper()
        tokens.expect("::")
        return securable_class, tokens.object_name()
    return "OBJECT", tokens.object_name()


PERMISSION_ENDS = ("ON", "TO", "FROM", ",", "(")


def parse_permission(verb: str) -> ParseFunction:
    """`{ GRANT | DENY | REVOKE } permission [ , ... ] [ ON [ class :: ] securable ] { TO | FROM } principal`"""

    def parse(parser: Parser) -> Statement:
        tokens, line = parser.tokens, parser.line

        def permission() -> str:
            words: list[str] = []
            while tokens.word() not in PERMISSION_ENDS:
                words.append(tokens.advance().text.upper())
            if not words:
                tokens.fail()
            return " ".join(words)

        permissions = tokens.comma_separated(permission)
        securable_class, securable = _securable(parser) if tokens.accept("ON") else ("", ())
        tokens.choose("TO", "FROM")
        grantees = tokens.comma_separated(tokens.name)
        with_grant_option = verb == "GRANT" and tokens.accept("WITH", "GRANT")
        if with_grant_option:
            tokens.expect("OPTION")
        elif verb in ("DENY", "REVOKE"):
            tokens.accept("CASCADE")
        return Permission(line, verb, permissions, securable_class, securable, grantees, with_grant_option)

    return parse


def parse_alter_role(*, of_server: bool) -> ParseFunction:
    """`ALTER [ SERVER ] ROLE name { ADD | DROP } MEMBER principal`"""

    def parse(parser: Parser) -> Statement:
        tokens, line = parser.tokens, parser.line
        role = tokens.name()
        adds = tokens.choose("ADD", "DROP") == "ADD"
        tokens.expect("MEMBER")
        return AlterRole(line, of_server, role, adds, tokens.name())

    return parse


def parse_alter_authorization(parser: Parser) -> Statement:
    """`ALTER AUTHORIZATION ON [ class :: ] securable TO { principal | SCHEMA OWNER }`"""
    tokens, line = parser.tokens, parser.line
    tokens.expect("ON")
    securable_class, securable = _securable(parser)
    tokens.expect("TO")
    return AlterAuthorization(line, securable_class, securable, tokens.name())
