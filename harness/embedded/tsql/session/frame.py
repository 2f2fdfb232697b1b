"""A frame: one run of a batch or procedure, with its variables, table variables and cursors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.embedded.broker.database import Database
from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import Column
from harness.embedded.tsql.instance.instance import Instance
from harness.embedded.tsql.session.results import ResultSink, Rows, shaped, typed
from harness.embedded.tsql.session.session import DOOMING_ERRORS, Cursor, Session
from harness.embedded.tsql.storage.sqlite import Sqlite


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
        """DECLARE @t TABLE; repeated in a loop it neither makes a new table nor empties it."""
        self._declared[name] = declarations

    def table(self, name: str) -> str:
        """The SQLite table that holds a table variable's rows; error 1087 before it is declared."""
        found = self.tables.get(name)
        if found is None:
            found = self.tables[name] = self.sqlite.take_table(self._declarations(name))
        return found

    def fill_table(self, name: str, marks: str, rows: list[tuple[Any, ...]]) -> None:
        """Insert rows into a table variable, all or none; an empty one needs no savepoint for that."""
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
        """Remove all rows of a table variable and return their number; its table is reused until it has rows again."""
        declarations, table = self._declarations(name), self.tables.pop(name, None)
        return 0 if table is None else self.sqlite.give_back(table, declarations)

    def _declarations(self, name: str) -> str:
        try:
            return self._declared[name]
        except KeyError:
            raise SqlServerError(1087, name) from None

    def release(self) -> None:
        """Give the tables of table variables back at the end of the run."""
        for name in list(self.tables):
            self.empty_table(name)

    # -- results -------------------------------------------------------------------------------------------------------

    def send(self, columns: Sequence[Column], rows: Rows) -> None:
        """Send a result set."""
        session, sink = self.session, self.sink
        columns = typed(columns, rows)
        if session.options.fmtonly:
            rows = ()
        session.row_count = len(rows)
        sink.columns(columns)
        if rows:
            sink.rows(shaped(columns, rows))
        sink.done(None if session.options.nocount else len(rows), in_procedure=self.depth > 0)

    def count(self, touched: int) -> None:
        """End a statement that only counts rows."""
        self.session.row_count = touched
        if not self.session.options.nocount:
            self.sink.done(touched, in_procedure=self.depth > 0)

    # -- errors --------------------------------------------------------------------------------------------------------

    def fail(self, error: SqlServerError, line: int) -> None:
        """Handle the failure of a statement: raise the error if it ends more than the statement, else report it."""
        session = self.session
        if error.line == 0:
            error.line = line
        if not error.procedure:
            error.procedure = self.procedure
        session.error_number = error.number
        session.row_count = 0
        if session.try_depth:
            if session.tx is not None and (session.options.xact_abort or error.number in DOOMING_ERRORS):
                session.doomed = True
            raise error
        if session.ends_batch(error):
            session.after_abort(error)  # here, because XACT_ABORT is that of the procedure in which it failed
            raise error
        session.report(error, self.sink)
