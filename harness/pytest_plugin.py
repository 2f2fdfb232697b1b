"""A pytest plugin: the embedded Service Broker for the tests of other projects (`embedded/in-your-tests.md`).

pytest imports it in each run in an environment that has the harness, so it imports the rest when a test asks for the
fixture.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote

import pytest

if TYPE_CHECKING:
    import pyodbc

HOST, USER = "127.0.0.1", "sa"
TAIL = 4000  # characters of the error log that a failed test shows


@dataclass(frozen=True)
class ServiceBroker:
    """A database of its own for one test, in the instance that all tests share; its broker is enabled."""

    instance: ServiceBrokerInstance
    database: str

    @property
    def odbc(self) -> str:
        """The connection string for pyodbc: ODBC, with the best driver of this machine."""
        return self.instance.connection_string(self.database)

    @property
    def mssql_python(self) -> str:
        """The connection string for mssql-python."""
        return (
            f"SERVER={HOST},{self.instance.port};DATABASE={self.database};UID={USER};PWD={self.instance.password};"
            "Encrypt=no;TrustServerCertificate=yes"
        )

    @property
    def pymssql(self) -> dict[str, str]:
        """Arguments for `pymssql.connect(**service_broker.pymssql)`."""
        instance = self.instance
        return {
            "server": HOST,
            "port": str(instance.port),
            "user": USER,
            "password": instance.password,
            "database": self.database,
        }

    def sqlalchemy(self, driver: str = "pyodbc") -> str:
        """The URL for SQLAlchemy with one of its drivers `pyodbc`, `pymssql` and `mssqlpython`."""
        if driver == "pyodbc":
            return f"mssql+pyodbc:///?odbc_connect={quote(self.odbc)}"
        options = "?Encrypt=no&TrustServerCertificate=yes" if driver == "mssqlpython" else ""
        return f"mssql+{driver}://{USER}:{self.instance.password}@{HOST}:{self.instance.port}/{self.database}{options}"

    def connect(self) -> pyodbc.Connection:
        """Open a connection with autocommit through pyodbc."""
        return self.instance.connect(self.database)

    def run_script(self, path: Path | str, **variables: str) -> None:
        """Run a file of T-SQL in the database as sqlcmd does: batches end at GO, `$(name)` is the variable `name`."""
        from harness.lab import scripts  # noqa: PLC0415

        connection = self.connect()
        try:
            scripts.run(connection, Path(path), variables)
        finally:
            connection.close()

    def advance(self, seconds: float) -> None:
        """Move the server's clock forward, so that what is due in these seconds happens now: conversation timers,
        lifetimes, WAITFOR, delays. Return when this, and what it began, is done: activated procedures too.
        """
        self.instance.advance(seconds)


class ServiceBrokerInstance:
    """One embedded instance: a child process that ends with this one."""

    def __init__(self, folder: Path, version: str | None) -> None:
        if sys.platform != "linux":
            pytest.fail("the embedded Service Broker needs Linux: WSL2 on Windows, Docker on a Mac", pytrace=False)
        self.password = secrets.token_urlsafe(24)
        self._data, self._log = folder / "data", folder / "instance.log"
        words = ["--port", "0", "--data", str(self._data), "--with-parent", "--throwaway"]
        words += ["--version", version] if version else []
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "harness", "serve", *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=os.environ | {"HARNESS_PASSWORD": self.password},
                start_new_session=True,  # Ctrl-C reaches pytest alone
            )
        # While it starts: what `connect` needs takes as long to import.
        from harness.lab import drivers  # noqa: PLC0415

        self._drivers = drivers
        self.port = self._answer()["port"]

    def connection_string(self, database: str) -> str:
        driver = self._drivers.choose()
        where = {"host": HOST, "port": self.port, "user": USER, "password": self.password}
        return str(driver.connection_string(database=database, program="pytest", **where))

    def connect(self, database: str) -> pyodbc.Connection:
        if self._process.poll() is not None:
            self._fail()
        self._drivers.check_manager()
        return self._drivers.connect(self._drivers.Secret(self.connection_string(database)))

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError(f"the clock only goes forward: {seconds}")
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{seconds}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            self._fail()
        answer = self._answer()
        if "error" in answer:
            raise TimeoutError(answer["error"])

    def error_log(self) -> str:
        """Everything in the error log so far: what activated procedures print and raise stands there alone."""
        return (self._data / "ERRORLOG").read_text(encoding="utf-8")

    def stop(self) -> None:
        self._process.communicate()  # it ends when its standard input does

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            self._fail()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _fail(self) -> NoReturn:
        from harness.lab.processes import last_line  # noqa: PLC0415

        last = f"; the last line of its log: {line}" if (line := last_line(self._log)) else ""
        pytest.fail(f"the embedded Service Broker ended with exit code {self._process.wait()}{last}", pytrace=False)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("service_broker_version", "SQL Server's version that the fixture service_broker plays: 2005 to 2025")


@pytest.fixture(scope="session")
def service_broker_instance(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[ServiceBrokerInstance]:
    """The instance that the tests of a session share (with pytest-xdist, those of a worker)."""
    folder = tmp_path_factory.mktemp("service_broker")
    instance = ServiceBrokerInstance(folder, pytestconfig.getini("service_broker_version") or None)
    yield instance
    instance.stop()


@pytest.fixture
def service_broker(service_broker_instance: ServiceBrokerInstance) -> Iterator[ServiceBroker]:
    """An embedded Service Broker with a database that only this test has. Databases that the test makes go with it;
    logins, certificates and endpoints, which belong to the instance, stay."""
    broker = ServiceBroker(service_broker_instance, f"test_{secrets.token_hex(4)}")
    connection = service_broker_instance.connect("master")
    before = {row.name for row in connection.execute("SELECT name FROM sys.databases")}
    connection.execute(f"CREATE DATABASE {broker.database}")
    yield broker
    for row in connection.execute("SELECT name FROM sys.databases").fetchall():
        if row.name not in before:
            connection.execute(f"ALTER DATABASE [{row.name}] SET SINGLE_USER WITH ROLLBACK IMMEDIATE")
            connection.execute(f"DROP DATABASE [{row.name}]")
    connection.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the error log of a test that fails: what an activated procedure raises is seen nowhere else."""
    report = yield
    broker = getattr(item, "funcargs", {}).get("service_broker")
    if report.failed and isinstance(broker, ServiceBroker) and (text := broker.instance.error_log()):
        report.sections.append(("end of the Service Broker's error log", text[-TAIL:]))
    return report
