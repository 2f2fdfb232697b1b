"""Connections in virtual time with the part of pyodbc's interface that the harness uses.

A statement runs as a task of its instance. The caller's `execute` returns when the statement has ended in virtual time;
everything else in the world goes on meanwhile. Results are those of the driver: result sets, counts and errors in their
order, values in pyodbc's types, errors in pyodbc's classes with the text of Microsoft's driver.

Left out: transactions of the driver (each statement commits), parameters of statements other than `{CALL ...}`,
output parameters, and the types of columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import BIGINT, BIT, FLOAT, INT, MAX, Column, Parameter, SqlType
from harness.embedded.tsql.requests import ClientSession
from harness.embedded.tsql.session.results import DiscardedResults
from harness.simulation.world import Server

if TYPE_CHECKING:
    import pyodbc

_CALL = re.compile(r"\s*\{\s*CALL\s+(?P<name>[^\s(]+)\s*(?:\((?P<marks>[\s?,]*)\))?\s*\}\s*", re.IGNORECASE)
_DRIVER = "[Microsoft][ODBC Driver 18 for SQL Server]"
_LONG_CHARACTERS, _LONG_BYTES = 4000, 8000  # longer values are sent as (max)

# SQLSTATEs of Microsoft's driver by error number; all others have 42000.
_STATES = {
    207: "42S22",
    208: "42S02",
    515: "23000",
    547: "23000",
    1205: "40001",
    2601: "23000",
    2627: "23000",
    2714: "42S01",
    8115: "22003",
    8134: "22012",
    8152: "22001",
    18456: "28000",
}


class StatementError(NamedTuple):
    """An error that a statement raised."""

    number: int
    text: str


@dataclass(slots=True)
class ResultSet:
    columns: Sequence[Column]
    rows: list[tuple[Any, ...]] = field(default_factory=list)


class _Results(DiscardedResults):
    """Result sets, counts and errors in their order; consecutive errors form one list."""

    def __init__(self) -> None:
        self.parts: list[ResultSet | int | list[StatementError]] = []
        self._is_open = False

    def columns(self, columns: Sequence[Column]) -> None:
        self.parts.append(ResultSet(list(columns)))
        self._is_open = True

    def rows(self, rows: Sequence[Sequence[Any]]) -> None:
        part = self.parts[-1]
        assert isinstance(part, ResultSet)
        part.rows.extend(map(tuple, rows))

    def done(self, row_count: int | None, *, in_procedure: bool) -> None:
        if self._is_open:
            self._is_open = False
        elif row_count is not None:
            self.parts.append(row_count)

    def message(self, number: int, severity: int, state: int, text: str, procedure: str, line: int) -> None:  # noqa: PLR0917
        if severity <= 10:
            return
        self._is_open = False
        last = self.parts[-1] if self.parts else None
        if isinstance(last, list):
            last.append(StatementError(number, text))
        else:
            self.parts.append([StatementError(number, text)])


class VirtualConnection:
    """A session whose caller waits for each statement while the world goes on."""

    def __init__(self, session: ClientSession, server: Server, *, timeout_s: int) -> None:
        self.session = session
        self.timeout = timeout_s  # s of virtual time for a statement; 0: none
        self._server = server
        self._is_closed = False

    def cursor(self) -> VirtualCursor:
        self._require_open()
        return VirtualCursor(self)

    def execute(self, text: str, *parameters: object) -> VirtualCursor:
        return self.cursor().execute(text, *parameters)

    def close(self) -> None:
        """Roll back what is not committed and end the session."""
        if not self._is_closed:
            self._is_closed = True
            self.session.close()

    def run(self, text: str, parameters: Sequence[object], is_cancelled: Callable[[], bool]) -> _Results:
        """Execute a statement or call in virtual time."""
        self._require_open()
        results = _Results()
        call = _CALL.fullmatch(text)
        if call is None:
            if parameters:
                raise _error("07002", "parameters are supported for {CALL ...} only")
            generator = self.session.batch(text, results)
        else:
            if (call["marks"] or "").count("?") != len(parameters):
                raise _error("07002", "COUNT field incorrect or syntax error")
            generator = self.session.rpc(call["name"], [_parameter(value) for value in parameters], results)
        state = self._server.finish(generator, timeout_s=float(self.timeout), is_cancelled=is_cancelled)
        if state:
            raise _error(state, _INTERRUPTIONS[state])
        return results

    def _require_open(self) -> None:
        if self._is_closed:
            raise _pyodbc().ProgrammingError("Attempt to use a closed connection.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: pyodbc would commit, and leave the connection open too."""


