"""Rights: what was granted to whom, the principals that are always there (sa, dbo, guest, fixed roles), and which
permission implies which: SQL Server's hierarchy for the securables of this server.

Grants, members of roles, owners, signatures of modules and principals made from a certificate are kept in the store and
changed in transactions; each is a row: a key that begins with its kind, and a word.

A principal holds a permission on a securable if it was granted that permission, CONTROL of the securable, or a
permission on what contains it (object, schema, database, server) that implies it. A DENY at any of these places wins,
except over dbo and sysadmin. Source: "Permissions (Database Engine)" and the GRANT topics of the manual.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from harness.embedded.broker.transactions import Transaction

GRANTS_CATALOG = "tsql.grants"
SERVER = 0  # stands for a database_id: principals and securables of the server

PERMISSION, MEMBER, OWNER, SIGNATURE, MAPPED = "permission", "member", "owner", "signature", "mapped"
GRANT, DENY = "GRANT", "DENY"

# (PERMISSION, database_id, class, id, permission, grantee), (MEMBER, database_id, role, member), (OWNER, database_id,
# class, id), (SIGNATURE, database_id, class, id, thumbprint) or (MAPPED, database_id, thumbprint, principal);
# principals in lower case, thumbprints of certificates in hexadecimal
Key = tuple[str | int, ...]


class Securable(NamedTuple):
    """Something to grant permissions on. The server has the id 0, and so has a database as a whole."""

    database_id: int
    securable_class: str  # as GRANT ... ON class:: writes it; OBJECT, DATABASE, SERVER ...
    id: int


class Permission(NamedTuple):
    """A row of sys.server_permissions or sys.database_permissions."""

    securable: Securable
    permission: str
    grantee: str
    state: str


class Grants:
    """The grants of an instance. Every change increases `version`, which makes remembered answers invalid, and is
    announced to `routing`: whether a message may reach another database depends on grants."""

    def __init__(self, routing: Callable[[], None]) -> None:
        self._rows: dict[Key, str] = {}
        self._routing = routing
        self.version = 0

    def recover(self, key: Key, word: str) -> None:
        self._rows[key] = word

    # -- questions ---------------------------------------------------------------------------------------------------

    def state(self, securable: Securable, permission: str, grantee: str) -> str | None:
        return self._rows.get((PERMISSION, *securable, permission, grantee))

    def roles_of(self, database_id: int, member: str) -> list[str]:
        """The roles of a principal, without public."""
        return [str(key[2]) for key in self._of(MEMBER, database_id) if key[3] == member]

    def is_member(self, database_id: int, role: str, member: str) -> bool:
        return (MEMBER, database_id, role, member) in self._rows

    def permissions(self, database_id: int) -> Iterator[Permission]:
        for key in self._of(PERMISSION, database_id):
            _, database, class_, identifier, permission, grantee = key
            securable = Securable(int(database), str(class_), int(identifier))
            yield Permission(securable, str(permission), str(grantee), self._rows[key])

    def owner(self, securable: Securable) -> str | None:
        """The owner in lower case; None if it is sa or dbo."""
        return self._rows.get((OWNER, *securable))

    def signatures(self, module: Securable) -> dict[str, str]:
        """The signatures of a module, by the thumbprint of their certificate; both in hexadecimal."""
        database_id, *rest = module
        return {str(key[4]): self._rows[key] for key in self._of(SIGNATURE, database_id) if [*key[2:4]] == rest}

    def has_signed(self, database_id: int, thumbprint: str) -> bool:
        """Whether a module of a database has a signature of a certificate."""
        return any(key[4] == thumbprint for key in self._of(SIGNATURE, database_id))

    def mapped(self, database_id: int, thumbprints: Sequence[str]) -> list[str]:
        """The users of a database, or the logins, that were made from certificates."""
        return [str(key[3]) for key in self._of(MAPPED, database_id) if str(key[2]) in thumbprints]

    def certificate_of(self, database_id: int, principal: str) -> str | None:
        """The thumbprint of the certificate from which a principal was made."""
        return next((str(key[2]) for key in self._of(MAPPED, database_id) if key[3] == principal.lower()), None)

    def _of(self, kind: str, database_id: int) -> Iterator[Key]:
        return (key for key in list(self._rows) if key[0] == kind and key[1] == database_id)

    # -- changes -----------------------------------------------------------------------------------------------------

    def set_permission(
        self, tx: Transaction, securable: Securable, permission: str, grantee: str, state: str | None
    ) -> None:
        """GRANT, DENY; REVOKE without a state."""
        self._set(tx, (PERMISSION, *securable, permission, grantee), state)

    def set_member(self, tx: Transaction, database_id: int, role: str, member: str, *, is_member: bool) -> None:
        self._set(tx, (MEMBER, database_id, role, member), "" if is_member else None)

    def set_owner(self, tx: Transaction, securable: Securable, owner: str | None) -> None:
        self._set(tx, (OWNER, *securable), owner)

    def set_signature(self, tx: Transaction, module: Securable, thumbprint: str, signature: str | None) -> None:
        """ADD SIGNATURE; DROP SIGNATURE without one."""
        self._set(tx, (SIGNATURE, *module, thumbprint), signature)

    def forget_signatures(self, tx: Transaction, module: Securable) -> None:
        for thumbprint in self.signatures(module):
            self.set_signature(tx, module, thumbprint, None)

    def set_certificate(self, tx: Transaction, database_id: int, principal: str, thumbprint: str) -> None:
        """CREATE USER and CREATE LOGIN FROM CERTIFICATE."""
        self._set(tx, (MAPPED, database_id, thumbprint, principal.lower()), "")

    def forget_principal(self, tx: Transaction, database_id: int, name: str) -> None:
        """DROP USER, DROP LOGIN: revoke all that it was granted."""
        for kind, place in ((PERMISSION, 5), (MEMBER, 3), (MAPPED, 3)):
            for key in self._of(kind, database_id):
                if key[place] == name:
                    self._set(tx, key, None)
        self.touch(tx)

    def forget_securable(self, tx: Transaction, securable: Securable) -> None:
        """DROP: forget who was granted what on it, its owner, and its signatures."""
        for kind in (PERMISSION, OWNER, SIGNATURE):
            for key in self._of(kind, securable.database_id):
                if key[2:4] == securable[1:]:
                    self._set(tx, key, None)

    def forget_database(self, tx: Transaction, database_id: int) -> None:
        """DROP DATABASE"""
        for kind in (PERMISSION, MEMBER, OWNER, SIGNATURE, MAPPED):
            for key in self._of(kind, database_id):
                self._set(tx, key, None)
        self.touch(tx)

    def touch(self, tx: Transaction) -> None:
        """Make remembered answers invalid after a change of principals."""
        self._changed()
        tx.on_rollback(self._changed)

    def _set(self, tx: Transaction, key: Key, word: str | None) -> None:
        self.touch(tx)
        tx.put(self._rows, key, word)
        tx.write(GRANTS_CATALOG, key, None if word is None else (word,))

    def _changed(self) -> None:
        self.version += 1
        self._routing()


# -- which permission implies which -----------------------------------------------------------------------------------

SA, DBO, SYSADMIN = "sa", "dbo", "sysadmin"
SA_ID, DBO_ID = 1, 1

# principal_id of each, as in SQL Server
FIXED_USER_IDS = {"public": 0, DBO: DBO_ID, "guest": 2, "sys": 4}
SERVER_ROLE_IDS = {"public": 2, SYSADMIN: 3}
DATABASE_ROLE_IDS = {"db_owner": 16384, "db_datareader": 16390, "db_datawriter": 16391}


def words(text: str) -> frozenset[str]:
    """The names in a list separated by commas."""
    return frozenset(" ".join(line.split()) for line in text.split(","))


# The permissions of each fixed role on the server or on the whole database. Members of sysadmin are never checked.
SERVER_ROLES = {"public": words("VIEW ANY DATABASE")}
DATABASE_ROLES = {
    "db_owner": words("CONTROL"),
    "db_datareader": words("SELECT"),
    "db_datawriter": words("DELETE, INSERT, UPDATE"),
    "public": frozenset[str](),
}


def sid_of(principal_id: int) -> bytes:
    """A login's sid. Except for sa's it is random in SQL Server; here it only has to be the same in every view."""
    return b"\x01" if principal_id == SA_ID else principal_id.to_bytes(16, "big")


_ON_SERVER = words(
    """ALTER ANY LOGIN, AUTHENTICATE SERVER, CONNECT SQL, CONTROL SERVER, CREATE ANY DATABASE, CREATE ENDPOINT,
    CREATE LOGIN, VIEW ANY DATABASE, VIEW ANY DEFINITION, VIEW ANY ERROR LOG, VIEW SERVER PERFORMANCE STATE,
    VIEW SERVER SECURITY STATE, VIEW SERVER STATE"""
)
_ON_DATABASE = words(
    """ALTER, ALTER ANY CERTIFICATE, ALTER ANY CONTRACT, ALTER ANY MESSAGE TYPE, ALTER ANY REMOTE SERVICE BINDING,
    ALTER ANY ROUTE, ALTER ANY SCHEMA, ALTER ANY SERVICE, ALTER ANY USER, AUTHENTICATE, CONNECT, CONTROL, CREATE
    CERTIFICATE, CREATE CONTRACT, CREATE FUNCTION, CREATE MESSAGE TYPE, CREATE PROCEDURE, CREATE QUEUE, CREATE
    REMOTE SERVICE BINDING, CREATE ROUTE, CREATE SCHEMA, CREATE SERVICE, CREATE TABLE, CREATE TYPE, CREATE VIEW,
    CREATE XML SCHEMA COLLECTION, DELETE, EXECUTE, INSERT, REFERENCES, SELECT, SUBSCRIBE QUERY NOTIFICATIONS, UPDATE,
    VIEW DATABASE PERFORMANCE STATE, VIEW DATABASE STATE, VIEW DEFINITION"""
)
_COMMON = words("ALTER, CONTROL, VIEW DEFINITION")
# The permissions that can be granted on each class of securable. A check may ask for another one: CONTROL implies it.
VALID: dict[str, frozenset[str]] = {
    "SERVER": _ON_SERVER,
    "ENDPOINT": _COMMON | {"CONNECT"},
    "DATABASE": _ON_DATABASE,
    "SCHEMA": _COMMON | words("DELETE, EXECUTE, INSERT, REFERENCES, SELECT, UPDATE"),
    "OBJECT": _COMMON | words("DELETE, EXECUTE, INSERT, RECEIVE, REFERENCES, SELECT, UPDATE"),
    "SERVICE": _COMMON | {"SEND"},
    "CONTRACT": _COMMON | {"REFERENCES"},
    "MESSAGE TYPE": _COMMON | {"REFERENCES"},
    "CERTIFICATE": _COMMON | {"REFERENCES"},
    "ROUTE": _COMMON,
    "REMOTE SERVICE BINDING": _COMMON,
    "USER": words("ALTER, CONTROL, IMPERSONATE, VIEW DEFINITION"),
}
# Those of each type in sys.objects: SELECT on the database shows its tables, but not its procedures.
VALID_ON_OBJECT = {
    "U": _COMMON | words("DELETE, INSERT, REFERENCES, SELECT, UPDATE"),
    "V": _COMMON | words("DELETE, INSERT, REFERENCES, SELECT, UPDATE"),
    "P": _COMMON | {"EXECUTE"},
    "FN": _COMMON | words("EXECUTE, REFERENCES"),
    "IF": _COMMON | words("DELETE, INSERT, REFERENCES, SELECT, UPDATE"),
    "TF": _COMMON | words("DELETE, INSERT, REFERENCES, SELECT, UPDATE"),
    "SQ": _COMMON | words("RECEIVE, REFERENCES, SELECT"),
}

_OF_THE_DATABASE = ("SERVICE", "CONTRACT", "MESSAGE TYPE", "CERTIFICATE", "ROUTE", "REMOTE SERVICE BINDING", "USER")
_DATA = ("SELECT", "INSERT", "UPDATE", "DELETE", "EXECUTE", "REFERENCES", "VIEW DEFINITION")
# (class, permission) -> other permissions that imply it, on the same securable or on one that contains it
_IMPLIED_BY: dict[tuple[str, str], tuple[tuple[str, str], ...]] = {
    ("SERVER", "CREATE LOGIN"): (("SERVER", "ALTER ANY LOGIN"),),
    ("SERVER", "VIEW ANY DATABASE"): (("SERVER", "VIEW ANY DEFINITION"),),
    ("SERVER", "VIEW SERVER PERFORMANCE STATE"): (("SERVER", "VIEW SERVER STATE"),),
    ("SERVER", "VIEW SERVER SECURITY STATE"): (("SERVER", "VIEW SERVER STATE"),),
    ("ENDPOINT", "VIEW DEFINITION"): (("SERVER", "VIEW ANY DEFINITION"),),
    ("DATABASE", "AUTHENTICATE"): (("SERVER", "AUTHENTICATE SERVER"),),
    ("DATABASE", "VIEW DATABASE STATE"): (("SERVER", "VIEW SERVER STATE"),),
    ("DATABASE", "VIEW DATABASE PERFORMANCE STATE"): (
        ("DATABASE", "VIEW DATABASE STATE"),
        ("SERVER", "VIEW SERVER PERFORMANCE STATE"),
    ),
    ("DATABASE", "VIEW DEFINITION"): (("SERVER", "VIEW ANY DEFINITION"),),
    ("SCHEMA", "ALTER"): (("DATABASE", "ALTER"),),
    ("OBJECT", "ALTER"): (("SCHEMA", "ALTER"),),
    ("OBJECT", "SELECT"): (("OBJECT", "RECEIVE"), ("SCHEMA", "SELECT")),
}


@cache
def implying(class_: str, permission: str) -> tuple[tuple[str, str], ...]:
    """The permission and all that imply it, nearest first."""
    pairs: dict[tuple[str, str], None] = {}
    waiting = [(class_, permission)]
    while waiting:
        pair = waiting.pop(0)
        if pair not in pairs:
            pairs[pair] = None
            waiting.extend(_directly(*pair))
    return tuple(pairs)


def _directly(class_: str, permission: str) -> Iterator[tuple[str, str]]:
    control = "CONTROL SERVER" if class_ == "SERVER" else "CONTROL"
    if permission != control:
        yield class_, control
    yield from _IMPLIED_BY.get((class_, permission), ())
    if class_ == "OBJECT" and permission in _DATA:
        yield "SCHEMA", permission
    elif class_ == "SCHEMA" and permission in _DATA:
        yield "DATABASE", permission
    elif class_ == "DATABASE" and permission.startswith(("CREATE ", "ALTER ANY ")):
        if (any_of_them := permission.replace("CREATE ", "ALTER ANY ")) in _ON_DATABASE:
            yield "DATABASE", any_of_them
        yield "DATABASE", "ALTER"
    elif class_ in _OF_THE_DATABASE:
        if permission == "ALTER":
            yield "DATABASE", f"ALTER ANY {class_}"
        elif permission in ("VIEW DEFINITION", "REFERENCES"):
            yield "DATABASE", permission
    if permission == "CONTROL":
        container = {"OBJECT": "SCHEMA", "SCHEMA": "DATABASE"} | dict.fromkeys(_OF_THE_DATABASE, "DATABASE")
        if class_ in container:
            yield container[class_], "CONTROL"
        else:
            yield "SERVER", "CONTROL SERVER"


class Principals(NamedTuple):
    """The names that permissions are checked for: login and server roles, user and database roles."""

    server: tuple[str, ...]
    database: tuple[str, ...]


def is_allowed(
    grants: Grants, principals: Principals, securable: Securable, permission: str, schema_id: int = 0
) -> bool:
    """Whether they hold the permission, or one that implies it, on a securable or what contains it: an object is in a
    schema. Not called for sysadmin and dbo, who hold all."""
    held = False
    for class_, implied_by in implying(securable.securable_class, permission):
        target = _enclosing(securable, class_, schema_id)
        names = principals.server if target.database_id == SERVER else principals.database
        states = set(_states(grants, names, target, implied_by))
        if DENY in states:
            return False
        held = held or bool(states)
    return held


def _enclosing(securable: Securable, class_: str, schema_id: int) -> Securable:
    if class_ == securable.securable_class:
        return securable
    if class_ == "SERVER":
        return Securable(SERVER, "SERVER", 0)
    return Securable(securable.database_id, class_, schema_id if class_ == "SCHEMA" else 0)


def _states(grants: Grants, names: Iterable[str], target: Securable, permission: str) -> Iterator[str]:
    fixed = SERVER_ROLES if target.database_id == SERVER else DATABASE_ROLES
    is_whole = target.securable_class in ("SERVER", "DATABASE")
    owner = grants.owner(target) if permission == "CONTROL" else None
    for name in names:
        if (state := grants.state(target, permission, name)) is not None:
            yield state
        if is_whole and permission in fixed.get(name, ()):
            yield GRANT
        if name == owner:
            yield GRANT
