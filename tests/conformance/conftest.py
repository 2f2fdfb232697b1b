"""One instance of each kind of server for the whole folder. Every test runs once for each server and ODBC driver, in its
own database."""

import itertools
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pyodbc
import pytest

from harness.lab.drivers import Driver, NoDriver, choose
from tests.conformance import servers
from tests.conformance.servers import ON_SQLSERVER, NoServer, Server
from tests.parity.journal import RECORDER, Journal
from tests.parity.recording import recording

_HERE = Path(__file__).parent
_NUMBERS = itertools.count(1)
_STATEMENT_S_MAX = 60  # a server ends what does not end by itself
_SESSION = secrets.token_hex(4)
_SERVICES = """
CREATE MESSAGE TYPE [//Test/Message] VALIDATION = NONE;
CREATE CONTRACT [//Test/Contract] ([//Test/Message] SENT BY ANY);
CREATE QUEUE dbo.InitiatorQueue;
CREATE QUEUE dbo.TargetQueue;
CREATE SERVICE [//Test/Initiator] ON QUEUE dbo.InitiatorQueue;
CREATE SERVICE [//Test/Target] ON QUEUE dbo.TargetQueue ([//Test/Contract]);
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", metavar="FILE", help="write every statement and its answer to FILE (tests/parity)")


def pytest_configure(config: pytest.Config) -> None:
    if path := config.getoption("record", None):
        config.pluginmanager.register(Journal(Path(path)), Journal.NAME)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests of SQL Server by a mark if there is no SQL Server; pytest reports them in one line for each file."""
    on_sqlserver = [item for item in items if item.path.parent == _HERE and item.get_closest_marker("sqlserver")]
    if on_sqlserver and (reason := servers.missing()):
        for item in on_sqlserver:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session", params=["embedded", ON_SQLSERVER])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if request.param == "embedded":
        with servers.embedded(tmp_path_factory.mktemp("conformance")) as server:
            yield server
        return
    try:
        with servers.sqlserver() as server:
            yield server
    except NoServer as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session", params=["microsoft", "freetds"])
def driver(request: pytest.FixtureRequest) -> Driver:
    try:
        return choose(request.param)
    except NoDriver as missing:
        pytest.skip(str(missing))


@pytest.fixture
def connect(request, server, driver) -> Iterator[Callable[..., pyodbc.Connection]]:
    """Open connections to a new database, and drop it after the test."""
    database = f"harness_conformance_{_SESSION}_{next(_NUMBERS)}"
    administrator = pyodbc.connect(server.connection_string(driver, "master"), autocommit=True)
    administrator.execute(f"CREATE DATABASE [{database}];")
    opened: list[pyodbc.Connection] = []
    journal = request.config.pluginmanager.get_plugin(Journal.NAME)

    def open_connection(*, autocommit: bool = True) -> pyodbc.Connection:
        opened.append(pyodbc.connect(server.connection_string(driver, database), autocommit=autocommit))
        opened[-1].timeout = _STATEMENT_S_MAX
        return opened[-1] if recorder is None else recorder.connection(opened[-1])

    try:
        if journal is None:
            recorder = None
            yield open_connection
        else:
            with recording() as recorder:
                journal.introduce(server, driver, administrator)
                request.node.stash[RECORDER] = recorder, journal.names(database)
                yield open_connection
    finally:
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
