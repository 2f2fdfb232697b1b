"""Event notifications of a database and of the server: the events that statements raise."""

import pytest


@pytest.fixture
def watcher(side):
    """A service for events, with nothing that raises them yet."""
    side.run("""
        CREATE QUEUE dbo.events;
        CREATE SERVICE listener ON QUEUE dbo.events ([http://schemas.microsoft.com/SQL/Notifications/PostEventNotification]);
    """)
    return side


def watch(side, place, events):
    side.run(f"CREATE EVENT NOTIFICATION n ON {place} FOR {events} TO SERVICE 'listener', 'current database';")


def events(side):
    """The type, object and command of each event that has arrived."""
    side.world.run_for(1)
    return side.rows("""
        SELECT b.value('(/EVENT_INSTANCE/EventType)[1]', 'sysname'), b.value('(//ObjectName)[1]', 'sysname'),
            b.value('(//CommandText)[1]', 'nvarchar(max)')
        FROM (SELECT CAST(message_body AS xml) AS b, queuing_order FROM dbo.events) AS e ORDER BY queuing_order;
    """)


def test_statements_raise_the_events_of_their_database(watcher):
    watch(
        watcher, "DATABASE", "DDL_TABLE_EVENTS, CREATE_PROCEDURE, ALTER_PROCEDURE, CREATE_MESSAGE_TYPE, CREATE_SCHEMA"
    )
    for text in (
        "CREATE TABLE dbo.made (a nvarchar(9) DEFAULT N'<&');",
        "ALTER TABLE made ADD b int;",
        "CREATE OR ALTER PROC p AS SELECT 1",
        "CREATE OR ALTER PROC p AS SELECT 2",
        "CREATE MESSAGE TYPE [//m] VALIDATION = NONE",
        "CREATE SCHEMA s",
        "CREATE TABLE #passing (a int); CREATE QUEUE other; DROP TABLE IF EXISTS missing;",
        "IF 1 = 1 DROP TABLE IF EXISTS missing, made",
    ):
        watcher.run(text)
    assert events(watcher) == [
        ("CREATE_TABLE", "made", "CREATE TABLE dbo.made (a nvarchar(9) DEFAULT N'<&')"),
        ("ALTER_TABLE", "made", "ALTER TABLE made ADD b int"),
        ("CREATE_PROCEDURE", "p", "CREATE OR ALTER PROC p AS SELECT 1"),
        ("ALTER_PROCEDURE", "p", "CREATE OR ALTER PROC p AS SELECT 2"),
        ("CREATE_MESSAGE_TYPE", "//m", "CREATE MESSAGE TYPE [//m] VALIDATION = NONE"),
        ("CREATE_SCHEMA", "s", "CREATE SCHEMA s"),
        ("DROP_TABLE", "made", "DROP TABLE IF EXISTS missing, made"),
    ]


def test_what_is_rolled_back_or_fails_raises_nothing(watcher):
    watch(watcher, "DATABASE", "CREATE_TABLE")
    watcher.run("BEGIN TRAN; CREATE TABLE a (a int); ROLLBACK; BEGIN TRAN; CREATE TABLE b (a int); COMMIT;")
    assert watcher.error("CREATE TABLE b (a int);").number == 2714
    assert [name for _, name, _ in events(watcher)] == ["b"]


def test_the_server_hears_of_all_databases_also_after_a_restart(watcher):
    watch(watcher, "SERVER WITH FAN_IN", "CREATE_VIEW")
    watcher.crash()
    watcher.run("CREATE DATABASE elsewhere;")
    watcher.run("USE elsewhere;")
    watcher.run("CREATE VIEW v AS SELECT 1 AS a")
    watcher.run("USE db;")
    assert [name for _, name, _ in events(watcher)] == ["v"]
    assert watcher.rows("SELECT name, parent_class_desc, service_name FROM sys.server_event_notifications;") == [
        ("n", "SERVER", "listener")
    ]
    watcher.run("DROP EVENT NOTIFICATION n ON SERVER;")
    assert watcher.rows("SELECT name FROM sys.server_event_notifications;") == []


@pytest.mark.parametrize(
    ("place", "event", "number"),
    [
        ("DATABASE", "AUDIT_LOGIN", 1098),
        ("SERVER", "QUEUE_ACTIVATION", 1098),
        ("QUEUE dbo.events", "CREATE_TABLE", 1098),
        ("SERVER", "DEADLOCK_GRAPH", 50001),
        ("QUEUE dbo.missing", "QUEUE_ACTIVATION", 15151),
    ],
)
def test_events_belong_to_places(watcher, place, event, number):
    text = f"CREATE EVENT NOTIFICATION n ON {place} FOR {event} TO SERVICE 'listener', 'current database';"
    assert watcher.error(text).number == number


@pytest.mark.parametrize(("place", "number"), [("DATABASE", 262), ("SERVER", 15247)])
def test_who_lacks_the_right_makes_none(watcher, place, number):
    watcher.run("CREATE USER ann WITHOUT LOGIN; EXECUTE AS USER = 'ann';")
    text = f"CREATE EVENT NOTIFICATION n ON {place} FOR CREATE_TABLE TO SERVICE 'listener', 'current database';"
    assert watcher.error(text).number == number
