"""Sessions, each the state of a client or an activated procedure between statements, and the frames of their runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from harness.embedded.broker.database import Database
from harness.embedded.broker.engine import Engine
from harness.embedded.broker.transactions import Mark, Transaction
from harness.embedded.errors import CATALOGUE, DEFECT, FATAL, RaisedError, SqlServerError
from harness.embedded.runtime.tasks import Delay, Task, Waiting
from harness.embedded.sqltypes import Column, ResultSink
from harness.embedded.tsql.instance.instance import Instance
from harness.embedded.tsql.instance.modules import Trigger
from harness.embedded.tsql.permissions import guard
from harness.embedded.tsql.permissions.rights import DBO
from harness.embedded.tsql.session.handles import Handles
from harness.embedded.tsql.storage.result_values import Rows, shaped, shown, typed
from harness.embedded.tsql.storage.sqlite import ROWS_A_PIECE, Sqlite
from harness.embedded.tsql.storage.tables import Table

# Conversions that fail, text that is no XML, a deadlock for its victim, a transaction that ended or was doomed in a
# trigger, and our own bugs end the batch and doom the transaction even with XACT_ABORT OFF.
XML_ERRORS = frozenset({6335, 6359, 9400, 9402, 9420, 9436, 9437, 9448, 9459})
DOOMING_ERRORS = frozenset({241, 242, 244, 245, 248, 1205, 3609, 3616, 8114, 8169, DEFECT}) | XML_ERRORS
ENDS_BATCH = DOOMING_ERRORS | {628, 8144}
# These end the procedure or the EXECUTE of a text in which they occur, but neither its caller nor the transaction, as
# text that does not parse does: names that are not found, or are in a database that the session may not enter.
SCOPE_ERRORS = frozenset({107, 137, 206, 207, 208, 209, 916, 1087, 4104, 4121, 4145})


READ_UNCOMMITTED = 1
TERMINATED = 3621  # what follows the error that ended a change of rows, unless XACT_ABORT was on


# ANSI_WARNINGS, ANSI_PADDING, ANSI_NULLS, ANSI_NULL_DFLT_ON and CONCAT_NULL_YIELDS_NULL, which are always on
ANSI_BITS = 8 | 16 | 32 | 1024 | 4096


@dataclass(frozen=True, slots=True)
class Options:
    """Options that SET changes. A procedure's changes end with it, so options are immutable and replaced as a whole."""

    nocount: bool = False
    xact_abort: bool = False
    implicit_transactions: bool = False
    noexec: bool = False
    fmtonly: bool = False
    parseonly: bool = False
    cursor_close_on_commit: bool = False
    quoted_identifier: bool = True
    lock_timeout_ms: int = -1
    text_size_bytes: int = -1  # of values of (max) types in results; -1: all
    isolation_level: int = (
        2  # of sys.dm_exec_sessions: 1 READ UNCOMMITTED, 2 READ COMMITTED, ...; above, as READ COMMITTED
    )

    @property
    def bits(self) -> int:
        """@@OPTIONS, https://learn.microsoft.com/sql/database-engine/configure-windows/configure-the-user-options-server-configuration-option"""
        bits = {
            2: self.implicit_transactions,
            4: self.cursor_close_on_commit,
            256: self.quoted_identifier,
            512: self.nocount,
            16384: self.xact_abort,
        }
        return ANSI_BITS | sum(bit for bit, is_on in bits.items() if is_on)


DEFAULTS = Options()  # shared by all sessions, so that the result of a SET is made once


class TemporaryTable(NamedTuple):
    name: str  # in lower case
    depth: int  # of the frame that made it
    key: tuple[int, str]  # of the table


# Takes a frame of the session; returns the columns and rows of the query.
Fetch = Callable[[Any], tuple[Sequence[Column], list[tuple[Any, ...]]]]


class Cursor:
    """A STATIC cursor: OPEN fetches its rows."""

    __slots__ = ("columns", "fetch", "is_open", "position", "rows")

    def __init__(self, fetch: Fetch) -> None:
        self.fetch = fetch
        self.is_open = False
        self.columns: Sequence[Column] = ()
        self.rows: list[tuple[Any, ...]] = []
        self.position = 0


