"""User tables: rows in SQLite. Every change is staged in the transaction and undone at its rollback.

Rows are identified by SQLite's rowid, which is numbered here: no number is used twice, and a rollback leaves a gap, as
in SQL Server. An IDENTITY column is the rowid; other tables do not show it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.runtime.locks import ExclusiveLock
from harness.embedded.sqltypes import MAX, ROWVERSION, Column, SqlType
from harness.embedded.tsql.storage.conversion import INTEGER_RANGES, Place, convert
from harness.embedded.tsql.storage.sqlite import ROWS_A_PIECE, WITH_NULL, Sqlite, declared, quoted, unique_keys


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    name: str
    type: SqlType
    nullable: bool = True
    identity: tuple[int, int] | None = None  # seed, increment
    default: str | None = None  # its text: stored with the table
    default_name: str = ""


UniqueKey = tuple[str, list[str]]  # its name, "" if the system names it, and its columns


class Index(NamedTuple):
    """What CREATE INDEX made."""

    name: str
    columns: list[str]
    is_unique: bool
    is_clustered: bool
    # What only the catalog shows
    descending: Sequence[str] = ()
    included: Sequence[str] = ()
    condition: str = ""


class Check(NamedTuple):
    """A CHECK constraint; from `Table.from_body` on it has a name."""

    name: str
    condition: str
    column: str  # "": of the table


class Reference(NamedTuple):
    """A FOREIGN KEY constraint; from `Table.from_body` on it has a name."""

    name: str
    columns: list[str]
    table: tuple[str, str]  # schema and name, in the same database
    table_columns: list[str]  # []: its primary key


@dataclass(slots=True)
class TableBody:
    columns: list[ColumnDefinition] = field(default_factory=list)
    primary_key: list[str] = field(default_factory=list)
    primary_key_name: str = ""
    unique: list[UniqueKey] = field(default_factory=list)
    indexes: list[Index] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    references: list[Reference] = field(default_factory=list)
    primary_key_is_clustered: bool | None = None  # None: if no index is


Row = tuple[Any, ...]  # rowid, then the columns in order
LOWEST_ROWID = -(2**63)
# Changes by others that a change of a table with keys undoes for a while, to see whether one is violated; with more it
# waits for them. From 5,000 locks on, SQL Server locks the whole table.
ROWS_UNDONE_MAX = 5000
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
    unique: list[UniqueKey]
    create_time_ns: int
    indexes: list[Index] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    references: list[Reference] = field(default_factory=list)
    primary_key_is_clustered: bool = True
    columns: list[Column] = field(init=False)
    identity: int | None = field(init=False)  # position of the identity column
    rowversion: int | None = field(init=False)  # and of the rowversion column
    stored_rows: str = field(init=False)  # the object under which rows lie in the store
    put_sql: str = field(init=False)
    row_count: int = field(default=0, init=False)
    last_rowid: int = field(default=0, init=False)  # the last one used
    # The rows that open transactions have changed: by their numbers, as they were committed; None: not there.
    _changed: dict[Transaction, dict[int, Row | None]] = field(default_factory=dict, init=False)
    _removing: dict[Transaction, None] = field(default_factory=dict, init=False)  # those that do not only insert
    # The names under which the rows are kept that an open transaction has dropped or truncated, the oldest first.
    _aside: list[str] = field(default_factory=list, init=False)
    _locked_by: Transaction | None = field(default=None, init=False)  # for changes by others
    is_temporary: bool = field(init=False)  # of one session, and in no store
    _has_keys: bool = field(default=False, init=False)  # beside the numbers of rows

    def __post_init__(self) -> None:
        self.columns = [Column(d.name, d.type, d.nullable, d.identity is not None) for d in self.definitions]
        places = [place for place, definition in enumerate(self.definitions) if definition.identity]
        self.identity = places[0] if places else None
        self.rowversion = next((place for place, d in enumerate(self.definitions) if d.type == ROWVERSION), None)
        self.is_temporary = self.name.startswith("#")
        self.stored_rows = f"tsql.rows.{self.database_id}.{self.object_id}"
        marks = ", ".join(["?", *("?" for _ in self.columns)])
        self.put_sql = f"INSERT INTO {self.sql} ({self.all_columns}) VALUES ({marks})"

    @property
    def key(self) -> tuple[int, str]:
        return self.database_id, self._unique_name.lower()

    @property
    def _unique_name(self) -> str:
        """The name, with something to tell temporary tables of the same name apart."""
        return f"{self.schema}.{self.name}" + (f"_{self.object_id}" if self.is_temporary else "")

    @property
    def identifier(self) -> tuple[int, int]:
        return self.database_id, self.object_id

    @property
    def qualified_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def sql(self) -> str:
        return quoted(self._stored_name)

    @property
    def _stored_name(self) -> str:
        return f"{self.database_id}.{self._unique_name}".lower()

    @property
    def all_columns(self) -> str:
        return ", ".join(["_rowid_", *(quoted(column.name) for column in self.columns)])

    def place(self, name: str) -> int:
        """The position of a column; 207 if there is none of that name."""
        for place, column in enumerate(self.columns):
            if column.name.lower() == name.lower():
                return place
        raise SqlServerError(207, name)

    def unique_keys(self) -> list[UniqueKey]:
        """Each UNIQUE constraint with a name, its own or a system's one."""
        return [
            (name or (f"UQ_{self.name}_{n}" if n else f"UQ_{self.name}"), names)
            for n, (name, names) in enumerate(self.unique)
        ]

    @property
    def body(self) -> TableBody:
        """A copy of its definition, to be changed."""
        keys = list(self.primary_key), self.primary_key_name, list(self.unique)
        rules = list(self.indexes), list(self.checks), list(self.references)
        return TableBody(list(self.definitions), *keys, *rules, self.primary_key_is_clustered)

    # -- definition --------------------------------------------------------------------------------------------------

    def create(self, sqlite: Sqlite) -> None:
        parts = [self._declaration(place) for place in range(len(self.columns))]
        identity = self.columns[self.identity].name.lower() if self.identity is not None else ""
        unique: list[list[str]] = []
        unique_indexes = [index.columns for index in self.indexes if index.is_unique]
        for names in (self.primary_key, *(names for _, names in self.unique_keys()), *unique_indexes):
            if names and [name.lower() for name in names] != [identity]:
                for name in names:
                    self.place(name)
                unique.append(names)
                self._has_keys = True
        parts += unique_keys(self.columns, unique)
        sqlite.run(f"CREATE TABLE {self.sql} ({', '.join(parts)})")
        for index in self.indexes:
            if not index.is_unique:
                sqlite.create_index(self.sql, index.columns)
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
        columns = [(d.name, *d.type, d.nullable, d.identity, d.default, d.default_name) for d in self.definitions]
        keys = (self.primary_key, self.primary_key_name, self.unique)
        is_clustered = () if self.primary_key_is_clustered else (False,)  # of most tables as older versions wrote it
        rules = (self.indexes, self.checks, self.references, *is_clustered)
        return (self.schema, self.name, self.database_name, columns, *keys, self.create_time_ns, *rules)

    @staticmethod
    def from_stored(key: tuple[int, int], row: Sequence[Any]) -> Table:
        schema, name, database_name, columns, primary_key, primary_key_name, unique, create_time_ns, *rules = row
        definitions = [
            ColumnDefinition(
                column, SqlType(*type_), nullable, tuple(identity) if identity else None, default, is_named
            )
            for column, *type_, nullable, identity, default, is_named in columns
        ]
        primary, unique = list(primary_key), [(name, list(names)) for name, names in unique]
        indexes, checks, references, *is_clustered = rules
        return Table(
            *(*key, schema, name, database_name, definitions, primary, primary_key_name, unique, create_time_ns),
            indexes=[Index(name, list(columns), *more) for name, columns, *more in indexes],
            checks=[Check(*check) for check in checks],
            references=[
                Reference(name, list(columns), tuple(parent), list(keys)) for name, columns, parent, keys in references
            ],
            primary_key_is_clustered=all(is_clustered),
        )

    @staticmethod
    def from_body(  # noqa: PLR0917
        database_id: int, object_id: int, schema: str, name: str, database_name: str, body: TableBody, now_ns: int
    ) -> Table:
        primary = {column.lower() for column in body.primary_key}
        definitions = [replace(d, nullable=d.nullable and d.name.lower() not in primary) for d in body.columns]
        check_columns(name, definitions)
        keys = [body.primary_key, *(columns for _, columns in body.unique), *(index.columns for index in body.indexes)]
        for columns in keys:
            if twice := repeated(columns):
                raise SqlServerError(1909, "index", twice)
        keyed = {column.lower() for columns in keys for column in columns}
        named = (
            body.primary_key_name,
            *(rule[0] for rules in (body.unique, body.checks, body.references) for rule in rules),
        )
        if twice := repeated([name for name in named if name]):
            raise SqlServerError(8168, twice, state=0)
        for definition in definitions:
            is_long = definition.type.name == "xml" or definition.type.length == MAX
            if is_long and definition.name.lower() in keyed:
                raise SqlServerError(1919, definition.name, name)
        key_name = body.primary_key_name or f"PK_{name}"
        names = body.primary_key, key_name, body.unique
        checks = [c._replace(name=c.name or f"CK_{name}_{n}") for n, c in enumerate(body.checks)]
        references = [r._replace(name=r.name or f"FK_{name}_{n}") for n, r in enumerate(body.references)]
        clustered = [index.name for index in body.indexes if index.is_clustered]
        is_clustered = not clustered if body.primary_key_is_clustered is None else body.primary_key_is_clustered
        if clustered and is_clustered and body.primary_key:
            raise SqlServerError(1902, name, clustered[0])
        where = database_id, object_id, schema, name, database_name
        return Table(*where, definitions, *names, now_ns, body.indexes, checks, references, is_clustered)

    # -- locks -------------------------------------------------------------------------------------------------------

    def claim(self, tx: Transaction, rows: Sequence[Row]) -> None:
        """Lock rows, which are going to change, until the end of the transaction; RowConflict if another one has locked
        them."""
        self._refuse_locked(tx)
        for other, changed in self._changed.items():
            if other is not tx and not changed.keys().isdisjoint([row[0] for row in rows]):
                raise RowConflict(other)
        if not self._aside:
            changed = self._changed_by(tx)
            for row in rows:
                changed.setdefault(row[0], row)
            if tx not in self._removing:
                self._removing[tx] = None
                tx.on_end(partial(self._removing.pop, tx))

    def _changed_by(self, tx: Transaction) -> dict[int, Row | None]:
        changed = self._changed.get(tx)
        if changed is None:
            changed = self._changed[tx] = {}
            tx.on_end(partial(self._changed.pop, tx))
        return changed

    def _refuse_locked(self, tx: Transaction) -> None:
        if self._locked_by is not None and self._locked_by is not tx:
            raise RowConflict(self._locked_by)

    def use(self, tx: Transaction) -> None:
        """Let nobody drop the table until the end of the transaction."""
        self._refuse_locked(tx)
        self._changed_by(tx)

    def claim_whole(self, tx: Transaction) -> None:
        """RowConflict if another open transaction uses the table."""
        self._refuse_locked(tx)
        for other in self._changed:
            if other is not tx:
                raise RowConflict(other)

    def lock(self, tx: Transaction) -> None:
        """Let changes by others wait until the end of the transaction; RowConflict as above."""
        self.claim_whole(tx)
        if self._locked_by is None:
            self._locked_by = tx
            tx.on_end(self._unlock)

    def _unlock(self) -> None:
        self._aside, self._locked_by = [], None

    def emptied(self, tx: Transaction, kept_as: str) -> None:
        """Note that the transaction, which has locked the table, has set its rows aside."""
        self._aside.append(kept_as)
        tx.on_rollback(self._aside.pop)

    def _changer_other_than(self, tx: Transaction | None) -> Transaction | None:
        """An open transaction that has changed a row, other than the given one."""
        return next((other for other, changed in self._changed.items() if changed and other is not tx), None)

    # -- what is committed -------------------------------------------------------------------------------------------

    def is_changed_by_others(self, tx: Transaction | None) -> bool:
        if self._aside and self._locked_by is not tx:
            return True
        return bool(self._changed) and self._changer_other_than(tx) is not None

    def undo_others(self, sqlite: Sqlite, tx: Transaction | None) -> None:
        """Undo the changes of all open transactions but one, inside `committed`."""
        if self._aside and self._locked_by is not tx:
            sqlite.run(f"DELETE FROM {self.sql}")
            last_rowid: int | None = LOWEST_ROWID
            while last_rowid is not None:
                sqlite.budget.look()
                last_rowid = self._fetch_back(sqlite, last_rowid)
        for other, changed in self._changed.items():
            if other is not tx:
                rows = iter(changed.items())
                while piece := list(islice(rows, ROWS_A_PIECE)):
                    sqlite.budget.look()
                    sqlite.run_each(f"DELETE FROM {self.sql} WHERE _rowid_ = ?", [(rowid,) for rowid, _ in piece])
                # When all are deleted: two rows may have exchanged their keys.
                rows = iter(changed.items())
                while piece := list(islice(rows, ROWS_A_PIECE)):
                    sqlite.budget.look()
                    sqlite.run_each(self.put_sql, [row for _, row in piece if row is not None])

    def _fetch_back(self, sqlite: Sqlite, after: int) -> int | None:
        """Copy some rows that were set aside, and return the number of the last one; None if there were no more."""
        sql = f"SELECT {self.all_columns} FROM {self._aside[0]} WHERE _rowid_ > ? ORDER BY _rowid_ LIMIT {ROWS_A_PIECE}"
        rows = sqlite.rows(sql, (after,))
        sqlite.run_each(self.put_sql, rows)
        return rows[-1][0] if rows else None

    def _changing(self, sqlite: Sqlite, tx: Transaction, change: Callable[[], object]) -> None:
        """Make a change that may violate a key. RowConflict if it depends on another open transaction whether it does:
        that has written the same key, or has removed it and may be rolled back."""
        other = self._changer_other_than(tx) if self._has_keys and self._changed else None
        if other is None:
            change()
            return
        removers = [remover for remover in self._removing if remover is not tx]
        if sum(len(self._changed.get(remover, ())) for remover in removers) > ROWS_UNDONE_MAX:
            raise RowConflict(removers[0])
        try:
            if removers:
                with committed(sqlite, tx, [self]):
                    change()
            change()
        except sqlite3.IntegrityError as error:
            if str(error).startswith("UNIQUE"):
                raise RowConflict(other) from error
            raise

    # -- changes -----------------------------------------------------------------------------------------------------

    def insert(self, sqlite: Sqlite, tx: Transaction, rows: Sequence[Row]) -> None:
        """Insert and stage rows with rowids from `reserve`."""
        self._refuse_locked(tx)
        if self._has_keys and self._changed:
            self._changing(sqlite, tx, lambda: self._insert(sqlite, rows))
        else:
            self._insert(sqlite, rows)
        self.row_count += len(rows)
        if not self._aside:  # after a TRUNCATE no row is committed
            self._changed_by(tx).update(dict.fromkeys([row[0] for row in rows]))
        self.stage(tx, rows)

        def undo() -> None:
            self._remove(sqlite, rows)
            self.row_count -= len(rows)

        tx.on_rollback(undo)

    def delete(self, sqlite: Sqlite, tx: Transaction, rows: Sequence[Row]) -> None:
        """Delete rows and stage that."""
        self.claim(tx, rows)
        self._remove(sqlite, rows)
        self.row_count -= len(rows)
        self.stage_removal(tx, rows)
        tx.on_rollback(lambda: self.put(sqlite, rows))

    def update(self, sqlite: Sqlite, tx: Transaction, old: Sequence[Row], new: Sequence[Row]) -> None:
        """Replace rows by others with the same rowids and stage that."""
        self.claim(tx, old)
        sql = update_sql(self.sql, self.columns)
        self._changing(sqlite, tx, lambda: sqlite.run_many(sql, new))
        self.stage(tx, new)
        tx.on_rollback(lambda: void(sqlite.run_many(sql, old)))

    def stage(self, tx: Transaction, rows: Iterable[Row]) -> None:
        """Have the transaction write rows to the store."""
        if not self.is_temporary:
            stored = self.stored_rows
            tx.writes.extend([(stored, row[0], row[1:]) for row in rows])

    def stage_removal(self, tx: Transaction, rows: Iterable[Row]) -> None:
        """Have the transaction remove rows from the store, of which the numbers suffice."""
        if not self.is_temporary:
            stored = self.stored_rows
            tx.writes.extend([(stored, row[0], None) for row in rows])

    def reserve(self, count: int) -> int:
        """The first of so many numbers for new rows; 8115 if the IDENTITY column has no such numbers."""
        first, last = self.last_rowid + 1, self.last_rowid + count
        if self.identity is not None:
            check_number(self.columns[self.identity].type, last)
        self.last_rowid = last
        return first

    def put(self, sqlite: Sqlite, rows: Sequence[Row]) -> None:
        """Insert rows into SQLite with rowids that are not in use; all rows or none."""
        self._insert(sqlite, rows)
        self.row_count += len(rows)
        self.last_rowid = max([self.last_rowid, *[row[0] for row in rows]])

    def fill(self, sqlite: Sqlite, rows: Sequence[Row]) -> None:
        """Put the rows of a table that this one replaces; 1505 if two of them have the same new key."""
        try:
            self.put(sqlite, rows)
        except sqlite3.IntegrityError:
            for row in rows:
                try:
                    self.put(sqlite, [row])
                except sqlite3.IntegrityError as error:
                    _, key, key_shown = self._violated(error, row[1:])
                    raise SqlServerError(1505, self.qualified_name, key, key_shown) from None

    def take_changes(self, tx: Transaction, other: Table) -> None:
        """Take over which rows a transaction has changed in the table that this one replaces."""
        more = (None,) * (len(self.columns) - len(other.columns))
        changed = other._changed_by(tx)
        self._changed_by(tx).update({rowid: row and (*row, *more) for rowid, row in changed.items()})

    def _insert(self, sqlite: Sqlite, rows: Sequence[Row]) -> None:
        try:
            sqlite.run_each(self.put_sql, rows)
        except BaseException:
            self._remove(sqlite, rows)
            raise

    def _remove(self, sqlite: Sqlite, rows: Sequence[Row]) -> None:
        sqlite.run_each(f"DELETE FROM {self.sql} WHERE _rowid_ = ?", [row[:1] for row in rows])

    def place_of(self, column: str) -> Place:
        return Place(f"{self.database_name}.{self.qualified_name}", column)

    def violation(self, error: sqlite3.IntegrityError, verb: str, values: Sequence[Any]) -> SqlServerError:
        """SQL Server's error for a constraint that a row with these values violates."""
        text = str(error)
        name = f"{self.database_name}.{self.qualified_name}"
        if text.startswith("NOT NULL"):
            return SqlServerError(515, violated_columns(error, self._stored_name)[0], name, verb)
        kind, key, key_shown = self._violated(error, values)
        if kind == "INDEX":
            return SqlServerError(2601, self.qualified_name, key, key_shown)
        return SqlServerError(2627, kind, key, self.qualified_name, key_shown)

    def _violated(self, error: sqlite3.IntegrityError, values: Sequence[Any]) -> tuple[str, str, str]:
        """The kind and the name of the key that a row with these values violates, and the key's values."""
        violated = violated_columns(error, self._stored_name)
        key_shown = key_text(violated, self.columns, values)
        names = {column.lower() for column in violated}
        if names == {column.lower() for column in self.primary_key}:
            return "PRIMARY KEY", self.primary_key_name, key_shown
        unique = ((key, {column.lower() for column in columns}) for key, columns in self.unique_keys())
        for key, columns in unique:
            if columns == names:
                return "UNIQUE KEY", key, key_shown
        indexes = (index for index in self.indexes if {column.lower() for column in index.columns} == names)
        return "INDEX", next(indexes).name, key_shown


