"""BEGIN DIALOG, SEND, RECEIVE and END CONVERSATION between two services of one database."""

import threading
import time

import pyodbc
import pytest

from tests.conformance.waiting import wait_until

pytestmark = pytest.mark.process

BEGIN = """
SET NOCOUNT ON;
DECLARE @h uniqueidentifier;
BEGIN DIALOG @h FROM SERVICE [//Test/Initiator] TO SERVICE '//Test/Target' ON CONTRACT [//Test/Contract] WITH ENCRYPTION = OFF;
SELECT @h;
"""
RECEIVE = """
RECEIVE TOP (100) conversation_handle, message_type_name, message_sequence_number, CAST(message_body AS varbinary(8000)) AS body
FROM dbo.TargetQueue;
"""
END_DIALOG = "http://schemas.microsoft.com/SQL/ServiceBroker/EndDialog"
ERROR = "http://schemas.microsoft.com/SQL/ServiceBroker/Error"


def begin(connection):
    return connection.execute(BEGIN).fetchval()


def send(connection, handle, body):
    connection.execute(
        "DECLARE @h uniqueidentifier = ?; SEND ON CONVERSATION @h MESSAGE TYPE [//Test/Message] (?);", handle, body
    )


def receive(connection, queue="dbo.TargetQueue"):
    return connection.execute(RECEIVE.replace("dbo.TargetQueue", queue)).fetchall()


def arrived(connection, count, queue="dbo.TargetQueue"):
    """Wait until the queue holds so many messages: delivery may end after SEND, even inside one instance."""
    wait_until(lambda: connection.execute(f"SELECT COUNT(*) FROM {queue} WITH (NOLOCK);").fetchval() == count)


def test_messages_of_a_dialog_are_received_once_in_order_with_their_sequence_numbers(services):
    handle = begin(services)
    for body in (b"a", b"b", b"c"):
        send(services, handle, body)
    arrived(services, 3)
    rows = receive(services)
    assert [(row.message_sequence_number, row.body) for row in rows] == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert {row.message_type_name for row in rows} == {"//Test/Message"}
    assert receive(services) == []


def test_a_body_of_type_xml_is_utf_16_with_a_mark_and_is_xml_again_at_the_target(services):
    handle = begin(services)
    services.execute(
        "CREATE PROCEDURE dbo.SendXml @h uniqueidentifier, @body xml AS "
        "SEND ON CONVERSATION @h MESSAGE TYPE [//Test/Message] (@body);"
    )
    services.execute("{CALL dbo.SendXml (?, ?)}", handle, "<?xml version='1.0'?><a b='1'> <c></c></a>")
    arrived(services, 1)
    [row] = services.execute(
        "RECEIVE CAST(message_body AS xml) AS body, CAST(message_body AS varbinary(max)) AS bytes FROM dbo.TargetQueue;"
    ).fetchall()
    assert row.body == '<a b="1"><c/></a>'
    assert row.bytes == ("\ufeff" + row.body).encode("utf-16-le")
    with pytest.raises(pyodbc.Error, match=r"XML parsing: line 1, character \d, end tag does not match"):
        services.execute("{CALL dbo.SendXml (?, ?)}", handle, "<a></b>")


def test_receive_returns_messages_of_one_conversation_group_only(services):
    first, second = begin(services), begin(services)
    send(services, first, b"1")
    send(services, second, b"2")
    arrived(services, 2)
    one, other = receive(services), receive(services)
    assert sorted([one[0].body, other[0].body]) == [b"1", b"2"]
    assert len(one) == len(other) == 1


def test_top_limits_what_receive_returns(services):
    handle = begin(services)
    for body in (b"a", b"b", b"c"):
        send(services, handle, body)
    arrived(services, 3)
    rows = services.execute("RECEIVE TOP (2) message_sequence_number FROM dbo.TargetQueue;").fetchall()
    assert [row[0] for row in rows] == [0, 1]


