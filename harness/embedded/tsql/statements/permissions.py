"""GRANT, DENY, REVOKE, members of roles, ALTER AUTHORIZATION."""

from __future__ import annotations

from dataclasses import dataclass

from harness.embedded.broker import ddl_endpoints, ddl_services
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.tsql.instance import securables
from harness.embedded.tsql.permissions import grants
from harness.embedded.tsql.permissions.fixed_principals import DATABASE_ROLES, SERVER_ROLE_IDS
from harness.embedded.tsql.permissions.grants import SERVER, Securable
from harness.embedded.tsql.permissions.guard import THE_SERVER, Guard, of_login
from harness.embedded.tsql.permissions.rights import VALID
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Step, writing
from harness.embedded.tsql.statements import checks
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.text.parser import ParseFunction, Parser, Statement

SECURABLE_CLASSES = """
    ENDPOINT SERVICE OBJECT CONTRACT ROUTE SCHEMA LOGIN USER CERTIFICATE DATABASE QUEUE TYPE
""".split()  # noqa: SIM905


def _parse_securable(parser: Parser) -> tuple[str, tuple[str, ...]]:
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


# The broker stores these too and checks them when a message or a connection arrives.
_OF_THE_BROKER = {"SERVICE": ("SEND", "CONTROL"), "ENDPOINT": ("CONNECT",)}

PERMISSION_ENDS = ("ON", "TO", "FROM", ",", "(")


@dataclass(frozen=True, slots=True)
class Permission(Statement):
    verb: str  # GRANT, DENY, REVOKE
    permissions: list[str]
    securable_class: str  # ENDPOINT, SERVICE, OBJECT, ...; "" for the database or the server
    securable: tuple[str, ...]
    grantees: list[str]
    with_grant_option: bool = False


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
        securable_class, securable = _parse_securable(parser) if tokens.accept("ON") else ("", ())
        tokens.choose("TO", "FROM")
        grantees = tokens.comma_separated(tokens.name)
        with_grant_option = verb == "GRANT" and tokens.accept("WITH", "GRANT")
        if with_grant_option:
            tokens.expect("OPTION")
        elif verb in ("DENY", "REVOKE"):
            tokens.accept("CASCADE")
        return Permission(line, verb, permissions, securable_class, securable, grantees, with_grant_option)

    return parse


