"""Views: columns, each with a function that gives its value, and the objects that become rows."""

import copy
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice
from typing import Any, NamedTuple

from harness.embedded.broker.database import Database
from harness.embedded.broker.queues import Queue
from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import DATETIME, INT, Column, SqlType
from harness.embedded.tsql.catalog import visibility
from harness.embedded.tsql.instance.instance import ConnectedSession, Instance
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.storage.conversion import family
from harness.embedded.tsql.storage.moments import datetime_from_utc_ns
from harness.embedded.tsql.storage.sqlite import declared, quoted
from harness.embedded.tsql.text.tokens import Tokens


@dataclass(frozen=True)
class Context:
    """The source of the rows of a view, while a query reads it."""

    instance: Instance
    database: Database
    session: ConnectedSession

    @property
    def engine(self) -> Any:
        return self.instance.engine

    @cached_property
    def queues_by_internal_table(self) -> dict[tuple[int, int], Queue]:
        """The queues of the instance, by the ids of their databases and of their internal tables."""
        databases = self.engine.databases.values()
        return {
            (database.database_id, queue.internal_table_id): queue
            for database in databases
            for queue in database.catalog.queues.values()
        }


class ViewColumn(NamedTuple):
    name: str
    type: SqlType
    value: Callable[[Any], Any]
    nullable: bool = True
    attribute: str = ""  # the path of `value`, if it is one
    constant: str = ""  # SQLite's literal, of a column that has the same value in every row


Rows = Callable[..., Iterable[Any]]

ROWS_A_CHECK = 1000
# Rows of a view that are remembered, if they are numbers alone, which take little memory: programs that watch a server
# ask for the same ones again and again, and to insert a row into SQLite takes as long as to make it.
ROWS_KEPT = 4000
PHYSLOC = "%%physloc%%", SqlType("binary", length=8)
LINE = re.compile(r"(?P<name>\w+) +(?P<type>.*?)(?P<required> +NOT NULL)?(?: +(?P<how>=|<-) +(?P<what>.+))?")


def columns(table: str, computed: dict[str, Callable[[Any], Any]]) -> list[ViewColumn]:
    """Read a table of columns: name, type, NOT NULL, and where the value comes from.

    `<- queue.object_id` is a path of attributes of the row's object, `= 'ONLINE'` the same value in every row. Without
    either it is the attribute named like the column, or the function in `computed`. Moments are nanoseconds since 1970.
    """
    lines = map(str.strip, table.splitlines())
    return [_column(line, computed) for line in lines if line]


@cache
def _type(text: str) -> SqlType:
    return Tokens(text).data_type()


def _column(line: str, computed: dict[str, Callable[[Any], Any]]) -> ViewColumn:
    match = LINE.fullmatch(line)
    assert match is not None, line
    name, type_, nullable = match["name"], _type(match["type"]), not match["required"]
    if match["how"] == "=":
        return ViewColumn(name, type_, _no_value, nullable, constant=match["what"])
    path = "" if name in computed else match["what"] or name
    get = computed.get(name) or operator.attrgetter(path)
    if type_ == DATETIME:
        return ViewColumn(name, type_, lambda row: datetime_from_utc_ns(get(row)), nullable)
    return ViewColumn(name, type_, get, nullable, path)


def _no_value(row: Any) -> Any:
    raise AssertionError("the table of the view has this value as its default")


def _values(members: Sequence[ViewColumn], objects: Iterable[Any]) -> Iterator[Sequence[Any]]:
    """Yield the values of these columns for each object."""
    paths = [member.attribute for member in members]
    if len(paths) > 1 and all(paths):
        return map(operator.attrgetter(*paths), objects)
    if len(members) == 1:
        return zip(map(members[0].value, objects), strict=True)
    values = [member.value for member in members]
    return ([value(row) for value in values] for row in objects)


def _values_at(places: Sequence[int], rows: Iterable[tuple[Any, ...]]) -> Iterator[Sequence[Any]]:
    """Yield the values at these places of each row."""
    values = map(operator.itemgetter(*places), rows)
    return values if len(places) > 1 else zip(values, strict=True)


def _declaration(member: ViewColumn) -> str:
    return f"{quoted(member.name)} {declared(member.type)} DEFAULT {member.constant or 'NULL'}"


