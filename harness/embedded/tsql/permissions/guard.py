"""In whose name a session acts, and whether that suffices.

A sysadmin has no guard: `Session.guard` is None and nothing is asked. Everybody else has one, for the login; a module
or activation that executes as somebody else puts the guard of that database user in its place while it runs, which is
nobody at the server. A guard remembers what it has allowed, by procedure and by plan, until a grant, a role, a
principal or the catalog changes; so a call that was allowed once costs a look into a set.

Ownership chains: inside a procedure the objects of its database are used without a question, since dbo owns them all.
That holds for SELECT, INSERT, UPDATE, DELETE, EXECUTE and RECEIVE. It does not hold for SEND and the other verbs on
conversations ("the current user must have RECEIVE permission on the queue"), nor for DDL, nor for a text executed in a
procedure.

What is not as in SQL Server: metadata of the database is visible to everybody in it; there are neither roles of one's
own (CREATE ROLE) nor schemas with owners of their own, nor EXECUTE AS as a statement.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from harness.embedded.broker.database import Database
from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.permissions.fixed_principals import DBO, SA, SYSADMIN
from harness.embedded.tsql.permissions.grants import SERVER, Grants, Securable
from harness.embedded.tsql.permissions.rights import Principals, is_allowed

THE_SERVER = Securable(SERVER, "SERVER", 0)
# Databases that have a guest, whom nobody can turn away.
WITH_GUEST = ("master", "tempdb", "msdb")
# "Everyone can see their own session information."
OF_ONESELF = ("dm_exec_connections", "dm_exec_requests", "dm_exec_sessions")
REMEMBERED = 2000  # plans; then it starts anew


class Need(NamedTuple):
    """What a plan needs: a permission on an object of a database, or on the server's or the database's state."""

    database: Database
    securable: Securable
    permission: str
    schema: str
    name: str

    @property
    def is_chained(self) -> bool:
        """Whether a procedure of the same database passes it on."""
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
    """What answers depend on: the grants and the version of the catalog."""

    grants: Grants
    contexts: dict[tuple[int, str], Guard]  # of EXECUTE AS, by database and user
    version: int


class Session(Protocol):
    @property
    def guard(self) -> Guard | None: ...


class Frame(Protocol):
    """A running batch or procedure, as far as permissions depend on it."""

    @property
    def session(self) -> Session: ...
    @property
    def database(self) -> Database: ...
    @property
    def procedure(self) -> str: ...


class Guard:
    """The context of a login, or of one database's user."""

    def __init__(self, catalog: Catalog, login: str, user: str | None = None, database: Database | None = None) -> None:
        self._catalog = catalog
        self._grants = catalog.grants
        self.login = login  # "" for a user's context: nobody at the server
        self._user = user
        self._database = database
        self.is_dbo = user is not None and user.lower() == DBO
        self._version = -1
        self._executable: set[SchemaObject] = set()
        self._plans: set[Any] = set()
        self._users: dict[int, str | None] = {}
        self._answers: dict[tuple[Securable, str], bool] = {}

    # -- who ---------------------------------------------------------------------------------------------------------

    def user_in(self, database: Database) -> str | None:
        """The user as which it is in a database; None: it may not enter."""
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
        for user in database.principals.users.values():
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

    # -- whether -----------------------------------------------------------------------------------------------------

    def allows(self, database: Database, class_: str, identifier: int, permission: str) -> bool:
        """A permission on something of a database."""
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
        """916 where it may not."""
        if self.user_in(database) is None:
            raise SqlServerError(916, self.login or self._user, database.name)

    # -- what is asked in every call ---------------------------------------------------------------------------------

    def execute(self, procedure: SchemaObject, database: Database) -> None:
        """229 unless it may execute the procedure."""
        self._keep_up()
        if procedure in self._executable:
            return
        self.enter(database)
        self._require(Need(database, object_of(database, procedure), "EXECUTE", procedure.schema, procedure.name))
        self._executable.add(procedure)

    def receive(self, database: Database, queue: SchemaObject) -> None:
        """229 unless it may RECEIVE from the queue."""
        self._require(Need(database, object_of(database, queue), "RECEIVE", queue.schema, queue.name))

    def run(self, plan: Any, frame: Frame) -> None:
        """What a plan needs."""
        self._keep_up()
        if plan in self._plans:
            return
        for need in plan.needs:
            if not (frame.procedure and need.is_chained and need.database is frame.database):
                self._require(need)
        if len(self._plans) > REMEMBERED:
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
    """What a dynamic management view needs; None where everybody may look, if only at itself."""
    if not view.startswith("dm_") or view in OF_ONESELF:
        return None
    is_new = int(database.engine.version) >= 2022
    if view.startswith("dm_db_"):
        permission = "VIEW DATABASE PERFORMANCE STATE" if is_new else "VIEW DATABASE STATE"
        return Need(database, Securable(database.database_id, "DATABASE", 0), permission, "", "")
    permission = "VIEW SERVER PERFORMANCE STATE" if is_new else "VIEW SERVER STATE"
    return Need(database, THE_SERVER, permission, "", "")


def sees_server_state(session: Session) -> bool:
    return session.guard is None or session.guard.allows_on_server("VIEW SERVER STATE")


def object_of(database: Database, item: SchemaObject) -> Securable:
    """A table, procedure or queue as a securable."""
    return Securable(database.database_id, "OBJECT", item.object_id)


def of_login(catalog: Catalog, login: str) -> Guard | None:
    """The guard of a session that signed in; None for a sysadmin."""
    if login.lower() == SA or catalog.grants.is_member(SERVER, SYSADMIN, login.lower()):
        return None
    return Guard(catalog, login)


def of_user(catalog: Catalog, database: Database, user: str) -> Guard:
    """The context of EXECUTE AS: a database user and nobody at the server."""
    key = database.database_id, user.lower()
    guard = catalog.contexts.get(key)
    if guard is None or guard._database is not database:
        guard = catalog.contexts[key] = Guard(catalog, "", user, database)
    return guard


def is_allowed_to(frame: Frame, class_: str, identifier: int, permission: str) -> bool:
    """The session's permission on something of the current database; of a sysadmin all."""
    guard = frame.session.guard
    return guard is None or guard.allows(frame.database, class_, identifier, permission)