def update_sql(table: str, columns: Sequence[Column]) -> str:
    """The statement that replaces a row by another one with the same rowid."""
    assignments = ", ".join(f"{quoted(column.name)} = ?{n}" for n, column in enumerate(columns, start=2))
    return f"UPDATE {table} SET {assignments} WHERE _rowid_ = ?1"


def violated_columns(error: sqlite3.IntegrityError, table: str = "") -> list[str]:
    """The columns whose constraint a change violates. The error names each behind the table's name in SQLite, which has
    no dot for a table variable; a column may have any name."""
    written = str(error).partition(": ")[2]
    before = f"{table or written.partition('.')[0]}."
    return [name.removesuffix(WITH_NULL) for name in written.removeprefix(before).split(f", {before}")]


def key_text(names: Sequence[str], columns: Sequence[Column], values: Sequence[Any]) -> str:
    """The values of a key as 2627 shows them: `(1, x)`."""
    by_name = {column.name.lower(): (value, column.type) for column, value in zip(columns, values, strict=False)}
    return f"({', '.join(_shown(*by_name.get(name.lower(), (None, None))) for name in names)})"


def _shown(value: Any, type_: SqlType | None) -> str:
    if value is None:
        return "<NULL>"
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    text = str(convert(value, type_, SqlType("nvarchar", length=MAX)))
    return text.lower() if type_ is not None and type_.name == "uniqueidentifier" else text


