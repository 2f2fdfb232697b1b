"""Conversations as their statements show them: values that SQL Server stores, and errors for those it refuses."""

import pytest

from harness.embedded.tsql.catalog.broker_views import RECEIVED_COLUMNS
from tests.embedded.tsql.sides import TABLE, Results

SET_UP = TABLE + "CREATE QUEUE dbo.q; CREATE SERVICE s ON QUEUE dbo.q ([DEFAULT]); CREATE QUEUE dbo.other;"
BEGIN = """
    DECLARE @h uniqueidentifier, @n uniqueidentifier;
    BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's', 'CURRENT DATABASE' WITH ENCRYPTION = OFF;
"""


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
        ("DECLARE @b varbinary(max); RECEIVE @b = message_body, queuing_order FROM dbo.q", 8447),
        ("RECEIVE * FROM dbo.q WHERE conversation_handle = @n", 8418),
        ("RECEIVE * FROM dbo.q WHERE conversation_group_id = @n", 8420),
        (
            "DECLARE @b varbinary(max); DECLARE @t table (b varbinary(max)); RECEIVE @b = message_body FROM dbo.q INTO @t",
            8450,
        ),
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
def test_a_value_outside_its_documented_range_and_a_mixed_projection_are_errors(side, statement, number):
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


OPEN = BEGIN.replace("DECLARE", "BEGIN TRAN; DECLARE", 1) + "SEND ON CONVERSATION @h (N'mine');"
MINE = "mine".encode("utf-16-le")


def test_a_transaction_sees_and_receives_what_it_has_sent(side):
    other = side.connect("db")
    side.run(f"{BEGIN} SEND ON CONVERSATION @h (N'before');")
    side.run(OPEN)
    assert side.value("SELECT COUNT(*) FROM dbo.q") == 2 and side.value("SELECT COUNT(*) FROM dbo.q", other) == 1
    received = "RECEIVE TOP (1) message_body FROM dbo.q"
    assert [side.value(received) for _ in range(2)] == ["before".encode("utf-16-le"), MINE]
    assert side.rows(received, other) == [] and side.rows(received) == []
    side.run("ROLLBACK")
    assert side.value("SELECT COUNT(*) FROM dbo.q", other) == 1
    assert side.value("SELECT COUNT(*) FROM sys.conversation_endpoints", other) == 2


def test_others_receive_after_the_commit_what_the_sender_has_looked_at(side):
    other = side.connect("db")
    side.run(OPEN + "SAVE TRAN s; SEND ON CONVERSATION @h (N'undone'); SELECT COUNT(*) FROM dbo.q; ROLLBACK TRAN s;")
    assert side.value("SELECT COUNT(*) FROM dbo.q") == 1
    assert side.rows("RECEIVE message_body FROM dbo.q", other) == []
    side.run("COMMIT")
    side.crash()
    assert side.rows("USE db; RECEIVE message_body FROM dbo.q") == [(MINE,)]


def test_a_transaction_answers_what_it_has_sent_itself(side):
    side.run(
        OPEN
        + """
        DECLARE @target uniqueidentifier;
        RECEIVE @target = conversation_handle FROM dbo.q;
        SEND ON CONVERSATION @target (N'answer'); END CONVERSATION @target;
        """
    )
    names = [("DEFAULT",), ("http://schemas.microsoft.com/SQL/ServiceBroker/EndDialog",)]
    assert side.rows("RECEIVE message_type_name FROM dbo.q") == names
    side.run("COMMIT")
    assert side.rows("SELECT state_desc FROM sys.conversation_endpoints ORDER BY 1") == [
        ("CLOSED",),
        ("DISCONNECTED_INBOUND",),
    ]


def test_what_goes_elsewhere_shows_in_the_transmission_queue_of_its_transaction_alone(side):
    other = side.connect("db")
    side.run(OPEN.replace("TO SERVICE 's', 'CURRENT DATABASE'", "TO SERVICE 'nowhere'"))
    rows = "SELECT message_body FROM sys.transmission_queue"
    assert side.rows(rows) == [(MINE,)] and side.rows(rows, other) == []
    side.run("ROLLBACK")
    assert side.rows(rows) == []


@pytest.mark.parametrize("isolated", [True, False])
def test_a_receive_that_fails_in_its_list_is_no_poison_and_leaves_the_monitor_notified(side, isolated):
    begin, commit = ("BEGIN TRAN;", "COMMIT;") if isolated else ("", "")
    side.run(
        f"CREATE PROCEDURE dbo.p AS {begin} DECLARE @x xml; RECEIVE TOP (1) @x = CAST(message_body AS xml) FROM dbo.q; {commit}"
    )
    side.run(
        "ALTER QUEUE dbo.q WITH ACTIVATION (STATUS = ON, PROCEDURE_NAME = dbo.p, MAX_QUEUE_READERS = 2, EXECUTE AS OWNER)"
    )
    side.run(f"{BEGIN} SEND ON CONVERSATION @h (N'<a>');")
    side.world.run_for(60)
    states = "SELECT is_receive_enabled, state FROM sys.service_queues, sys.dm_broker_queue_monitors WHERE name = 'q'"
    assert side.rows(states) == [(1, "NOTIFIED")] and side.value("SELECT COUNT(*) FROM dbo.q") == 1
    for _ in range(6):
        assert side.error("RECEIVE TOP (1) CAST(message_body AS xml) AS x FROM dbo.q").number == 9400
    assert side.rows(states) == [(1, "NOTIFIED")]
    side.run("RECEIVE TOP (0) * FROM dbo.q")  # any RECEIVE that ends well
    assert side.rows(states) == [(1, "RECEIVES_OCCURRING")]


def test_an_encrypted_dialog_inside_a_database_waits_for_a_master_key(side):
    side.run(f"{BEGIN.replace('OFF', 'ON')} SEND ON CONVERSATION @h (N'x');")
    [(status,)] = side.rows("SELECT transmission_status FROM sys.transmission_queue")
    assert status.startswith("The session keys for this conversation could not be created or accessed.")
    side.run("CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'secret'")
    side.world.run_for(5)
    assert side.value("SELECT COUNT(*) FROM dbo.q") == 1


@pytest.mark.parametrize("body", ["", "(N'')", "(N'<a/>text<b/>')", "(N'text')"])
def test_an_empty_body_and_a_fragment_are_well_formed(side, body):
    side.run(
        "CREATE MESSAGE TYPE x VALIDATION = WELL_FORMED_XML; CREATE CONTRACT k (x SENT BY ANY); ALTER SERVICE s (ADD CONTRACT k)"
    )
    begin = BEGIN.replace("WITH ENCRYPTION", "ON CONTRACT k WITH ENCRYPTION")
    side.run(f"{begin} SEND ON CONVERSATION @h MESSAGE TYPE x {body};")
    assert side.rows("SELECT message_type_name FROM dbo.q") == [("x",)]


def test_cleanup_leaves_nothing_on_disk(side):
    side.run("CREATE QUEUE dbo.lonely; CREATE SERVICE lonely ON QUEUE dbo.lonely;")
    before = len(side.store.rows)
    side.run(
        "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE lonely TO SERVICE 'nowhere' WITH ENCRYPTION = OFF; SEND ON CONVERSATION @h (0x01);"
    )
    handles = "SELECT conversation_handle FROM sys.transmission_queue"
    [(handle,)] = side.rows(handles)
    side.run(f"END CONVERSATION '{handle}' WITH CLEANUP")
    assert len(side.store.rows) == before
    side.crash()
    side.run("USE db;")
    assert side.rows(handles) == [] and not side.engine.rows_set_aside
