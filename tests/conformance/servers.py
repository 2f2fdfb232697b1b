"""The servers that the conformance tests run on: an embedded instance, and one of SQL Server.

SQL Server is a container that testcontainers starts, if a Docker engine answers and the licence is accepted
(`ACCEPT_EULA=Y`, in the environment or in `.env`), or a server that runs already:

    CONFORMANCE_IMAGE      image of the container; mcr.microsoft.com/mssql/server:2022-latest
    CONFORMANCE_SERVER     host,port of a running server; the tests create databases on it and drop them
    CONFORMANCE_USER       login on that server: sa
    CONFORMANCE_PASSWORD   its password
"""

import contextlib
import functools
import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyodbc
import pytest

from harness.lab import compose, link
from harness.lab.drivers import Driver, Secret, choose
from harness.lab.instances import Lab, Login
from harness.lab.processes import Child

IMAGE = "mcr.microsoft.com/mssql/server:2022-latest"
PORT = 1433
NAME = "conformance"

# The parameter of the fixture `server` for SQL Server. The first test waits for the container, perhaps for its image.
ON_SQLSERVER = pytest.param("sqlserver", marks=[pytest.mark.sqlserver, pytest.mark.timeout(900)])


class NoServer(Exception):
    """SQL Server is not available, or did not start: one line that says why."""


@dataclass(frozen=True)
class Server:
    """A running instance. `origin` says where it runs, without any secret."""

    kind: str
    origin: str
    host: str
    port: int
    login: Login

    def connection_string(self, driver: Driver, database: str) -> Secret:
        return driver.connection_string(
            host=self.host,
            port=self.port,
            user=self.login.user,
            password=self.login.password,
            database=database,
            program="tests",
        )


@contextlib.contextmanager
def embedded(folder: Path) -> Iterator[Server]:
    password = Secret(secrets.token_urlsafe(16))
    command = [sys.executable, "-m", "harness", "serve", "--name", NAME, "--port", "0", "--data", str(folder)]
    environment = {"HARNESS_PASSWORD": password}
    with Child(NAME, command, log=Path(folder, "log"), environment=environment, pipe_stdout=True) as child:
        ready = json.loads(child.read_line(timeout_s=30))
        yield Server("embedded", "harness serve", ready["host"], ready["port"], Login("sa", password))


@contextlib.contextmanager
def sqlserver() -> Iterator[Server]:
    """SQL Server; NoServer if it is not available."""
    if reason := missing():
        raise NoServer(reason)
    if place := os.environ.get("CONFORMANCE_SERVER"):
        with _existing(place) as server:
            yield server
    else:
        from tests.conformance import container  # noqa: PLC0415  docker-py: only where it is used

        with container.run(os.environ.get("CONFORMANCE_IMAGE", IMAGE)) as server:
            yield server


@contextlib.contextmanager
def linked(folder: Path) -> Iterator[Lab]:
    """A target and an initiator of SQL Server, in a container each and linked; NoServer if they are not available."""
    if os.environ.get("CONFORMANCE_SERVER"):
        raise NoServer("CONFORMANCE_SERVER names one server: linked ones are containers, leave it out")
    if reason := missing():
        raise NoServer(reason)
    from tests.conformance import container  # noqa: PLC0415  docker-py: only where it is used

    with container.pair(os.environ.get("CONFORMANCE_IMAGE", IMAGE), folder) as lab:
        link.link(lab)
        yield lab


@functools.cache
def missing() -> str | None:
    """Why SQL Server is not available, in one line; None if it is. Asks the Docker engine once in each process."""
    if os.environ.get("CONFORMANCE_SERVER"):
        return (
            None
            if os.environ.get("CONFORMANCE_PASSWORD")
            else "CONFORMANCE_SERVER is set without CONFORMANCE_PASSWORD: set both"
        )
    if not compose.engine_answers():
        return "no Docker engine answers: start Docker, or name a server with CONFORMANCE_SERVER=host,port"
    if compose.value("ACCEPT_EULA").upper() != "Y":
        return f"SQL Server's licence terms ({compose.LICENCE}) are not accepted: set ACCEPT_EULA=Y to accept them"
    return None


@contextlib.contextmanager
def _existing(place: str) -> Iterator[Server]:
    host, _, port = place.partition(",")
    login = Login(os.environ.get("CONFORMANCE_USER", "sa"), Secret(os.environ["CONFORMANCE_PASSWORD"]))
    server = Server("sqlserver", "a server given by CONFORMANCE_SERVER", host, int(port or PORT), login)
    wait_until_ready(server, timeout_s=0)  # no second try: some servers lock a login after a few wrong passwords
    yield server


def wait_until_ready(server: Server, timeout_s: float, death: Callable[[], str | None] = lambda: None) -> None:
    """Wait until a query is answered; NoServer if the server has ended or the time is up."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            connection = pyodbc.connect(server.connection_string(choose(), "master"), timeout=5)
            connection.execute("SELECT 1;").fetchval()
            connection.close()
        except pyodbc.Error as error:
            if reason := death():
                raise NoServer(reason) from None
            if time.monotonic() > deadline:
                after = f" after {timeout_s:g} s" if timeout_s else ""
                raise NoServer(f"{server.origin} does not answer{after}: {one_line(error)}") from None
            time.sleep(0.5)
        else:
            return


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())