@contextmanager
def committed(sqlite: Sqlite, tx: Transaction | None, tables: Iterable[Table]) -> Iterator[None]:
    """Show the tables as they are committed, with the changes of one transaction: those of others are undone for a
    while. So a reader pays for the uncommitted rows of others in the tables that it reads, and for nothing without
    them. What runs inside must change no other table."""
    sqlite.run("SAVEPOINT committed")
    try:
        for table in tables:
            table.undo_others(sqlite, tx)
        yield
    finally:
        sqlite.run("ROLLBACK TO committed")
        sqlite.run("RELEASE committed")


def check_number(type_: SqlType, number: int) -> None:
    """Raise 8115 if an IDENTITY column of that type cannot have a number."""
    if number > INTEGER_RANGES[type_.name][1]:
        raise SqlServerError(8115, type_.name)


def repeated(names: Sequence[str]) -> str:
    """The first name that stands there again, "" if none does."""
    lower = [name.lower() for name in names]
    return next((name for place, name in enumerate(names) if lower[place] in lower[:place]), "")


def check_columns(table: str, definitions: Sequence[ColumnDefinition]) -> None:
    """Raise an error if a table has two columns of one name or several IDENTITY columns, or one that cannot be one."""
    names = [definition.name for definition in definitions]
    if twice := repeated(names):
        raise SqlServerError(2705, twice, table)
    if len(versions := [d.name for d in definitions if d.type == ROWVERSION]) > 1:
        raise SqlServerError(2738, table, versions[1])
    if "_rowid_" in map(str.lower, names):  # SQLite's name of the number of a row
        raise UnsupportedSyntax("a column with the name _rowid_", 0)
    identities = [definition for definition in definitions if definition.identity is not None]
    if len(identities) > 1:
        raise SqlServerError(2744, table)
    for definition in identities:
        _check_identity(definition)


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