class VirtualCursor:
    """The results of a statement, one after the other."""

    runs_here = True  # for `lab.interruption`: a statement runs in this process and needs no thread

    def __init__(self, connection: VirtualConnection) -> None:
        self.connection = connection
        self.description: list[tuple[str]] | None = None  # names of the columns
        self.rowcount = -1
        self._parts: Iterator[ResultSet | int | list[StatementError]] = iter(())
        self._rows: Iterator[tuple[Any, ...]] = iter(())
        self._is_cancelled = False

    def execute(self, text: str, *parameters: object) -> Self:
        """Run a batch, or `{CALL procedure (?, ...)}` with parameters; raise the error if its first result is one."""
        self._is_cancelled = False
        results = self.connection.run(text, parameters, lambda: self._is_cancelled)
        self._parts = iter(results.parts)
        self.nextset()
        return self

    def nextset(self) -> bool:
        """Go to the next result and return True, or False if there is none; raise the error if it is one."""
        self.description, self.rowcount, self._rows = None, -1, iter(())
        part = next(self._parts, None)
        if part is None:
            return False
        if isinstance(part, list):
            raise _errors(part)
        if isinstance(part, int):
            self.rowcount = part
        else:
            self.description = [(column.name,) for column in part.columns]
            self._rows = iter(_converted(part))
        return True

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self._rows)

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(self._rows, None)

    def cancel(self) -> None:
        """Let the statement in progress fail with HY008; called from another thread."""
        self._is_cancelled = True

    def close(self) -> None:
        self._parts = iter(())
        self._rows = iter(())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# -- values ------------------------------------------------------------------------------------------------------------

_READERS: dict[str, Callable[[Any], Any]] = {
    "bit": bool,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    **dict.fromkeys(("datetime", "smalldatetime", "datetime2"), datetime.fromisoformat),
    **dict.fromkeys(("decimal", "numeric", "money", "smallmoney"), lambda value: Decimal(str(value))),
}


def _converted(part: ResultSet) -> list[tuple[Any, ...]]:
    readers = [_READERS.get(column.type.name) for column in part.columns]
    if not any(readers):
        return part.rows
    return [
        tuple(value if read is None or value is None else read(value) for value, read in zip(row, readers, strict=True))
        for row in part.rows
    ]


def _parameter(value: object) -> Parameter:
    """Give a value the type that the driver gives it."""
    if isinstance(value, bool):
        return Parameter("", BIT, int(value), False)
    if isinstance(value, int):
        return Parameter("", INT if -(2**31) <= value < 2**31 else BIGINT, value, False)
    if isinstance(value, float):
        return Parameter("", FLOAT, value, False)
    if isinstance(value, bytes | bytearray):
        return Parameter(
            "", SqlType("varbinary", MAX if len(value) > _LONG_BYTES else _LONG_BYTES), bytes(value), False
        )
    if value is None or isinstance(value, str):
        length = MAX if value is not None and len(value) > _LONG_CHARACTERS else _LONG_CHARACTERS
        return Parameter("", SqlType("nvarchar", length), None if value is None else str(value), False)
    raise _error("HY105", f"Invalid parameter type {type(value).__name__}")


# -- errors ------------------------------------------------------------------------------------------------------------

_INTERRUPTIONS = {
    "HYT00": "Query timeout expired",
    "HY008": "Operation canceled",
    "08S01": "Communication link failure",
}


def login_refused(error: SqlServerError) -> pyodbc.Error:
    """Return the error that `connect` raises."""
    return _errors([StatementError(error.number, error.text)])


def _errors(failures: Sequence[StatementError]) -> pyodbc.Error:
    (state, first), *others = [(_STATES.get(one.number, "42000"), one) for one in failures]
    more = [f"[{state}] {_DRIVER}[SQL Server]{one.text} ({one.number})" for state, one in others]
    return _error(state, f"[SQL Server]{first.text}", first.number, more)


def _error(state: str, text: str, number: int = 0, more: Sequence[str] = ()) -> pyodbc.Error:
    errors = _pyodbc()
    kinds: dict[str, type[pyodbc.Error]] = {
        "08": errors.OperationalError,
        "22": errors.DataError,
        "23": errors.IntegrityError,
        "28": errors.InterfaceError,
        "42": errors.ProgrammingError,
        "HY": errors.OperationalError if state.startswith("HYT") else errors.Error,
    }
    words = ";  ".join([f"[{state}] {_DRIVER}{text} ({number}) (SQLExecDirectW)", *more])
    return kinds.get(state[:2], errors.Error)(state, words)


def _pyodbc() -> Any:
    """Import pyodbc when an error needs it: pyodbc needs unixODBC, which the simulation does without."""
    import pyodbc  # noqa: PLC0415

    return pyodbc
