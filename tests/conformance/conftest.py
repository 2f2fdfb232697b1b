"""One embedded instance for the whole folder, every test once per ODBC driver and each in a database of its own."""

import itertools
import json
import secrets
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyodbc
import pytest

from harness.lab.drivers import Driver, NoDriver, Secret, choose
from harness.lab.processes import Child

_NUMBERS = itertools.count(1)
_SERVICES = """
CREATE MESSAGE TYPE [//Test/Message] VALIDATION = NONE;
CREATE CONTRACT [//Test/Contract] ([//Test/Message] SENT BY ANY);
CREATE QUEUE dbo.InitiatorQueue;
CREATE QUEUE dbo.TargetQueue;
CREATE SERVICE [//Test/Initiator] ON QUEUE dbo.InitiatorQueue;
CREATE SERVICE [//Test/Target] ON QUEUE dbo.TargetQueue ([//Test/Contract]);
"""


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Driver, str], Secret]]:
    """A running instance, as the function that makes connection strings for it."""
    folder = tmp_path_factory.mktemp("conformance")
    password = Secret(secrets.token_urlsafe(16))
    command = [sys.executable, "-m", "harness", "serve", "--name", "conformance", "--port", "0", "--data", str(folder)]
    environment = {"HARNESS_SA_PASSWORD": password}
    with Child("conformance", command, log=Path(folder, "log"), environment=environment, pipe_stdout=True) as child:
        ready = json.loads(child.read_line(timeout_s=30))

        def connection_string(driver: Driver, database: str) -> Secret:
            return driver.connection_string(
                host=ready["host"], port=ready["port"], user="sa", password=password, database=database, program="tests"
            )

        yield connection_string


@pytest.fixture(scope="session", params=["microsoft", "freetds"])
def driver(request: pytest.FixtureRequest) -> Driver:
    try:
        return choose(request.param)
    except NoDriver as missing:
        pytest.skip(str(missing))


@pytest.fixture
def connect(server, driver) -> Iterator[Callable[..., pyodbc.Connection]]:
    """Opens connections to a new database, which is dropped at the end."""
    pyodbc.pooling = False
    database = f"conformance{next(_NUMBERS)}"
    administrator = pyodbc.connect(server(driver, "master"), autocommit=True)
    administrator.execute(f"CREATE DATABASE [{database}];")
    opened: list[pyodbc.Connection] = []

    def open_connection(*, autocommit: bool = True) -> pyodbc.Connection:
        opened.append(pyodbc.connect(server(driver, database), autocommit=autocommit))
        return opened[-1]

    yield open_connection
    for connection in opened:
        connection.close()
    administrator.execute(f"ALTER DATABASE [{database}] SET SINGLE_USER WITH ROLLBACK IMMEDIATE;")
    administrator.execute(f"DROP DATABASE [{database}];")
    administrator.close()


@pytest.fixture
def connection(connect) -> pyodbc.Connection:
    return connect()


@pytest.fixture
def services(connection) -> pyodbc.Connection:
    """A connection to a database with two services, [//Test/Initiator] and [//Test/Target], and their queues."""
    for statement in _SERVICES.strip().splitlines():
        connection.execute(statement)
    return connection
