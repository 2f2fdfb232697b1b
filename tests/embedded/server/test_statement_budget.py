"""Statements at their worst, on a real instance: each has a budget, loops let others go on, memory is bounded."""

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

PASSWORD = "Budget!1"
BUDGET_S = 0.5
MIB = 2**20
ROWS = "DECLARE @t TABLE (n int); DECLARE @i int = 0; WHILE @i < {0} BEGIN INSERT @t VALUES (@i); SET @i += 1; END; "
CROSS = ROWS.format(500) + "SELECT COUNT(*) FROM @t a, @t b, @t c, @t d"
LOOP = "DECLARE @i bigint = 0; WHILE 1 = 1 SET @i += 1"
AGAIN = "EXEC sp_executesql @s, N''@s nvarchar(max)'', @s; "
RECURSION = f"DECLARE @s nvarchar(max) = N'IF @@NESTLEVEL < 28 BEGIN {AGAIN * 2} END'; EXEC sp_executesql @s, N'@s nvarchar(max)', @s"
MANY = "SELECT 1 AS a; " * 3_000
ROW_POWER = 14
# Functions of long values, each of which works for longer than all of these tests
LONG = "DECLARE @s varchar(max) = REPLICATE(CAST('a' AS varchar(max)), 5000000); "
FIND = LONG + "SELECT CHARINDEX(LEFT(@s, 4000) + 'b', @s)"
REPLACE = LONG + "SET @s = REPLACE(@s, LEFT(@s, 4000) + 'b', '')"
LIKE = LONG + "SELECT 1 WHERE @s LIKE '%' + LEFT(@s, 4000) + 'b%'"
XML = "DECLARE @x xml = REPLICATE(CAST('<a/>' AS varchar(max)), 10000000)"
UNREAD_QUERY = ROWS.format(300) + "SELECT a.n, REPLICATE('x', 100) FROM @t a, @t b"


class Instance:
    def __init__(self, process: psutil.Process, port: int) -> None:
        self.process, self.port = process, port

    def connect(self) -> pyodbc.Connection:
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
            [
                *(sys.executable, "-m", "harness", "serve", "--port", "0", "--data", str(Path(folder) / "data")),
                *("--statement-budget", str(BUDGET_S)),
            ],
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
    """Send a batch without reading its answer, and close the connection after the test."""
    opened: list[socket.socket] = []

    def run(text: str) -> socket.socket:
        opened.append(instance.bare())
        opened[-1].sendall(batch(text))
        return opened[-1]

    yield run
    for client in opened:
        client.close()


@pytest.mark.parametrize("text", [LOOP, RECURSION, MANY], ids=["loop", "recursion", "many"])
def test_others_are_answered_and_log_in_beside_a_batch_of_many_short_statements(instance, running, text):
    client = running(text)
    with instance.connect() as other:
        for _ in range(5):
            assert other.execute("SELECT 1").fetchval() == 1
    end_by_attention(client)
    client.sendall(batch("SELECT 7 AS seven"))
    assert b"\x07\0\0\0" in read_message(client)


BEYOND = {
    "query": CROSS,
    "condition": ROWS.format(500) + "IF 1 > (SELECT COUNT(*) FROM @t a, @t b, @t c, @t d) SELECT 1",
    "variable": ROWS.format(500) + "DECLARE @n bigint = (SELECT COUNT(*) FROM @t a, @t b, @t c, @t d)",
    "find": FIND,
    "replace": REPLACE,
    "like": LIKE,
    "xml": XML,
    "row by row": ROWS.format(300)
    + "DECLARE @n bigint = 0; SELECT @n = @n + LEN(CONCAT(@n, HASHBYTES('SHA2_512', REPLICATE('x', 8000)))) FROM @t a, @t b",
}


@pytest.mark.parametrize("text", one_of_each(BEYOND))
def test_a_statement_beyond_its_processor_time_is_an_error_that_names_the_option(instance, text):
    with instance.connect() as connection:
        with pytest.raises(pyodbc.Error, match=r"0\.5 s of processor time.*--statement-budget.*50003"):
            connection.execute("SET NOCOUNT ON; " + BEYOND[text]).fetchall()
        assert connection.execute("SELECT 1").fetchval() == 1


def test_a_query_of_more_rows_than_its_budget_is_an_error_that_names_the_option(instance):
    with instance.connect() as connection, pytest.raises(pyodbc.Error, match=r"100000 rows.*--statement-budget.*50003"):
        connection.execute("SET NOCOUNT ON; " + ROWS.format(400) + "SELECT a.n FROM @t a, @t b").fetchall()


def test_statements_of_a_batch_and_rounds_of_a_loop_have_each_a_budget_of_their_own(instance):
    """Together they take longer than one may, and one of them catches its error."""
    query = "SET @n = (SELECT COUNT(*) FROM @t a, @t b, @t c); "
    long = "SET @n = (SELECT COUNT(*) FROM @t a, @t b, @t c, @t d, @t e)"
    text = (
        f"SET NOCOUNT ON; DECLARE @n bigint; {ROWS.format(150)} {query * 8} SET @i = 0; "
        f"WHILE @i < 8 BEGIN SET @i += 1; {query} WAITFOR DELAY '00:00:00.001'; END; "
        f"BEGIN TRY {long} END TRY BEGIN CATCH {query} SELECT ERROR_NUMBER(); END CATCH"
    )
    with instance.connect() as connection:
        assert connection.execute(text).fetchval() == 50003


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


def test_a_change_of_many_rows_loses_no_change_of_others(instance):
    """Four sessions add to each row of a table, half of them in one statement, half in two."""
    with instance.connect() as observer:
        fill(observer, "dbo.counted", 12)
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
        assert tuple(found) == (4, 4, 2**12)
        observer.execute("DROP TABLE dbo.counted")


def test_a_statement_that_fails_after_many_rows_changes_none(instance):
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
