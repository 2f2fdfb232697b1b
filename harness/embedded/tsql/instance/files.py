"""The files that a database says it has.

This server keeps everything in one file of its own, whatever is declared here: sizes are what was asked for, they are
kept and told again, and nothing grows. Scripts that lay out files for SQL Server run here as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from harness.embedded.errors import SqlServerError

if TYPE_CHECKING:
    from harness.embedded.broker.database import Database
    from harness.embedded.broker.transactions import Transaction
    from harness.embedded.tsql.instance.instance import Instance

CATALOG = "tsql.files"  # object in the store: database_id -> its files
PAGE_BYTES = 8192
PAGES_PER_MB = 1024 * 1024 // PAGE_BYTES
# What CREATE DATABASE takes from model since SQL Server 2016.
_SIZE = 8 * PAGES_PER_MB
_GROWTH = 64 * PAGES_PER_MB
LOG_SIZE_MAX = 268_435_456  # "Log file will grow to a maximum size of 2 TB"
UNLIMITED = -1

FileType = Literal["ROWS", "LOG"]


@dataclass(frozen=True, slots=True)
class File:
    """A row of sys.database_files; sizes in pages."""

    file_id: int
    type_desc: FileType
    name: str
    physical_name: str
    size: int = _SIZE
    max_size: int = UNLIMITED
    growth: int = _GROWTH
    is_percent_growth: bool = False

    def stored(self) -> tuple[Any, ...]:
        limits = (self.size, self.max_size, self.growth, self.is_percent_growth)
        return (self.file_id, self.type_desc, self.name, self.physical_name, *limits)


def of(instance: Instance, database: Database) -> tuple[File, ...]:
    """A database's files, by id: those of a new one until something is changed."""
    found = instance.files.get(database.database_id)
    if found is not None:
        return found
    data, log = ("tempdev", "templog") if database.name == "tempdb" else (database.name, f"{database.name}_log")
    return (
        File(1, "ROWS", data, f"{database.name}.mdf"),
        File(2, "LOG", log, f"{log}.ldf", max_size=LOG_SIZE_MAX),
    )


def from_stored(rows: Sequence[Sequence[Any]]) -> tuple[File, ...]:
    return tuple(File(*row) for row in rows)


def add(instance: Instance, tx: Transaction, database: Database, file: File) -> None:
    """ADD FILE or ADD LOG FILE; the file gets the next id."""
    files = of(instance, database)
    if any(one.name.lower() == file.name.lower() for one in files):
        raise SqlServerError(1828, file.name)
    _keep(instance, tx, database, (*files, replace(file, file_id=max(one.file_id for one in files) + 1)))


def modify(instance: Instance, tx: Transaction, database: Database, name: str, changes: dict[str, Any]) -> None:
    """MODIFY FILE: a size must be larger than the one before."""
    files = of(instance, database)
    found = next((one for one in files if one.name.lower() == name.lower()), None)
    if found is None:
        raise SqlServerError(5041, name)
    if not changes:
        raise SqlServerError(5038, name)
    if changes.get("size", found.size + 1) <= found.size:
        raise SqlServerError(5039)
    _keep(instance, tx, database, tuple(replace(one, **changes) if one is found else one for one in files))


def forget(instance: Instance, tx: Transaction, database: Database) -> None:
    """DROP DATABASE."""
    if database.database_id in instance.files:
        _set(instance, tx, database.database_id, None)


def _keep(instance: Instance, tx: Transaction, database: Database, files: tuple[File, ...]) -> None:
    _set(instance, tx, database.database_id, files)


def _set(instance: Instance, tx: Transaction, database_id: int, files: tuple[File, ...] | None) -> None:
    before = instance.files.get(database_id)

    def put(value: tuple[File, ...] | None) -> None:
        if value is None:
            instance.files.pop(database_id, None)
        else:
            instance.files[database_id] = value

    put(files)
    tx.write(CATALOG, database_id, None if files is None else tuple(file.stored() for file in files))
    tx.on_rollback(lambda: put(before))
