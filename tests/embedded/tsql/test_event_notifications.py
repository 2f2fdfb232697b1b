"""Event notifications of a queue: their conversations "stay open until the notification is dropped"."""

import pytest

SENT = "SELECT message_type_name FROM dbo.events ORDER BY queuing_order;"
NOTIFICATION = "EventNotification"
END = "EndDialog"


@pytest.fixture
def side(side):
    """A queue that has sent a notification to the service `listener`."""
    side.run("""
        CREATE QUEUE dbo.events;
        CREATE SERVICE listener ON QUEUE dbo.events ([http://schemas.microsoft.com/SQL/Notifications/PostEventNotification]);
        CREATE QUEUE dbo.q;
        CREATE SERVICE s ON QUEUE dbo.q ([DEFAULT]);
        CREATE EVENT NOTIFICATION n ON QUEUE dbo.q FOR QUEUE_ACTIVATION TO SERVICE 'listener', 'current database';
        DECLARE @h uniqueidentifier;
        BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's', 'CURRENT DATABASE' WITH ENCRYPTION = OFF;
        SEND ON CONVERSATION @h (N'x');
    """)
    side.world.run_for(1)
    assert arrived(side) == [NOTIFICATION]
    return side


def arrived(side):
    return [name.rpartition("/")[2] for (name,) in side.rows(SENT)]


@pytest.mark.parametrize("drop", ["DROP EVENT NOTIFICATION n ON QUEUE dbo.q;", "DROP SERVICE s; DROP QUEUE dbo.q;"])
def test_dropping_a_notification_or_its_queue_ends_its_conversation(side, drop):
    side.run(drop)
    side.world.run_for(1)
    assert arrived(side) == [NOTIFICATION, END]
    side.run("DECLARE @h uniqueidentifier; SELECT @h = conversation_handle FROM dbo.events; END CONVERSATION @h;")
    side.world.run_for(1)
    assert side.rows("SELECT state FROM sys.conversation_endpoints WHERE far_service = 'listener';") == []
    side.crash()
    side.run("USE db;")
    assert side.rows("SELECT name FROM sys.event_notifications;") == [] and not side.engine.rows_set_aside


def test_a_drop_that_is_rolled_back_ends_nothing(side):
    side.run("BEGIN TRANSACTION; DROP EVENT NOTIFICATION n ON QUEUE dbo.q; ROLLBACK;")
    side.run("RECEIVE * FROM dbo.q;")
    side.run("""
        DECLARE @h uniqueidentifier;
        BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's', 'CURRENT DATABASE' WITH ENCRYPTION = OFF;
        SEND ON CONVERSATION @h (N'y');
    """)
    side.world.run_for(1)
    assert arrived(side) == [NOTIFICATION, NOTIFICATION]


def test_a_notification_whose_conversation_the_receiver_has_ended_can_be_dropped(side):
    side.run("DECLARE @h uniqueidentifier; SELECT @h = conversation_handle FROM dbo.events; END CONVERSATION @h;")
    side.world.run_for(1)
    side.run("DROP EVENT NOTIFICATION n ON QUEUE dbo.q;")
    side.world.run_for(1)
    assert arrived(side) == []
    assert side.rows("SELECT state FROM sys.conversation_endpoints WHERE far_service = 'listener';") == []


def test_a_notification_that_is_dropped_before_it_is_sent_opens_no_conversation(side):
    side.run("CREATE QUEUE dbo.fresh; CREATE SERVICE fresh ON QUEUE dbo.fresh ([DEFAULT]);")
    side.run("""
        CREATE EVENT NOTIFICATION late ON QUEUE dbo.fresh FOR QUEUE_ACTIVATION TO SERVICE 'listener', 'current database';
        DECLARE @h uniqueidentifier;
        BEGIN DIALOG @h FROM SERVICE s TO SERVICE 'fresh', 'CURRENT DATABASE' WITH ENCRYPTION = OFF;
        SEND ON CONVERSATION @h (N'x');
        DROP EVENT NOTIFICATION late ON QUEUE dbo.fresh;
    """)
    side.world.run_for(1)
    assert arrived(side) == [NOTIFICATION]
    assert side.value("SELECT COUNT(*) FROM sys.conversation_endpoints WHERE far_service = 'listener';") == 1


def test_a_queue_that_activates_a_procedure_cannot_notify_of_activation_too(side):
    side.run("CREATE PROCEDURE dbo.p AS SELECT 1;")
    side.run(
        "ALTER QUEUE dbo.events WITH ACTIVATION (STATUS = ON, PROCEDURE_NAME = dbo.p, MAX_QUEUE_READERS = 1, EXECUTE AS OWNER);"
    )
    create = "CREATE EVENT NOTIFICATION m ON QUEUE dbo.events FOR {} TO SERVICE 'listener', 'current database';"
    assert side.error(create.format("QUEUE_ACTIVATION")).number == 9718
    side.run(create.format("BROKER_QUEUE_DISABLED"))
