"""Permission checks that several statements share."""

from __future__ import annotations

from typing import Any

from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.instance import securables
from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.permissions.rights import SCHEMA_DBO
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.statements.registry import Check


def in_database(frame: Frame, guard: Guard, permission: str) -> bool:
    return guard.allows(frame.database, "DATABASE", 0, permission)


def create(permission: str, *, in_schema: bool = False) -> Check:
    """The check for CREATE: the database permission, and ALTER on the schema for objects in it."""

    def check(node: Any, frame: Frame, guard: Guard) -> None:
        if not in_database(frame, guard, permission):
            raise SqlServerError(262, permission, frame.database.name)
        if in_schema and not guard.allows(frame.database, "SCHEMA", SCHEMA_DBO, "ALTER"):
            raise SqlServerError(2760, "dbo")
        if getattr(node, "owner", ""):
            give(frame, guard, node.owner)

    return check


def give(frame: Frame, guard: Guard, owner: str) -> None:
    """Check AUTHORIZATION: the owner is the caller, or a user that the caller may impersonate."""
    if owner.lower() == frame.session.user_name().lower():
        return
    user = securables.find(frame, "USER", (owner,))
    if user is None or not guard.allows(frame.database, *user[1:], "IMPERSONATE"):
        raise SqlServerError(15151, "find", "user", owner)


def on_object(number: int, verb: str = "", kind: str = "object") -> Check:
    """The check for a statement that needs ALTER on an object of a schema.

    `number` is the error for a missing object or permission.
    """

    def check(node: Any, frame: Frame, guard: Guard) -> None:
        parts = getattr(node, "table", None) or node.name
        found = securables.find(frame, "OBJECT", parts)
        if found is not None and not securables.is_held(frame, found, "ALTER"):
            name = ".".join(parts)
            raise SqlServerError(number, name) if number == 1088 else SqlServerError(number, verb, kind, name)

    return check


def on_broker_object(verb: str, kind: str) -> Check:
    """The check for ALTER or DROP of a broker object; `kind` is its name in the statement."""

    def check(node: Any, frame: Frame, guard: Guard) -> None:
        parts = node.name if isinstance(node.name, tuple) else (node.name,)
        if kind == "BROKER PRIORITY":
            allowed = in_database(frame, guard, "ALTER")
        elif kind == "QUEUE":
            found = securables.find(frame, "OBJECT", parts)
            right = "ALTER" if verb == "alter" else "CONTROL"  # "ALTER on the queue is not enough to drop it"
            may_drop = verb == "drop" and guard.allows(frame.database, "SCHEMA", SCHEMA_DBO, "ALTER")
            allowed = found is None or may_drop or securables.is_held(frame, found, right)
        else:
            found = securables.find(frame, kind, parts)
            allowed = found is None or securables.is_held(frame, found, "ALTER")
        if not allowed:
            raise SqlServerError(15151, verb, kind.lower(), ".".join(parts))

    return check


def drop_objects(kind: str) -> Check:
    """The check for DROP of tables or procedures."""

    def check(node: Any, frame: Frame, guard: Guard) -> None:
        may_alter_schema = guard.allows(frame.database, "SCHEMA", SCHEMA_DBO, "ALTER")
        for name in node.names:
            found = securables.find(frame, "OBJECT", name)
            if found is not None and not may_alter_schema and not securables.is_held(frame, found, "CONTROL"):
                raise SqlServerError(3701, kind, ".".join(name))

    return check


def drop_of(kind: str) -> Check:
    """The check for DROP of a certificate or endpoint: CONTROL of it."""

    def check(node: Any, frame: Frame, guard: Guard) -> None:
        found = securables.find(frame, kind, node.name)
        if found is not None and not securables.is_held(frame, found, "CONTROL"):
            raise SqlServerError(15151, "drop", kind.lower(), node.name[-1])

    return check
