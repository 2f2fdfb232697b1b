"""The DB-API libraries: pyodbc with both drivers, mssql-python, pymssql, python-tds."""

import datetime
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from tests.clients.python_clients import CLIENTS, Client, MssqlPython, PyodbcFreetds, PyodbcMicrosoft, PythonTds
from tests.clients.server import ANSWER, ASK, DATABASE, HANG_UP, HEAR, HOST, PASSWORD, Server

pytestmark = pytest.mark.process

KINDS = {
    "a_bit": True,
    "a_tinyint": 255,
    "a_smallint": -32768,
    "a_int": 2**31 - 1,
    "a_bigint": -(2**63),
    "a_float": -1.5e300,
    "a_real": 0.25,
    "a_decimal": Decimal("-12345678.1234"),
    "a_money": Decimal("1.2500"),
    "a_varchar": "Grüße",
    "a_nvarchar": "\N{GRINNING FACE} Жизнь",
    "a_long": "\N{GRINNING FACE}" * 5000,
    "a_varbinary": b"\0\xff'--",
    "a_date": datetime.date(2026, 2, 28),
    "a_time": datetime.time(23, 59, 59, 999999),
    "a_datetime": datetime.datetime(2026, 11, 22, 12, 30, 15, 120000),
    "a_datetime2": datetime.datetime(2026, 11, 22, 12, 30, 15, 123456),
    "a_offset": datetime.datetime(2026, 11, 22, 1, 2, 3, 456789, datetime.timezone(datetime.timedelta(hours=-5))),
    "a_guid": uuid.UUID("01B241A8-4CDE-45ED-9CC6-EAA548A341F3"),
}


@pytest.fixture(params=CLIENTS, ids=lambda client: client.__name__)
def client(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Iterator[Client]:
    made: Client = request.param(server, tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "TLS"])
def test_a_client_logs_in(client, encrypted):
    connection = client.connect(encrypted=encrypted)
    assert client.run(connection, "SELECT DB_NAME(), SUSER_SNAME(), @@TRANCOUNT") == [(DATABASE, "sa", 0)]


def test_a_wrong_password_is_refused(client):
    with pytest.raises(client.module.Error) as caught:
        client.connect(password="wrong")
    assert "Login failed for user 'sa'" in str(caught.value)