def test_receive_with_where_takes_the_named_conversation(services):
    first, second = begin(services), begin(services)
    send(services, first, b"1")
    send(services, second, b"2")
    arrived(services, 2)
    query = "SELECT conversation_handle FROM dbo.TargetQueue WITH (NOLOCK) WHERE message_body = 0x32;"
    wanted = services.execute(query).fetchval()
    rows = services.execute(
        "DECLARE @h uniqueidentifier = ?; RECEIVE CAST(message_body AS varbinary(10)) FROM dbo.TargetQueue WHERE conversation_handle = @h;",
        wanted,
    ).fetchall()
    assert [row[0] for row in rows] == [b"2"]


def test_a_rolled_back_send_sends_nothing(services, connect):
    handle = begin(services)
    with connect(autocommit=False) as connection:
        send(connection, handle, b"never")
        connection.rollback()
    send(services, handle, b"real")
    rows = wait_until(lambda: receive(services))
    assert [(row.message_sequence_number, row.body) for row in rows] == [(0, b"real")]


def test_a_rolled_back_receive_returns_the_messages(services, connect):
    send(services, begin(services), b"again")
    arrived(services, 1)
    with connect(autocommit=False) as connection:
        assert [row.body for row in receive(connection)] == [b"again"]
        connection.rollback()
    assert [row.body for row in receive(services)] == [b"again"]


def test_a_second_reader_cannot_receive_from_a_locked_conversation_group(services, connect):
    handle = begin(services)
    send(services, handle, b"1")
    send(services, handle, b"2")
    arrived(services, 2)
    with connect(autocommit=False) as connection:
        connection.execute("RECEIVE TOP (1) message_body FROM dbo.TargetQueue;").fetchall()
        assert receive(services) == []
        connection.commit()
    assert [row.body for row in receive(services)] == [b"2"]


def test_messages_sent_in_one_transaction_appear_together_at_its_commit(services, connect):
    handle = begin(services)
    with connect(autocommit=False) as connection:
        send(connection, handle, b"1")
        send(connection, handle, b"2")
        assert receive(services) == []
        connection.commit()
    arrived(services, 2)
    assert [row.body for row in receive(services)] == [b"1", b"2"]


def test_waitfor_receive_returns_no_row_after_its_timeout(services):
    started = time.monotonic()
    rows = services.execute("WAITFOR (RECEIVE message_body FROM dbo.TargetQueue), TIMEOUT 300;").fetchall()
    assert rows == []
    assert time.monotonic() - started > 0.25


def test_waitfor_receive_wakes_when_a_message_arrives(services, connect):
    handle = begin(services)
    found = []
    with connect() as other:
        reader = threading.Thread(
            target=lambda: found.extend(
                other.execute("WAITFOR (RECEIVE message_body FROM dbo.TargetQueue), TIMEOUT 10000;").fetchall()
            )
        )
        reader.start()
        waiting = "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE wait_type = 'BROKER_RECEIVE_WAITFOR';"
        wait_until(lambda: services.execute(waiting).fetchval())
        send(services, handle, b"now")
        reader.join(5)
    assert [bytes(row[0]) for row in found] == [b"now"]


def test_receive_into_a_table_variable_counts_rows(services):
    send(services, begin(services), b"x")
    arrived(services, 1)
    row = services.execute(
        """
        SET NOCOUNT ON;
        DECLARE @t table (name sysname, body varbinary(max), dialog uniqueidentifier);
        DECLARE @count int;
        RECEIVE TOP (10) message_type_name, message_body, conversation_handle FROM dbo.TargetQueue INTO @t;
        SET @count = @@ROWCOUNT;
        SELECT @count, name, body FROM @t;
        """
    ).fetchone()
    assert tuple(row) == (1, "//Test/Message", b"x")


def test_a_body_of_a_megabyte_arrives_whole(services):
    body = bytes(range(256)) * 4096
    send(services, begin(services), body)
    received = wait_until(lambda: services.execute("RECEIVE message_body FROM dbo.TargetQueue;").fetchval())
    assert received == body


