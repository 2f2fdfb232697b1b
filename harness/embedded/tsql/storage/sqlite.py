"""The SQLite database of an instance: user tables, table variables and the rows of catalog views.

It is in memory and has one connection. Every statement takes effect at once; a rollback undoes the changes of its
transaction one by one (`tables`). So SQLite shows everybody uncommitted rows; who reads committed ones undoes the
changes of others for a while (`tables.committed`). For SQLite everything is one transaction, because BEGIN and COMMIT
would take a third of the time of a small statement. It ends where `compact` gives memory back.
"""

import contextlib
import gc
import itertools
import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import _lru_cache_wrapper
from typing import Any, TypeVar

from harness.embedded.errors import UNSUPPORTED, SqlServerError
from harness.embedded.sqltypes import Column, SqlType
from harness.embedded.tsql.storage import collation, offsets
from harness.embedded.tsql.storage.budget import Budget
from harness.embedded.tsql.storage.conversion import family

PARAMETER_LENGTH_MAX = 65_536  # of a text or binary value that a cached statement may keep
_LONG_TYPES = (str, bytes)
# A parameter's mark, outside texts and names in quotes.
_MARK = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\?(?P<number>\d*)")
STATEMENTS_CACHED = 4096  # prepared statements; each table variable in use has statements of its own

# SQLite's limits: words of its errors, and SQL Server's error
REFUSALS: tuple[tuple[Any, ...], ...] = (
    ("xpression tree is too large", 191),
    ("stack overflow", 191),
    ("too big", 701, "default"),
    ("too many", 8623),
    ("at most 64 tables", 8623),
)
POOLS_MAX = 1000  # kinds of table variables whose tables are kept
VALUE_BYTES_MAX = 256 * 1024 * 1024  # of one text or binary

ROWS_A_PIECE = 500
FIRST_ROWS = 4  # of a query, before the first look at the budget: each may have a value of 256 MiB
STEPS_A_LOOK = 1000  # of SQLite's virtual machine: some tens of microseconds
WORK_NS_MIN = 1_000_000  # of a function; less does not count

AFFINITIES = {
    "integer": "INTEGER",
    "float": "REAL",
    "decimal": "REAL",
    "text": f"TEXT COLLATE {collation.NAME}",
    "uniqueidentifier": "TEXT COLLATE NOCASE",
    "date": "TEXT",
    "datetimeoffset": "TEXT COLLATE datetimeoffset",
    "binary": "BLOB",
}


Result = TypeVar("Result")
WorkNs = Callable[..., int]  # of a function's arguments: about how long it takes


def work_of(step_ns: int) -> WorkNs:
    """The work of a function that takes so long for each character or byte of its first argument."""
    return lambda value, *rest: step_ns * len(value) if isinstance(value, _LONG_TYPES) else 0


def quoted(name: str) -> str:
    """A name as SQLite writes it. SQLite gives a column of a subquery that is called true or false another name."""
    name += " " if name.lower() in ("true", "false") else ""
    return '"' + name.replace('"', '""') + '"'


def declared(type_: SqlType | None) -> str:
    """SQLite's type of a column. Text compares without case, as in SQL Server's default collation."""
    return AFFINITIES.get(family(type_), "")


WITH_NULL = "\x01"  # ends the name of a column that is like another one, but has a value of its own for NULL


def unique_keys(columns: Sequence[Column], keys: Sequence[Sequence[str]]) -> list[str]:
    """The declarations of keys. "As with any value participating in a UNIQUE constraint, only one null value is allowed
    per column", but to SQLite two NULLs differ; so a key of columns that may be NULL has columns computed from them."""
    by_name = {column.name.lower(): column for column in columns}
    computed: dict[str, str] = {}
    constraints = []
    for names in keys:
        members = []
        for name in names:
            column = by_name[name.lower()]
            if column.nullable:
                like = quoted(column.name + WITH_NULL)
                null = "''" if family(column.type) == "binary" else "x''"  # a value of no column of that type
                computed[like] = f"{like} {declared(column.type)} AS (ifnull({quoted(column.name)}, {null}))"
                members.append(like)
            else:
                members.append(quoted(column.name))
        constraints.append(f"UNIQUE ({', '.join(members)})")
    return [*computed.values(), *constraints]


def declarations(columns: Sequence[Column], keys: Sequence[str] = ()) -> str:
    """The declarations of a table variable's columns and keys."""
    parts = [f"{quoted(c.name)} {declared(c.type)}{'' if c.nullable else ' NOT NULL'}" for c in columns]
    return ", ".join((*parts, *keys))


ViewRows = tuple[str, Sequence[Sequence[Any]]]  # names of columns, and their values


def _without_zeros(value: bytes | None) -> bytes | None:
    return None if value is None else value.rstrip(b"\0")


class Calls:
    """What functions share with the connection, to which they must not refer: it does not show them to a collection of
    garbage, and neither would ever be freed."""

    def __init__(self) -> None:
        self.frame: Any = None  # that runs a statement now; passed to functions that depend on the session
        self.failure: Exception | None = None


