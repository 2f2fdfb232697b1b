"""A TDS server whose session gives canned answers: the wire without T-SQL.

It runs in its own process because pyodbc does not release the interpreter lock in every call. The first word of a batch
or the name of a procedure chooses the answer; `Echo` returns its parameters as a result set, so that tests can follow
values through a driver in both directions. `--capture` writes the bytes that arrive to stderr, as hex; `--encryption`
offers TLS.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.realtime import RealTimeDriver, SystemClock
from harness.embedded.runtime.tasks import SECOND, Delay, Waiting
from harness.embedded.server.authentication import self_signed_context
from harness.embedded.server.tds_listener import TdsListener, TdsProtocol
from harness.embedded.sqltypes import INT, Column, Parameter, SqlType
from harness.embedded.tds.connection import ServerIdentity
from harness.embedded.tds.login import Login7
from harness.embedded.tds.response import Response
from harness.embedded.tsql.catalog import VIEWS
from harness.embedded.tsql.catalog.odbc_views import DATA_TYPES, DataTypeInfo
from harness.embedded.tsql.catalog.view import ViewColumn

PASSWORD = "Canned!1"
NVARCHAR = SqlType("nvarchar", length=40)


TRANSACTION_IDS = itertools.count(1)


class CannedTransaction(NamedTuple):
    id: int
    committed: bool = True


class CannedSession:
    """Answers from a table, and keeps a log of requests, which `LOG` returns."""

    is_over = False
    closed = 0  # sessions closed so far
    waiting = 0  # requests that wait now, in all sessions

    def __init__(self, spid: int) -> None:
        self.spid = spid
        self.tx: CannedTransaction | None = None
        self.log: list[str] = []
        self._prepared: dict[int, tuple[str, bool]] = {}  # handle: text or procedure, whether it is a procedure

    def batch(self, text: str, sink: Response) -> Waiting[None]:
        for statement in text.split(";"):
            word = statement.split()[0].upper() if statement.strip() else ""
            if word:
                yield from BATCHES[word](self, statement, sink)

    def rpc(self, name: str, parameters: Sequence[Parameter], sink: Response) -> Waiting[None]:
        if not name.startswith("[sys].sp_datatype_info"):
            self.log.append(name)
        answer = PROCEDURES.get(name.rpartition(".")[2])
        if answer is None:
            raise SqlServerError(2812, name)
        yield from answer(self, parameters, sink)

    def reset(self) -> None:
        self.log.append("reset")
        self.tx = None

    def close(self) -> None:
        CannedSession.closed += 1

    # Batches

    def _select(self, statement: str, sink: Response) -> Waiting[None]:
        sink.columns([Column("number", INT, nullable=False), Column("name", NVARCHAR)])
        sink.rows([(1, "één"), (2, None)])
        sink.done(2, in_procedure=False)
        yield from ()

    def _rows(self, statement: str, sink: Response) -> Waiting[None]:
        """ROWS n: n rows of an int and a varbinary(200)."""
        count = int(statement.split()[1])
        sink.columns([Column("number", INT, nullable=False), Column("body", SqlType("varbinary", length=200))])
        for at in range(0, count, 1000):
            sink.rows([(number, bytes(200)) for number in range(at, min(at + 1000, count))])
            yield Delay(0)
        sink.done(count, in_procedure=False)

    def _update(self, statement: str, sink: Response) -> Waiting[None]:
        sink.done(7, in_procedure=False)
        yield from ()

    def _print(self, statement: str, sink: Response) -> Waiting[None]:
        sink.message(0, 0, 1, statement.strip()[6:], "", 1)
        yield from ()

    def _fail(self, statement: str, sink: Response) -> Waiting[None]:
        """FAIL n: raise error n."""
        yield from ()
        raise SqlServerError(int(statement.split()[1]), "it")

    def _break(self, statement: str, sink: Response) -> Waiting[None]:
        yield from ()
        raise RuntimeError("a bug of the server")

    def _wait(self, statement: str, sink: Response) -> Waiting[None]:
        """WAIT n: wait n seconds, then select."""
        self.log.append("waiting")
        CannedSession.waiting += 1
        try:
            yield Delay(int(statement.split()[1]) * SECOND)
        finally:
            self.log.append("waited")
            CannedSession.waiting -= 1
        yield from self._select(statement, sink)

    def _begin(self, statement: str, sink: Response) -> Waiting[None]:
        self.tx = CannedTransaction(next(TRANSACTION_IDS))
        self.log.append("begin")
        yield from ()

    def _end(self, statement: str, sink: Response) -> Waiting[None]:
        self.log.append(statement.split(maxsplit=1)[0].lower())
        self.tx = None
        yield from ()

    def _log(self, statement: str, sink: Response) -> Waiting[None]:
        sink.columns([Column("entry", NVARCHAR)])
        sink.rows([(entry,) for entry in self.log])
        sink.done(len(self.log), in_procedure=False)
        yield from ()

    def _counts(self, statement: str, sink: Response) -> Waiting[None]:
        sink.columns([Column("closed", INT), Column("waiting", INT)])
        sink.rows([(CannedSession.closed, CannedSession.waiting)])
        sink.done(1, in_procedure=False)
        yield from ()

    def _use(self, statement: str, sink: Response) -> Waiting[None]:
        sink.database_changed("master", statement.split()[1])
        yield from ()

    def _nothing(self, statement: str, sink: Response) -> Waiting[None]:
        yield from ()

    def _datatype_info_batch(self, statement: str, sink: Response) -> Waiting[None]:
        yield from self._datatype_info([Parameter("", INT, int(statement.split()[1].partition(",")[0]), False)], sink)

    # Procedures

    def _datatype_info(self, parameters: Sequence[Parameter], sink: Response) -> Waiting[None]:
        """The first question of every driver."""
        given = [info for info in DATA_TYPES if info.odbc_type == parameters[0].value]
        sink.columns(DATATYPE_INFO.columns)
        sink.rows([[_value(member, info) for member in DATATYPE_INFO.members] for info in given])
        sink.done(len(given), in_procedure=True)
        sink.return_status(0)
        yield from ()

    def _echo(self, parameters: Sequence[Parameter], sink: Response) -> Waiting[None]:
        sink.columns([Column(parameter.name or f"p{at}", parameter.type) for at, parameter in enumerate(parameters)])
        sink.rows([[parameter.value for parameter in parameters]])
        sink.done(1, in_procedure=True)
        sink.return_status(0)
        yield from ()

    def _quiet(self, parameters: Sequence[Parameter], sink: Response) -> Waiting[None]:
        sink.return_status(0)
        yield from ()

    def _two_sets(self, parameters: Sequence[Parameter], sink: Response) -> Waiting[None]:
        yield from self._select("", sink)
        sink.done(3, in_procedure=True)
        yield from self._select("", sink)
        sink.return_status(5)

    def _fail_late(self, parameters: Sequence[Parameter], sink: Response) -> Waiting[None]:
        yield from self._select("", sink)
        raise SqlServerError(8426, "it", procedure="FailLate", line=3)

    def _prepexec(self, parameters: Sequence[Parameter], sink: Response) -> Waiting[None]:
        yield from self._execute_new(parameters[2].value, False, parameters[3:], sink)

    def _prepexecrpc(self, parameters: Sequence[Parameter], sink: Response) -> Waiting[None]:
        yield from self._execute_new(parameters[1].value, True, parameters[2:], sink)

    def _prepare(self, parameters: Sequence[Parameter], sink: Response) -> Waiting[None]:
        handle = len(self._prepared) + 1
        self._prepared[handle] = parameters[2].value, False
        sink.return_status(0)
        sink.return_value(0, "", INT, handle)
        yield from ()

    def _execute_new(
        self, text: str, is_procedure: bool, parameters: Sequence[Parameter], sink: Response
    ) -> Waiting[None]:
        handle = len(self._prepared) + 1
        self._prepared[handle] = text, is_procedure
        yield from self._run(handle, parameters, sink)
        sink.return_value(0, "", INT, handle)

    def _execute(self, parameters: Sequence[Parameter], sink: Response) -> Waiting[None]:
        yield from self._run(parameters[0].value, parameters[1:], sink)

    def _run(self, handle: int, parameters: Sequence[Parameter], sink: Response) -> Waiting[None]:
        """Run the prepared procedure, or the one named in the prepared text `EXEC name @P1, ...`."""
        text, is_procedure = self._prepared[handle]
        name = text if is_procedure else text.replace("EXEC", "").split()[0]
        yield from self.rpc(name, parameters, sink)


DATATYPE_INFO = VIEWS["spt_datatype_info"]


def _value(member: ViewColumn, info: DataTypeInfo) -> Any:
    return json.loads(member.constant.lower()) if member.constant else member.value(info)


BATCHES: dict[str, Any] = {
    "SP_DATATYPE_INFO_100": CannedSession._datatype_info_batch,
    "SELECT": CannedSession._select,
    "ROWS": CannedSession._rows,
    "UPDATE": CannedSession._update,
    "PRINT": CannedSession._print,
    "FAIL": CannedSession._fail,
    "BREAK": CannedSession._break,
    "WAIT": CannedSession._wait,
    "BEGIN": CannedSession._begin,
    "COMMIT": CannedSession._end,
    "ROLLBACK": CannedSession._end,
    "SAVE": CannedSession._nothing,
    "SET": CannedSession._nothing,
    "IF": CannedSession._end,
    "LOG": CannedSession._log,
    "COUNTS": CannedSession._counts,
    "USE": CannedSession._use,
}
PROCEDURES: dict[str, Any] = {
    "sp_datatype_info_100": CannedSession._datatype_info,
    "Echo": CannedSession._echo,
    "Quiet": CannedSession._quiet,
    "SendMessage": CannedSession._quiet,
    "TwoSets": CannedSession._two_sets,
    "FailLate": CannedSession._fail_late,
    "sp_prepexec": CannedSession._prepexec,
    "sp_prepexecrpc": CannedSession._prepexecrpc,
    "sp_prepare": CannedSession._prepare,
    "sp_execute": CannedSession._execute,
    "sp_unprepare": CannedSession._quiet,
}


def admit(login: Login7, spid: int) -> tuple[CannedSession, str]:
    if login.user != "sa" or login.password != PASSWORD:
        raise SqlServerError(18456, login.user)
    return CannedSession(spid), login.database or "master"


async def serve(*, encryption: bool, capture: bool) -> None:
    loop = asyncio.get_running_loop()
    driver = RealTimeDriver(SystemClock(), lambda task, error: print(task.name, repr(error), file=sys.stderr), loop)
    listener = TdsListener(
        ServerIdentity("canned", (10, 0, 6000)),
        admit,
        scheduler=driver.scheduler,
        driver=driver,
        tls=self_signed_context("canned") if encryption else None,
    )
    if capture:
        _capture()
    port = await listener.listen("127.0.0.1", 0)
    print(json.dumps({"port": port}), flush=True)
    ended = asyncio.Event()
    # Standard input ends with the parent, and ends this process.
    threading.Thread(target=lambda: (sys.stdin.read(), loop.call_soon_threadsafe(ended.set)), daemon=True).start()
    await ended.wait()
    await listener.close()


def _capture() -> None:
    """Print the bytes of each `data_received`."""
    received = TdsProtocol.data_received

    def printing(self: TdsProtocol, data: bytes) -> None:
        print(data.hex(), file=sys.stderr, flush=True)
        received(self, data)

    TdsProtocol.data_received = printing  # type: ignore[method-assign]


@contextlib.contextmanager
def canned_server(*arguments: str) -> Iterator[int]:
    """Start a canned server and yield its port."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.embedded.server.canned", *arguments],
            cwd=Path(__file__).parents[3],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if "--capture" in arguments else log,
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                log.seek(0)
                raise RuntimeError(log.read().decode())
            yield json.loads(line)["port"]
        finally:
            process.stdin.close()
            try:
                process.wait(120)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--encryption", action="store_true")
    parser.add_argument("--capture", action="store_true")
    asked = parser.parse_args()
    asyncio.run(serve(encryption=asked.encryption, capture=asked.capture))
