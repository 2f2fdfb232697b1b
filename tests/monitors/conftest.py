"""One embedded instance for the folder, and databases with services in it."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pyodbc
import pytest

from harness.lab import drivers, embedded_instances
from harness.lab.instances import Instance
from harness.monitors import state

_NUMBERS = itertools.count(1)

Run = Callable[..., pyodbc.Connection]


@pytest.fixture(scope="session")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    directory: Path = tmp_path_factory.mktemp("monitors")
    with embedded_instances.running(
        version="2008", initiators=0, directory=directory, driver=drivers.choose("microsoft")
    ) as lab:
        yield lab.target


@pytest.fixture(scope="module")
def database(instance: Instance) -> Iterator[str]:
    """A new database with the service Sender, from which messages come."""
    name = f"app{next(_NUMBERS)}"
    connection = instance.connect("master")
    connection.execute(f"CREATE DATABASE {name};")
    connection.execute(f"USE {name};")
    connection.execute("CREATE QUEUE dbo.Sender; CREATE SERVICE [Sender] ON QUEUE dbo.Sender;")
    connection.execute("USE master;")  # who is in a database is disconnected by ROLLBACK IMMEDIATE
    try:
        yield name
    finally:
        connection.execute(f"ALTER DATABASE {name} SET SINGLE_USER WITH ROLLBACK IMMEDIATE; DROP DATABASE {name};")
        connection.close()


@pytest.fixture(scope="module")
def at_once() -> Iterator[None]:
    """What lasts is waited for in one test; elsewhere nothing needs to last."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "THRESHOLD_S", 0.0)
        yield


def send(to_service: str, times: int = 1, *, encryption: str = "OFF") -> str:
    """Statements that send messages in one new dialog."""
    sends = " SEND ON CONVERSATION @h (0x01);" * times
    return (
        f"DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE [Sender] TO SERVICE N'{to_service}' "
        f"WITH ENCRYPTION = {encryption};{sends}"
    )
