"""What an instance and its databases declare and the catalog views show: versions, configuration options, files,
extended properties.

The options are those of sys.configurations that mean something here: sp_configure records a value, RECONFIGURE makes it
effective, and so does a restart. Files have no effect: this server keeps everything in one file of its own. Nothing is
stored in declared files and they never grow. Only tempdb gets further ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from harness.embedded.broker.database import Database
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.versions import product

# -- the instance ------------------------------------------------------------------------------------------------------

CONFIGURATION_CATALOG = "tsql.configuration"  # in the store: name -> (value,)


class Option(NamedTuple):
    configuration_id: int
    name: str
    default: int
    minimum: int
    maximum: int
    description: str


class Setting(NamedTuple):
    """An option with its value."""

    option: Option
    value: int
    value_in_use: int


_REMOTE_ADMIN = "Dedicated Admin Connections are allowed from remote clients"
OPTIONS = {
    "show advanced options": Option(518, "show advanced options", 0, 0, 1, "show advanced options"),
    "remote admin connections": Option(1576, "remote admin connections", 0, 0, 1, _REMOTE_ADMIN),
}


class Configuration:
    """The options that were changed, each with its value and the value in use."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[int, int]] = {}

    def recover(self, name: str, value: int) -> None:
        self._values[name] = (value, value)

    def setting(self, option: Option) -> Setting:
        value, value_in_use = self._values.get(option.name, (option.default, option.default))
        return Setting(option, value, value_in_use)

    def settings(self) -> Iterator[Setting]:
        return (self.setting(option) for option in OPTIONS.values())

    def change(self, tx: Transaction, option: Option, value: int) -> None:
        """sp_configure: the value takes effect at the next RECONFIGURE."""
        before = self.setting(option)
        self._values[option.name] = (value, before.value_in_use)
        tx.write(CONFIGURATION_CATALOG, option.name, (value,))
        tx.on_rollback(lambda: self._values.update({option.name: (before.value, before.value_in_use)}))

    def reconfigure(self) -> None:
        """RECONFIGURE: makes every value effective."""
        for name, (value, _) in list(self._values.items()):
            self._values[name] = (value, value)


def compatibility_levels(database: Database) -> range:
    """The levels that a database can have: up to SQL Server 2014 that of its version and the two before it, in later
    versions all from 100."""
    number, _ = product(database.catalog.server_version)
    newest = 10 * int(number.partition(".")[0])
    return range(100 if newest >= 130 else newest - 20, newest + 1, 10)


# -- databases ---------------------------------------------------------------------------------------------------------

FILES_CATALOG = "tsql.files"  # in the store: database_id -> its files
PROPERTIES_CATALOG = "tsql.properties"  # (database_id, name) -> the value
PAGE_BYTES = 8192
PAGES_PER_MB = 1024 * 1024 // PAGE_BYTES
# CREATE DATABASE copies these from model since SQL Server 2016.
_SIZE = 8 * PAGES_PER_MB
_GROWTH = 64 * PAGES_PER_MB
LOG_SIZE_MAX = 268_435_456  # "Log file will grow to a maximum size of 2 TB"
UNLIMITED = -1

FileType = Literal["ROWS", "LOG"]


@dataclass(frozen=True, slots=True)
class File:
    """A row of sys.database_files. Sizes are in pages."""

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


class DatabaseFiles:
    """The files of each database: the two that a new one has, until a statement changes them."""

    def __init__(self) -> None:
        self._files: dict[int, tuple[File, ...]] = {}  # by database_id, where they were changed

    def recover(self, database_id: int, rows: Sequence[Sequence[Any]]) -> None:
        self._files[database_id] = tuple(File(*row) for row in rows)

    def of(self, database: Database) -> tuple[File, ...]:
        """A database's files, by id."""
        files = self._files.get(database.database_id)
        if files is not None:
            return files
        data, log = ("tempdev", "templog") if database.name == "tempdb" else (database.name, f"{database.name}_log")
        return (File(1, "ROWS", data, f"{database.name}.mdf"), File(2, "LOG", log, f"{log}.ldf", max_size=LOG_SIZE_MAX))

    def add(self, tx: Transaction, database: Database, file: File) -> None:
        """ADD FILE or ADD LOG FILE: gives the file the next id."""
        files = self.of(database)
        if any(existing.name.lower() == file.name.lower() for existing in files):
            raise SqlServerError(1828, file.name)
        added = replace(file, file_id=max(other.file_id for other in files) + 1)
        self._set(tx, database.database_id, (*files, added))

    def modify(self, tx: Transaction, database: Database, name: str, changes: dict[str, Any]) -> None:
        """MODIFY FILE: a new size must be larger than the old one."""
        files = self.of(database)
        old_file = next((file for file in files if file.name.lower() == name.lower()), None)
        if old_file is None:
            raise SqlServerError(5041, name)
        if not changes:
            raise SqlServerError(5038, name)
        if changes.get("size", old_file.size + 1) <= old_file.size:
            raise SqlServerError(5039)
        modified = tuple(replace(existing, **changes) if existing is old_file else existing for existing in files)
        self._set(tx, database.database_id, modified)

    def forget(self, tx: Transaction, database: Database) -> None:
        """DROP DATABASE"""
        if database.database_id in self._files:
            self._set(tx, database.database_id, None)

    def _set(self, tx: Transaction, database_id: int, files: tuple[File, ...] | None) -> None:
        tx.put(self._files, database_id, files)
        tx.write(FILES_CATALOG, database_id, None if files is None else tuple(file.stored() for file in files))


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
        return (properties for properties in self._properties.values() if properties.database_id == database_id)

    def add(self, tx: Transaction, database_id: int, name: str, value: str | None) -> None:
        key = database_id, name.lower()
        if key in self._properties:
            raise SqlServerError(15233, name, "object specified")  # how the error names a database
        tx.put(self._properties, key, Property(database_id, name, value))
        tx.write(PROPERTIES_CATALOG, (database_id, name), (value,))

    def drop(self, tx: Transaction, database_id: int, name: str) -> None:
        key = database_id, name.lower()
        if key not in self._properties:
            raise SqlServerError(15217, name, "object specified")
        self._drop(tx, self._properties[key])

    def drop_all(self, tx: Transaction, database_id: int) -> None:
        """DROP DATABASE"""
        for dropped in list(self.of(database_id)):
            self._drop(tx, dropped)

    def _drop(self, tx: Transaction, dropped: Property) -> None:
        tx.put(self._properties, (dropped.database_id, dropped.name.lower()), None)
        tx.write(PROPERTIES_CATALOG, (dropped.database_id, dropped.name), None)
