"""Requests that take long, on a real instance: others go on, Attention works, answers are right, memory is bounded."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pyodbc
import pytest

from harness.lab import drivers
from tests.embedded.server.bare_client import attention, batch, log_in, read_message
from tests.thorough import one_of_each
from tests.waiting import wait_until

pytestmark = pytest.mark.process

PASSWORD = "Turns!1"
MIB = 2**20
ROWS = "DECLARE @t TABLE (n int); DECLARE @i int = 0; WHILE @i < {0} BEGIN INSERT @t VALUES (@i); SET @i += 1; END; "
CROSS = ROWS.format(500) + "SELECT COUNT(*) FROM @t a CROSS JOIN @t b CROSS JOIN @t c CROSS JOIN @t d"
LOOP = "DECLARE @i bigint = 0; WHILE 1 = 1 SET @i += 1"
MANY = "SELECT 1 AS a; " * 60_000
ROW_POWER = 16
# Functions of long values, each of which works for longer than all of these tests
LONG = "DECLARE @s varchar(max) = REPLICATE(CAST('a' AS varchar(max)), 5000000); "
FIND = LONG + "SELECT CHARINDEX(LEFT(@s, 4000) + 'b', @s)"
REPLACE = LONG + "SET @s = REPLACE(@s, LEFT(@s, 4000) + 'b', '')"
LIKE = LONG + "SELECT 1 WHERE @s LIKE '%' + LEFT(@s, 4000) + 'b%'"
XML = "DECLARE @x xml = REPLICATE(CAST('<a/>' AS varchar(max)), 10000000)"
UNREAD_QUERY = ROWS.format(500) + "SELECT a.n, b.n, c.n FROM @t a CROSS JOIN @t b CROSS JOIN @t c"


class Instance:
    def __init__(self, process: psutil.Process, port: int) -> None:
        self.process, self.port = process, port

    def connect(self) -> pyodbc.Connection:
        pyodbc.pooling = False
        text = drivers.choose("microsoft").connection_string(
            host="127.0.0.1", port=self.port, user="sa", password=PASSWORD, database="master", program="tests"
        )
        return pyodbc.connect(text, autocommit=True, timeout=120)

    def bare(self) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        log_in(client, "sa", PASSWORD)
        return client

    def waits(self) -> list[str]:
        """The waits of requests now."""
        with self.connect() as connection:
            found = connection.execute("SELECT wait_type FROM sys.dm_exec_requests WHERE wait_type IS NOT NULL")
            return [row.wait_type for row in found.fetchall()]


@pytest.fixture(scope="module")
def instance() -> Iterator[Instance]:
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "harness", "serve", "--port", "0", "--data", str(Path(folder) / "data")],
            stdout=subprocess.PIPE,
            env={**os.environ, "HARNESS_PASSWORD": PASSWORD},
        )
        try:
            port = json.loads(process.stdout.readline())["port"]
            yield Instance(psutil.Process(process.pid), port)
        finally:
            process.terminate()
            process.wait(120)
            process.stdout.close()


@pytest.fixture
def running(instance: Instance) -> Iterator[Callable[[str], socket.socket]]:
    """Sends a batch without reading its answer, and closes the connection after the test."""
    opened: list[socket.socket] = []

    def run(text: str) -> socket.socket:
        opened.append(instance.bare())
        opened[-1].sendall(batch(text))
        return opened[-1]

    yield run
    for client in opened:
        client.close()


@pytest.mark.parametrize("text", [LOOP, CROSS, MANY, "SELECT " + "(" * 5_000_000], ids=["loop", "cross", "many", "("])
def test_others_are_answered_and_log_in_while_a_request_takes_long(instance, running, text):
    running(text)
    with instance.connect() as other:
        for _ in range(20):
            assert other.execute("SELECT 1").fetchval() == 1


@pytest.mark.parametrize("text", [FIND, REPLACE, LIKE, XML], ids=["find", "replace", "like", "xml"])
def test_a_function_of_long_values_lets_others_go_on_and_an_attention_ends_it(instance, running, text):
    client = running(text)
    with instance.connect() as other:
        wait_until(instance.process.children)
        for _ in range(20):
            assert other.execute("SELECT 1").fetchval() == 1
    assert not is_answered(client)
    end_by_attention(client)
    wait_until(lambda: not instance.process.children())


def test_a_parameter_that_becomes_xml_lets_others_go_on(instance):
    text = "<a/>" * 200_000
    with instance.connect() as connection, instance.connect() as other:
        connection.execute("CREATE PROCEDURE dbo.take_xml @x xml AS SELECT 1")
        task = threading.Thread(target=lambda: connection.execute("{CALL dbo.take_xml (?)}", text).fetchall())
        task.start()
        answered = 0
        while task.is_alive() and answered < 20:
            answered += other.execute("SELECT 1").fetchval()
        task.join()
        assert answered == 20
        connection.execute("DROP PROCEDURE dbo.take_xml")


def test_receive_refuses_what_it_would_work_on_for_a_second(instance):
    with instance.connect() as connection:
        connection.execute("CREATE DATABASE receiving")
        connection.execute("USE receiving; CREATE QUEUE dbo.long; CREATE SERVICE long ON QUEUE dbo.long ([DEFAULT])")
        connection.execute(
            "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE long TO SERVICE 'long' WITH ENCRYPTION = OFF; "
            "SEND ON CONVERSATION @h (REPLICATE(CAST('<a/>' AS varchar(max)), 500000))"
        )
        with pytest.raises(pyodbc.Error, match="receive it into a variable"):
            connection.execute("RECEIVE TOP (1) CAST(message_body AS xml) FROM dbo.long").fetchall()
        body = connection.execute(
            "SET NOCOUNT ON; DECLARE @b varbinary(max), @x xml; RECEIVE TOP (1) @b = message_body FROM dbo.long; "
            "SET @x = @b; SELECT CAST(@x AS varchar(max))"
        ).fetchval()
        assert body == "<a/>" * 500_000
        connection.execute("USE master; DROP DATABASE receiving")


@pytest.mark.parametrize("text", [LOOP, CROSS, MANY * 3], ids=["loop", "cross", "many"])
def test_an_attention_ends_a_request_that_takes_long(instance, running, text):
    client = running(text)
    end_by_attention(client)
    client.sendall(batch("SELECT 7 AS seven"))
    assert b"\x07\0\0\0" in read_message(client)
    wait_until(lambda: not instance.process.children())


def fill(connection: pyodbc.Connection, table: str, row_power: int = ROW_POWER) -> None:
    connection.execute(f"CREATE TABLE {table} (n int NOT NULL, note varchar(20) NULL); INSERT {table} VALUES (0, NULL)")
    for power in range(row_power):
        connection.execute(f"INSERT {table} SELECT n + {2**power}, note FROM {table}")


LONG_VALUE = "SELECT REPLICATE(CAST('x' AS varchar(max)), 16000000)"


def test_a_client_that_gives_up_in_a_long_value_and_reads_on_keeps_its_connection(running):
    client = running(LONG_VALUE)
    wait_until(lambda: is_answered(client))
    end_by_attention(client)
    client.sendall(batch("SELECT 1"))
    assert read_message(client)[:1] == b"\x81"  # COLMETADATA


def test_a_client_that_gives_up_request_after_request_and_reads_nothing_loses_its_connection(running):
    client = running(LONG_VALUE)
    wait_until(lambda: is_answered(client))
    client.sendall(attention() + batch("SELECT 1") + attention())
    with pytest.raises(ConnectionError):
        while read_message(client):
            pass
        raise ConnectionError  # a closed connection need not be a reset one


def end_by_attention(client: socket.socket) -> None:
    client.sendall(attention())
    while (answer := read_message(client))[:3] != bytes.fromhex("fd 2000"):  # a DONE with DONE_ATTN
        assert answer, "the server closed the connection"


def is_answered(client: socket.socket) -> bool:
    return bool(select.select([client], [], [], 0)[0])


CHANGES = {
    "update": "UPDATE {0} SET note = 'changed'",
    "delete": "DELETE {0}",
    "insert": "INSERT {0} SELECT n, 'changed' FROM {0}",
    "search": "UPDATE {0} SET note = 'changed' WHERE n % 7 = 0 AND note IS NULL",
    "variable": "DECLARE @t TABLE (n int, note varchar(20)); INSERT @t SELECT n, note FROM {0}; "
    "UPDATE @t SET note = 'changed'; DELETE @t WHERE n % 2 = 0",
    "rollback": "BEGIN TRANSACTION; UPDATE {0} SET note = 'changed'; ROLLBACK TRANSACTION",
}


@pytest.mark.parametrize("change", one_of_each(CHANGES))
def test_others_are_answered_while_many_rows_change_and_an_attention_undoes_it(instance, running, change):
    table = f"dbo.big_{change}"
    with instance.connect() as other:
        fill(other, table)
        client = running("DECLARE @begun int; " + CHANGES[change].format(table))
        for _ in range(20):
            assert other.execute("SELECT 1").fetchval() == 1
        assert not is_answered(client)
        end_by_attention(client)
        client.sendall(batch("IF @@TRANCOUNT > 0 ROLLBACK"))
        read_message(client)
        rows, changed = other.execute(f"SELECT COUNT(*), COUNT(note) FROM {table}").fetchone()
        assert (rows, changed) == (2**ROW_POWER, 0)
        other.execute(f"DROP TABLE {table}")


def test_a_change_of_many_rows_loses_no_change_of_others(instance):
    """Four sessions add to each row of a table, half of them in one statement, half in two."""
    with instance.connect() as observer:
        fill(observer, "dbo.counted", 14)
        observer.execute("UPDATE dbo.counted SET n = 0")

        def add(texts: list[str]) -> None:
            with instance.connect() as connection:
                for text in texts:
                    connection.execute("UPDATE dbo.counted SET n = n + 1" + text)

        halves = [f" WHERE n % 1 = 0 AND note IS {which} NULL" for which in ("", "NOT")]
        adders = [threading.Thread(target=add, args=(texts,)) for texts in ([""], [""], halves, halves[::-1])]
        for adder in adders:
            adder.start()
        for adder in adders:
            adder.join()
        found = observer.execute("SELECT MIN(n), MAX(n), COUNT(*) FROM dbo.counted").fetchone()
        assert tuple(found) == (4, 4, 2**14)
        observer.execute("DROP TABLE dbo.counted")


def test_a_statement_that_fails_after_many_rows_changes_none(instance):
    """The last row violates the key; others have run meanwhile."""
    with instance.connect() as connection:
        fill(connection, "dbo.source")
        connection.execute("CREATE TABLE dbo.keyed (n int NOT NULL PRIMARY KEY)")
        connection.execute(f"INSERT dbo.keyed VALUES ({2**ROW_POWER - 1})")
        with pytest.raises(pyodbc.Error, match="2627"):
            connection.execute("INSERT dbo.keyed SELECT n FROM dbo.source")
        assert connection.execute("SELECT COUNT(*) FROM dbo.keyed").fetchval() == 1
        cursor = connection.execute(
            "SET NOCOUNT ON; DECLARE @t TABLE (n int PRIMARY KEY, m int NOT NULL); "
            f"INSERT @t VALUES ({2**ROW_POWER - 1}, 1); "
            "BEGIN TRY INSERT @t SELECT n, n FROM dbo.source END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH; "
            "SELECT COUNT(*) FROM @t"
        )
        assert cursor.fetchval() == 2627
        cursor.nextset()
        assert cursor.fetchval() == 1
        connection.execute("DROP TABLE dbo.keyed; DROP TABLE dbo.source")


def test_a_query_that_takes_long_has_the_answer_of_one_that_does_not(instance):
    with instance.connect() as connection:
        rows = ROWS.format(150)
        cursor = connection.execute(
            "SET NOCOUNT ON; " + rows + "SELECT COUNT(*) FROM @t a CROSS JOIN @t b CROSS JOIN @t c WHERE a.n <= b.n"
        )
        assert cursor.fetchval() == 150 * 150 * 151 // 2
        cursor = connection.execute(
            "SET NOCOUNT ON; " + rows + "SELECT a.n, b.n, c.n FROM @t a CROSS JOIN @t b CROSS JOIN @t c WHERE c.n < 10"
        )
        found = {tuple(row) for row in cursor.fetchall()}
        assert len(found) == 150 * 150 * 10


def test_others_are_answered_while_passwords_are_hashed(instance, running):
    names = [f"hashed_{number}" for number in range(10)]
    client = running("".join(f"CREATE LOGIN {name} WITH PASSWORD = 'Long enough, 1'; " for name in names))
    with instance.connect() as other:
        for _ in range(5):
            assert other.execute("SELECT 1").fetchval() == 1
        assert not is_answered(client)
        read_message(client)
        made = other.execute("SELECT COUNT(*) FROM sys.server_principals WHERE name LIKE 'hashed[_]%'").fetchval()
        assert made == len(names)


def test_an_error_in_a_query_that_takes_long_is_its_error(instance):
    with instance.connect() as connection, pytest.raises(pyodbc.Error, match="8134"):
        connection.execute(
            "SET NOCOUNT ON; " + ROWS.format(80) + "SELECT COUNT(*) FROM @t a CROSS JOIN @t b CROSS JOIN @t c "
            "WHERE 1 / (a.n + b.n + c.n - 3 * 79) = 5"
        ).fetchall()


def test_a_condition_and_a_variable_may_take_long(instance):
    with instance.connect() as connection:
        cursor = connection.execute(
            "SET NOCOUNT ON; "
            + ROWS.format(100)
            + "DECLARE @n int = (SELECT COUNT(*) FROM @t a CROSS JOIN @t b CROSS JOIN "
            "@t c); IF EXISTS (SELECT 1 FROM @t a CROSS JOIN @t b CROSS JOIN @t c WHERE a.n + b.n + c.n = 3 * 99) "
            "SELECT @n"
        )
        assert cursor.fetchval() == 100**3


@pytest.mark.parametrize(
    "text",
    ["WHILE 1 = 1 SELECT * FROM sys.objects", "WHILE 1 = 1 PRINT REPLICATE('x', 4000)", UNREAD_QUERY],
    ids=["rows", "messages", "query"],
)
def test_a_statement_waits_for_a_client_that_does_not_read(instance, running, text):

    before = instance.process.memory_info().rss
    running(text)
    wait_until(lambda: "ASYNC_NETWORK_IO" in instance.waits())
    assert instance.process.memory_info().rss < before + 64 * MIB


def test_requests_that_are_never_read_wait_too(instance, running):
    client = running("SELECT 1")
    before = instance.process.memory_info().rss
    client.settimeout(5)
    sent = 0
    with pytest.raises((TimeoutError, ConnectionError)):
        while sent < 512 * MIB:
            sent += client.send(batch("SELECT * FROM sys.objects") * 100)
    assert instance.process.memory_info().rss < before + 64 * MIB


def test_what_ends_leaves_no_process_and_no_session(instance):
    with instance.connect() as connection:
        connection.execute("DECLARE @i int")

        def sessions() -> int:
            return connection.execute("SELECT COUNT(*) FROM sys.dm_exec_sessions").fetchval()

        before = sessions()
        clients = [instance.bare() for _ in range(3)]
        for client, text in zip(clients, (LOOP, CROSS, MANY), strict=True):
            client.sendall(batch(text))
        wait_until(instance.process.children)
        for client in clients:
            client.close()
        wait_until(lambda: sessions() <= before and not instance.process.children())


def test_a_driver_can_cancel_a_query_in_a_fork(instance):
    with instance.connect() as connection:
        cursor = connection.cursor()
        canceller = threading.Thread(target=lambda: (wait_until(instance.process.children), cursor.cancel()))
        canceller.start()
        with pytest.raises(pyodbc.Error, match="HY008"):
            cursor.execute("SET NOCOUNT ON; " + CROSS)
        canceller.join()
        assert connection.execute("SELECT 1").fetchval() == 1


def test_a_query_that_takes_long_reads_committed_rows_and_leaves_the_changes_of_others(instance):
    with instance.connect() as writer, instance.connect() as reader:
        writer.execute("CREATE TABLE dbo.slow (n int NOT NULL)")
        writer.execute("DECLARE @i int = 0; WHILE @i < 100 BEGIN INSERT dbo.slow VALUES (@i); SET @i += 1; END")
        writer.execute("BEGIN TRANSACTION; DELETE dbo.slow WHERE n >= 70; INSERT dbo.slow VALUES (7777)")
        count = "SELECT COUNT(*) FROM dbo.slow a CROSS JOIN dbo.slow b CROSS JOIN dbo.slow c WHERE a.n + b.n + c.n >= 0"
        assert reader.execute(count).fetchval() == 100**3
        assert writer.execute(count).fetchval() == 71**3
        writer.execute("COMMIT TRANSACTION")
        assert reader.execute(count).fetchval() == 71**3
        writer.execute("DROP TABLE dbo.slow")
