"""The lab in virtual time: whatever runs on a lab runs on this one, with the same scripts.

`open` gives empty instances, as every lab does; `harness.lab.link` installs the workload. Connections have the part of
pyodbc's interface that the harness uses. A statement runs as a task of its instance. The caller's `execute` returns
when the statement has ended in virtual time; everything else in the world goes on meanwhile. Results are those of the
driver: result sets, counts and errors in their order, values in pyodbc's types, errors in pyodbc's classes with the
text of Microsoft's driver.

Connections leave out: transactions of the driver (each statement commits), parameters of statements other than
`{CALL ...}`, output parameters, and the types of columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, cast

from harness.definitions.lab_kinds import SIMULATED
from harness.definitions.whitepaper import BROKER_PORT
from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import BIGINT, BIT, FLOAT, INT, MAX, Column, Parameter, ResultSink, SqlType
from harness.embedded.tsql.requests import ClientSession
from harness.lab.drivers import Connection, Driver, Secret
from harness.lab.error_remedies import error_text
from harness.lab.instances import PROGRAM, STATEMENT_TIMEOUT_S, Instance, InstanceDied, Lab, LabError, Login
from harness.simulation.parameters import Parameters
from harness.simulation.world import Server, World

# Names the instance where a connection string is wanted; nobody connects with it.
NO_DRIVER = Driver("microsoft", "none: virtual time", "simulation")
TDS_PORT, ADMIN_PORT = 1433, 1434

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


@dataclass
class SimulatedInstance(Instance):
    """One instance in a world. A caller's statement takes virtual time, in which all other sessions go on."""

    takes_turns: ClassVar[bool] = True

    server: Server = field(kw_only=True)

    @classmethod
    def on(cls, server: Server, database: str) -> SimulatedInstance:
        return cls(
            server.name,
            database,
            server.name,
            TDS_PORT,
            BROKER_PORT,
            NO_DRIVER,
            Login("sa", Secret("")),
            admin_port=ADMIN_PORT,
            server=server,
        )

    def connect(self, database: str | None = None, *, query_timeout_s: int | None = None) -> Connection:
        return cast("Connection", self._open(self.login, database, query_timeout_s))

    def connect_admin(self, database: str | None = None) -> Connection:
        return cast("Connection", self._open(self.login, database, None, is_administrative=True))

    def connect_client(self) -> VirtualConnection:
        """Connect with the login of the test clients, which may only send."""
        return self._open(self.client, None, None)

    def _open(
        self, login: Login | None, database: str | None, timeout_s: int | None, *, is_administrative: bool = False
    ) -> VirtualConnection:
        self.check()
        assert login is not None, f"{self.name} has no login for clients: the lab is not linked"
        try:
            session = self.server.session(
                login=login.user,
                database=database or self.database,
                program=PROGRAM,
                is_administrative=is_administrative,
            )
        except SqlServerError as error:
            raise LabError(f"{self.name}: {error_text(_errors([StatementError(error.number, error.text)]))}") from None
        timeout_s = STATEMENT_TIMEOUT_S if timeout_s is None else timeout_s
        return VirtualConnection(session, self.server, timeout_s=timeout_s)

    def out_of_reach(self) -> str:
        return "" if self.server.is_running else f"{self.name} is down"

    def check(self) -> None:
        if reason := self.out_of_reach():
            raise InstanceDied(reason)


@dataclass
class SimulatedLab(Lab):
    """A lab with its world."""

    world: World = field(kw_only=True)


def open(
    parameters: Parameters, *, version: str, initiators: int, seed: int, is_recoverable: bool = False
) -> SimulatedLab:
    """Open a lab with a target and some initiators, all empty; `is_recoverable` as in `World`."""
    world = World(seed, parameters, is_recoverable=is_recoverable)
    numbers = range(1, initiators + 1)
    return SimulatedLab(
        SIMULATED,
        version,
        SimulatedInstance.on(world.server("target", version), "SSBTarget"),
        [SimulatedInstance.on(world.server(f"initiator-{n}", version), f"SSBInitiator{n}") for n in numbers],
        Path(),
        clock=world,
        world=world,
    )


# -- connections -------------------------------------------------------------------------------------------------------


class StatementError(NamedTuple):
    """An error that a statement raised."""

    number: int
    text: str


@dataclass(slots=True)
class ResultSet:
    columns: Sequence[Column]
    rows: list[tuple[Any, ...]] = field(default_factory=list)


class _Results(ResultSink):
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
            generator = self.session.rpc(call["name"], [parameter(value) for value in parameters], results)
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

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        return list(islice(self._rows, size))

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


def parameter(value: object) -> Parameter:
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


def _errors(failures: Sequence[StatementError]) -> Exception:
    (state, first), *other_failures = [(_STATES.get(failure.number, "42000"), failure) for failure in failures]
    more = [f"[{state}] {_DRIVER}[SQL Server]{failure_.text} ({failure_.number})" for state, failure_ in other_failures]
    return _error(state, f"[SQL Server]{first.text}", first.number, more)


def _error(state: str, text: str, number: int = 0, more: Sequence[str] = ()) -> Exception:
    errors = _pyodbc()
    base: type[Exception] = errors.Error
    kinds: dict[str, type[Exception]] = {
        "08": errors.OperationalError,
        "22": errors.DataError,
        "23": errors.IntegrityError,
        "28": errors.InterfaceError,
        "42": errors.ProgrammingError,
        "HY": errors.OperationalError if state.startswith("HYT") else base,
    }
    words = ";  ".join([f"[{state}] {_DRIVER}{text} ({number}) (SQLExecDirectW)", *more])
    return kinds.get(state[:2], base)(state, words)


def _pyodbc() -> Any:
    """Import pyodbc when an error needs it: pyodbc needs unixODBC, which the simulation does without."""
    import pyodbc  # noqa: PLC0415

    return pyodbc
