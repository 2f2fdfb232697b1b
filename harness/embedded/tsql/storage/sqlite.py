"""SQLite, where user tables, table variables and the rows of catalog views live: one connection for an instance.

The connection is in memory and knows no transactions: every statement takes effect at once, and what a transaction
changed is taken back by its undo actions (`tables`). So two transactions see each other's changes, as under READ
UNCOMMITTED; conversations, queues and messages are the broker's and not concerned. To SQLite all of it is one
transaction that never ends: beginning and committing would be a third of a small statement.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from harness.embedded.errors import UNSUPPORTED, SqlServerError
from harness.embedded.sqltypes import Column, SqlType
from harness.embedded.tsql.storage.conversion import family

STATEMENTS_CACHED = 4096  # prepared statements; each table variable in use has its own text

AFFINITIES = {
    "integer": "INTEGER",
    "float": "REAL",
    "decimal": "REAL",
    "text": "TEXT COLLATE NOCASE",
    "uniqueidentifier": "TEXT COLLATE NOCASE",
    "date": "TEXT",
    "binary": "BLOB",
}


def quoted(name: str) -> str:
    """A name as SQLite writes it."""
    return '"' + name.replace('"', '""') + '"'


def declared(type_: SqlType | None) -> str:
    """SQLite's declaration of a column of this type; text compares without case, as SQL Server's default collation."""
    return AFFINITIES.get(family(type_), "")


def declarations(columns: Sequence[Column], keys: Sequence[str] = ()) -> str:
    """Of a table variable's columns and keys."""
    parts = [f"{quoted(c.name)} {declared(c.type)}{'' if c.nullable else ' NOT NULL'}" for c in columns]
    return ", ".join((*parts, *keys))


class Sqlite:
    """The connection, the functions it has been given, and errors in SQL Server's terms."""

    def __init__(self) -> None:
        self.connection = sqlite3.connect(
            ":memory:", isolation_level=None, cached_statements=STATEMENTS_CACHED, check_same_thread=False
        )
        self.connection.execute("PRAGMA temp_store = MEMORY")
        self.connection.execute("PRAGMA secure_delete = OFF")  # which some builds have on: rows overwritten with zeros
        self.connection.execute("BEGIN")
        self.frame: Any = None  # whose statement runs now: for functions that ask the session
        self._functions: set[tuple[str, int]] = set()
        self._failure: SqlServerError | None = None
        self._pools: dict[str, list[str]] = {}  # tables that nobody uses, by their declarations
        self._serial = 0
        self.view_tables: set[str] = set()  # of views, made when first needed

    # -- statements --------------------------------------------------------------------------------------------------

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self.connection.execute(sql, parameters).fetchall()
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            raise self._translated(error) from error

    def value(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """The first column of the first row; None without one."""
        try:
            row = self.connection.execute(sql, parameters).fetchone()
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            raise self._translated(error) from error
        return None if row is None else row[0]

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Runs a statement; how many rows it touched."""
        try:
            return self.connection.execute(sql, parameters).rowcount
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            raise self._translated(error) from error

    def run_each(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        """Runs a statement for each row; if one fails, what those before it did is the caller's to undo."""
        try:
            return self.connection.executemany(sql, rows).rowcount
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            raise self._translated(error) from error

    def run_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        """Runs a statement for each row; all or nothing."""
        if isinstance(rows, list) and len(rows) == 1:
            return self.run(sql, rows[0])
        connection = self.connection
        connection.execute("SAVEPOINT many")
        try:
            count = self.run_each(sql, rows)
        except BaseException:
            connection.execute("ROLLBACK TO many")
            connection.execute("RELEASE many")
            raise
        connection.execute("RELEASE many")
        return count

    def _translated(self, error: Exception) -> Exception:
        failure, self._failure = self._failure, None
        if failure is not None:
            return failure
        if isinstance(error, sqlite3.IntegrityError):
            return error  # `tables` knows the constraint
        text = str(error)
        if isinstance(error, OverflowError) or "integer overflow" in text:
            return SqlServerError(8115, "bigint")
        if "too large" in text or "stack overflow" in text:
            return SqlServerError(191)
        return SqlServerError(UNSUPPORTED, f"this query ({text})")

    # -- functions ---------------------------------------------------------------------------------------------------

    def function(self, name: str, arity: int, function: Callable[..., Any], *, constant: bool = True) -> None:
        """Gives SQLite a function, once; one that is not constant is passed the frame first."""
        if (name, arity) in self._functions:
            return
        self._functions.add((name, arity))

        def guarded(*arguments: Any) -> Any:
            try:
                return function(*arguments) if constant else function(self.frame, *arguments)
            except SqlServerError as error:
                self._failure = error
                raise
            except (ValueError, TypeError, ArithmeticError, AttributeError) as error:
                self._failure = SqlServerError(8116, type(arguments[-1]).__name__, name)
                raise self._failure from error

        self.connection.create_function(name, arity, guarded, deterministic=constant)

    # -- table variables ---------------------------------------------------------------------------------------------

    def take_table(self, declarations: str) -> str:
        """An empty temporary table, made for the purpose or used before; give it back with `give_back`."""
        pool = self._pools.setdefault(declarations, [])
        if pool:
            return pool.pop()
        self._serial += 1
        name = quoted(f"@{self._serial}")
        self.connection.execute(f"CREATE TEMP TABLE {name} ({declarations})")
        return name

    def give_back(self, name: str, declarations: str) -> int:
        """How many rows it had. The next one to take a table gets this one, which is in the processor's caches."""
        count = self.connection.execute(f"DELETE FROM temp.{name}").rowcount
        self._pools[declarations].append(name)
        return count
