"""What a connection in virtual time gives, against what pyodbc gives."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pyodbc
import pytest

from harness.files.script_text import ScriptError
from harness.lab import scripts
from harness.simulation.parameters import read
from harness.simulation.simulated_lab import SimulatedInstance
from harness.simulation.world import World

PAPER = read("paper")


@pytest.fixture
def world() -> World:
    return World(1, PAPER)


@pytest.fixture
def instance(world: World) -> SimulatedInstance:
    return SimulatedInstance.on(world.server("target", "2008"), "master")


@pytest.fixture
def connection(instance: SimulatedInstance) -> Iterator[Any]:
    with instance.connect() as opened:
        yield opened


def test_values_have_the_types_of_pyodbc(connection: Any) -> None:
    cursor = connection.execute(
        "SELECT CAST(1 AS bit) AS b, CAST('2024-05-06T07:08:09.1234567' AS datetime2(7)) AS d, 0x0102 AS x, N'é' AS n,"
        " CAST('6f9619ff-8b86-d011-b42d-00c04fc964ff' AS uniqueidentifier) AS g, CAST(NULL AS int) AS i;"
    )
    assert [column[0] for column in cursor.description] == ["b", "d", "x", "n", "g", "i"]
    assert cursor.fetchall() == [
        (True, datetime(2024, 5, 6, 7, 8, 9, 123456), b"\1\2", "é", "6F9619FF-8B86-D011-B42D-00C04FC964FF", None)
    ]


def test_results_come_one_after_the_other(connection: Any) -> None:
    cursor = connection.execute("SELECT 1; DECLARE @t TABLE (i int); INSERT INTO @t VALUES (7), (8); SELECT i FROM @t;")
    assert cursor.fetchone() == (1,)
    assert cursor.nextset() and cursor.description is None and cursor.rowcount == 2
    assert cursor.nextset() and cursor.fetchall() == [(7,), (8,)]
    assert not cursor.nextset()


def test_an_error_after_a_result_is_raised_by_nextset(connection: Any) -> None:
    cursor = connection.execute("SELECT 1; RAISERROR(N'no more', 16, 1);")
    assert cursor.fetchone()[0] == 1
    with pytest.raises(pyodbc.ProgrammingError, match="no more"):
        cursor.nextset()


def test_errors_have_the_drivers_texts(connection: Any) -> None:
    with pytest.raises(ScriptError, match=r"Invalid object name 'dbo.nothing'\. \(error 208\)") as raised:
        scripts.scalar(connection, "SELECT 1 FROM dbo.nothing;")
    cause = raised.value.__cause__
    assert isinstance(cause, pyodbc.ProgrammingError)
    assert cause.args[0] == "42S02"


def test_a_call_takes_parameters(connection: Any) -> None:
    connection.execute("CREATE PROCEDURE dbo.p @i int, @x varbinary(max), @n nvarchar(10) AS SELECT @i, @x, @n;")
    call = "{CALL dbo.p (?, ?, ?)}"
    assert connection.execute(call, 5, bytes(9000), None).fetchall() == [(5, bytes(9000), None)]
    with pytest.raises(pyodbc.Error, match="COUNT field incorrect"):
        connection.execute(call, 5)
    with pytest.raises(pyodbc.ProgrammingError, match=r"Could not find stored procedure 'dbo\.q'"):
        connection.execute("{CALL dbo.q}")


def test_executing_takes_virtual_time(world: World, connection: Any) -> None:
    connection.timeout = 0
    connection.execute("WAITFOR DELAY '01:00:00';")
    assert world.now_s() == pytest.approx(3600)


def test_a_statement_that_takes_too_long_fails_and_the_session_goes_on(world: World, connection: Any) -> None:
    connection.timeout = 2
    with pytest.raises(pyodbc.OperationalError, match="Query timeout expired") as raised:
        connection.execute("WAITFOR DELAY '00:00:10';")
    assert raised.value.args[0] == "HYT00"
    assert world.now_s() == pytest.approx(2)
    assert connection.execute("SELECT 1;").fetchone()[0] == 1


def test_a_statement_on_a_crashed_instance_fails(world: World, connection: Any) -> None:
    world.servers["target"].crash()
    with pytest.raises(pyodbc.OperationalError, match="Communication link failure"):
        connection.execute("SELECT 1;")


def test_a_closed_connection_refuses_statements(connection: Any) -> None:
    connection.close()
    with pytest.raises(pyodbc.ProgrammingError, match="closed"):
        connection.cursor()