def compile_permission(node: Permission, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        for name in node.permissions:
            securable = _securable(frame, node, name)
            if name not in VALID[securable.securable_class]:
                raise SqlServerError(102, name, line=node.line)
            _require_grantor(frame, node, securable)
            of_server = securable.database_id == SERVER
            if of_server and frame.database.name != "master":
                raise SqlServerError(4621)
            for grantee in node.grantees:
                _permit(frame, tx, node, securable, name, securables.principal(frame, grantee, of_server=of_server))

    return writing(work)


def _securable(frame: Frame, node: Permission, name: str) -> Securable:
    """The securable: the one named, else the database or the server."""
    if not node.securable_class:
        is_databases = name in VALID["DATABASE"] and name not in VALID["SERVER"]
        return Securable(frame.database.database_id, "DATABASE", 0) if is_databases else THE_SERVER
    if node.securable_class not in securables.FINDERS:
        raise UnsupportedSyntax(f"{node.verb} ON {node.securable_class}", node.line)
    found = securables.find(frame, node.securable_class, node.securable)
    if found is None:
        raise _cannot_find(frame, node)
    return found


def _cannot_find(frame: Frame, node: Permission) -> SqlServerError:
    name = ".".join(node.securable)
    if node.securable_class == "OBJECT":
        _, schema, last = frame.instance.located(node.securable, frame.database)
        name = f"{schema}.{last}"
    return SqlServerError(15151, "find", node.securable_class.lower(), name)


def _require_grantor(frame: Frame, node: Permission, securable: Securable) -> None:
    """Raise an error unless the caller has CONTROL of the securable."""
    control = "CONTROL SERVER" if securable == THE_SERVER else "CONTROL"
    if securables.is_held(frame, securable, control):
        return
    raise SqlServerError(4613) if not node.securable_class else _cannot_find(frame, node)


def _permit(  # noqa: PLR0917
    frame: Frame, tx: Transaction, node: Permission, securable: Securable, name: str, grantee: str
) -> None:
    if node.verb == "REVOKE":
        state = None
    elif node.verb == "DENY":
        state = grants.DENY
    else:
        state = grants.GRANT_WITH_GRANT_OPTION if node.with_grant_option else grants.GRANT
    frame.instance.grants.set_permission(tx, securable, name, grantee, state)
    if name not in _OF_THE_BROKER.get(securable.securable_class, ()):
        return
    is_granted = node.verb == "GRANT"
    if securable.securable_class == "ENDPOINT":
        ddl_endpoints.set_connect(tx, frame.instance.engine.link, node.securable[-1], grantee, may=is_granted)
    else:
        ddl_services.set_sender(tx, frame.database.catalog, node.securable[-1], grantee, may=is_granted)


for _verb in ("GRANT", "DENY", "REVOKE"):
    register(_verb, parse_permission(_verb), Permission, compile_permission)


@dataclass(frozen=True, slots=True)
class AlterRole(Statement):
    """ALTER ROLE and ALTER SERVER ROLE"""

    of_server: bool
    role: str
    adds: bool
    member: str


def parse_alter_role(*, of_server: bool) -> ParseFunction:
    """`ALTER [ SERVER ] ROLE name { ADD | DROP } MEMBER principal`"""

    def parse(parser: Parser) -> Statement:
        tokens, line = parser.tokens, parser.line
        role = tokens.name()
        adds = tokens.choose("ADD", "DROP") == "ADD"
        tokens.expect("MEMBER")
        return AlterRole(line, of_server, role, adds, tokens.name())

    return parse


def _check_alter_role(node: AlterRole, frame: Frame, guard: Guard) -> None:
    """Only a sysadmin changes server roles; CONTROL of the database is needed for database roles."""
    if node.of_server:
        raise SqlServerError(15151, "alter", "server role", node.role)
    if not checks.in_database(frame, guard, "CONTROL"):
        raise SqlServerError(15151, "alter", "role", node.role)


def compile_alter_role(node: AlterRole, scope: Scope) -> Step:
    """Only fixed roles exist."""

    def work(frame: Frame, tx: Transaction) -> None:
        roles = SERVER_ROLE_IDS if node.of_server else DATABASE_ROLES
        kind = "server role" if node.of_server else "role"
        role = node.role.lower()
        if role not in roles or role == "public":
            raise SqlServerError(15151, "alter", kind, node.role)
        member = securables.principal(frame, node.member, of_server=node.of_server)
        database_id = SERVER if node.of_server else frame.database.database_id
        frame.instance.grants.set_member(tx, database_id, role, member, is_member=node.adds)
        if node.of_server:
            tx.on_commit(lambda: _renew(frame, member))

    return writing(work)


def _renew(frame: Frame, login: str) -> None:
    """Renew the guards of a login's idle sessions after it has become or ceased to be a sysadmin."""
    for session in frame.instance.sessions.values():
        if session.login.lower() == login and not session.is_running:
            session.guard = of_login(frame.instance, session.login)


register("ALTER ROLE", parse_alter_role(of_server=False), AlterRole, compile_alter_role, check=_check_alter_role)
register("ALTER SERVER ROLE", parse_alter_role(of_server=True), AlterRole, compile_alter_role, check=_check_alter_role)


@dataclass(frozen=True, slots=True)
class AlterAuthorization(Statement):
    securable_class: str
    securable: tuple[str, ...]
    owner: str


def parse_alter_authorization(parser: Parser) -> Statement:
    """`ALTER AUTHORIZATION ON [ class :: ] securable TO { principal | SCHEMA OWNER }`"""
    tokens, line = parser.tokens, parser.line
    tokens.expect("ON")
    securable_class, securable = _parse_securable(parser)
    tokens.expect("TO")
    return AlterAuthorization(line, securable_class, securable, tokens.name())


def _check_alter_authorization(node: AlterAuthorization, frame: Frame, guard: Guard) -> None:
    found = securables.find(frame, "DATABASE", node.securable)
    own = node.owner.lower() == guard.login.lower()
    if found is None or not own or not securables.is_held(frame, found, "TAKE OWNERSHIP"):
        raise SqlServerError(15151, "find", "database", node.securable[-1])


def compile_alter_authorization(node: AlterAuthorization, scope: Scope) -> Step:
    """Only databases: the new owner is the login that becomes dbo."""

    def work(frame: Frame, tx: Transaction) -> None:
        if node.securable_class != "DATABASE":
            raise UnsupportedSyntax(f"ALTER AUTHORIZATION ON {node.securable_class}", node.line)
        database = frame.instance.database(node.securable[-1])
        owner = securables.principal(frame, node.owner, of_server=True)
        whole = Securable(database.database_id, "DATABASE", 0)
        frame.instance.grants.set_owner(tx, whole, None if owner == "sa" else owner)

    return writing(work)


register(
    "ALTER AUTHORIZATION",
    parse_alter_authorization,
    AlterAuthorization,
    compile_alter_authorization,
    check=_check_alter_authorization,
)
