"""Permission checks for callers who are not sysadmin.

The session of a sysadmin has no guard: `Session.guard` is None and nothing is checked. Every other session has the
guard of its login. A procedure or an activation that executes as a database user replaces it, while it runs, by the
guard of that user. Outside its database that user is nobody ("the scope of impersonation is restricted to the
database"), unless the database is TRUSTWORTHY and its owner is trusted there, or the module was signed with a
certificate of a principal that has AUTHENTICATE there: then the user is its login. While a signed module runs, and text
that it executes, it has the permissions of the principals of its certificates too; a module that it calls has not. A
guard remembers the procedures and plans that it allowed until a grant, a role, a principal or the catalog changes, so
checking them again is a lookup in a set.

Ownership chains: inside a procedure, SELECT, INSERT, UPDATE, DELETE, EXECUTE and RECEIVE on objects of its database
are not checked, because dbo owns them all. SEND and the other statements on conversations are checked ("the current
user must have RECEIVE permission on the queue"), and BEGIN DIALOG for REFERENCES on its contract; so are DDL and text
that a procedure executes.

Differences from SQL Server: CREATE ROLE, schemas with owners of their own, and EXECUTE AS LOGIN are not
supported.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from harness.embedded.broker.catalog import OWNED
from harness.embedded.broker.database import Database
from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.permissions import rights

THE_SERVER = rights.Securable(rights.SERVER, "SERVER", 0)
# Every login enters these as guest.
WITH_GUEST = ("master", "tempdb", "msdb")
# "Everyone can see their own session information."
OF_ONESELF = ("dm_exec_requests", "dm_exec_sessions")
PLANS_REMEMBERED = 2000


class Need(NamedTuple):
    """A permission that a plan needs: on an object, or on the state of the server or of a database. "" is the right to
    enter the database alone."""

    database: Database
    securable: rights.Securable
    permission: str
    schema: str
    name: str

    @property
    def is_chained(self) -> bool:
        """Whether the ownership chain of a procedure may cover it."""
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

    grants: rights.Grants
    contexts: dict[tuple[int, str], Guard]  # of EXECUTE AS, by database and user
    version: int

    def schemas_of_objects(self, database: Database) -> dict[int, int]: ...


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
    @property
    def module_id(self) -> int: ...


class Guard:
    """The permissions of a login, or of a user of one database."""

    def __init__(
        self,
        catalog: Catalog,
        login: str,
        user: str | None = None,
        database: Database | None = None,
        signers: tuple[str, ...] = (),
    ) -> None:
        self._catalog = catalog
        self._signers = signers  # the thumbprints of the certificates that have signed the running module
        self._signed: dict[tuple[str, ...], Guard] = {}
        self._grants = catalog.grants
        self.login = login  # "" for a database user
        self._user = user
        self._database = database
        self.is_dbo = user is not None and user.lower() == rights.DBO
        self._version = -1
        self._executable: set[SchemaObject] = set()
        self._plans: set[Any] = set()
        self._users: dict[int, str | None] = {}
        self._answers: dict[tuple[rights.Securable, str], bool] = {}
        self._owners: dict[tuple[int, str], dict[int, str]] = {}  # by database and class
        self._schemas: dict[int, dict[int, int]] = {}  # by database: object_id -> schema_id

    def signed(self, signers: tuple[str, ...]) -> Guard:
        """The guard of the same principal in a module with these signatures."""
        if signers == self._signers:
            return self
        if signers not in self._signed:
            variant = Guard(self._catalog, self.login, self._user, self._database, signers)
            self._signed[signers] = variant
            variant._signed = self._signed | {self._signers: self}
        return self._signed[signers]

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
            if self._is_trusted_in(database):
                return self._find_user_of(self._login_of_user(), database)
            return "guest" if database.name in WITH_GUEST else None
        return self._find_user_of(self.login, database)

    def _find_user_of(self, login: str, database: Database) -> str | None:
        if is_sysadmin(self._grants, login):
            return rights.DBO
        if self._owner_of(database).lower() == login.lower():
            return rights.DBO
        for user in database.catalog.principals.users.values():
            if user.login is not None and user.login.lower() == login.lower():
                return user.name
        if database.name in WITH_GUEST:
            return "guest"
        return None

    def _login_of_user(self) -> str:
        """The login behind the database user; "" without one."""
        assert self._database is not None and self._user is not None
        if self.is_dbo:
            return self._owner_of(self._database)
        user = self._database.catalog.principals.users.get(self._user.lower())
        return "" if user is None or user.login is None else user.login

    def _owner_of(self, database: Database) -> str:
        return self._grants.owner(rights.Securable(database.database_id, "DATABASE", 0)) or rights.SA

    def _is_trusted_in(self, database: Database | None) -> bool:
        """Whether the database user is its login in another database, or on the server (None).

        "The source database is marked trustworthy", and its owner has AUTHENTICATE there: as a sysadmin, or as the
        owner of both databases. Or a signer of the module has it.
        """
        source = self._database
        if source is None:
            return False
        if self._signers and self._is_authenticated_in(database):
            return True
        if not source.catalog.is_trustworthy_on:
            return False
        owner = self._owner_of(source)
        return is_sysadmin(self._grants, owner) or (database is not None and self._owner_of(database) == owner)

    def _is_authenticated_in(self, database: Database | None) -> bool:
        """Whether a signer has AUTHENTICATE in a database, or AUTHENTICATE SERVER."""
        of_server = self._signing(rights.SERVER)
        if database is None:
            names = rights.Principals(of_server, ())
            return rights.is_allowed(self._grants, names, THE_SERVER, "AUTHENTICATE SERVER")
        names = rights.Principals(of_server, self._signing(database.database_id))
        securable = rights.Securable(database.database_id, "DATABASE", 0)
        return rights.is_allowed(self._grants, names, securable, "AUTHENTICATE")

    def _signing(self, database_id: int) -> tuple[str, ...]:
        """The principals of the signers, and their roles."""
        names = self._grants.mapped(database_id, self._signers) if self._signers else []
        return (*names, *(role for name in names for role in self._grants.roles_of(database_id, name)))

    def server_principals(self) -> tuple[str, ...]:
        login = self.login.lower()
        if self._database is not None:
            if not self._is_trusted_in(None):
                return ("public",)
            login = self._login_of_user().lower()
        signers = self._signing(rights.SERVER)
        if not login:
            return ("public", *signers)
        return (login, "public", *self._grants.roles_of(rights.SERVER, login), *signers)

    def database_principals(self, database: Database) -> tuple[str, ...]:
        user = self.user_in(database)
        if user is None:
            return ()
        roles = self._grants.roles_of(database.database_id, user.lower())
        return (user.lower(), "public", *roles, *self._signing(database.database_id))

    # -- checks ------------------------------------------------------------------------------------------------------

    def allows(self, database: Database, class_: str, identifier: int, permission: str) -> bool:
        """Whether it holds a permission on a securable of a database."""
        self._keep_up()
        securable = rights.Securable(database.database_id, class_, identifier)
        key = securable, permission
        answer = self._answers.get(key)
        if answer is None:
            user = self.user_in(database)
            principals = rights.Principals(self.server_principals(), self.database_principals(database))
            is_object = class_ == "OBJECT"
            schema_id = self.schema_of(database, identifier) if is_object else 0
            owner = self._owner(database, *(("SCHEMA", schema_id) if is_object else (class_, identifier)))
            answer = user is not None and (
                user == rights.DBO
                or owner == user.lower()
                or rights.is_allowed(self._grants, principals, securable, permission, schema_id)
            )
            self._answers[key] = answer
        return answer

    def _owner(self, database: Database, class_: str, identifier: int) -> str | None:
        """The owner of a thing of a class of `OWNED`, in lower case."""
        if class_ not in OWNED:
            return None
        key = database.database_id, class_
        if key not in self._owners:
            self._owners[key] = database.catalog.owners(class_)
        return self._owners[key].get(identifier)

    def schema_of(self, database: Database, object_id: int) -> int:
        """The id of the schema of an object; dbo's for the system's."""
        self._keep_up()
        if database.database_id not in self._schemas:
            self._schemas[database.database_id] = self._catalog.schemas_of_objects(database)
        return self._schemas[database.database_id].get(object_id, database.catalog.schema_id(rights.DBO))

    def is_chained(self, frame: Context, database: Database, object_id: int) -> bool:
        """Whether the running module reaches an object without a permission: one of the same owner in its database,
        the owner of its schema."""
        if not frame.procedure or database is not frame.database:
            return False
        schemas = (self.schema_of(database, identifier) for identifier in (object_id, frame.module_id))
        return len({self._owner(database, "SCHEMA", schema_id) for schema_id in schemas}) == 1

    def allows_on_server(self, permission: str, class_: str = "SERVER", identifier: int = 0) -> bool:
        self._keep_up()
        securable = rights.Securable(rights.SERVER, class_, identifier)
        key = securable, permission
        answer = self._answers.get(key)
        if answer is None:
            principals = rights.Principals(self.server_principals(), ())
            is_all_powerful = rights.SYSADMIN in principals.server or principals.server[0] == rights.SA
            answer = self._answers[key] = is_all_powerful or rights.is_allowed(
                self._grants, principals, securable, permission
            )
        return answer

    def sees(self, database: Database, class_: str, identifier: int, type_: str = "") -> bool:
        """Whether it sees the metadata of a securable: it holds some permission on it. An object has a type, as in
        sys.objects."""
        self._keep_up()
        key = rights.Securable(database.database_id, class_, identifier), f"some {type_}"
        answer = self._answers.get(key)
        if answer is None:
            permissions = rights.VALID_ON_OBJECT[type_] if type_ else rights.VALID[class_]
            held = (self.allows(database, class_, identifier, permission) for permission in sorted(permissions))
            answer = self._answers[key] = any(held)
        return answer

    def sees_login(self, name: str) -> bool:
        """Whether it sees a login: "Any login can see their own login name"."""
        if name.lower() == self.login.lower():
            return True
        return self.allows_on_server("ALTER ANY LOGIN") or self.allows_on_server("VIEW ANY DEFINITION")

    def sees_user(self, database: Database, name: str, principal_id: int) -> bool:
        """Whether it sees a user of a database: "Any user can see their own user name"."""
        current_user = self.user_in(database)
        if current_user is not None and current_user.lower() == name.lower():
            return True
        return self.allows(database, "DATABASE", 0, "ALTER ANY USER") or self.sees(database, "USER", principal_id)

    def sees_database(self, database: Database) -> bool:
        """Whether it sees that a database exists: as its owner, or with a permission that everybody has by default."""
        return (
            database.name in ("master", "tempdb")
            or self.allows_on_server("VIEW ANY DATABASE")
            or self.user_in(database) == rights.DBO
        )

    def is_owner_of(self, database: Database) -> bool:
        """IS_MEMBER('db_owner')"""
        names = self.database_principals(database)
        return "db_owner" in names or names[:1] == (rights.DBO,)

    def enter(self, database: Database) -> None:
        """Raise 916 if it may not enter the database."""
        if self.user_in(database) is None:
            raise SqlServerError(916, self.login or self._login_of_user() or self._user, database.name)

    # -- checks of running statements --------------------------------------------------------------------------------

    def execute(self, procedure: SchemaObject, database: Database) -> None:
        """Raise 229 unless it may execute the procedure, as everybody may those of the system."""
        self._keep_up()
        if procedure in self._executable or procedure.schema == "sys":
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
            if not (need.is_chained and self.is_chained(frame, need.database, need.securable.id)):
                self._require(need)
        if len(self._plans) > PLANS_REMEMBERED:
            self._plans.clear()
        self._plans.add(plan)

    def _require(self, need: Need) -> None:
        self.enter(need.database)
        if not need.permission:
            return
        if need.securable.database_id == rights.SERVER:
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
            of_principals = (self._executable, self._plans, self._users, self._answers)
            for remembered in (*of_principals, self._owners, self._schemas):
                remembered.clear()


def needed_by(view: str, database: Database) -> Need:
    """The permission that a view of schema sys needs. Everybody who may enter its database reads a catalog view, which
    shows what this session may see."""
    if not view.startswith("dm_") or view in OF_ONESELF:
        return Need(database, rights.Securable(database.database_id, "DATABASE", 0), "", "", "")
    is_new = int(database.catalog.server_version) >= 2022
    if view.startswith("dm_db_"):
        permission = "VIEW DATABASE PERFORMANCE STATE" if is_new else "VIEW DATABASE STATE"
        return Need(database, rights.Securable(database.database_id, "DATABASE", 0), permission, "", "")
    permission = "VIEW SERVER PERFORMANCE STATE" if is_new else "VIEW SERVER STATE"
    return Need(database, THE_SERVER, permission, "", "")


def sees_server_state(session: Guarded) -> bool:
    return session.guard is None or session.guard.allows_on_server("VIEW SERVER STATE")


def object_of(database: Database, item: SchemaObject) -> rights.Securable:
    """A table, procedure or queue as a securable."""
    return rights.Securable(database.database_id, "OBJECT", item.object_id)


def of_login(catalog: Catalog, login: str) -> Guard | None:
    """The guard for a login's session; None for a sysadmin."""
    return None if is_sysadmin(catalog.grants, login) else Guard(catalog, login)


def is_sysadmin(grants: rights.Grants, login: str) -> bool:
    return login.lower() == rights.SA or grants.is_member(rights.SERVER, rights.SYSADMIN, login.lower())


def of_user(catalog: Catalog, database: Database, user: str) -> Guard:
    """The guard for EXECUTE AS a database user."""
    key = database.database_id, user.lower()
    guard = catalog.contexts.get(key)
    if guard is None or guard._database is not database:
        guard = catalog.contexts[key] = Guard(catalog, "", user, database)
    return guard


class Signed(Protocol):
    """A module."""

    schema: str
    signers: tuple[str, ...]


def of_module(catalog: Catalog, caller: Guard | None, module: Signed, database: Database, user: str) -> Guard | None:
    """The guard for a module that a caller calls, and that executes as a user of its database; "" for the caller. One
    of the system runs with its caller's signatures."""
    guard = of_user(catalog, database, user) if user else caller
    return guard if guard is None or module.schema == "sys" else guard.signed(module.signers)


def is_allowed_on_database(frame: Context, permission: str) -> bool:
    """Whether the session holds a permission on the current database."""
    guard = frame.session.guard
    return guard is None or guard.allows(frame.database, "DATABASE", 0, permission)
