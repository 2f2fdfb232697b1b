"""Logins, users, roles and their members."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from harness.embedded.broker.database import Database
from harness.embedded.tsql.catalog.view import Context, View, attribute, bit, char, column, int_, nvarchar, sid, sysname
from harness.embedded.tsql.instance.instance import Instance
from harness.embedded.tsql.permissions.grants import SERVER, Securable
from harness.embedded.tsql.permissions.rights import (
    DATABASE_ROLE_IDS,
    DBO,
    DBO_ID,
    FIXED_USER_IDS,
    SA,
    SA_ID,
    SERVER_ROLE_IDS,
    SYSADMIN,
    sid_of,
)

KINDS = {"S": ("SQL_LOGIN", "SQL_USER"), "R": ("SERVER_ROLE", "DATABASE_ROLE")}


class Principal(NamedTuple):
    name: str
    principal_id: int
    type: str  # S or R
    sid: bytes | None = None
    is_disabled: bool = False


def _sees_all_logins(context: Context) -> bool:
    """ "Any login can see their own login name, the system logins, and the fixed server roles." """
    guard = context.session.guard
    return guard is None or guard.allows_on_server("VIEW ANY DEFINITION") or guard.allows_on_server("ALTER ANY LOGIN")


def _of_server(context: Context) -> Iterator[Principal]:
    yield Principal(SA, SA_ID, "S", sid_of(SA_ID))
    for name, number in SERVER_ROLE_IDS.items():
        yield Principal(name, number, "R")
    sees_all = _sees_all_logins(context)
    for login in context.engine.logins.values():
        if sees_all or login.name.lower() == context.session.login.lower():
            yield Principal(login.name, login.principal_id, "S", sid_of(login.principal_id), login.is_disabled)


def owner_sid(database: Database, instance: Instance) -> bytes:
    """The sid of the login that owns the database, its dbo."""
    owner = instance.grants.owner(Securable(database.database_id, "DATABASE", 0))
    login = instance.engine.logins.get(owner or "")
    return sid_of(SA_ID if login is None else login.principal_id)


def _of_database(context: Context) -> Iterator[Principal]:
    """The principals of a database. A user without a login has no sid here."""
    for name, number in FIXED_USER_IDS.items():
        own = owner_sid(context.database, context.instance) if name == DBO else None
        yield Principal(name, number, "R" if name == "public" else "S", own)
    for name, number in DATABASE_ROLE_IDS.items():
        yield Principal(name, number, "R")
    for user in context.database.catalog.principals.users.values():
        if user.name.lower() not in FIXED_USER_IDS:
            login = context.engine.logins.get((user.login or "").lower())
            yield Principal(user.name, user.principal_id, "S", None if login is None else sid_of(login.principal_id))


class Member(NamedTuple):
    role_principal_id: int
    member_principal_id: int


def _server_members(context: Context) -> Iterator[Member]:
    yield Member(SERVER_ROLE_IDS[SYSADMIN], SA_ID)
    for role, member in context.instance.grants.members(SERVER):
        login = context.engine.logins.get(member)
        if login is not None and role in SERVER_ROLE_IDS:
            yield Member(SERVER_ROLE_IDS[role], login.principal_id)


def _database_members(context: Context) -> Iterator[Member]:
    yield Member(DATABASE_ROLE_IDS["db_owner"], DBO_ID)
    for role, member in context.instance.grants.members(context.database.database_id):
        user = context.database.catalog.principals.users.get(member)
        number = FIXED_USER_IDS.get(member) if user is None else user.principal_id
        if number is not None and role in DATABASE_ROLE_IDS:
            yield Member(DATABASE_ROLE_IDS[role], number)


VIEWS = [
    View(
        "server_principals",
        [
            attribute("name", sysname, nullable=False),
            attribute("principal_id", int_, nullable=False),
            attribute("type", char(1), nullable=False),
            column("type_desc", nvarchar(60), lambda one: KINDS[one.type][0]),
            column("is_disabled", bit, lambda one: int(one.is_disabled)),
            column("default_database_name", sysname, lambda one: "master" if one.type == "S" else None),
            attribute("sid", sid),
        ],
        _of_server,
    ),
    View(
        "server_role_members",
        [
            attribute("role_principal_id", int_, nullable=False),
            attribute("member_principal_id", int_, nullable=False),
        ],
        _server_members,
    ),
    View(
        "database_principals",
        [
            attribute("name", sysname, nullable=False),
            attribute("principal_id", int_, nullable=False),
            attribute("type", char(1), nullable=False),
            column("type_desc", nvarchar(60), lambda one: KINDS[one.type][1]),
            column("default_schema_name", sysname, lambda one: "dbo" if one.type == "S" else None),
            attribute("sid", sid),
        ],
        _of_database,
    ),
    View(
        "database_role_members",
        [
            attribute("role_principal_id", int_, nullable=False),
            attribute("member_principal_id", int_, nullable=False),
        ],
        _database_members,
    ),
]
