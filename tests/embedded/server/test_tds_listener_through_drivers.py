"""Results, parameters, errors and timeouts as Microsoft's driver and FreeTDS show them; canned answers."""

import datetime
import decimal
import threading
import uuid

import pyodbc
import pytest

from tests.embedded.server.canned import PASSWORD, canned_server
from tests.waiting import wait_until

pytestmark = pytest.mark.process

HANDLE = uuid.UUID("01B241A8-4CDE-45ED-9CC6-EAA548A341F3")


def echo(connection: pyodbc.Connection, *values: object) -> list[object]:
    marks = ", ".join("?" * len(values))
    row = connection.execute(f"EXEC dbo.Echo {marks}", *values).fetchone()
    return list(row)


def log(connection: pyodbc.Connection) -> list[str]:
    return [entry for (entry,) in connection.execute("LOG").fetchall()]


def test_a_result_set_has_columns_rows_and_nulls(connect):
    cursor = connect().execute("SELECT")
    assert [column[:2] for column in cursor.description] == [("number", int), ("name", str)]
    assert [tuple(row) for row in cursor.fetchall()] == [(1, "één"), (2, None)]


def test_a_statement_without_rows_has_a_count(connect):
    assert connect().execute("UPDATE").rowcount == 7


@pytest.mark.parametrize("size", [1, 100, 3000, 4096, 7999, 8000, 8001, 8192, 100_000])
def test_binary_parameters_of_all_sizes_are_returned_unchanged(connect, size):
    body = bytes(index % 251 for index in range(size))
    assert echo(connect(), body) == [body]


@pytest.mark.parametrize("size", [1, 100, 4000, 4001, 100_000])
def test_text_parameters_of_all_sizes_are_returned_unchanged(connect, size):
    text = ("Grüße, Жизнь " * (size // 13 + 1))[:size]
    assert echo(connect(), text) == [text]


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        2**31 - 1,
        -(2**31),
        2**40,
        -(2**63),
        1.5,
        -2.25e300,
        True,
        decimal.Decimal("12.34"),
        decimal.Decimal("-0.00000001"),
        decimal.Decimal("99999999999999999999999999999999999999"),
        datetime.datetime(2026, 1, 2, 3, 4, 5, 678901),
        datetime.datetime(1753, 1, 1),
        datetime.date(9999, 12, 31),
        "",
        "x",
        "'; DROP TABLE",
        b"",
    ],
    ids=repr,
)
def test_values_are_returned_unchanged(connect, value):
    assert echo(connect(), value) == [value]


def test_a_uuid_is_returned_unchanged(connect):
    (value,) = echo(connect(), HANDLE)
    assert str(value).upper() == str(HANDLE).upper()


def test_null_is_returned_unchanged(connect):
    assert echo(connect(), None, 1, None) == [None, 1, None]


def test_a_call_by_name_takes_parameters(connect):
    cursor = connect().execute("{CALL dbo.Echo (?, ?)}", str(HANDLE), b"x" * 100)
    assert tuple(cursor.fetchone()) == (str(HANDLE), b"x" * 100)


def test_one_cursor_takes_many_calls(connect):
    cursor = connect().cursor()
    for number in range(50):
        cursor.execute("{CALL dbo.Echo (?, ?)}", number, b"y" * 8000)
        assert cursor.fetchone()[0] == number
    for number in range(50):
        cursor.execute("EXEC dbo.Quiet ?, ?", number, b"y" * 8000)


def test_executemany_calls_once_a_row(connect):
    connection = connect()
    connection.cursor().executemany("{CALL dbo.Quiet (?)}", [(1,), (2,), (3,)])
    assert log(connection).count("dbo.Quiet") == 3


def test_several_result_sets_follow_one_another(connect):
    cursor = connect().execute("{CALL dbo.TwoSets}")
    assert len(cursor.fetchall()) == 2
    sizes = []
    while cursor.nextset():  # FreeTDS skips counts without rows, Microsoft's driver stops at them
        sizes.append(len(cursor.fetchall()) if cursor.description else cursor.rowcount)
    assert sizes in ([3, 2], [2])


def test_several_statements_of_a_batch_follow_one_another(connect):
    cursor = connect().execute("UPDATE; SELECT; UPDATE")
    assert cursor.rowcount == 7
    assert cursor.nextset() and len(cursor.fetchall()) == 2
    assert cursor.nextset() and cursor.rowcount == 7
    assert not cursor.nextset()


def test_an_error_of_the_server_is_an_exception_with_its_number_and_state(connect):
    connection = connect()
    with pytest.raises(pyodbc.ProgrammingError) as raised:
        connection.execute("FAIL 208")
    assert raised.value.args[0] == "42S02"
    assert "Invalid object name 'it'. (208)" in raised.value.args[1]
    assert connection.execute("SELECT").fetchone()[0] == 1  # the connection stays usable