def test_ending_a_dialog_sends_enddialog_and_both_ends_close(services):
    handle = begin(services)
    send(services, handle, b"x")
    [row] = wait_until(lambda: receive(services))
    services.execute("DECLARE @h uniqueidentifier = ?; END CONVERSATION @h;", row.conversation_handle)
    [end] = wait_until(lambda: receive(services, "dbo.InitiatorQueue"))
    assert end.message_type_name == END_DIALOG
    assert end.body is None
    states = "SELECT state FROM sys.conversation_endpoints WHERE conversation_handle = ?;"
    assert services.execute(states, handle).fetchval() == "DI"
    services.execute("DECLARE @h uniqueidentifier = ?; END CONVERSATION @h;", handle)
    wait_until(lambda: services.execute(states, handle).fetchval() is None)
    wait_until(lambda: services.execute(states, row.conversation_handle).fetchval() == "CD")


def test_ending_with_error_sends_an_error_message_with_code_and_description(services):
    handle = begin(services)
    send(services, handle, b"x")
    [row] = wait_until(lambda: receive(services))
    services.execute(
        "DECLARE @h uniqueidentifier = ?; END CONVERSATION @h WITH ERROR = 4711 DESCRIPTION = N'no such order';",
        row.conversation_handle,
    )
    [error] = wait_until(lambda: receive(services, "dbo.InitiatorQueue"))
    assert error.message_type_name == ERROR
    text = error.body.decode("utf-16").lstrip("\ufeff")
    assert 'xmlns="http://schemas.microsoft.com/SQL/ServiceBroker/Error"' in text
    assert "<Code>4711</Code><Description>no such order</Description>" in text


def test_ending_with_cleanup_sends_nothing(services):
    handle = begin(services)
    send(services, handle, b"x")
    wait_until(lambda: receive(services))
    services.execute("DECLARE @h uniqueidentifier = ?; END CONVERSATION @h WITH CLEANUP;", handle)
    count = "SELECT COUNT(*) FROM sys.conversation_endpoints WHERE conversation_handle = ?;"
    assert services.execute(count, handle).fetchval() == 0
    assert receive(services) == []


def test_a_conversation_timer_puts_a_dialogtimer_message_on_the_local_queue(services):
    handle = begin(services)
    services.execute("DECLARE @h uniqueidentifier = ?; BEGIN CONVERSATION TIMER (@h) TIMEOUT = 1;", handle)
    [row] = wait_until(lambda: receive(services, "dbo.InitiatorQueue"))
    assert row.message_type_name == "http://schemas.microsoft.com/SQL/ServiceBroker/DialogTimer"


def test_a_related_conversation_shares_the_group(services):
    handle = begin(services)
    services.execute(
        """
        DECLARE @old uniqueidentifier = ?, @h uniqueidentifier;
        BEGIN DIALOG @h FROM SERVICE [//Test/Initiator] TO SERVICE '//Test/Target' ON CONTRACT [//Test/Contract]
            WITH RELATED_CONVERSATION = @old, ENCRYPTION = OFF;
        """,
        handle,
    )
    groups = "SELECT COUNT(*), COUNT(DISTINCT conversation_group_id) FROM sys.conversation_endpoints;"
    assert tuple(services.execute(groups).fetchone()) == (2, 1)


def test_a_dialog_to_an_unknown_service_keeps_its_message_in_the_transmission_queue(services):
    services.execute(
        """
        DECLARE @h uniqueidentifier;
        BEGIN DIALOG @h FROM SERVICE [//Test/Initiator] TO SERVICE '//Nowhere' ON CONTRACT [//Test/Contract] WITH ENCRYPTION = OFF;
        SEND ON CONVERSATION @h MESSAGE TYPE [//Test/Message] (0x01);
        """
    )
    status = "SELECT transmission_status FROM sys.transmission_queue WHERE to_service_name = N'//Nowhere';"
    assert "target service name could not be found" in wait_until(lambda: services.execute(status).fetchval())


