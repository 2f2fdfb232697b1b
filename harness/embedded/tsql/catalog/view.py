"""Views: columns, each with a function that gives its value, and the objects that become rows."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from harness.embedded.broker.database import Database
from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import (
    BIGINT,
    BIT,
    DATETIME,
    INT,
    SMALLINT,
    SYSNAME,
    TINYINT,
    UNIQUEIDENTIFIER,
    Column,
    SqlType,
)
from harness.embedded.tsql.instance.instance import ConnectedSession, Instance
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.storage.sqlite import declared, quoted


class Context(NamedTuple):
    """The source of the rows of a view."""

    instance: Instance
    database: Database
    session: ConnectedSession

    @property
    def engine(self) -> Any:
        return self.instance.engine


class ViewColumn(NamedTuple):
    name: str
    type: SqlType
    value: Callable[[Any], Any]
    nullable: bool = True


Rows = Callable[[Context], Iterable[Any]]

# Short names for declarations of columns.
bit, tinyint, smallint, int_, bigint = BIT, TINYINT, SMALLINT, INT, BIGINT
guid, datetime, sysname = UNIQUEIDENTIFIER, DATETIME, SYSNAME

sid = SqlType("varbinary", length=85)

LOCATION, PHYSLOC = "%%physloc%%", SqlType("binary", length=8)


def nvarchar(length: int) -> SqlType:
    return SqlType("nvarchar", length=length)


def char(length: int) -> SqlType:
    return SqlType("char", length=length)


def nchar(length: int) -> SqlType:
    return SqlType("nchar", length=length)


def column(name: str, type_: SqlType, value: Any, *, nullable: bool = True) -> ViewColumn:
    """A column whose value is a function of the row's object, or the same in every row."""
    if callable(value):
        return ViewColumn(name, type_, value, nullable)
    return ViewColumn(name, type_, lambda _: value, nullable)


def attribute(name: str, type_: SqlType, path: str = "", *, nullable: bool = True) -> ViewColumn:
    """A column whose value is an attribute of the row's object: of the same name, or at a path of attributes."""
    return ViewColumn(name, type_, operator.attrgetter(path or name), nullable)


def of_first(item: ViewColumn) -> ViewColumn:
    """The column of rows that are tuples, whose first element it is about."""
    value = item.value
    return item._replace(value=lambda row: value(row[0]))


class View:
    """A view of schema `sys`, or a queue. Reading it changes nothing.

    `since` is the first version of SQL Server that has the view. A base table can only be read over the dedicated
    administrator connection. `location` gives the %%physloc%% of a row.
    """

    def __init__(
        self,
        name: str,
        columns: Sequence[ViewColumn],
        rows: Rows,
        *,
        since: int = 0,
        is_base_table: bool = False,
        location: Callable[[Any], bytes] | None = None,
    ) -> None:
        self.name = name
        self.members = columns
        self.columns = [Column(member.name, member.type, member.nullable) for member in columns]
        self.since = since
        self.is_base_table = is_base_table
        self._rows = rows
        self._pseudo = [] if location is None else [ViewColumn(LOCATION, PHYSLOC, location)]
        self.hidden = [Column(member.name, member.type, member.nullable) for member in self._pseudo]

    def temporary_name(self, database: Database) -> str:
        return f"{self.name}@{database.database_id}"

    def fill(self, frame: Frame, database: Database, needed: set[str]) -> None:
        """Put the current rows into the view's table in SQLite. Columns that the query does not need stay NULL."""
        # Checked here and not when names are resolved, because sessions share compiled batches.
        if self.is_base_table and not frame.session.is_administrative:
            raise SqlServerError(208, f"sys.{self.name}")
        members = [member for member in (*self.members, *self._pseudo) if member.name.lower() in needed]
        names, values = [member.name for member in members], [member.value for member in members]
        context = Context(frame.instance, database, frame.session)
        rows = [tuple([value(item) for value in values]) for item in self._rows(context)]
        sqlite = frame.sqlite
        table = f"temp.{quoted(self.temporary_name(database))}"
        if self.temporary_name(database) not in sqlite.view_tables:
            declared_columns = (*self.columns, *self.hidden)
            declarations = ", ".join(f"{quoted(column.name)} {declared(column.type)}" for column in declared_columns)
            sqlite.run(f"CREATE TEMP TABLE {quoted(self.temporary_name(database))} ({declarations})")
            sqlite.view_tables.add(self.temporary_name(database))
        sqlite.run(f"DELETE FROM {table}")
        if not names:
            names, rows = [self.columns[0].name], [(None,) for _ in rows]
        marks = ", ".join("?" for _ in names)
        sqlite.run_many(f"INSERT INTO {table} ({', '.join(map(quoted, names))}) VALUES ({marks})", rows)


class TableFunction(View):
    """A function of schema `sys` that returns a table. `rows` gets the context and the arguments."""

    def __init__(
        self,
        name: str,
        columns: Sequence[ViewColumn],
        rows: Callable[..., Iterable[Any]],
        *,
        arguments: int,
        since: int = 0,
    ) -> None:
        super().__init__(name, columns, lambda context: (), since=since)
        self._function = rows
        self._arguments = arguments

    def call(self, number: int, count: int, evaluate: Callable[[Frame], Sequence[Any]]) -> View:
        """Make the view for one call in a query. `number` distinguishes the calls of a query."""
        if count != self._arguments:
            raise SqlServerError(313 if count < self._arguments else 8144, f"sys.{self.name}")
        return _Call(self, number, evaluate, self._function)


class _Call(View):
    def __init__(
        self,
        function: TableFunction,
        number: int,
        evaluate: Callable[[Frame], Sequence[Any]],
        rows: Callable[..., Iterable[Any]],
    ) -> None:
        super().__init__(
            f"{function.name}({number})", function.members, lambda context: rows(context, *self._arguments)
        )
        self._evaluate = evaluate
        self._arguments: Sequence[Any] = ()

    def fill(self, frame: Frame, database: Database, needed: set[str]) -> None:
        self._arguments = self._evaluate(frame)
        super().fill(frame, database, needed)
