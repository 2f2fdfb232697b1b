from collections.abc import Callable, Iterator
from typing import Any

import pyodbc
import pytest

from harness.lab import drivers
from tests.embedded.server.canned import PASSWORD, canned_server

Connect = Callable[..., pyodbc.Connection]


@pytest.fixture(scope="session")
def canned_port() -> Iterator[int]:
    with canned_server() as port:
        yield port


@pytest.fixture(params=["microsoft", "freetds"])
def driver(request: pytest.FixtureRequest) -> drivers.Driver:
    try:
        return drivers.choose(request.param)
    except drivers.NoDriver as reason:
        pytest.skip(str(reason))


@pytest.fixture
def connection_string(driver: drivers.Driver, canned_port: int) -> Callable[..., str]:
    def make(*, password: str = PASSWORD, database: str = "lab", port: int = canned_port) -> str:
        return driver.connection_string(
            host="127.0.0.1", port=port, user="sa", password=password, database=database, program="tests"
        )

    return make


@pytest.fixture
def connect(connection_string: Callable[..., str]) -> Iterator[Connect]:
    """Open connections to the canned server, and close them after the test."""
    opened: list[pyodbc.Connection] = []

    def open_(*, autocommit: bool = True, **options: Any) -> pyodbc.Connection:
        opened.append(pyodbc.connect(connection_string(**options), autocommit=autocommit, timeout=120))
        return opened[-1]

    yield open_
    for connection in opened:
        connection.close()
