"""The principals that are always there (sa, dbo, guest, fixed roles), and which permission implies which: SQL Server's
hierarchy for the securables of this server.

A principal holds a permission on a securable if it was granted that permission, CONTROL of the securable, or a
permission on what contains it (object, schema, database, server) that implies it. A DENY at any of these places wins,
except over dbo and sysadmin. Source: "Permissions (Database Engine)" and the GRANT topics of the manual.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from harness.embedded.tsql.permissions.grants import DENY, GRANT, SERVER, Grants, Securable

SA, DBO, SYSADMIN = "sa", "dbo", "sysadmin"
SA_ID, DBO_ID = 1, 1

# principal_id of each, as in SQL Server
FIXED_USER_IDS = {"public": 0, DBO: DBO_ID, "guest": 2, "sys": 4}
SERVER_ROLE_IDS = {
    "public": 2,
    SYSADMIN: 3,
    "securityadmin": 4,
    "serveradmin": 5,
    "dbcreator": 9,
}
DATABASE_ROLE_IDS = {
    "db_owner": 16384,
    "db_ddladmin": 16387,
    "db_datareader": 16390,
    "db_datawriter": 16391,
}


def words(text: str) -> frozenset[str]:
    """The names in a list separated by commas."""
    return frozenset(" ".join(line.split()) for line in text.split(","))


# The permissions of each fixed role on the server or on the whole database. Members of sysadmin are never checked.
SERVER_ROLES = {
    "securityadmin": words("ALTER ANY LOGIN"),
    "serveradmin": words("ALTER ANY ENDPOINT, ALTER SERVER STATE, ALTER SETTINGS, VIEW SERVER STATE"),
    "dbcreator": words("ALTER ANY DATABASE, CREATE ANY DATABASE"),
    "public": words("VIEW ANY DATABASE"),
}
DATABASE_ROLES = {
    "db_owner": words("CONTROL"),
    "db_ddladmin": words(
        """ALTER ANY CONTRACT, ALTER ANY MESSAGE TYPE, ALTER ANY REMOTE SERVICE BINDING, ALTER ANY ROUTE,
        ALTER ANY SCHEMA, ALTER ANY SERVICE, CREATE CONTRACT, CREATE MESSAGE TYPE, CREATE PROCEDURE, CREATE QUEUE,
        CREATE REMOTE SERVICE BINDING, CREATE ROUTE, CREATE SERVICE, CREATE TABLE, REFERENCES"""
    ),
    "db_datareader": words("SELECT"),
    "db_datawriter": words("DELETE, INSERT, UPDATE"),
    "public": frozenset[str](),
}


def sid_of(principal_id: int) -> bytes:
    """A login's sid. Except for sa's it is random in SQL Server; here it only has to be the same in every view."""
    return b"\x01" if principal_id == SA_ID else principal_id.to_bytes(16, "big")


SCHEMA_DBO = 1  # the schema of every user object

_ON_SERVER = words(
    """ALTER ANY DATABASE, ALTER ANY ENDPOINT, ALTER ANY LOGIN, ALTER SERVER STATE, ALTER SETTINGS,
    CONNECT ANY DATABASE, CONNECT SQL, CONTROL SERVER, CREATE ANY DATABASE, CREATE ENDPOINT, CREATE LOGIN,
    VIEW ANY DATABASE, VIEW ANY DEFINITION, VIEW SERVER PERFORMANCE STATE, VIEW SERVER SECURITY STATE,
    VIEW SERVER STATE"""
)
_ON_DATABASE = words(
    """ALTER, ALTER ANY CERTIFICATE, ALTER ANY CONTRACT, ALTER ANY MESSAGE TYPE, ALTER ANY REMOTE SERVICE BINDING,
    ALTER ANY ROUTE, ALTER ANY SCHEMA, ALTER ANY SERVICE, ALTER ANY USER, CONNECT, CONTROL, CREATE CERTIFICATE,
    CREATE CONTRACT, CREATE DATABASE, CREATE MESSAGE TYPE, CREATE PROCEDURE, CREATE QUEUE,
    CREATE REMOTE SERVICE BINDING, CREATE ROUTE, CREATE SERVICE, CREATE TABLE, DELETE, EXECUTE, INSERT, REFERENCES,
    SELECT, TAKE OWNERSHIP, UPDATE, VIEW DATABASE PERFORMANCE STATE, VIEW DATABASE STATE, VIEW DEFINITION"""
)
_COMMON = words("ALTER, CONTROL, TAKE OWNERSHIP, VIEW DEFINITION")
# The permissions that can be granted on each class of securable.
VALID: dict[str, frozenset[str]] = {
    "SERVER": _ON_SERVER,
    "ENDPOINT": _COMMON | {"CONNECT"},
    "LOGIN": words("ALTER, CONTROL, IMPERSONATE, VIEW DEFINITION"),
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

_OF_THE_DATABASE = ("SERVICE", "CONTRACT", "MESSAGE TYPE", "CERTIFICATE", "ROUTE", "REMOTE SERVICE BINDING", "USER")
_DATA = ("SELECT", "INSERT", "UPDATE", "DELETE", "EXECUTE", "REFERENCES", "VIEW DEFINITION")
# (class, permission) -> other permissions that imply it, on the same securable or on one that contains it
_IMPLIED_BY: dict[tuple[str, str], tuple[tuple[str, str], ...]] = {
    ("SERVER", "CREATE ENDPOINT"): (("SERVER", "ALTER ANY ENDPOINT"),),
    ("SERVER", "CREATE LOGIN"): (("SERVER", "ALTER ANY LOGIN"),),
    ("SERVER", "CREATE ANY DATABASE"): (("SERVER", "ALTER ANY DATABASE"),),
    ("SERVER", "VIEW ANY DATABASE"): (("SERVER", "ALTER ANY DATABASE"), ("SERVER", "VIEW ANY DEFINITION")),
    ("SERVER", "VIEW SERVER STATE"): (("SERVER", "ALTER SERVER STATE"),),
    ("SERVER", "VIEW SERVER PERFORMANCE STATE"): (("SERVER", "VIEW SERVER STATE"),),
    ("SERVER", "VIEW SERVER SECURITY STATE"): (("SERVER", "VIEW SERVER STATE"),),
    ("ENDPOINT", "ALTER"): (("SERVER", "ALTER ANY ENDPOINT"),),
    ("ENDPOINT", "VIEW DEFINITION"): (("SERVER", "VIEW ANY DEFINITION"),),
    ("LOGIN", "ALTER"): (("SERVER", "ALTER ANY LOGIN"),),
    ("LOGIN", "VIEW DEFINITION"): (("LOGIN", "ALTER"), ("SERVER", "VIEW ANY DEFINITION")),
    ("DATABASE", "ALTER"): (("SERVER", "ALTER ANY DATABASE"),),
    ("DATABASE", "CREATE DATABASE"): (("SERVER", "CREATE ANY DATABASE"),),
    ("DATABASE", "CONNECT"): (("SERVER", "CONNECT ANY DATABASE"),),
    ("DATABASE", "VIEW DATABASE STATE"): (("SERVER", "VIEW SERVER STATE"),),
    ("DATABASE", "VIEW DATABASE PERFORMANCE STATE"): (
        ("DATABASE", "VIEW DATABASE STATE"),
        ("SERVER", "VIEW SERVER PERFORMANCE STATE"),
    ),
    ("DATABASE", "VIEW DEFINITION"): (("SERVER", "VIEW ANY DEFINITION"),),
    ("SCHEMA", "ALTER"): (("DATABASE", "ALTER ANY SCHEMA"),),
    ("OBJECT", "ALTER"): (("SCHEMA", "ALTER"),),
    ("OBJECT", "SELECT"): (("OBJECT", "RECEIVE"), ("SCHEMA", "SELECT")),
}


@cache
def implying(class_: str, permission: str) -> tuple[tuple[str, str], ...]:
    """The permission and all that imply it, nearest first."""
    found: dict[tuple[str, str], None] = {}
    waiting = [(class_, permission)]
    while waiting:
        one = waiting.pop(0)
        if one not in found:
            found[one] = None
            waiting.extend(_directly(*one))
    return tuple(found)


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
        yield "DATABASE", "ALTER"
    elif class_ in _OF_THE_DATABASE:
        if permission == "ALTER":
            yield "DATABASE", f"ALTER ANY {class_}"
        elif permission in ("VIEW DEFINITION", "REFERENCES"):
            yield "DATABASE", permission
    if permission == "CONTROL":
        above = {"OBJECT": "SCHEMA", "SCHEMA": "DATABASE"} | dict.fromkeys(_OF_THE_DATABASE, "DATABASE")
        if class_ in above:
            yield above[class_], "CONTROL"
        else:
            yield "SERVER", "CONTROL SERVER"


class Principals(NamedTuple):
    """The names that permissions are checked for: login and server roles, user and database roles."""

    server: tuple[str, ...]
    database: tuple[str, ...]


def is_allowed(grants: Grants, who: Principals, securable: Securable, permission: str) -> bool:
    """Whether they hold the permission or one that implies it. Not called for sysadmin and dbo, who hold all."""
    held = False
    for class_, above in implying(securable.securable_class, permission):
        target = _enclosing(securable, class_)
        names = who.server if target.database_id == SERVER else who.database
        states = set(_states(grants, names, target, above))
        if DENY in states:
            return False
        held = held or bool(states)
    return held


def _enclosing(securable: Securable, class_: str) -> Securable:
    if class_ == securable.securable_class:
        return securable
    if class_ == "SERVER":
        return Securable(SERVER, "SERVER", 0)
    return Securable(securable.database_id, class_, SCHEMA_DBO if class_ == "SCHEMA" else 0)


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
