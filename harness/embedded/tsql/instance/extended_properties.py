"""Extended properties of databases, which clients read and write and nothing here uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError

CATALOG = "tsql.properties"  # in the store: (database_id, name) -> the value
_ON_DATABASE = "object specified"  # how SQL Server's errors name a database


class Property(NamedTuple):
    database_id: int
    name: str
    value: str | None


class ExtendedProperties:
    """Properties by database and name. Names are compared without case, as the collation does."""

    def __init__(self) -> None:
        self._properties: dict[tuple[int, str], Property] = {}

    def recover(self, database_id: int, name: str, value: str | None) -> None:
        self._properties[database_id, name.lower()] = Property(database_id, name, value)

    def of(self, database_id: int) -> Iterator[Property]:
        return (each for each in self._properties.values() if each.database_id == database_id)

    def add(self, tx: Transaction, database_id: int, name: str, value: str | None) -> None:
        key = database_id, name.lower()
        if key in self._properties:
            raise SqlServerError(15233, name, _ON_DATABASE)
        self._properties[key] = Property(database_id, name, value)
        tx.on_rollback(lambda: self._forget(key))
        tx.write(CATALOG, (database_id, name), (value,))

    def drop_all(self, tx: Transaction, database_id: int) -> None:
        """DROP DATABASE"""
        dropped = {(database_id, each.name.lower()): each for each in self.of(database_id)}
        for key, found in dropped.items():
            del self._properties[key]
            tx.write(CATALOG, (database_id, found.name), None)
        tx.on_rollback(lambda: self._properties.update(dropped))

    def _forget(self, key: tuple[int, str]) -> None:
        del self._properties[key]