def test_a_dialog_to_an_unknown_service_of_a_named_broker_gets_error_8490(services):
    services.execute(
        """
        DECLARE @h uniqueidentifier, @guid nvarchar(128);
        SELECT @guid = CAST(service_broker_guid AS nvarchar(128)) FROM sys.databases WHERE database_id = DB_ID();
        BEGIN DIALOG @h FROM SERVICE [//Test/Initiator] TO SERVICE '//Nowhere', @guid ON CONTRACT [//Test/Contract] WITH ENCRYPTION = OFF;
        SEND ON CONVERSATION @h MESSAGE TYPE [//Test/Message] (0x01);
        """
    )
    [row] = wait_until(lambda: receive(services, "dbo.InitiatorQueue"))
    assert "<Code>-8490</Code>" in row.body.decode("utf-16")


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("BEGIN DIALOG @h FROM SERVICE [//No] TO SERVICE 'x' ON CONTRACT [//Test/Contract];", 8423),
        ("BEGIN DIALOG @h FROM SERVICE [//Test/Initiator] TO SERVICE 'x' ON CONTRACT [//No];", 8425),
        ("SET @h = NEWID(); SEND ON CONVERSATION @h MESSAGE TYPE [//Test/Message] (0x00);", 8426),
        ("SET @h = NEWID(); END CONVERSATION @h;", 8426),
        ("SEND ON CONVERSATION @h MESSAGE TYPE [//Test/Message] (0x00);", 8418),
        ("{begin}; SEND ON CONVERSATION @h MESSAGE TYPE [//No] (0x00);", 8428),
        ("{begin}; SEND ON CONVERSATION @h MESSAGE TYPE [DEFAULT] (0x00);", 8431),
        ("{begin}; SEND ON CONVERSATION @h MESSAGE TYPE [//Test/Message] (NULL);", 8433),
        ("{begin}; END CONVERSATION @h; SEND ON CONVERSATION @h MESSAGE TYPE [//Test/Message] (0x00);", (8426, 8429)),
        ("COMMIT TRANSACTION;", 3902),
        ("ROLLBACK TRANSACTION;", 3903),
        ("SELECT * FROM dbo.NoSuchTable;", 208),
        ("EXECUTE dbo.NoSuchProcedure;", 2812),
        ("SELECT @undeclared;", 137),
    ],
)
def test_wrong_statements_raise_sql_servers_error_numbers(services, statement, number):
    dialog = (
        "BEGIN DIALOG @h FROM SERVICE [//Test/Initiator] TO SERVICE '//Test/Target' "
        "ON CONTRACT [//Test/Contract] WITH ENCRYPTION = OFF"
    )
    numbers = number if isinstance(number, tuple) else (number,)
    with pytest.raises(pyodbc.Error) as caught:
        services.execute("SET NOCOUNT ON; DECLARE @h uniqueidentifier; " + statement.replace("{begin}", dialog))
    assert any(f"({wanted})" in str(caught.value) for wanted in numbers)


def test_new_broker_changes_the_guid_and_removes_all_conversations(services, connect):
    guid = "SELECT service_broker_guid FROM sys.databases WHERE database_id = DB_ID();"
    before = services.execute(guid).fetchval()
    send(services, begin(services), b"x")
    database = services.execute("SELECT DB_NAME();").fetchval()
    services.execute(f"ALTER DATABASE [{database}] SET NEW_BROKER WITH ROLLBACK IMMEDIATE;")
    assert services.execute(guid).fetchval() != before
    assert services.execute("SELECT COUNT(*) FROM sys.conversation_endpoints;").fetchval() == 0
    assert receive(services) == []


def test_a_transaction_sees_and_receives_what_it_has_sent(services):
    services.autocommit = False
    try:
        send(services, begin(services), b"mine")
        arrived(services, 1)
        assert [row.body for row in receive(services)] == [b"mine"]
    finally:
        services.rollback()
        services.autocommit = True
    assert receive(services) == []


def test_an_encrypted_dialog_inside_a_database_waits_for_a_master_key(services):
    """The manual says that one database alone needs none; a published script shows 28050 on a server."""
    send(services, services.execute(BEGIN.replace("ENCRYPTION = OFF", "ENCRYPTION = ON")).fetchval(), b"x")
    statuses = "SELECT transmission_status FROM sys.transmission_queue WHERE transmission_status <> N''"
    wait_until(lambda: services.execute(statuses).fetchall() != [])
    [(status,)] = services.execute(statuses).fetchall()
    assert status.startswith("The session keys for this conversation could not be created or accessed.")


def test_text_that_is_no_xml_dooms_the_transaction(services):
    text = "BEGIN TRAN; BEGIN TRY DECLARE @x xml = N'<a>' END TRY BEGIN CATCH SELECT XACT_STATE() END CATCH; ROLLBACK"
    assert services.execute(text).fetchval() == -1