class Session:
    """One session."""

    def __init__(
        self,
        engine: Engine,
        *,
        spid: int,
        login: str,
        database: str,
        program: str = "",
        host: str = "",
        is_user_process: bool = True,
        is_administrative: bool = False,
    ) -> None:
        self.engine = engine
        self.instance = Instance.of(engine)
        self.spid = spid
        self.login = login
        self.program = program
        self.host = host
        self.is_user_process = is_user_process
        self.is_administrative = is_administrative  # on the dedicated administrator connection
        self.login_time_ns = engine.clock.utc_ns()
        self._first_database = database
        self.database: Database = self.instance.database(database)
        self.guard = guard.of_login(self.instance, login)  # None: a sysadmin, who passes every check
        self.impersonated: list[guard.Guard | None] = []  # to which REVERT returns from EXECUTE AS, the last first
        self.options = DEFAULTS
        self.tx: Transaction | None = None
        self.tran_count = 0
        self.captures = False  # results, for INSERT ... EXECUTE
        self.transaction_name = ""
        self.savepoints: list[tuple[str, Mark]] = []  # names in lower case; several may have the same
        self.doomed = False
        self.row_count = 0
        self.error_number = 0
        self.fetch_status = 0
        self.identity: int | None = None  # @@IDENTITY
        self.batch_identity: int | None = None  # SCOPE_IDENTITY() outside procedures
        self.try_depth = 0
        self.caught: list[SqlServerError] = []
        self.firing: list[Trigger] = []  # the triggers that run, the innermost last
        self.cursors: dict[str, Cursor] = {}  # global ones
        self.prepared = Handles(login, self.instance.prepared_lengths, self.instance.prepared_holders)
        self.open_master_keys: dict[int, bytes] = {}  # OPEN MASTER KEY, by database; protected by the server's key
        self.is_running = False
        self.task: Task | None = None  # that runs the request
        self.trace_flags: set[int] = set()
        self.temporary_tables: list[TemporaryTable] = []  # visible ones, the innermost last
        self._ended_tables: list[tuple[int, str]] = []  # keys of those whose procedure has ended
        self.bulk: Any = None  # the INSERT BULK whose rows come next
        self.disconnect: Callable[[], None] | None = None  # ends the client's connection and cancels its request
        self.is_over = False  # its last error ends the client's connection
        self.instance.sessions[spid] = self

    def reset(self) -> None:
        """RESETCONNECTION: as after the login, with the same id."""
        self.rollback()
        self.instance.application_locks.release_all(self.spid)
        self.options = DEFAULTS
        self.guard = guard.of_login(self.instance, self.login)
        self.impersonated.clear()
        self.database = self.instance.engine.databases.get(self._first_database.lower(), self.database)
        self.prepared.clear()
        self.open_master_keys.clear()
        self.cursors.clear()
        self.end_temporary_tables(0)
        self.bulk = None
        self.row_count = self.error_number = 0
        self.fetch_status = 0
        self.identity = self.batch_identity = None

    def close(self) -> None:
        """End the session; its open transaction is rolled back."""
        self.rollback()
        self.instance.application_locks.release_all(self.spid)
        self.end_temporary_tables(0)
        self.disconnect = None
        self.prepared.clear()
        if self.instance.sessions.get(self.spid) is self:
            del self.instance.sessions[self.spid]

    # -- temporary tables -------------------------------------------------------------------------------------------

    def user_table(self, parts: tuple[str, ...], database: Database) -> Table | None:
        """The user table, or the session's temporary table, of that name."""
        if not parts[-1].startswith("#"):
            return self.instance.table(parts, database)
        for temporary in reversed(self.temporary_tables):
            if temporary.name == parts[-1].lower() and (table := self.instance.tables.get(temporary.key)) is not None:
                return table
        return None

    def end_temporary_tables(self, depth: int) -> None:
        """Take the temporary tables of a procedure's run away. They are dropped when no transaction is open, because
        one may have changed them."""
        self._ended_tables += [table.key for table in self.temporary_tables if table.depth >= depth]
        self.temporary_tables = [table for table in self.temporary_tables if table.depth < depth]
        if self.tx is None:
            for key in self._ended_tables:
                self.instance.drop_temporary(key)
            self._ended_tables.clear()

    # -- errors -----------------------------------------------------------------------------------------------------

    def ends_batch(self, error: SqlServerError) -> bool:
        """Whether an error outside TRY ends the batch, with all that is called in it."""
        if error.ends_batch or isinstance(error, RaisedError):
            return error.ends_batch
        return self.options.xact_abort or error.severity in range(17, 26) or error.number in ENDS_BATCH

    def after_abort(self, error: SqlServerError) -> None:
        """Roll the transaction back if the error that ended the batch does so."""
        self.is_over = error.severity >= FATAL
        if self.options.xact_abort or error.number in DOOMING_ERRORS or self.is_over:
            self.rollback()

    def end_doomed(self, sink: ResultSink) -> None:
        """Roll a doomed transaction back at the end of the batch, and report that."""
        self.rollback()
        self.report(SqlServerError(3998), sink)

    def report(self, error: SqlServerError, sink: ResultSink) -> None:
        """Send an error to the client."""
        self.error_number = error.number
        line = error.line if error.procedure else max(1, error.line)  # 0 for a call that is wrong
        sink.message(error.number, error.severity, error.state, error.text, error.procedure or "", line)
        if error.ends_change:
            sink.message(TERMINATED, 0, 0, CATALOGUE[TERMINATED].text, error.procedure or "", line)

    # -- transactions ------------------------------------------------------------------------------------------------

    def new_transaction(self) -> Transaction:
        tx = self.engine.transactions.begin(self.database.name)
        if (timeout_ms := self.options.lock_timeout_ms) >= 0:
            tx.lock_timeout_ns = timeout_ms * 1_000_000
        return tx

    def begin(self, name: str = "") -> None:
        """BEGIN TRANSACTION"""
        self.row_count = 0
        if self.doomed:
            raise SqlServerError(3930)
        if self.tx is None:
            self.tx = self.new_transaction()
            self.transaction_name = name
            # "BEGIN TRANSACTION ... starts two nested transactions" where implicit ones are on.
            self.tran_count = 2 if self.options.implicit_transactions else 1
        else:
            self.tran_count += 1

    def begin_implicitly(self) -> None:
        """Begin a transaction before a statement that reads or changes rows, with IMPLICIT_TRANSACTIONS ON."""
        if self.tx is None and self.options.implicit_transactions:
            self.tx = self.new_transaction()
            self.tran_count = 1

    def writable(self) -> Transaction | None:
        """The transaction for a statement that changes something; None if it needs one of its own."""
        self.begin_implicitly()
        if self.doomed:
            raise SqlServerError(3930)
        return self.tx

    def rollback(self) -> None:
        """Roll the whole transaction back, if one is open."""
        tx, self.tx = self.tx, None
        self.tran_count = 0
        self.doomed = False
        self.savepoints.clear()
        if tx is not None and tx.active:
            tx.rollback()

    @property
    def wait_type(self) -> str | None:
        """The wait of the request in progress; None if it does not wait."""
        wait = self.engine.waits.current.get(self.task) if self.is_running else None
        return wait.wait_type if wait is not None else None

    @property
    def xact_state(self) -> int:
        return 0 if self.tx is None else -1 if self.doomed else 1

    # -- names -------------------------------------------------------------------------------------------------------

    def user_name(self, database: Database | None = None) -> str:
        """The session's user in a database; dbo for a sysadmin."""
        return DBO if self.guard is None else self.guard.user_in(database or self.database) or "guest"

    def use(self, name: str, sink: ResultSink) -> None:
        """USE: change the current database."""
        database = self.instance.database(name)
        if self.guard is not None:
            self.guard.enter(database)
        if database is not self.database and self.instance.is_closed_to(database, self):
            raise SqlServerError(924, database.name)
        old, self.database = self.database, database
        self.row_count = 0
        sink.database_changed(old.name, database.name)
        sink.message(5701, 0, 1, f"Changed database context to '{database.name}'.", "", 1)