class Sqlite:
    """The connection, its functions, and its errors translated to SQL Server's."""

    def __init__(self) -> None:
        self.connection = sqlite3.connect(
            ":memory:", isolation_level=None, cached_statements=STATEMENTS_CACHED, check_same_thread=False
        )
        self.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)
        self.connection.create_collation("datetimeoffset", offsets.by_utc)
        self.connection.create_collation(collation.NAME, collation.compare)
        self.connection.create_collation(collation.WITHOUT_ACCENTS, collation.compare_without_accents)
        self.connection.execute("PRAGMA temp_store = MEMORY")
        for schema in ("main", "temp"):  # before the first table
            self.connection.execute(f"PRAGMA {schema}.auto_vacuum = FULL")
        self.connection.execute("PRAGMA secure_delete = OFF")  # it is on in some builds
        self.connection.execute("BEGIN")
        # What takes more of these fails with 701; the server sets them (`server.memory`)
        self.tables_are_full = self.table_variables_are_full = self.memory_is_full = False
        self.look_again: Callable[[], object] = lambda: None  # and set them as they are now
        self.budget = Budget()
        self._is_reading = False
        self.calls = Calls()
        self._functions: set[tuple[str, int]] = set()
        self._pools: dict[str, list[str]] = {}  # unused temporary tables, by their declarations
        self._serial = 0
        self._held: dict[int, str | bytes] = {}  # long parameters of the statement that runs, by place
        self.connection.create_function("held", 1, self._held.__getitem__)
        self.connection.create_function("without_zeros", 1, _without_zeros, deterministic=True)
        # Tables of views that exist, with what lies in them, if known
        self.view_tables: dict[str, ViewRows | None] = {}

    # -- statements --------------------------------------------------------------------------------------------------

    def _execute(self, sql: str, parameters: Sequence[Any]) -> sqlite3.Cursor:
        """Run a statement. Its text in the cache would keep a copy of each parameter, so a long one is handed over by a
        function."""
        for value in parameters:
            if type(value) in _LONG_TYPES and len(value) > PARAMETER_LENGTH_MAX:
                break
        else:
            return self.connection.execute(sql, parameters)
        self._held.clear()  # the statement before has ended
        values = list(parameters)
        for place, value in enumerate(values):
            if type(value) in _LONG_TYPES and len(value) > PARAMETER_LENGTH_MAX:
                self._held[place], values[place] = value, place
        places = itertools.count()

        def marked(match: re.Match[str]) -> str:
            number = match["number"]
            if number is None:
                return match[0]
            return f"held({match[0]})" if (int(number) - 1 if number else next(places)) in self._held else match[0]

        return self.connection.execute(_MARK.sub(marked, sql), values)

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query. The budget may stop it."""
        return self._read(sql, parameters, self._fetch)

    def value(self, sql: str, parameters: Sequence[Any]) -> Any:
        """The first column of the first row, None without one."""
        row = self._read(sql, parameters, sqlite3.Cursor.fetchone)
        return None if row is None else row[0]

    def _read(self, sql: str, parameters: Sequence[Any], fetch: Callable[[sqlite3.Cursor], Result]) -> Result:
        outer, self._is_reading = self._is_reading, True
        try:
            return fetch(self._execute(sql, parameters))
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            raise self._translated(error) from error
        finally:
            self._is_reading = outer

    def _fetch(self, cursor: sqlite3.Cursor) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        size, budget = FIRST_ROWS, self.budget
        while piece := cursor.fetchmany(size):
            rows += piece
            if len(piece) < size:
                break
            try:
                budget.look()
                if len(rows) > budget.rows_max:
                    budget.refuse_rows()
            except BaseException:
                cursor.close()  # an open one prevents changes of the table
                raise
            size = max(size, len(rows) // 4)
        return rows

    def keep_to(self, budget: Budget) -> None:
        """Bound statements by a budget. No change is stopped in the middle: SQLite would roll everything back."""
        self.budget = budget
        self.connection.set_progress_handler(self._is_over, STEPS_A_LOOK)

    def _is_over(self) -> bool:
        if self._is_reading:
            try:
                self.budget.look()
            except SqlServerError as error:
                self.calls.failure = error
                return True
        return False

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Run a statement and return how many rows it changed."""
        try:
            return self._execute(sql, parameters).rowcount
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            raise self._translated(error) from error

    def run_each(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        """Run a statement for each row. If one fails, the caller undoes the changes of those before it."""
        try:
            return self.connection.executemany(sql, rows).rowcount
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            raise self._translated(error) from error

    def insert(self, sql: str, row: Sequence[Any]) -> int | None:
        """Insert a row and return its number."""
        try:
            return self._execute(sql, row).lastrowid
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            raise self._translated(error) from error

    def run_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        """Run a statement for each row, or for none if one fails."""
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

    def first_refused(self, sql: str, rows: Sequence[Sequence[Any]]) -> Sequence[Any]:
        """The first of these rows, with one of which a statement violates a constraint. Nothing is changed."""
        if len(rows) == 1:
            return rows[0]
        connection = self.connection
        connection.execute("SAVEPOINT refused")
        try:
            for row in rows:
                try:
                    self._execute(sql, row)
                except sqlite3.IntegrityError:
                    return row
            return ()
        finally:
            connection.execute("ROLLBACK TO refused")
            connection.execute("RELEASE refused")

    def _translated(self, error: Exception) -> Exception:
        failure, self.calls.failure = self.calls.failure, None
        if failure is not None:
            return failure
        if isinstance(error, sqlite3.IntegrityError):
            return error  # `Table.violation` finds the constraint
        text = str(error)
        if isinstance(error, OverflowError) or "integer overflow" in text:
            return SqlServerError(8115, "bigint")
        for words, number, *arguments in REFUSALS:
            if words in text:
                return SqlServerError(number, *arguments)
        return SqlServerError(UNSUPPORTED, f"this query ({text})")

    def sizes_bytes(self, schema: str) -> tuple[int, int]:
        """Memory of all tables ("main") or of all table variables ("temp"): with and without what deleted rows have
        left, which only the next rows there will take."""
        pragmas = ("page_size", "page_count", "freelist_count")
        size, count, free = [int(self.rows(f"PRAGMA {schema}.{pragma}")[0][0]) for pragma in pragmas]
        return size * count, size * (count - free)

    def compact(self) -> None:
        """Free the memory that deleted rows have left: COMMIT moves the others together. SQLite then keeps copies of
        those that change until the next time, so there should be few. A statement in progress prevents it."""
        with contextlib.suppress(sqlite3.OperationalError):
            self.connection.execute("COMMIT")
            self.connection.execute("BEGIN")

    def refuse_growth(self, share: str) -> None:
        """Raise 701 if a share of the memory (`tables_are_full` and the like), which was used up, still is."""
        self.look_again()
        if getattr(self, share):
            raise SqlServerError(701, "default")

    def forget_statements(self) -> None:
        """Empty the cache of prepared statements. `sqlite3` counts them, however long they are, and does not show its
        cache, which is one of `functools.lru_cache`."""
        for get_referent in gc.get_referents(self.connection):
            if isinstance(get_referent, _lru_cache_wrapper):
                get_referent.cache_clear()

    # -- functions ---------------------------------------------------------------------------------------------------

    def function(
        self,
        name: str,
        arity: int,
        function: Callable[..., Any],
        *,
        constant: bool = True,
        work_ns: WorkNs | None = None,
    ) -> None:
        """Register a function in SQLite, once. One that is not constant gets the frame as its first argument. `work_ns`
        says how long one takes that works on long values."""
        if (name, arity) in self._functions:
            return
        self._functions.add((name, arity))
        calls = self.calls
        if work_ns is not None:
            function = self._in_time(function, work_ns)

        def guarded(*arguments: Any) -> Any:
            try:
                return function(*arguments) if constant else function(calls.frame, *arguments)
            except (SqlServerError, RecursionError, MemoryError) as error:
                calls.failure = error
                raise
            except (ValueError, TypeError, ArithmeticError, AttributeError) as error:
                calls.failure = SqlServerError(8116, type(arguments[-1]).__name__, name)
                raise calls.failure from error
            except Exception as error:  # a defect: SQLite would report it as an error of its own
                calls.failure = error
                raise

        self.connection.create_function(name, arity, guarded, deterministic=constant)

    def _in_time(self, function: Callable[..., Any], work_ns: WorkNs) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            if (work := work_ns(*arguments)) > WORK_NS_MIN:
                self.budget.check(work)
            return function(*arguments)

        return timed

    def create_index(self, table: str, columns: Sequence[str]) -> None:
        """Make an index that only makes queries faster; it goes with its table."""
        self._serial += 1
        self.run(f"CREATE INDEX {quoted(f'index {self._serial}')} ON {table} ({', '.join(map(quoted, columns))})")

    # -- table variables ---------------------------------------------------------------------------------------------

    def take_table(self, declarations: str) -> str:
        """Return an empty temporary table, new or used before. `give_back` takes it back."""
        pool = self._pools.get(declarations)
        if pool:
            return pool.pop()
        if pool is None:
            if len(self._pools) >= POOLS_MAX:
                self._drop_pool()
            self._pools[declarations] = []
        self._serial += 1
        name = quoted(f"@{self._serial}")
        self.run(f"CREATE TEMP TABLE {name} ({declarations})")
        return name

    def _drop_pool(self) -> None:
        """Drop the oldest unused tables."""
        declarations = next((pool for pool, names in self._pools.items() if names), None)
        if declarations is not None:
            for name in self._pools.pop(declarations):
                self.run(f"DROP TABLE temp.{name}")

    def forget(self, session: Any) -> None:
        """At the end of a session's request: drop its frame and parameters, which may be large."""
        self._held.clear()
        if self.calls.frame is not None and self.calls.frame.session is session:
            self.calls.frame = None

    def give_back(self, name: str, declarations: str) -> int:
        """Empty a table and return how many rows it had. It is reused next: it is in the processor's caches."""
        count = self.connection.execute(f"DELETE FROM temp.{name}").rowcount
        self._pools.setdefault(declarations, []).append(name)
        return count
