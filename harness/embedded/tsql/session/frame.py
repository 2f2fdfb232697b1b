"""A frame: one run of a batch or procedure, with its variables, table variables and cursors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import Column

if TYPE_CHECKING:
    from harness.embedded.broker.database import Database
    from harness.embedded.tsql.instance.instance import Instance
    from harness.embedded.tsql.session.results import ResultSink
    from harness.embedded.tsql.session.session import Session
    from harness.embedded.tsql.storage.sqlite import Sqlite
    from harness.embedded.tsql.translation.binding import Planned


class Cursor:
    """A cursor; its rows are fetched at OPEN."""

    __slots__ = ("columns", "is_open", "planned", "position", "rows")

    def __init__(self, planned: Planned) -> None:
        self.planned = planned
        self.is_open = False
        self.columns: Sequence[Column] = ()
        self.rows: list[tuple[Any, ...]] = []
        self.position = 0


class Frame:
    __slots__ = (
        "_declared",
        "cursors",
        "database",
        "depth",
        "instance",
        "procedure",
        "return_value",
        "session",
        "sink",
        "sqlite",
        "tables",
        "variables",
    )

    def __init__(self, session: Session, database: Database, sink: ResultSink, procedure: str, depth: int) -> None:
        self.session = session
        self.instance: Instance = session.instance
        self.sqlite: Sqlite = session.instance.sqlite
        self.database: Database = database  # where names are looked up
        self.sink = sink
        self.procedure = procedure  # its name for error messages; "" in a batch
        self.depth = depth  # 0 in a batch
        self.variables: dict[str, Any] = {}
        self.tables: dict[str, str] = {}  # of table variables that may have rows: name -> quoted name in SQLite
        self.cursors: dict[str, Cursor] = {}
        self.return_value = 0
        self._declared: dict[str, str] = {}  # table variables and their columns, as SQLite declares them

    def declare_table(self, name: str, declarations: str) -> None:
        """DECLARE @t TABLE; in a loop it is the same table, not emptied."""
        self._declared[name] = declarations

    def table(self, name: str) -> str:
        """The table of SQLite that a table variable's rows are in; 1087 before it is declared."""
        found = self.tables.get(name)
        if found is None:
            found = self.tables[name] = self.sqlite.take_table(self._declarations(name))
        return found

    def fill_table(self, name: str, marks: str, rows: list[tuple[Any, ...]]) -> None:
        """Puts rows into a table variable; all or none, which one that had none needs no savepoint for."""
        had_rows = name in self.tables
        sql = f"INSERT INTO temp.{self.table(name)} VALUES ({marks})"
        if had_rows:
            self.sqlite.run_many(sql, rows)
            return
        try:
            self.sqlite.run_each(sql, rows)
        except BaseException:
            self.empty_table(name)
            raise

    def empty_table(self, name: str) -> int:
        """Removes all rows of a table variable, which needs no table before it has others; how many there were."""
        declarations, table = self._declarations(name), self.tables.pop(name, None)
        return 0 if table is None else self.sqlite.give_back(table, declarations)

    def _declarations(self, name: str) -> str:
        try:
            return self._declared[name]
        except KeyError:
            raise SqlServerError(1087, name) from None

    def release(self) -> None:
        """The run is over: table variables are given back, local cursors are gone."""
        for name in list(self.tables):
            self.empty_table(name)
