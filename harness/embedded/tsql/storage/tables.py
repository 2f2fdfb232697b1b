"""User tables: rows in SQLite. Every change is staged in the transaction and undone at its rollback.

Rows are identified by SQLite's rowid, which is numbered here: no number is used twice, and a rollback leaves a gap, as
in SQL Server. An IDENTITY column is the rowid; other tables do not show it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.locks import ExclusiveLock
from harness.embedded.sqltypes import Column, SqlType
from harness.embedded.tsql.storage.conversion import INTEGER_RANGES
from harness.embedded.tsql.storage.sqlite import Sqlite, declared, quoted


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    name: str
    type: SqlType
    nullable: bool = True
    identity: tuple[int, int] | None = None  # seed, increment
    default: str | None = None  # its text: stored with the table
    unique: bool = False


@dataclass(slots=True)
class TableBody:
    columns: list[ColumnDefinition] = field(default_factory=list)
    primary_key: list[str] = field(default_factory=list)
    primary_key_name: str = ""
    unique: list[list[str]] = field(default_factory=list)


Row = tuple[Any, ...]  # rowid, then the columns in order
CATALOG = "tsql.tables"  # in the store: (database_id, object_id) -> the definition


def database_of(stored_object: str) -> int:
    """The database whose log records changes of an object of the store. What no database owns belongs to master."""
    words = stored_object.split(".")
    return next((int(word) for word in words[1:] if word.isdigit()), 1)


class RowConflict(Exception):
    """Another open transaction has changed a row. The lock becomes free when it ends."""

    def __init__(self, owner: Transaction) -> None:
        super().__init__()
        self.lock = ExclusiveLock()  # made here, because waiting is rare
        self.lock.try_acquire(owner)


@dataclass(slots=True, eq=False)
class Table:
    """A user table."""

    database_id: int
    object_id: int
    schema: str
    name: str
    database_name: str
    definitions: list[ColumnDefinition]
    primary_key: list[str]
    primary_key_name: str
    unique: list[list[str]]
    create_time_ns: int
    columns: list[Column] = field(init=False)
    identity: int | None = field(init=False)  # position of the identity column
    stored_rows: str = field(init=False)  # the object under which rows lie in the store
    _put_sql: str = field(init=False)
    row_count: int = field(default=0, init=False)
    last_rowid: int = field(default=0, init=False)  # the last one used
    _changed: dict[Transaction, set[int]] = field(default_factory=dict, init=False)  # rows, by open transactions

    def __post_init__(self) -> None:
        self.columns = [Column(d.name, d.type, d.nullable) for d in self.definitions]
        places = [place for place, definition in enumerate(self.definitions) if definition.identity]
        if len(places) > 1:
            raise SqlServerError(2744, self.name)
        self.identity = places[0] if places else None
        self.stored_rows = f"tsql.rows.{self.database_id}.{self.object_id}"
        marks = ", ".join(["?", *("?" for _ in self.columns)])
        self._put_sql = f"INSERT INTO {self.sql} ({self.all_columns}) VALUES ({marks})"

    @property
    def key(self) -> tuple[int, str]:
        return self.database_id, f"{self.schema}.{self.name}".lower()

    @property
    def qualified_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def sql(self) -> str:
        return quoted(f"{self.database_id}.{self.schema}.{self.name}".lower())

    @property
    def all_columns(self) -> str:
        return ", ".join(["rowid", *(quoted(column.name) for column in self.columns)])

    def place(self, name: str) -> int:
        """The position of a column; 207 if there is none of that name."""
        for place, column in enumerate(self.columns):
            if column.name.lower() == name.lower():
                return place
        raise SqlServerError(207, name)

    # -- definition --------------------------------------------------------------------------------------------------

    def create(self, sqlite: Sqlite) -> None:
        parts = [self._declaration(place) for place in range(len(self.columns))]
        identity = self.columns[self.identity].name.lower() if self.identity is not None else ""
        keys = [self.primary_key, *self.unique, *([d.name] for d in self.definitions if d.unique)]
        for names in keys:
            if names and [name.lower() for name in names] != [identity]:
                for name in names:
                    self.place(name)
                parts.append(f"UNIQUE ({', '.join(quoted(name) for name in names)})")
        sqlite.run(f"CREATE TABLE {self.sql} ({', '.join(parts)})")
        self.start_numbering()

    def start_numbering(self) -> None:
        """Number rows from the seed on."""
        seed, _ = (self.definitions[self.identity].identity if self.identity is not None else None) or (1, 1)
        self.last_rowid = seed - 1

    def number_on_after(self, rowid: int) -> None:
        """Number rows from after this one on, or from after the last one used if that is greater."""
        self.last_rowid = max(self.last_rowid, rowid)

    def _declaration(self, place: int) -> str:
        column = self.columns[place]
        if place == self.identity:
            return f"{quoted(column.name)} INTEGER PRIMARY KEY"
        primary = column.name.lower() in (name.lower() for name in self.primary_key)
        required = "" if column.nullable and not primary else " NOT NULL"
        # Not INTEGER PRIMARY KEY: that would make the column the rowid.
        return f"{quoted(column.name)} {declared(column.type)}{required}"

    def stored(self) -> tuple[Any, ...]:
        """The definition as the store keeps it."""
        columns = [(d.name, *d.type, d.nullable, d.identity, d.default, d.unique) for d in self.definitions]
        keys = (self.primary_key, self.primary_key_name, self.unique)
        return (self.schema, self.name, self.database_name, columns, *keys, self.create_time_ns)

    @staticmethod
    def from_stored(key: tuple[int, int], row: Sequence[Any]) -> Table:
        schema, name, database_name, columns, primary_key, primary_key_name, unique, create_time_ns = row
        definitions = [
            ColumnDefinition(column, SqlType(*type_), nullable, tuple(identity) if identity else None, default, alone)
            for column, *type_, nullable, identity, default, alone in columns
        ]
        primary, unique = list(primary_key), [list(names) for names in unique]
        return Table(*key, schema, name, database_name, definitions, primary, primary_key_name, unique, create_time_ns)

    @staticmethod
    def from_body(  # noqa: PLR0917
        database_id: int, object_id: int, schema: str, name: str, database_name: str, body: TableBody, now_ns: int
    ) -> Table:
        primary = {column.lower() for column in body.primary_key}
        definitions = [replace(d, nullable=d.nullable and d.name.lower() not in primary) for d in body.columns]
        seen: set[str] = set()
        for definition in definitions:
            if definition.identity is not None:
                _check_identity(definition)
            if definition.name.lower() in seen:
                raise SqlServerError(2705, name, definition.name)
            seen.add(definition.name.lower())
        key_name = body.primary_key_name or f"PK_{name}"
        keys = body.primary_key, key_name, body.unique
        return Table(database_id, object_id, schema, name, database_name, definitions, *keys, now_ns)

    # -- locks -------------------------------------------------------------------------------------------------------

    def claim(self, tx: Transaction, rowids: Iterable[int]) -> None:
        """Lock rows until the end of the transaction; RowConflict if another one has locked them."""
        wanted = set(rowids)
        for other, changed in self._changed.items():
            if other is not tx and not wanted.isdisjoint(changed):
                raise RowConflict(other)
        self._claim_new(tx, wanted)

    def _claim_new(self, tx: Transaction, rowids: Iterable[int]) -> None:
        """Lock new rows, which no other transaction can have locked."""
        changed = self._changed.get(tx)
        if changed is None:
            self._changed[tx] = set(rowids)
            tx.on_end(partial(self._changed.pop, tx))
        else:
            changed.update(rowids)

    def claim_whole(self, tx: Transaction) -> None:
        """DROP, TRUNCATE: RowConflict if another open transaction has changed a row."""
        for other in self._changed:
            if other is not tx:
                raise RowConflict(other)

    def check_identity(self, last_rowid: int) -> None:
        """Raise 8115 if the column of numbers has no such number."""
        if self.identity is not None:
            type_ = self.columns[self.identity].type
            if last_rowid > INTEGER_RANGES[type_.name][1]:
                raise SqlServerError(8115, type_.name)

    # -- changes -----------------------------------------------------------------------------------------------------

    def insert(self, sqlite: Sqlite, tx: Transaction, rows: Sequence[Row]) -> None:
        """Insert and stage rows with new rowids."""
        self._claim_new(tx, self.put(sqlite, rows))
        stored = self.stored_rows
        tx.writes.extend([(stored, row[0], row[1:]) for row in rows])

        def undo() -> None:
            self._remove(sqlite, rows)
            self.row_count -= len(rows)

        tx.on_rollback(undo)

    def deleted(self, sqlite: Sqlite, tx: Transaction, rows: Sequence[Row]) -> None:
        """Stage rows that SQLite has just deleted."""
        self.row_count -= len(rows)
        try:
            self.claim(tx, [row[0] for row in rows])
        except RowConflict:
            self.put(sqlite, rows)
            raise
        stored = self.stored_rows
        tx.writes.extend([(stored, row[0], None) for row in rows])
        tx.on_rollback(lambda: self.put(sqlite, rows))

    def updated(self, sqlite: Sqlite, tx: Transaction, old: Sequence[Row], new: Sequence[Row]) -> None:
        stored = self.stored_rows
        tx.writes.extend([(stored, row[0], row[1:]) for row in new])
        assignments = ", ".join(f"{quoted(column.name)} = ?{n}" for n, column in enumerate(self.columns, start=2))
        sql = f"UPDATE {self.sql} SET {assignments} WHERE rowid = ?1"
        tx.on_rollback(lambda: void(sqlite.run_many(sql, old)))

    def put(self, sqlite: Sqlite, rows: Sequence[Row]) -> list[int]:
        """Insert rows into SQLite with rowids that are not in use; all rows or none."""
        try:
            sqlite.run_each(self._put_sql, rows)
        except BaseException:
            self._remove(sqlite, rows)
            raise
        self.row_count += len(rows)
        rowids = [row[0] for row in rows]
        self.last_rowid = max([self.last_rowid, *rowids])
        return rowids

    def _remove(self, sqlite: Sqlite, rows: Sequence[Row]) -> None:
        sqlite.run_each(f"DELETE FROM {self.sql} WHERE rowid = ?", [row[:1] for row in rows])

    def violation(self, error: sqlite3.IntegrityError, verb: str) -> SqlServerError:
        """SQL Server's error for a violated constraint."""
        text = str(error)
        name = f"{self.database_name}.{self.qualified_name}"
        if text.startswith("NOT NULL"):
            return SqlServerError(515, text.rpartition(".")[2], name, verb)
        names = {part.rpartition(".")[2].lower() for part in text.partition(": ")[2].split(", ")}
        if names == {column.lower() for column in self.primary_key}:
            return SqlServerError(2627, "PRIMARY KEY", self.primary_key_name, self.qualified_name)
        return SqlServerError(2627, "UNIQUE KEY", f"UQ_{self.name}", self.qualified_name)


def _check_identity(definition: ColumnDefinition) -> None:
    assert definition.identity is not None
    if definition.type.name not in INTEGER_RANGES or definition.type.name == "bit":
        raise SqlServerError(2749, definition.name)
    low, high = INTEGER_RANGES[definition.type.name]
    for number, value in zip((2752, 2753), definition.identity, strict=True):
        if not low <= value <= high:
            raise SqlServerError(number, definition.name)


def void(_: object) -> None:
    """Discard a value, for actions that return nothing."""