class View:
    """A view of schema `sys`, or a queue. Reading it changes nothing.

    `table` and `computed` declare its columns as `columns` reads them. `rows` gives the objects that become its rows,
    of which a session that is no sysadmin gets those that `visible` lets it see.
    `since` is the first version of SQL Server that has the view. A base table can only be read over the dedicated
    administrator connection. A view is fixed if its rows never change and everybody sees them. `location` gives the
    %%physloc%% of a row. With `row`, a NamedTuple, `rows` gives plain tuples of its fields: to make a thousand
    NamedTuples takes as long as all else together.
    """

    def __init__(
        self,
        name: str,
        table: str,
        rows: Rows,
        *,
        visible: visibility.Rule = visibility.owners,
        since: int = 0,
        is_base_table: bool = False,
        location: Callable[[Any], bytes] | None = None,
        row: type[NamedTuple] | None = None,
        is_fixed: bool = False,
        **computed: Any,
    ) -> None:
        self.name = name
        self.members = columns(table, computed)
        self.columns = [Column(member.name, member.type, member.nullable) for member in self.members]
        self.since = since
        self.is_base_table = is_base_table
        self.rows = rows
        self._visible = visible
        self._row: Any = row
        self._is_fixed = is_fixed
        self._pseudo = [] if location is None else [ViewColumn(*PHYSLOC, location)]
        self.hidden = [Column(member.name, member.type, member.nullable) for member in self._pseudo]

    def temporary_name(self, database: Database) -> str:
        return f"{self.name}@{database.database_id}"

    def fill(self, frame: Frame, database: Database, needed: set[str]) -> None:
        """Put the current rows into the view's table in SQLite. Columns that the query does not need keep defaults."""
        # Checked here and not when names are resolved, because sessions share compiled batches.
        if self.is_base_table and not frame.session.is_administrative:
            raise SqlServerError(208, f"sys.{self.name}")
        declared_members = (*self.members, *self._pseudo)
        members = [member for member in declared_members if member.name.lower() in needed and not member.constant]
        sqlite = frame.sqlite
        name = self.temporary_name(database)
        names, marks = ", ".join(quoted(member.name) for member in members), ", ".join("?" for _ in members)
        view_table = sqlite.view_tables.get(name)
        if self._is_fixed and view_table is not None and view_table[0] == names:
            return
        all_values = self._read(members, Context(frame.instance, database, frame.session), frame)
        rows: list[Sequence[Any]] = []
        while piece := list(islice(all_values, ROWS_A_CHECK)):
            sqlite.budget.look()
            rows += piece
        table = f"temp.{quoted(name)}"
        if name not in sqlite.view_tables:
            declarations = ", ".join(map(_declaration, declared_members))
            sqlite.run(f"CREATE TEMP TABLE {quoted(name)} ({declarations})")
        if view_table == (names, rows):
            return
        sqlite.view_tables[name] = None
        sqlite.run(f"DELETE FROM {table}")
        values_clause = f"({names}) VALUES ({marks})" if members else "DEFAULT VALUES"
        sqlite.run_many(f"INSERT INTO {table} {values_clause}", rows)
        if self._is_fixed or (len(rows) <= ROWS_KEPT and all(family(member.type) == "integer" for member in members)):
            sqlite.view_tables[name] = names, rows

    def _read(self, members: Sequence[ViewColumn], context: Context, frame: Frame) -> Iterator[Sequence[Any]]:
        return self._values(members, context, self.rows(context))

    def _values(
        self, members: Sequence[ViewColumn], context: Context, objects: Iterable[Any]
    ) -> Iterator[Sequence[Any]]:
        """Yield the values of these columns in the rows that the session sees."""
        guard = context.session.guard
        if self._row is not None:
            places = {field: place for place, field in enumerate(self._row._fields)}
            if guard is None and members and all(member.attribute in places for member in members):
                return _values_at([places[member.attribute] for member in members], objects)
            objects = map(self._row._make, objects)
        if guard is not None:
            objects = filter(self._visible(context.database, guard), objects)
        return _values(members, objects)


class TableFunction(View):
    """A function of schema `sys` that returns a table. `rows` gets the context and the arguments.

    `evaluate`, of one call in a query, gives the rows of arguments: one, or with APPLY each different one that the
    tables before the call give. The arguments, integers, are hidden columns, by which APPLY joins.
    """

    evaluate: Callable[[Frame], Iterable[Sequence[Any]]]

    def __init__(self, name: str, table: str, rows: Rows, *, arguments: int, **more: Any) -> None:
        # Those of this server are dynamic management functions: whoever holds their permission sees all rows.
        super().__init__(name, table, rows, visible=visibility.everybody, **more)
        self._pseudo = [ViewColumn(f"argument {number}", INT, _no_value) for number in range(arguments)]
        self.hidden = [Column(member.name, member.type, member.nullable) for member in self._pseudo]

    def call(self, number: int, count: int, evaluate: Callable[[Frame], Iterable[Sequence[Any]]]) -> View:
        """Make the view for one call in a query. `number` distinguishes the calls of a query."""
        if count != len(self.hidden):
            raise SqlServerError(313 if count < len(self.hidden) else 8144, f"sys.{self.name}")
        called = copy.copy(self)
        called.name = f"{self.name}({number})"
        called.evaluate = evaluate
        return called

    def _read(self, members: Sequence[ViewColumn], context: Context, frame: Frame) -> Iterator[Sequence[Any]]:
        columns = [member for member in members if member.value is not _no_value]
        arguments: Sequence[Any] = ()

        def objects() -> Iterator[Any]:
            nonlocal arguments
            for arguments in self.evaluate(frame):
                yield from self.rows(context, *arguments)

        for values in self._values(columns, context, objects()):
            yield values if columns == members else (*values, *arguments)
