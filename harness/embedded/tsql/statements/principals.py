"""Logins and users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.embedded.broker import ddl_principals
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.instance import securables
from harness.embedded.tsql.permissions.fixed_principals import DATABASE_ROLES, SYSADMIN
from harness.embedded.tsql.permissions.grants import SERVER
from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Step, writing
from harness.embedded.tsql.statements import checks
from harness.embedded.tsql.statements.certificates import parse_password
from harness.embedded.tsql.statements.ddl import Drop, ObjectName, register_drop
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.text.parser import Parser, Statement


@dataclass(frozen=True, slots=True)
class CreateLogin(Statement):
    name: str
    password: str | None
    certificate: str | None


def parse_create_login(parser: Parser) -> Statement:
    """`CREATE LOGIN name { WITH PASSWORD = '..' [ , option = value ]... | FROM { CERTIFICATE name | WINDOWS } }`"""
    tokens, line = parser.tokens, parser.line
    name = tokens.name()
    if tokens.accept("FROM"):
        if tokens.accept("CERTIFICATE"):
            return CreateLogin(line, name, None, tokens.name())
        tokens.unsupported(f"CREATE LOGIN FROM {tokens.word()}")
    tokens.expect("WITH")
    password = parse_password(parser)
    _login_options(parser)
    return CreateLogin(line, name, password, None)


def _login_options(parser: Parser) -> None:
    tokens = parser.tokens
    while tokens.accept(","):
        tokens.choose("CHECK_POLICY", "CHECK_EXPIRATION", "DEFAULT_DATABASE", "DEFAULT_LANGUAGE", "SID")
        tokens.expect("=")
        tokens.advance()


def _check_create_login(node: Any, frame: Frame, guard: Guard) -> None:
    if not guard.allows_on_server("CREATE LOGIN"):
        raise SqlServerError(15247)


def compile_create_login(node: CreateLogin, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        logins = frame.instance.engine.logins
        ddl_principals.create_login(tx, logins, node.name, password=node.password, from_certificate=node.certificate)
        frame.instance.grants.touch(tx)

    return writing(work)


register("CREATE LOGIN", parse_create_login, CreateLogin, compile_create_login, check=_check_create_login)


@dataclass(frozen=True, slots=True)
class AlterLogin(Statement):
    name: str
    password: str | None
    enable: bool | None


def parse_alter_login(parser: Parser) -> Statement:
    """`ALTER LOGIN name { ENABLE | DISABLE | WITH PASSWORD = '..' }`"""
    tokens, line = parser.tokens, parser.line
    name = tokens.name()
    if tokens.accept("WITH"):
        password = parse_password(parser)
        _login_options(parser)
        return AlterLogin(line, name, password, None)
    return AlterLogin(line, name, None, tokens.choose("ENABLE", "DISABLE") == "ENABLE")


def _may_alter_login(frame: Frame, guard: Guard, name: str) -> bool:
    """Whether the caller may change a login; only a sysadmin changes a sysadmin's."""
    key = name.lower()
    if key == "sa" or frame.instance.grants.is_member(SERVER, SYSADMIN, key):
        return False
    found = securables.find(frame, "LOGIN", (name,))
    return found is None or guard.allows_on_server("ALTER", *found[1:])


def _check_alter_login(node: AlterLogin, frame: Frame, guard: Guard) -> None:
    if not _may_alter_login(frame, guard, node.name):
        raise SqlServerError(15151, "alter", "login", node.name)


def compile_alter_login(node: AlterLogin, scope: Scope) -> Step:
    return writing(
        lambda frame, tx: ddl_principals.alter_login(
            tx, frame.instance.engine.logins, node.name, password=node.password, enable=node.enable
        )
    )


register("ALTER LOGIN", parse_alter_login, AlterLogin, compile_alter_login, check=_check_alter_login)


@dataclass(frozen=True, slots=True)
class CreateUser(Statement):
    name: str
    login: str | None  # None: WITHOUT LOGIN


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


def _check_create_user(node: Any, frame: Frame, guard: Guard) -> None:
    if not checks.in_database(frame, guard, "ALTER ANY USER"):
        raise SqlServerError(15247)


def compile_create_user(node: CreateUser, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        logins = frame.instance.engine.logins
        if node.login is not None and node.login.lower() not in logins:
            raise SqlServerError(15007, node.login)
        if node.name.lower() in DATABASE_ROLES:
            raise SqlServerError(15023, node.name)
        ddl_principals.create_user(tx, frame.database.catalog, logins, node.name, login=node.login)
        frame.instance.grants.touch(tx)

    return writing(work)


register("CREATE USER", parse_create_user, CreateUser, compile_create_user, check=_check_create_user)


@dataclass(frozen=True, slots=True)
class AlterUser(Statement):
    name: str
    login: str


def parse_alter_user(parser: Parser) -> Statement:
    """`ALTER USER name WITH LOGIN = login`"""
    tokens, line = parser.tokens, parser.line
    name = tokens.name()
    tokens.expect("WITH")
    if not tokens.accept("LOGIN", "="):
        tokens.unsupported(f"ALTER USER WITH {tokens.word()}")
    return AlterUser(line, name, tokens.name())


def _check_alter_user(node: AlterUser, frame: Frame, guard: Guard) -> None:
    """ "To change the login, CONTROL permission on the database is required." """
    if not checks.in_database(frame, guard, "CONTROL"):
        raise SqlServerError(15151, "alter", "user", node.name)


def compile_alter_user(node: AlterUser, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        logins = frame.instance.engine.logins
        ddl_principals.alter_user(tx, frame.database.catalog, logins, node.name, login=node.login)
        frame.instance.grants.touch(tx)

    return writing(work)


register("ALTER USER", parse_alter_user, AlterUser, compile_alter_user, check=_check_alter_user)


def _check_drop_login(node: Drop, frame: Frame, guard: Guard) -> None:
    if not _may_alter_login(frame, guard, node.name[0]):
        raise SqlServerError(15151, "drop", "login", node.name[0])


def _check_drop_user(node: Drop, frame: Frame, guard: Guard) -> None:
    if not checks.in_database(frame, guard, "ALTER ANY USER"):
        raise SqlServerError(15151, "drop", "user", node.name[0])


def _drop_login(frame: Frame, tx: Transaction, name: ObjectName) -> None:
    frame.instance.grants.forget_principal(tx, SERVER, name[0].lower())
    ddl_principals.drop_login(tx, frame.instance.engine.logins, name[0])


def _drop_user(frame: Frame, tx: Transaction, name: ObjectName) -> None:
    frame.instance.grants.forget_principal(tx, frame.database.database_id, name[0].lower())
    ddl_principals.drop_user(tx, frame.database.catalog, name[0])


register_drop(
    "LOGIN",
    _drop_login,
    check=_check_drop_login,
    exists=lambda frame, name: name.lower() in frame.instance.engine.logins,
)
register_drop(
    "USER",
    _drop_user,
    check=_check_drop_user,
    exists=lambda frame, name: name.lower() in frame.database.catalog.principals.users,
)