def test_an_error_after_a_result_set_is_raised_when_it_is_reached(connect):
    cursor = connect().execute("{CALL dbo.FailLate}")
    assert len(cursor.fetchall()) == 2
    with pytest.raises(pyodbc.Error, match="8426"):
        while cursor.nextset():
            pass


def test_an_unknown_procedure_is_an_error(connect):
    with pytest.raises(pyodbc.Error, match="Could not find stored procedure"):
        connect().execute("{CALL dbo.Missing (?)}", 1)


def test_print_is_a_message_and_not_an_error(connect):
    cursor = connect().execute("PRINT hello; SELECT")
    while not cursor.description:
        cursor.nextset()
    assert len(cursor.fetchall()) == 2


def test_a_client_that_asks_for_several_results_at_once_has_one_at_a_time(connection_string):
    with pyodbc.connect(connection_string() + ";MARS_Connection=yes", timeout=120) as connection:
        first = connection.execute("SELECT 1 UNION ALL SELECT 2")
        with pytest.raises(pyodbc.Error, match=r"busy with results|Invalid cursor state"):
            connection.execute("SELECT 3")
        assert len(first.fetchall()) == 2


def test_a_wrong_password_is_error_18456(connect):
    with pytest.raises(pyodbc.Error) as raised:
        connect(password="wrong")
    assert raised.value.args[0] in ("28000", "42000")
    assert "18456" in str(raised.value) or "Login failed for user 'sa'" in str(raised.value)


def test_without_autocommit_transactions_begin_and_end(connect):
    connection = connect(autocommit=False)
    connection.execute("UPDATE")
    connection.commit()
    connection.execute("UPDATE")
    connection.rollback()
    connection.autocommit = True
    ended = [entry for entry in log(connection) if entry in ("commit", "rollback")]
    assert ended[:2] == ["commit", "rollback"]
    assert "begin" in log(connection)


def test_a_timeout_stops_the_request_and_leaves_the_connection_usable(connect):
    connection = connect()
    connection.timeout = 1
    with pytest.raises(pyodbc.OperationalError) as raised:
        connection.execute("WAIT 60")
    assert raised.value.args[0] == "HYT00"
    assert log(connection)[-2:] == ["waiting", "waited"]


def test_cancel_from_another_thread_stops_the_request(connect):
    connection, watcher = connect(), connect()
    cursor = connection.cursor()
    raised: list[BaseException] = []

    def run() -> None:
        try:
            cursor.execute("WAIT 60")
        except pyodbc.Error as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: watcher.execute("COUNTS").fetchone().waiting == 1)
    cursor.cancel()
    thread.join(120)
    assert [error.args[0] for error in raised] == ["HY008"]
    assert connection.execute("SELECT").fetchone()[0] == 1
    assert watcher.execute("COUNTS").fetchone().waiting == 0


def test_a_big_result_arrives_whole(connect):
    rows = connect().execute("ROWS 20000").fetchall()
    assert [row[0] for row in rows] == list(range(20_000))
    assert rows[-1][1] == bytes(200)


def test_a_result_cancelled_halfway_leaves_the_connection_usable(connect):
    connection = connect()
    cursor = connection.execute("ROWS 20000")
    cursor.fetchmany(10)
    cursor.cancel()
    cursor.close()
    assert connection.execute("SELECT").fetchone()[0] == 1


def test_the_session_is_closed_when_the_client_disconnects(connect, connection_string):
    watcher = connect()

    def closed() -> int:
        return watcher.execute("COUNTS").fetchone().closed

    before = closed()
    pyodbc.connect(connection_string(), autocommit=True).close()
    wait_until(lambda: closed() == before + 1)


def test_a_bug_in_a_request_closes_its_connection_and_no_other(connect):
    other = connect()
    with pytest.raises(pyodbc.Error):
        connect().execute("BREAK")
    assert other.execute("SELECT").fetchone()[0] == 1


def test_many_connections_are_served_at_once(connect):
    connections = [connect() for _ in range(20)]
    threads = [
        threading.Thread(target=lambda c=c: [c.execute("{CALL dbo.Quiet (?)}", 1) for _ in range(20)])
        for c in connections
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(log(connection).count("dbo.Quiet") == 20 for connection in connections)


@pytest.fixture(scope="module")
def encrypted_port():
    with canned_server("--encryption") as port:
        yield port


def test_an_encrypted_connection_works(driver, encrypted_port):
    text = driver.connection_string(
        host="127.0.0.1", port=encrypted_port, user="sa", password=PASSWORD, database="lab", program="tests"
    ).replace("Encrypt=optional", "Encrypt=yes")
    if driver.kind == "freetds":
        text += ";Encryption=require"
    connection = pyodbc.connect(text, autocommit=True, timeout=120)
    body = bytes(range(256)) * 200
    assert echo(connection, body) == [body]
    assert len(connection.execute("ROWS 5000").fetchall()) == 5000
    connection.close()
