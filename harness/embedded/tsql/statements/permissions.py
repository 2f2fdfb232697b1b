"""GRANT, DENY, REVOKE, members of roles, ALTER AUTHORIZATION."""

from collections.abc import Sequence
from typing import NamedTuple

from harness.embedded.broker import ddl_network, ddl_services
from harness.embedded.broker.catalog import OWNED
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import Parameter, ResultSink
from harness.embedded.tsql.instance import securables
from harness.embedded.tsql.permissions.guard import THE_SERVER, Guard, of_login
from harness.embedded.tsql.permissions.rights import DATABASE_ROLES, SERVER, SERVER_ROLE_IDS, VALID, Securable
from harness.embedded.tsql.session.session import Frame, Session
from harness.embedded.tsql.statements.batches import compile_batch, run_batch
from harness.embedded.tsql.statements.definitions import Definition, ObjectName, check_owner, define, in_database
from harness.embedded.tsql.statements.registry import Outputs, arguments, register_procedure
from harness.embedded.tsql.text.parser import Parser
from harness.embedded.tsql.text.tokens import Tokens

SECURABLE_CLASSES = """
    ENDPOINT SERVICE OBJECT CONTRACT ROUTE SCHEMA LOGIN USER CERTIFICATE DATABASE QUEUE TYPE
""".split()  # noqa: SIM905


def _parse_securable(tokens: Tokens) -> tuple[str, ObjectName]:
    """`[ class :: ] name`; `MESSAGE TYPE ::` and `REMOTE SERVICE BINDING ::` are classes of several words."""
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

# The words with which SQL Server's permissions begin
_PERMISSIONS_BEGIN = """
    ADMINISTER ALL ALTER BACKUP CHECKPOINT CONNECT CREATE DELETE EXECUTE EXTERNAL IMPERSONATE INSERT KILL SELECT
    SHOWPLAN SHUTDOWN SUBSCRIBE TAKE UNMASK UNSAFE UPDATE VIEW
""".split()  # noqa: SIM905
PERMISSION_ENDS = ("ON", "TO", "FROM", ",", "(")


class _Permission(NamedTuple):
    line: int
    verb: str  # GRANT, DENY, REVOKE
    securable_class: str  # ENDPOINT, SERVICE, OBJECT, ...; "" for the database or the server
    securable: ObjectName


@define("GRANT|DENY|REVOKE")
def permission(parser: Parser) -> Definition:
    """`{ GRANT | DENY | REVOKE } permission [ , ... ] [ ON [ class :: ] securable ] { TO | FROM } principal`

    The grantor is checked with the securable, which the name and the permission decide together.
    """
    tokens, verb = parser.tokens, parser.tokens.word(-1)

    def one_permission() -> str:
        words: list[str] = []
        while tokens.word() not in PERMISSION_ENDS:
            words.append(tokens.advance().text.upper())
        if not words:
            tokens.fail()
        return " ".join(words)

    permissions = tokens.comma_separated(one_permission)
    securable_class, securable = _parse_securable(tokens) if tokens.accept("ON") else ("", ())
    tokens.choose("TO", "FROM")
    grantees = tokens.comma_separated(tokens.name)
    if verb == "GRANT" and tokens.accept("WITH", "GRANT"):
        tokens.unsupported("GRANT ... WITH GRANT OPTION")
    if verb in ("DENY", "REVOKE"):
        tokens.accept("CASCADE")
    statement = _Permission(parser.line, verb, securable_class, securable)

    def work(frame: Frame, tx: Transaction) -> None:
        for name in permissions:
            _permit(frame, tx, statement, name, grantees)

    return Definition(parser.line, lambda frame, guard: None, work)


def _permit(frame: Frame, tx: Transaction, statement: _Permission, name: str, grantees: list[str]) -> None:
    securable = _securable(frame, statement, name)
    if name not in VALID[securable.securable_class]:
        if name.split(maxsplit=1)[0] in _PERMISSIONS_BEGIN and not any(name in valid for valid in VALID.values()):
            raise UnsupportedSyntax(f"the permission {name}", statement.line)
        raise SqlServerError(102, name, line=statement.line)
    control = "CONTROL SERVER" if securable == THE_SERVER else "CONTROL"
    if not securables.is_held(frame, securable, control):
        raise _cannot_find(frame, statement) if statement.securable_class else SqlServerError(4613)
    of_server = securable.database_id == SERVER
    if of_server and frame.database.name != "master":
        raise SqlServerError(4621)
    state = None if statement.verb == "REVOKE" else statement.verb
    for grantee_name in grantees:
        grantee = securables.principal(frame, grantee_name, of_server=of_server)
        frame.instance.grants.set_permission(tx, securable, name, grantee, state)
        if name in _OF_THE_BROKER.get(securable.securable_class, ()):
            _tell_broker(frame, tx, statement, securable, grantee)


def _securable(frame: Frame, statement: _Permission, name: str) -> Securable:
    """The securable: the one named, else the database or the server."""
    if not statement.securable_class:
        is_databases = name in VALID["DATABASE"] and name not in VALID["SERVER"]
        return Securable(frame.database.database_id, "DATABASE", 0) if is_databases else THE_SERVER
    if statement.securable_class not in securables.FINDERS:
        raise UnsupportedSyntax(f"{statement.verb} ON {statement.securable_class}", statement.line)
    securable = securables.find(frame, statement.securable_class, statement.securable)
    if securable is None:
        raise _cannot_find(frame, statement)
    return securable


