"""Metadata visibility: which rows of a view a session sees.

"The visibility of the metadata in catalog views is limited to securables that a user either owns, or on which the user
was granted some permission." Every view names its rule. A view without one shows its rows to the owners of the
database alone, so that a new view cannot show too much. A sysadmin has no guard and sees every row.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from harness.embedded.broker.database import Database
from harness.embedded.broker.system_objects import FIRST_USER_ID
from harness.embedded.tsql.permissions.guard import Guard

Sees = Callable[[Any], bool]  # of one row
Rule = Callable[[Database, Guard], Sees]  # for one query of the view in a database


def everybody(database: Database, guard: Guard) -> Sees:
    """For all who may enter the database; or the view's own rows already depend on the session."""
    return lambda row: True


def owners(database: Database, guard: Guard) -> Sees:
    """sys.transmission_queue and the like end in `WHERE is_member('db_owner') = 1`."""
    is_owner = guard.is_owner_of(database)
    return lambda row: is_owner


def with_permission(*permissions: str) -> Rule:
    """For holders of one of these permissions on the database."""

    def rule(database: Database, guard: Guard) -> Sees:
        holds = any(guard.allows(database, "DATABASE", 0, permission) for permission in permissions)
        return lambda row: holds

    return rule


def on_server(*permissions: str) -> Rule:
    """For holders of one of these permissions on the server."""

    def rule(database: Database, guard: Guard) -> Sees:
        holds = any(guard.allows_on_server(permission) for permission in permissions)
        return lambda row: holds

    return rule


def securable(class_: str, identifier: str, *, first_user_id: int = FIRST_USER_ID) -> Rule:
    """For holders of some permission on the row's securable, whose id is at that path. System objects are for all."""
    identify = attrgetter(identifier)

    def rule(database: Database, guard: Guard) -> Sees:
        def sees(row: Any) -> bool:
            number = identify(row)
            return number < first_user_id or guard.sees(database, class_, number)

        return sees

    return rule


def of_object(path: str = "") -> Rule:
    """For holders of some permission on the row's table, procedure or queue, an `ObjectRow` at that path."""
    find = attrgetter(path) if path else None

    def rule(database: Database, guard: Guard) -> Sees:
        def sees(row: Any) -> bool:
            item = row if find is None else find(row)
            if item.type == "S" or (item.is_ms_shipped and not item.parent_object_id):
                return True
            if item.type in ("PK", "UQ", "D", "TR"):  # part of a table
                return guard.sees(database, "OBJECT", item.parent_object_id, "U")
            if item.type == "IT":  # the messages of a queue
                return guard.sees(database, "OBJECT", item.parent_object_id, "SQ")
            return guard.sees(database, "OBJECT", item.object_id, item.type)

        return sees

    return rule
