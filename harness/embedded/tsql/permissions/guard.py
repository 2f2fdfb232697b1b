"""Permission checks for callers who are not sysadmin.

The session of a sysadmin has no guard: `Session.guard` is None and nothing is checked. Every other session has the
guard of its login. A procedure or an activation that executes as a database user replaces it, while it runs, by the
guard of that user, who has no permissions on the server. A guard remembers the procedures and plans that it allowed
until a grant, a role, a principal or the catalog changes, so checking them again is a lookup in a set.

Ownership chains: inside a procedure, SELECT, INSERT, UPDATE, DELETE, EXECUTE and RECEIVE on objects of its database
are not checked, because dbo owns them all. SEND and the other statements on conversations are checked ("the current
user must have RECEIVE permission on the queue"); so are DDL and text that a procedure executes.

Differences from SQL Server: every user of a database sees all its metadata. CREATE ROLE, schemas with owners of their
own, and EXECUTE AS as a statement are not supported.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from harness.embedded.broker.database import Database
from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.permissions.rights import (
    DBO,
    SA,
    SERVER,
    SYSADMIN,
    Grants,
    Principals,
    Securable,
    is_allowed,
)

THE_SERVER = Securable(SERVER, "SERVER", 0)
# Every login enters these as guest.
WITH_GUEST = ("master", "tempdb", "msdb")
# "Everyone can see their own session information."
OF_ONESELF = ("dm_exec_requests", "dm_exec_sessions")
PLANS_REMEMBERED = 2000


class Need(NamedTuple):
    """A permission that a plan needs: on an object, or on the state of the server or of a database."""

    database: Database
    securable: Securable
    permission: str
    schema: str
    name: str

    @property
    def is_chained(self) -> bool:
        """Whether the ownership chain of a procedure covers it."""
        return self.securable.securable_class == "OBJECT"


class SchemaObject(Protocol):
    """A table, procedure or queue."""

    @property
    def object_id(self) -> int: ...
    @property
    def schema(self) -> str: ...
    @property
    def name(self) -> str: ...


class Catalog(Protocol):
    """The instance, as far as answers depend on it."""

    grants: Grants
    contexts: dict[tuple[int, str], Guard]  # of EXECUTE AS, by database and user
    version: int


class Guarded(Protocol):
    @property
    def guard(self) -> Guard | None: ...


class Context(Protocol):
    """A running batch or procedure, as far as checks depend on it."""

    @property
    def session(self) -> Guarded: ...
    @property
    def database(self) -> Database: ...
    @property
    def procedure(self) -> str: ...


class Guard:
    """The permissions of a login, or of a user of one database."""

    def __init__(self, catalog: Catalog, login: str, user: str | None = None, database: Database | None = None) -> None:
        self._catalog = catalog
        self._grants = catalog.grants
        self.login = login  # "" for a database user, who has no permissions on the server
        self._user = user
        self._database = database
        self.is_dbo = user is not None and user.lower() == DBO
        self._version = -1
        self._executable: set[SchemaObject] = set()
        self._plans: set[Any] = set()
        self._users: dict[int, str | None] = {}
        self._answers: dict[tuple[Securable, str], bool] = {}

    # -- principals --------------------------------------------------------------------------------------------------

    def user_in(self, database: Database) -> str | None:
        """Its user in a database; None if it may not enter."""
        self._keep_up()
        identifier = database.database_id
        if identifier not in self._users:
            self._users[identifier] = self._find_user(database)
        return self._users[identifier]

    def _find_user(self, database: Database) -> str | None:
        if self._database is not None:
            if database is self._database:
                return self._user
            return "guest" if database.name in WITH_GUEST else None
        if self._grants.owner(Securable(database.database_id, "DATABASE", 0)) == self.login.lower():
            return DBO
        for user in database.catalog.principals.users.values():
            if user.login is not None and user.login.lower() == self.login.lower():
                return user.name
        if database.name in WITH_GUEST or self.allows_on_server("CONNECT ANY DATABASE"):
            return "guest"
        return None

    def server_principals(self) -> tuple[str, ...]:
        if not self.login:
            return ("public",)
        login = self.login.lower()
        return (login, "public", *self._grants.roles_of(SERVER, login))

    def database_principals(self, database: Database) -> tuple[str, ...]:
        user = self.user_in(database)
        if user is None:
            return ()
        return (user.lower(), "public", *self._grants.roles_of(database.database_id, user.lower()))

    # -- checks ------------------------------------------------------------------------------------------------------

    def allows(self, database: Database, class_: str, identifier: int, permission: str) -> bool:
        """Whether it holds a permission on a securable of a database."""
        self._keep_up()
        securable = Securable(database.database_id, class_, identifier)
        key = securable, permission
        answer = self._answers.get(key)
        if answer is None:
            user = self.user_in(database)
            who = Principals(self.server_principals(), self.database_principals(database))
            answer = user is not None and (user == DBO or is_allowed(self._grants, who, securable, permission))
            self._answers[key] = answer
        return answer

    def allows_on_server(self, permission: str, class_: str = "SERVER", identifier: int = 0) -> bool:
        self._keep_up()
        securable = Securable(SERVER, class_, identifier)
        key = securable, permission
        answer = self._answers.get(key)
        if answer is None:
            who = Principals(self.server_principals(), ())
            answer = self._answers[key] = is_allowed(self._grants, who, securable, permission)
        return answer

    def enter(self, database: Database) -> None:
        """Raise 916 if it may not enter the database."""
        if self.user_in(database) is None:
            raise SqlServerError(916, self.login or self._user, database.name)

    # -- checks of running statements --------------------------------------------------------------------------------

    def execute(self, procedure: SchemaObject, database: Database) -> None:
        """Raise 229 unless it may execute the procedure."""
        self._keep_up()
        if procedure in self._executable:
            return
        self.enter(database)
        self._require(Need(database, object_of(database, procedure), "EXECUTE", procedure.schema, procedure.name))
        self._executable.add(procedure)

    def receive(self, database: Database, queue: SchemaObject) -> None:
        """Raise 229 unless it may RECEIVE from the queue."""
        self._require(Need(database, object_of(database, queue), "RECEIVE", queue.schema, queue.name))

    def run(self, plan: Any, frame: Context) -> None:
        """Raise an error unless it holds all that a plan needs."""
        self._keep_up()
        if plan in self._plans:
            return
        for need in plan.needs:
            if not (frame.procedure and need.is_chained and need.database is frame.database):
                self._require(need)
        if len(self._plans) > PLANS_REMEMBERED:
            self._plans.clear()
        self._plans.add(plan)

    def _require(self, need: Need) -> None:
        self.enter(need.database)
        if need.securable.database_id == SERVER:
            if not self.allows_on_server(need.permission):
                raise SqlServerError(300, need.permission, "server", "master")
        elif not self.allows(need.database, *need.securable[1:], need.permission):
            if not need.is_chained:
                raise SqlServerError(262, need.permission, need.database.name)
            raise SqlServerError(229, need.permission, need.name, need.database.name, need.schema)

    def _keep_up(self) -> None:
        version = self._grants.version + self._catalog.version
        if version != self._version:
            self._version = version
            for remembered in (self._executable, self._plans, self._users, self._answers):
                remembered.clear()


def state_shown_by(view: str, database: Database) -> Need | None:
    """The permission that a dynamic management view needs; None if every login may read it."""
    if not view.startswith("dm_") or view in OF_ONESELF:
        return None
    is_new = int(database.catalog.server_version) >= 2022
    if view.startswith("dm_db_"):
        permission = "VIEW DATABASE PERFORMANCE STATE" if is_new else "VIEW DATABASE STATE"
        return Need(database, Securable(database.database_id, "DATABASE", 0), permission, "", "")
    permission = "VIEW SERVER PERFORMANCE STATE" if is_new else "VIEW SERVER STATE"
    return Need(database, THE_SERVER, permission, "", "")


def sees_server_state(session: Guarded) -> bool:
    return session.guard is None or session.guard.allows_on_server("VIEW SERVER STATE")


def object_of(database: Database, item: SchemaObject) -> Securable:
    """A table, procedure or queue as a securable."""
    return Securable(database.database_id, "OBJECT", item.object_id)


def of_login(catalog: Catalog, login: str) -> Guard | None:
    """The guard for a login's session; None for a sysadmin."""
    if login.lower() == SA or catalog.grants.is_member(SERVER, SYSADMIN, login.lower()):
        return None
    return Guard(catalog, login)


def of_user(catalog: Catalog, database: Database, user: str) -> Guard:
    """The guard for EXECUTE AS a database user, who has no permissions on the server."""
    key = database.database_id, user.lower()
    guard = catalog.contexts.get(key)
    if guard is None or guard._database is not database:
        guard = catalog.contexts[key] = Guard(catalog, "", user, database)
    return guard


def is_allowed_on_database(frame: Context, permission: str) -> bool:
    """Whether the session holds a permission on the current database."""
    guard = frame.session.guard
    return guard is None or guard.allows(frame.database, "DATABASE", 0, permission)
