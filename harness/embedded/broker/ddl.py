"""Shared steps of the statements that change a catalog.

Every statement takes its transaction: rollback undoes its changes in memory, and durable changes are staged.
"""

from dataclasses import astuple
from functools import partial
from typing import Any

from harness.embedded.broker import system_objects
from harness.embedded.broker.catalog import Catalog
from harness.embedded.broker.definitions import (
    Certificate,
    Priority,
    RemoteServiceBinding,
    Route,
    Schema,
    User,
    XmlSchemaCollection,
)
from harness.embedded.broker.transactions import Name, Thing, Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.store.group_commit import Value

# A row holds all their fields.
Plain = Route | RemoteServiceBinding | Priority | User | Schema | Certificate | XmlSchemaCollection

# Object ids of SQL Server's user tables walk through the positive integers in steps of a number prime to 2^31.
_FIRST_OBJECT_ID, _OBJECT_ID_STEP, _OBJECT_ID_MODULUS = 245575913, 16000057, 2147483647


def remove(  # noqa: PLR0917
    tx: Transaction, catalog: Catalog, kind: str, objects: dict[Name, Thing], name: Name, identifier: int
) -> None:
    """Take an object out of the catalog and of the store."""
    tx.put(objects, name, None)
    write(tx, catalog, kind, identifier, None)


def assign_given(tx: Transaction, thing: object, **values: object) -> None:
    """Assign the values that are not None, which stands for a clause that is left out."""
    for attribute, value in values.items():
        if value is not None:
            tx.set(thing, attribute, value)


def write(tx: Transaction, catalog: Catalog, kind: str, identifier: int, row: Value | None) -> None:
    """Stage the row of an object; None deletes it."""
    tx.write(f"catalog.{kind}", (catalog.database_id, identifier), row)


def store(tx: Transaction, catalog: Catalog, kind: str, thing: Plain) -> None:
    """Stage the row of an object: its fields but for the second, its id, which is the key."""
    name, identifier, *rest = astuple(thing)
    write(tx, catalog, kind, identifier, (name, *rest))


def store_database(tx: Transaction, catalog: Catalog) -> None:
    """Stage the database's own row."""
    tx.write("catalog.database", catalog.database_id, catalog.stored())


def find(objects: dict[Any, Thing], verb: str, kind: str, name: str, key: str | None = None) -> Thing:
    thing = objects.get(name if key is None else key)
    if thing is None:
        raise SqlServerError(15151, verb, kind, name)
    return thing


def refuse_existing(objects: dict[str, Thing], name: str, number: int = 2714, key: str | None = None) -> None:
    if (name if key is None else key) in objects:
        raise SqlServerError(number, name)


def require_user_object(identifier: int) -> None:
    if identifier < system_objects.FIRST_USER_ID:
        raise SqlServerError(9663)


def new_object_id(tx: Transaction, catalog: Catalog) -> int:
    """Assign the next object id; queues, tables and procedures share them."""
    identifiers = {identifier for identifier, _ in system_objects.QUEUES}
    while True:
        identifier = (_FIRST_OBJECT_ID + catalog.object_ordinal * _OBJECT_ID_STEP) % _OBJECT_ID_MODULUS
        catalog.object_ordinal += 1
        if identifier not in identifiers:
            store_database(tx, catalog)
            return identifier


def changed(tx: Transaction, catalog: Catalog) -> None:
    """Announce the change to routing, monitors and waiting messages at commit."""
    changes = catalog.changes
    changes.count()
    tx.on_rollback(changes.count)
    tx.on_commit(partial(changes.committed, catalog))