class Frame:
    """One run of a batch or procedure, with its variables, table variables and cursors."""

    __slots__ = (
        "assigned",
        "cursors",
        "database",
        "declared",
        "depth",
        "identity",
        "instance",
        "module_id",
        "numbers",
        "procedure",
        "return_value",
        "session",
        "severity",
        "sink",
        "sqlite",
        "tables",
        "tran_count",
        "variables",
    )

    def __init__(self, session: Session, database: Database, sink: ResultSink, procedure: str, depth: int) -> None:
        self.session = session
        self.instance: Instance = session.instance
        self.sqlite: Sqlite = session.instance.sqlite
        self.database: Database = database  # where names are looked up
        self.sink = sink
        self.procedure = procedure  # its name for error messages; "" in a batch
        self.module_id = 0  # @@PROCID
        self.depth = depth  # 0 in a batch
        self.tran_count: int = session.tran_count  # at the beginning
        self.identity = session.batch_identity if depth == 0 else None  # SCOPE_IDENTITY()
        self.variables: dict[str, Any] = {}
        self.tables: dict[str, str] = {}  # of table variables that may have rows: name -> quoted name in SQLite
        self.numbers: dict[str, int] = {}  # the next ones of IDENTITY columns of table variables
        self.cursors: dict[str, Cursor] = {}
        self.return_value: Any = None  # of RETURN
        self.severity = 10  # of the worst error of its own statements, 10 without one
        self.assigned: Mapping[str, bool] | None = None  # in a trigger: which columns of its table the change assigns
        self.declared: Mapping[str, str] = {}  # table variables and their columns, as SQLite declares them

    @property
    def status(self) -> int:
        """The status of a procedure. Without RETURN it tells of the worst error of its own statements, also where its
        CATCH has handled that: -6 for severity 16, as others have measured on SQL Server 2025."""
        return 10 - self.severity if self.return_value is None else self.return_value

    def user_table(self, parts: tuple[str, ...]) -> Table | None:
        """The user table, or the session's temporary table, of that name."""
        return self.session.user_table(parts, self.database)

    def table(self, name: str) -> str:
        """The SQLite table that holds a table variable's rows."""
        table = self.tables.get(name)
        if table is None:
            table = self.tables[name] = self.sqlite.take_table(self.declared[name])
        return table

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
        declarations, table = self.declared[name], self.tables.pop(name, None)
        return 0 if table is None else self.sqlite.give_back(table, declarations)

    def release(self) -> None:
        """Give the tables of table variables back at the end of the run."""
        for name in list(self.tables):
            self.empty_table(name)
        if self.depth and self.session.temporary_tables:
            self.session.end_temporary_tables(self.depth)

    def identified(self, number: int | None) -> None:
        """An INSERT has given its last row this number. None: "if the statement did not affect any tables with identity
        columns, @@IDENTITY returns NULL", and so does SCOPE_IDENTITY(), as others have measured."""
        self.session.identity = self.identity = number
        if self.depth == 0:
            self.session.batch_identity = number

    # -- results -------------------------------------------------------------------------------------------------------

    def send(self, columns: Sequence[Column], rows: Rows) -> None:
        """Send a result set."""
        for _ in self.send_in_pieces(columns, rows, len(rows) or 1):
            pass

    def begin_rows(self, columns: Sequence[Column]) -> None:
        """Send the columns of a result set whose rows cannot be computed; in TRY it is one without rows."""
        if self.session.try_depth:
            self.send(columns, ())
        else:
            self.sink.columns(shown(typed(columns, ())))

    def send_in_pieces(self, columns: Sequence[Column], rows: Rows, size: int = ROWS_A_PIECE) -> Waiting[None]:
        """Send a result set, so many rows at a time, as the client reads them."""
        session, sink = self.session, self.sink
        columns = typed(columns, rows)
        if session.options.fmtonly:
            rows = ()
        sink.columns(shown(columns))
        for at in range(0, len(rows), size):
            if at and sink.is_full:
                yield from sink.wait_for_reader()
            sink.rows(shaped(columns, rows[at : at + size], session.options.text_size_bytes))
        session.row_count = len(rows)
        sink.done(None if session.options.nocount else len(rows), in_procedure=self.depth > 0)

    def let_others_go_on(self) -> Waiting[None]:
        """After a statement that took long: others run, and the client reads."""
        budget = self.sqlite.budget
        budget.is_long = False
        yield Delay(0)
        budget.begin()
        if self.sink.is_full:
            yield from self.sink.wait_for_reader()

    def count(self, touched: int) -> None:
        """End a statement that only counts rows."""
        self.session.row_count = touched
        if not self.session.options.nocount:
            self.sink.done(touched, in_procedure=self.depth > 0)

    # -- errors --------------------------------------------------------------------------------------------------------

    def report_mismatch(self, line: int = 0) -> None:
        """Report 266 if what has run in this frame has begun or ended transactions of its caller."""
        session, before, after = self.session, self.tran_count, self.session.tran_count
        if after != before and not session.options.implicit_transactions and not session.try_depth:
            session.report(SqlServerError(266, before, after, state=2, line=line, procedure=self.procedure), self.sink)

    def fail(self, error: SqlServerError, line: int) -> None:
        """Handle the failure of a statement: raise the error if it ends more than the statement, else report it."""
        session = self.session
        if error.frame is None:
            error.frame = self
        if error.frame is self:
            self.severity = max(self.severity, error.severity)
        if error.procedure is None:
            error.procedure = self.procedure
            error.line = error.line or line
        session.error_number = error.number
        session.row_count = 0
        if session.try_depth:
            if session.tx is not None and (session.options.xact_abort or error.number in DOOMING_ERRORS):
                session.doomed = True
            raise error
        if session.ends_batch(error):
            error.ends_batch = True
            error.ends_change &= not session.options.xact_abort
            session.after_abort(error)  # here, because XACT_ABORT is that of the procedure in which it failed
            raise error
        is_of_compilation = error.severity == 15 or error.number in SCOPE_ERRORS
        if is_of_compilation and error.frame is self and not isinstance(error, RaisedError):
            raise error
        session.report(error, self.sink)
        if is_of_compilation and isinstance(error.frame, Frame):
            error.frame.report_mismatch(error.line)