@pytest.mark.parametrize("column", KINDS)
def test_a_parameter_of_each_type_and_null_arrive_and_come_back(client, column):
    if column in client.lacks:
        pytest.skip(f"{client.name} has no such type")
    connection, value = client.connect(), KINDS[column]
    if column in client.digits:
        unit = 10 ** (6 - client.digits[column])
        value = value.replace(microsecond=value.microsecond // unit * unit)
    client.run(connection, "TRUNCATE TABLE dbo.kinds")
    client.run(connection, f"INSERT dbo.kinds ({column}) VALUES (?)", [value])
    client.run(connection, f"INSERT dbo.kinds ({column}) VALUES (?)", [None])
    rows = client.run(connection, f"SELECT {column} FROM dbo.kinds ORDER BY id")
    if isinstance(value, uuid.UUID):
        rows = [(uuid.UUID(str(rows[0][0])),), *rows[1:]]
    assert rows == [(value,), (None,)]
    assert client.run(connection, f"SELECT COUNT(*) FROM dbo.kinds WHERE {column} = ?", [value]) == [(1,)]


def test_a_procedure_has_output(client):
    assert client.doubled(client.connect(), 21) == 42


def test_several_results_follow_one_another(client):
    cursor = client.connect().cursor()
    cursor.execute("EXEC dbo.several")
    assert [tuple(row) for row in cursor.fetchall()] == [(1,)]
    assert cursor.nextset()
    assert [column[0] for column in cursor.description] == ["word", "number"]
    assert [tuple(row) for row in cursor.fetchall()] == [("two", 2)]
    assert cursor.nextset()
    assert cursor.fetchall() == []
    assert not cursor.nextset()


@pytest.mark.parametrize(
    "sql, number",
    [
        ("SELECT * FROM dbo.nowhere", 208),
        ("INSERT dbo.people (name) VALUES (N'twice'), (N'twice')", 2627),
        ("RAISERROR (N'by the client', 16, 1)", 50000),
    ],
)
def test_an_error_has_its_number_and_leaves_the_connection_usable(client, sql, number):
    connection = client.connect()
    with pytest.raises(client.module.Error) as caught:
        client.run(connection, sql)
    assert client.number(caught.value) == number
    assert client.run(connection, "SELECT 1") == [(1,)]


def test_a_transaction_ends_as_the_client_says(client):
    connection, other = client.connect(autocommit=False), client.connect()
    client.run(connection, "INSERT dbo.people (name) VALUES (N'gone')")
    connection.rollback()
    client.run(connection, "INSERT dbo.people (name) VALUES (N'kept')")
    connection.commit()
    assert client.run(other, "SELECT name FROM dbo.people WHERE name IN (N'gone', N'kept')") == [("kept",)]
    client.run(other, "DELETE dbo.people WHERE name = N'kept'")


def test_a_request_that_is_given_up_leaves_the_connection_usable(client):
    connection = client.cancel()
    assert client.run(connection, "SELECT 1") == [(1,)]


def test_a_result_that_is_not_read_leaves_the_connection_usable(client):
    connection = client.connect()
    cursor = connection.cursor()
    cursor.execute("SELECT a.name FROM sys.all_columns AS a; SELECT name FROM sys.all_columns")
    cursor.fetchone()
    cursor.close()
    assert client.run(connection, "SELECT 1") == [(1,)]


def test_seven_digits_of_a_second_come_back_as_far_as_the_client_keeps_them(client):
    found = client.run(
        client.connect(), "SELECT CAST('23:59:59.1234567' AS time), CAST('2026-11-22 23:59:59.1234567' AS datetime2)"
    )
    time = datetime.time(23, 59, 59, 123456)
    assert found == [(time, datetime.datetime.combine(datetime.date(2026, 11, 22), time))]


def test_a_megabyte_arrives_and_comes_back(client):
    connection = client.connect()
    body, words = bytes(index % 251 for index in range(1 << 20)), "Жизнь\N{GRINNING FACE}" * (1 << 16)
    client.run(connection, "INSERT dbo.big (id, body, words) VALUES (1, ?, ?)", [body, words])
    assert client.run(connection, "SELECT body, words FROM dbo.big WHERE id = 1") == [(body, words)]
    client.run(connection, "DELETE dbo.big")


def test_a_dialog_goes_there_and_back(client):
    connection = client.connect()
    [(handle,)] = client.run(connection, ASK)
    assert client.run(connection, ANSWER) == [("how are you?",)]
    [(heard, body, kind)] = client.run(connection, HEAR)
    assert (str(heard).upper(), body, kind) == (str(handle).upper(), "how are you? Fine!", "Words")
    assert client.run(connection, HEAR)[0][2] == "http://schemas.microsoft.com/SQL/ServiceBroker/EndDialog"
    client.run(connection, HANG_UP)


@pytest.mark.parametrize("pool", [MssqlPython, PythonTds], ids=lambda client: client.__name__)
def test_a_pool_gives_a_reset_connection_out_again(server, tmp_path, pool):
    client = pool(server, tmp_path)
    more = {"pooling": True} if pool is PythonTds else {}
    if pool is MssqlPython:
        client.module.pooling(max_size=2, idle_timeout=60)
    seen = set()
    for _ in range(3):
        connection = client.connect(**more)
        seen.add(client.run(connection, "SELECT @@SPID")[0][0])
        assert client.run(connection, "SELECT DB_NAME(), @@TRANCOUNT") == [(DATABASE, 0)]
        client.run(connection, "USE master")
        client.run(connection, "BEGIN TRANSACTION")
        connection.close()
    assert len(seen) < 3


PEOPLE = [("a", 7, datetime.date(2026, 2, 28)), ("Жизнь", 18, None)]
READ_PEOPLE = "SELECT name, age, born FROM dbo.people ORDER BY name"


def test_bulk_copy_of_python_tds_inserts_all_rows_or_none(server, tmp_path):
    client = PythonTds(server, tmp_path)
    connection, types = client.connect(), client.module.tds_types
    kinds = {"name": types.NVarCharType(40), "age": types.IntType(), "born": types.DateType()}
    columns = [client.module.Column(name, type=kind) for name, kind in kinds.items()]
    with connection.cursor() as cursor:
        cursor.copy_to(data=[("a", 7, PEOPLE[0][2]), ("Жизнь", None, None)], table_or_view="people", columns=columns)
    with pytest.raises(client.module.Error) as caught, connection.cursor() as cursor:
        cursor.copy_to(data=[("b", 1, None), ("a", 1, None)], table_or_view="people", columns=columns)
    assert client.number(caught.value) == 2627
    assert client.run(connection, READ_PEOPLE) == PEOPLE
    client.run(connection, "DELETE dbo.people")


def test_bulk_copy_of_mssql_python_inserts_the_rows(server, tmp_path):
    client = MssqlPython(server, tmp_path)
    connection = client.connect(encrypted=True)
    copied = connection.cursor().bulkcopy("dbo.people", PEOPLE, column_mappings=["name", "age", "born"])
    assert copied["rows_copied"] == 2
    assert client.run(connection, READ_PEOPLE) == PEOPLE
    client.run(connection, "DELETE dbo.people")


def test_freebcp_copies_rows_in_and_out(server, tmp_path):
    if shutil.which("freebcp") is None:
        pytest.skip("freebcp is not installed: make clients")

    def copy(direction: str, file: Path) -> None:
        where = ["-S", f"{HOST}:{server.port}", "-U", "sa", "-P", PASSWORD]
        words = ["freebcp", f"{DATABASE}.dbo.people", direction, str(file), "-c", *where]
        environment = os.environ | {"TDSVER": "7.4"}
        ended = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert ended.returncode == 0 and "2 rows copied" in ended.stdout and not ended.stderr, ended

    (tmp_path / "in.txt").write_text("900001\ta\t7\t2026-02-28\n900002\tb\t18\t\n", encoding="ascii")
    copy("in", tmp_path / "in.txt")
    copy("out", tmp_path / "out.txt")
    rows = [line.split("\t") for line in (tmp_path / "out.txt").read_text(encoding="ascii").splitlines()]
    assert [[*row[1:3], row[3][:10]] for row in rows] == [["a", "7", "2026-02-28"], ["b", "18", ""]]
    assert not {"900001", "900002"}.intersection(row[0] for row in rows)  # the server numbers them
    client = PyodbcFreetds(server, tmp_path)
    client.run(client.connect(), "DELETE dbo.people")


@pytest.mark.parametrize("kind", [PyodbcMicrosoft, PyodbcFreetds, PythonTds], ids=lambda client: client.__name__)
def test_a_client_that_asks_for_several_results_at_once_goes_on_without(server, tmp_path, kind):
    client = kind(server, tmp_path)
    connection = client.connect(**({"use_mars": True} if kind is PythonTds else {"MARS_Connection": "yes"}))
    assert client.run(connection, "SELECT 1") == [(1,)]


@pytest.mark.parametrize("driver", [PyodbcMicrosoft, PyodbcFreetds], ids=lambda client: client.__name__)
def test_the_catalog_functions_of_odbc_describe_a_table(server, tmp_path, driver):
    cursor = driver(server, tmp_path).connect().cursor()
    assert [tuple(row[:4]) for row in cursor.tables(table="peop%", schema="dbo", tableType="TABLE")] == [
        (DATABASE, "dbo", "people", "TABLE")
    ]
    assert {row.table_name for row in cursor.tables(schema="dbo")} == {"big", "kinds", "people"}
    assert [(row.column_name, row.type_name, row.column_size, row.is_nullable) for row in cursor.columns("people")] == [
        ("id", "int identity", 10, "NO"),
        ("name", "nvarchar", 40, "NO"),
        ("age", "int", 10, "NO"),
        ("born", "date", 10, "YES"),
    ]
    assert [(row.column_name, row.pk_name) for row in cursor.primaryKeys("people", schema="dbo", catalog=DATABASE)] == [
        ("id", "PK_people")
    ]
    assert [row.index_name for row in cursor.statistics("people", unique=True)] == [None, "PK_people", "UQ_people"]
    assert cursor.foreignKeys("people").fetchall() == []
