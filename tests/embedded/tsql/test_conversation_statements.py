"""Conversations as their statements show them: values that SQL Server stores, and errors for those it refuses."""

from __future__ import annotations

import pytest

from harness.embedded.tsql.catalog.broker_views import RECEIVED_COLUMNS
from tests.embedded.tsql.sides import Results

BEGIN = """
    DECLARE @h uniqueidentifier, @n uniqueidentifier;
    BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's', 'CURRENT DATABASE' WITH ENCRYPTION = OFF;
"""


@pytest.fixture
def side(side):
    side.run("CREATE QUEUE dbo.q; CREATE SERVICE s ON QUEUE dbo.q ([DEFAULT]); CREATE QUEUE dbo.other;")
    return side


@pytest.mark.parametrize("body", ["", "(N'')", "('')", "(0x)", "(CAST('' AS varbinary(max)))"])
def test_a_body_of_length_zero_arrives_as_null(side, body):
    side.run(f"{BEGIN} SEND ON CONVERSATION @h {body};")
    assert side.rows("SELECT message_body FROM dbo.q;") == [(None,)]
    assert side.rows("RECEIVE message_body, DATALENGTH(message_body) AS length FROM dbo.q;") == [(None, None)]


def test_an_empty_body_waits_as_null_in_the_transmission_queue(side):
    side.run(
        BEGIN.replace("TO SERVICE 's', 'CURRENT DATABASE'", "TO SERVICE 'nowhere'") + "SEND ON CONVERSATION @h (0x);"
    )
    assert side.rows("SELECT message_body FROM sys.transmission_queue;") == [(None,)]


@pytest.mark.parametrize("retention", ["ON", "OFF"])
def test_the_status_of_received_messages_is_0(side, retention):
    side.run(f"ALTER QUEUE dbo.q WITH RETENTION = {retention};")
    side.run(f"{BEGIN} SEND ON CONVERSATION @h (N'x'); SEND ON CONVERSATION @h (N'y'); SEND ON CONVERSATION @h (N'z');")
    assert side.rows("SELECT DISTINCT status FROM dbo.q WHERE status <> 3;") == [(1,)]
    assert side.rows("RECEIVE TOP (1) status FROM dbo.q;") == [(0,)]
    assert side.rows("RECEIVE TOP (1) status + 0 AS computed FROM dbo.q;") == [(0,)]
    [row] = side.rows("RECEIVE TOP (1) * FROM dbo.q;")
    assert dict(zip([column.name for column in RECEIVED_COLUMNS], row, strict=True))["status"] == 0


@pytest.mark.parametrize(
    ("column", "number"), [("conversation_handle", 8426), ("conversation_group_id", 8436)]
)  # "...or is not associated with the queue, the RECEIVE statement returns an error"
def test_receive_by_a_conversation_of_another_queue_is_an_error(side, column, number):
    side.run(f"{BEGIN} SEND ON CONVERSATION @h (N'x');")
    text = f"DECLARE @x uniqueidentifier; SELECT @x = {column} FROM dbo.q; RECEIVE * FROM dbo.{{}} WHERE {column} = @x;"
    assert side.error(text.format("other")).number == number
    assert (
        side.error(text.format("other").replace("RECEIVE", "WAITFOR (RECEIVE").replace("@x;", "@x);")).number == number
    )
    assert len(side.rows(text.format("q"))) == 1


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("END CONVERSATION @h WITH ERROR = 0 DESCRIPTION = 'x'", 1080),
        ("END CONVERSATION @h WITH ERROR = -8462 DESCRIPTION = 'x'", 1080),
        ("END CONVERSATION @h WITH ERROR = 2147483648 DESCRIPTION = 'x'", 8115),
        ("BEGIN CONVERSATION TIMER (@h) TIMEOUT = -1", 1080),
        ("BEGIN DIALOG @n FROM SERVICE s TO SERVICE 's' WITH LIFETIME = 0", 8411),
        ("BEGIN DIALOG @n FROM SERVICE s TO SERVICE 's' WITH LIFETIME = 2147483648", 8411),
        ("RECEIVE TOP (-1) * FROM dbo.q", 127),
        ("RECEIVE TOP (NULL) * FROM dbo.q", 1014),
        ("WAITFOR (RECEIVE * FROM dbo.q), TIMEOUT -2", 1080),
        ("CREATE BROKER PRIORITY p FOR CONVERSATION SET (PRIORITY_LEVEL = 0)", 1080),
        ("CREATE BROKER PRIORITY p FOR CONVERSATION SET (PRIORITY_LEVEL = 11)", 1080),
        ("ALTER QUEUE dbo.q WITH ACTIVATION (MAX_QUEUE_READERS = -1)", 1080),
        ("ALTER QUEUE dbo.q WITH ACTIVATION (MAX_QUEUE_READERS = 32768)", 1080),
        ("CREATE ROUTE r WITH ADDRESS = 'LOCAL', LIFETIME = 0", 9746),
        ("CREATE ROUTE r WITH ADDRESS = 'TCP://a:0'", 9744),
        (f"CREATE ROUTE r WITH ADDRESS = 'TCP://{'a' * 250}:4022'", 9660),
        (f"CREATE ROUTE r WITH SERVICE_NAME = '{'a' * 257}', ADDRESS = 'LOCAL'", 9660),
        ("CREATE ENDPOINT e AS TCP (LISTENER_PORT = 65536) FOR SERVICE_BROKER ()", 1080),
    ],
)
def test_a_value_outside_its_documented_range_is_an_error(side, statement, number):
    assert side.error(f"{BEGIN} {statement};").number == number


@pytest.mark.parametrize(
    "statement",
    [
        "END CONVERSATION @h WITH ERROR = 1 DESCRIPTION = 'x'",
        "BEGIN CONVERSATION TIMER (@h) TIMEOUT = 0",
        "RECEIVE TOP (0) * FROM dbo.q",
        "CREATE BROKER PRIORITY p FOR CONVERSATION SET (PRIORITY_LEVEL = 10)",
        "CREATE BROKER PRIORITY p FOR CONVERSATION SET (PRIORITY_LEVEL = 1)",
        "ALTER QUEUE dbo.q WITH ACTIVATION (MAX_QUEUE_READERS = 32767)",
        "WAITFOR (RECEIVE * FROM dbo.q), TIMEOUT 0",
        "SELECT TOP (0) n FROM dbo.t",
        "SELECT n FROM dbo.t ORDER BY n OFFSET 0 ROWS",
    ],
)
def test_the_ends_of_the_ranges_are_allowed(side, statement):
    side.run(f"{BEGIN} {statement};")


@pytest.mark.parametrize("change", ["ALTER SERVICE s ON QUEUE dbo.other", "DROP SERVICE s"])
def test_a_receive_that_waits_for_a_conversation_ends_with_an_error_when_its_service_leaves_the_queue(side, change):
    handle = side.value(f"{BEGIN} SELECT @h;")
    results, other = Results(), side.connect("db")
    text = f"DECLARE @h uniqueidentifier = '{handle}'; WAITFOR (RECEIVE * FROM dbo.q WHERE conversation_handle = @h);"
    side.scheduler.spawn(other.batch(text, results), "reader")
    side.world.run_for(1)
    assert not results.messages
    side.run(change)
    side.world.run_for(1)
    assert [error.number for error in results.errors] == [8426]
