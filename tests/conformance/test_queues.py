"""Queue states, poison messages, queue monitors and activation."""

import time
from xml.etree import ElementTree

import pyodbc
import pytest

from tests.conformance.test_dialogs import arrived, begin, receive, send
from tests.conformance.waiting import wait_until

pytestmark = pytest.mark.process

MONITOR = """
SELECT m.state FROM sys.dm_broker_queue_monitors AS m
INNER JOIN sys.service_queues AS q ON q.object_id = m.queue_id
WHERE q.name = N'TargetQueue' AND m.database_id = DB_ID();
"""
TASKS = "SELECT COUNT(*) FROM sys.dm_broker_activated_tasks WHERE database_id = DB_ID();"
ENABLED = "SELECT is_receive_enabled FROM sys.service_queues WHERE name = N'TargetQueue';"
READ_ALL = """
CREATE OR ALTER PROCEDURE dbo.Reader AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @received table (body varbinary(max), sequence bigint);
    WHILE 1 = 1
    BEGIN
        BEGIN TRANSACTION;
        WAITFOR (RECEIVE TOP (100) message_body, message_sequence_number FROM dbo.TargetQueue INTO @received), TIMEOUT 500;
        IF @@ROWCOUNT = 0
        BEGIN
            COMMIT TRANSACTION;
            BREAK;
        END;
        INSERT INTO dbo.stored (body) SELECT body FROM @received ORDER BY sequence;
        DELETE FROM @received;
        COMMIT TRANSACTION;
    END;
END;
"""
STUB = "CREATE OR ALTER PROCEDURE dbo.Reader AS BEGIN SET NOCOUNT ON; INSERT INTO dbo.stored (body) VALUES (0xFF); END;"


def activate(connection, procedure, readers=1):
    connection.execute("CREATE TABLE dbo.stored (id int IDENTITY NOT NULL PRIMARY KEY, body varbinary(max) NULL);")
    connection.execute(procedure)
    connection.execute(
        f"ALTER QUEUE dbo.TargetQueue WITH ACTIVATION (STATUS = ON, PROCEDURE_NAME = dbo.Reader, "
        f"MAX_QUEUE_READERS = {readers}, EXECUTE AS OWNER);"
    )


def watch(connection, what="QUEUE dbo.TargetQueue FOR QUEUE_ACTIVATION"):
    """Let an event notification, of TargetQueue if nothing else is said, go to NotificationQueue."""
    connection.execute("CREATE QUEUE dbo.NotificationQueue;")
    connection.execute(
        "CREATE SERVICE [//Test/Notified] ON QUEUE dbo.NotificationQueue "
        "([http://schemas.microsoft.com/SQL/Notifications/PostEventNotification]);"
    )
    connection.execute(f"CREATE EVENT NOTIFICATION Arrived ON {what} TO SERVICE '//Test/Notified', 'current database';")


def stored(connection):
    return [bytes(row[0]) for row in connection.execute("SELECT body FROM dbo.stored ORDER BY id;").fetchall()]


def test_receive_from_a_queue_that_is_off_is_error_9617(services):
    services.execute("ALTER QUEUE dbo.TargetQueue WITH STATUS = OFF;")
    with pytest.raises(pyodbc.Error, match=r"9617"):
        receive(services)


def test_messages_for_a_queue_that_is_off_wait_and_are_delivered_once_it_is_on(services):
    services.execute("ALTER QUEUE dbo.TargetQueue WITH STATUS = OFF;")
    send(services, begin(services), b"later")
    wait_until(lambda: services.execute("SELECT COUNT(*) FROM sys.transmission_queue;").fetchval() == 1)
    services.execute("ALTER QUEUE dbo.TargetQueue WITH STATUS = ON;")
    assert [row.body for row in wait_until(lambda: receive(services))] == [b"later"]
    wait_until(lambda: services.execute("SELECT COUNT(*) FROM sys.transmission_queue;").fetchval() == 0)


def test_five_rollbacks_of_a_receive_disable_the_queue(services, connect):
    send(services, begin(services), b"poison")
    arrived(services, 1)
    for _ in range(5):
        assert services.execute(ENABLED).fetchval()
        with connect(autocommit=False) as connection:
            assert len(receive(connection)) == 1
            connection.rollback()
    wait_until(lambda: not services.execute(ENABLED).fetchval())