def _cannot_find(frame: Frame, statement: _Permission) -> SqlServerError:
    name = ".".join(statement.securable)
    if statement.securable_class == "OBJECT":
        _, schema, last = frame.instance.located(statement.securable, frame.database)
        name = f"{schema}.{last}"
    return SqlServerError(15151, "find", statement.securable_class.lower(), name)


def _tell_broker(frame: Frame, tx: Transaction, statement: _Permission, securable: Securable, grantee: str) -> None:
    states = {
        frame.instance.grants.state(securable, permission_name, grantee)
        for permission_name in _OF_THE_BROKER[securable.securable_class]
    }
    name, may = statement.securable[-1], "GRANT" in states and "DENY" not in states
    if statement.securable_class == "ENDPOINT":
        ddl_network.set_connect(tx, frame.instance.engine.link, name, grantee, may=may)
    else:
        ddl_services.set_sender(tx, frame.database.catalog, name, grantee, may=may)


@define("ALTER ROLE|ALTER SERVER ROLE")
def alter_role(parser: Parser) -> Definition:
    """`ALTER [ SERVER ] ROLE name { ADD | DROP } MEMBER principal`; only fixed roles exist."""
    tokens = parser.tokens
    of_server = tokens.word(-2) == "SERVER"
    kind = "server role" if of_server else "role"
    role = tokens.name()
    adds = tokens.choose("ADD", "DROP") == "ADD"
    tokens.expect("MEMBER")
    name = tokens.name()

    def check(frame: Frame, guard: Guard) -> None:
        """Only a sysadmin changes server roles; CONTROL of the database is needed for database roles."""
        if of_server:
            raise SqlServerError(15151, "alter", kind, role)
        in_database("CONTROL", 15151, "alter", kind, role)(frame, guard)

    def work(frame: Frame, tx: Transaction) -> None:
        if role.lower() not in (SERVER_ROLE_IDS if of_server else DATABASE_ROLES) or role.lower() == "public":
            raise SqlServerError(15151, "alter", kind, role)
        member = securables.principal(frame, name, of_server=of_server)
        database_id = SERVER if of_server else frame.database.database_id
        frame.instance.grants.set_member(tx, database_id, role.lower(), member, is_member=adds)
        if of_server:
            tx.on_commit(lambda: _renew(frame, member))

    return Definition(parser.line, check, work)


@register_procedure("sp_addrolemember")
def sp_addrolemember(
    session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int
) -> Waiting[Outputs]:
    """`sp_addrolemember [ @rolename = ] 'role' , [ @membername = ] 'principal'`: ALTER ROLE ... ADD MEMBER"""
    values = arguments("sp_addrolemember", "@rolename @membername", parameters, required=2)
    role, member = (str(value).replace("]", "]]") for value in values)
    yield from run_batch(session, compile_batch(f"ALTER ROLE [{role}] ADD MEMBER [{member}]"), sink, depth=depth)
    return {}


def _renew(frame: Frame, login: str) -> None:
    """Renew the guards of a login's idle sessions after it has become or ceased to be a sysadmin."""
    for session in frame.instance.sessions.values():
        if session.login.lower() == login and not session.is_running:
            session.guard = of_login(frame.instance, session.login)


@define("ALTER AUTHORIZATION")
def alter_authorization(parser: Parser) -> Definition:
    """
    ALTER AUTHORIZATION ON { DATABASE :: name TO login | class :: name TO user }

    The new owner of a database is the login that becomes dbo. The classes are those of `OWNED`.
    """
    tokens, line = parser.tokens, parser.line
    tokens.expect("ON")
    securable_class, securable = _parse_securable(tokens)
    tokens.expect("TO")
    owner = "" if tokens.accept("SCHEMA", "OWNER") else tokens.name()  # of what is in a schema, which none of these is

    def check(frame: Frame, guard: Guard) -> None:
        """Only a sysadmin gives a database away."""
        thing = securables.find(frame, securable_class, securable) if securable_class in OWNED else None
        if thing is None or not securables.is_held(frame, thing, "CONTROL"):
            raise SqlServerError(15151, "find", securable_class.lower(), securable[-1])
        check_owner(frame, guard, owner)

    def work(frame: Frame, tx: Transaction) -> None:
        if securable_class in OWNED:
            user = securables.principal(frame, owner, of_server=False)
            ddl_services.set_owner(tx, frame.database.catalog, securable_class, securable[-1], user)
            return
        if securable_class != "DATABASE":
            raise UnsupportedSyntax(f"ALTER AUTHORIZATION ON {securable_class}", line)
        database = frame.instance.database(securable[-1])
        login = securables.principal(frame, owner, of_server=True)
        securable_of_database = Securable(database.database_id, "DATABASE", 0)
        frame.instance.grants.set_owner(tx, securable_of_database, None if login == "sa" else login)

    return Definition(line, check, work)