def test_without_poison_message_handling_rollbacks_do_not_disable_the_queue(services, connect):
    services.execute("ALTER QUEUE dbo.TargetQueue WITH POISON_MESSAGE_HANDLING (STATUS = OFF);")
    send(services, begin(services), b"poison")
    arrived(services, 1)
    for _ in range(6):
        with connect(autocommit=False) as connection:
            receive(connection)
            connection.rollback()
    assert services.execute(ENABLED).fetchval()


def test_an_activated_procedure_receives_every_message_in_order(services):
    activate(services, READ_ALL)
    handle = begin(services)
    bodies = [bytes([number]) for number in range(50)]
    for body in bodies:
        send(services, handle, body)
    wait_until(lambda: len(stored(services)) == 50)
    assert stored(services) == bodies


def test_a_queue_monitor_is_inactive_again_after_its_reader_has_ended(services):
    activate(services, READ_ALL)
    assert services.execute(MONITOR).fetchval() == "INACTIVE"
    send(services, begin(services), b"x")
    wait_until(lambda: stored(services) == [b"x"])
    wait_until(lambda: services.execute(TASKS).fetchval() == 0)
    wait_until(lambda: services.execute(MONITOR).fetchval() == "INACTIVE")


def test_a_monitor_stays_notified_until_a_receive_on_its_queue(services):
    """R. Rusanu, "Understanding Queue Monitors": a stub without RECEIVE is launched once, not again."""
    activate(services, STUB)
    handle = begin(services)
    send(services, handle, b"1")
    wait_until(lambda: stored(services) == [b"\xff"])
    send(services, handle, b"2")
    arrived(services, 2)
    assert services.execute(MONITOR).fetchval() == "NOTIFIED"
    services.execute(READ_ALL)
    assert services.execute(MONITOR).fetchval() == "NOTIFIED"
    assert stored(services) == [b"\xff"]
    services.execute("ALTER QUEUE dbo.TargetQueue WITH ACTIVATION (STATUS = OFF);")
    services.execute("ALTER QUEUE dbo.TargetQueue WITH ACTIVATION (STATUS = ON);")
    wait_until(lambda: stored(services) == [b"\xff", b"1", b"2"])


def test_a_second_reader_starts_five_seconds_after_the_first_unless_a_receive_returns_nothing(services, connect):
    busy = READ_ALL.replace("DELETE FROM @received;", "DELETE FROM @received; WAITFOR DELAY '00:00:00.200';")
    activate(services, busy.replace("TOP (100)", "TOP (1)"), readers=2)
    started = time.monotonic()
    for _ in range(4):
        handle = begin(services)
        for number in range(20):
            send(services, handle, bytes([number]))
    wait_until(lambda: services.execute(TASKS).fetchval() == 1)
    wait_until(lambda: services.execute(TASKS).fetchval() == 2)
    assert time.monotonic() - started > 4.9  # the first reader starts with the first message
    services.execute(
        "ALTER QUEUE dbo.TargetQueue WITH STATUS = OFF;"
    )  # otherwise the end of the test waits for the readers


def test_an_event_notification_is_sent_when_activation_would_occur(services):
    watch(services)
    send(services, begin(services), b"x")
    [row] = wait_until(lambda: receive(services, "dbo.NotificationQueue"))
    assert row.message_type_name == "http://schemas.microsoft.com/SQL/Notifications/EventNotification"
    assert "<EventType>QUEUE_ACTIVATION</EventType>" in row.body.decode("utf-16")


def test_an_event_of_the_database_tells_what_was_done_and_not_what_was_rolled_back(services):
    """The manual gives the elements, and not whether a statement that is rolled back raises its event."""
    watch(services, "DATABASE FOR CREATE_TABLE")
    services.execute("BEGIN TRANSACTION; CREATE TABLE dbo.Undone (a int); ROLLBACK;")
    services.execute("CREATE TABLE dbo.Done (a int)")
    bodies = wait_until(lambda: services.execute("RECEIVE message_body FROM dbo.NotificationQueue;").fetchall())
    [event] = [ElementTree.fromstring(bytes(body).decode("utf-16")) for (body,) in bodies]
    assert [element.tag for element in event] == [
        *("EventType", "PostTime", "SPID", "ServerName", "LoginName", "UserName", "DatabaseName", "SchemaName"),
        *("ObjectName", "ObjectType", "TSQLCommand"),
    ]
    told = {tag: event.findtext(tag) for tag in ("EventType", "SchemaName", "ObjectName", "ObjectType")}
    assert told == {"EventType": "CREATE_TABLE", "SchemaName": "dbo", "ObjectName": "Done", "ObjectType": "TABLE"}
    assert event.findtext("TSQLCommand/CommandText") == "CREATE TABLE dbo.Done (a int)"
