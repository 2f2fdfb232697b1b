"""Catalog views, DMVs and queues as tables."""

import pytest

from harness.embedded.broker.broker_link import Connection
from harness.embedded.broker.environment import Counters
from harness.embedded.tsql.catalog import VIEWS
from tests.embedded.tsql.sides import World

DIALOG = """
CREATE MESSAGE TYPE M VALIDATION = NONE; CREATE CONTRACT C (M SENT BY ANY); CREATE QUEUE dbo.q WITH STATUS = ON;
CREATE SERVICE S ON QUEUE dbo.q (C); CREATE ROUTE r WITH SERVICE_NAME = 'S2', ADDRESS = 'TCP://h:4022';
CREATE USER u WITHOUT LOGIN; CREATE REMOTE SERVICE BINDING b TO SERVICE 'S2' WITH USER = u;
CREATE BROKER PRIORITY p FOR CONVERSATION SET (LOCAL_SERVICE_NAME = S, PRIORITY_LEVEL = 7);
CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'x'; CREATE CERTIFICATE c WITH SUBJECT = 'x';
CREATE LOGIN l WITH PASSWORD = 'x';
DECLARE @h uniqueidentifier;
BEGIN DIALOG @h FROM SERVICE S TO SERVICE 'S' ON CONTRACT C WITH ENCRYPTION = OFF;
SEND ON CONVERSATION @h MESSAGE TYPE M (0x0102);
BEGIN DIALOG @h FROM SERVICE S TO SERVICE 'nowhere' ON CONTRACT C WITH ENCRYPTION = OFF;
SEND ON CONVERSATION @h MESSAGE TYPE M (0x03);
"""


@pytest.fixture
def full(world):
    return filled(world)


@pytest.fixture(scope="module")
def only_read():
    return filled(World())


def filled(world):
    """Make an instance of the newest version, which has every view, with a session that can read base tables."""
    side = world.side("Here", "2025")
    side.run("CREATE DATABASE db;")
    side.session.close()
    side.session = side.connect("db", is_administrative=True)
    side.run("CREATE TABLE dbo.t (id int IDENTITY NOT NULL PRIMARY KEY, n int NOT NULL, name nvarchar(10) NULL);")
    side.run(DIALOG)
    side.run("INSERT dbo.t (n) VALUES (1)")
    side.world.run_for(1)
    return side


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_every_view_can_be_read_and_its_values_have_the_declared_types(only_read, name):
    [(columns, rows)] = only_read.run(f"SELECT * FROM sys.{name}").sets
    assert [column.name for column in columns] == [member.name for member in VIEWS[name].members]
    python = {
        "bit": int,
        "tinyint": int,
        "smallint": int,
        "int": int,
        "bigint": int,
        "varbinary": bytes,
        "binary": bytes,
    }
    for row in rows:
        for column, value in zip(columns, row, strict=True):
            assert value is None or isinstance(value, python.get(column.type.name, str)), (column, value)
            assert value is not None or column.nullable, column


def test_event_notifications_show_with_their_events(side):
    side.run("CREATE QUEUE dbo.q;")
    side.run(
        "CREATE EVENT NOTIFICATION n ON QUEUE dbo.q FOR QUEUE_ACTIVATION, BROKER_QUEUE_DISABLED TO SERVICE 's', 'current database';"
    )
    side.run(
        "CREATE EVENT NOTIFICATION f ON QUEUE dbo.q WITH FAN_IN FOR BROKER_QUEUE_DISABLED TO SERVICE 's', 'current database';"
    )
    side.crash()
    side.run("USE db;")
    assert side.rows("SELECT name, OBJECT_NAME(parent_id), service_name, creator_sid FROM sys.event_notifications") == [
        ("n", "q", "s", None),
        ("f", "q", "s", b"\x01"),
    ]
    assert side.rows(
        "SELECT n.name, e.type, e.type_desc FROM sys.events AS e JOIN sys.event_notifications AS n "
        "ON n.object_id = e.object_id ORDER BY n.name, e.type"
    ) == [("f", 160, "BROKER_QUEUE_DISABLED"), ("n", 160, "BROKER_QUEUE_DISABLED"), ("n", 173, "QUEUE_ACTIVATION")]


def test_reading_every_view_changes_nothing(full):
    before = (len(full.store.rows), full.rows("SELECT * FROM sys.conversation_endpoints ORDER BY conversation_handle"))
    for _ in range(2):
        for name in sorted(VIEWS):
            full.run(f"SELECT COUNT(*) FROM sys.{name}")
        full.run("SELECT * FROM dbo.q")
    assert (
        len(full.store.rows),
        full.rows("SELECT * FROM sys.conversation_endpoints ORDER BY conversation_handle"),
    ) == before


def test_a_queue_shows_its_messages(full):
    rows = full.rows(
        "SELECT status, priority, message_sequence_number, service_name, service_contract_name, message_type_name, validation, message_body FROM dbo.q WITH (NOLOCK)"
    )
    assert [row[:1] + row[2:] for row in rows] == [(1, 0, "S", "C", "M", "N ", b"\1\2")]
    counts = "SELECT p.index_id, p.rows FROM sys.internal_tables t JOIN sys.service_queues q ON q.object_id = t.parent_object_id JOIN sys.partitions p ON p.object_id = t.object_id WHERE q.name = 'q' ORDER BY 1"
    assert full.rows(counts) == [(1, 1), (2, 1)]
    assert full.error("INSERT dbo.q (status) VALUES (1)").number == 259
    assert full.error("DELETE dbo.q").number == 259


def test_a_queue_shows_all_columns_of_a_message_and_receive_returns_their_values(full):
    endpoint = (
        "SELECT conversation_group_id, conversation_handle FROM sys.conversation_endpoints WHERE is_initiator = 0"
    )
    [(group, handle)] = full.rows(endpoint)
    expected = {
        "status": 1,
        "priority": 7,
        "queuing_order": 0,
        "conversation_group_id": group,
        "conversation_handle": handle,
        "message_sequence_number": 0,
        "service_name": "S",
        "service_id": full.value("SELECT service_id FROM sys.services WHERE name = 'S'"),
        "service_contract_name": "C",
        "service_contract_id": full.value("SELECT service_contract_id FROM sys.service_contracts WHERE name = 'C'"),
        "message_type_name": "M",
        "message_type_id": full.value("SELECT message_type_id FROM sys.service_message_types WHERE name = 'M'"),
        "validation": "N ",
        "message_body": b"\1\2",
    }
    [(columns, [row])] = full.run("SELECT * FROM dbo.q WITH (NOLOCK)").sets
    shown = dict(zip((column.name for column in columns), row, strict=True))
    message_id, enqueued = shown.pop("message_id"), shown.pop("message_enqueue_time")
    assert list(shown.items()) == list(expected.items())
    assert len(message_id) == 36 and enqueued.startswith("2024-01-01 00:00:00.")  # the virtual clock's day
    [(columns, [row])] = full.run("RECEIVE * FROM dbo.q").sets
    received = zip((column.name for column in columns), row, strict=True)
    assert list(received) == list((expected | {"status": 0}).items())


def test_the_transmission_queue_shows_why_a_message_waits(full):
    rows = full.rows("SELECT to_service_name, message_body, transmission_status FROM sys.transmission_queue")
    assert rows[0][:2] == ("nowhere", b"\3")
    assert "target service name could not be found" in rows[0][2]
    assert full.value("SELECT rows FROM sys.partitions WHERE object_id = 68") == 1
    handle = full.value("SELECT conversation_handle FROM sys.transmission_queue")
    assert full.value(f"SELECT GET_TRANSMISSION_STATUS('{handle}')") == rows[0][2]


def test_views_show_created_objects(full):
    assert full.rows(
        "SELECT name, type FROM sys.objects WHERE is_ms_shipped = 0 AND name IN ('t', 'q') ORDER BY name"
    ) == [("q", "SQ"), ("t", "U ")]
    assert full.rows(
        "SELECT c.name, c.max_length, c.is_identity FROM sys.columns c WHERE c.object_id = OBJECT_ID('t') ORDER BY column_id"
    ) == [("id", 4, 1), ("n", 4, 0), ("name", 20, 0)]
    assert full.rows("SELECT remote_service_name, address FROM sys.routes WHERE name = 'r'") == [("S2", "TCP://h:4022")]
    assert full.rows(
        "SELECT b.name, p.name FROM sys.remote_service_bindings b JOIN sys.database_principals p ON p.principal_id = b.remote_principal_id"
    ) == [("b", "u")]
    assert full.rows("SELECT priority FROM sys.conversation_priorities WHERE name = 'p'") == [(7,)]
    assert full.value("SELECT session_id FROM sys.dm_exec_requests") == 52
    assert full.value("SELECT COUNT(*) FROM master.sys.certificates") == 0


def test_a_view_of_another_database_is_named_with_its_database(full):
    full.run("CREATE DATABASE other")
    assert full.value("SELECT COUNT(*) FROM other.sys.tables") == 0
    assert full.rows("SELECT (SELECT COUNT(*) FROM sys.tables), (SELECT COUNT(*) FROM other.sys.tables)") == [(1, 0)]


def test_queues_that_every_database_has_are_ms_shipped(full):
    shipped = full.rows("SELECT name FROM sys.service_queues WHERE is_ms_shipped = 1 ORDER BY name;")
    assert [name for (name,) in shipped] == [
        "EventNotificationErrorsQueue",
        "QueryNotificationErrorsQueue",
        "ServiceBrokerQueue",
    ]
    assert full.rows("SELECT name FROM sys.objects WHERE type = 'SQ' AND is_ms_shipped = 0;") == [("q",)]


def test_a_query_can_name_a_view_twice_with_different_columns(side):
    text = """
        SELECT name FROM sys.databases WHERE database_id = DB_ID()
        UNION ALL SELECT name FROM sys.databases WHERE state_desc = N'ONLINE' AND name = N'master';
    """
    assert sorted(side.rows(text)) == [("db",), ("master",)]


def test_a_connection_with_another_broker_shows_what_went_over_it(side):
    side.run("USE master; CREATE MASTER KEY; CREATE CERTIFICATE peer WITH SUBJECT = 'peer'")
    blob = side.value("SELECT CERTENCODED(CERT_ID('peer'))")
    new = Connection("0F8FAD5B-D9CB-469F-A165-70867728950E", True, 0, 10**9, Counters())
    known = Connection("7C9E6679-7425-40DE-944B-E07FC1F90AE7", False, 0, 0, Counters(), 10**9, blob, is_encrypted=True)
    known.sent(100, 3, 2 * 10**9)
    side.instance.engine.link.connections = lambda: [new, known]
    columns = "is_accept, state_desc, login_state_desc, principal_name, encryption_algorithm_desc, total_fragments_sent"
    assert side.rows(f"SELECT {columns} FROM sys.dm_broker_connections") == [
        (1, "CONNECTED", "WAIT LOGIN NEGOTIATE", None, "NONE", 0),
        (0, "LOGGED_IN", "ONLINE", "dbo", "AES", 3),
    ]
    times = "SELECT login_time, last_activity_time FROM sys.dm_broker_connections WHERE total_bytes_sent = 100"
    assert side.rows(times) == [("1970-01-01 00:00:01.000", "1970-01-01 00:00:02.000")]


def test_the_rows_of_a_view_are_remembered_if_they_are_numbers_and_made_anew_where_they_changed(side):
    rows = "SELECT p.rows FROM sys.partitions AS p WHERE p.object_id = OBJECT_ID(N'dbo.t');"
    held = side.instance.sqlite.view_tables
    assert side.rows(rows) == side.rows(rows) == [(0,)]
    assert any(name.startswith("partitions") and kept is not None for name, kept in held.items())
    side.run("INSERT dbo.t (n) VALUES (1);")
    assert side.rows(rows) == [(1,)]
    assert side.rows("SELECT COUNT(*) FROM sys.partitions AS p WHERE p.index_id = 1;") != [(0,)]  # other columns
    assert side.rows(rows) == [(1,)]
    side.rows("SELECT t.name, t.object_id FROM sys.tables AS t;")
    assert held["tables@" + str(side.value("SELECT DB_ID();"))] is None


def test_the_catalog_shows_the_columns_of_views_and_of_functions_that_return_tables(side):
    side.run("CREATE TABLE dbo.u (a int NOT NULL, b nvarchar(5))")
    side.run("CREATE VIEW dbo.v (x, y, z) AS SELECT a, b, a + 1 FROM dbo.u")
    side.run("CREATE VIEW dbo.itself AS SELECT name FROM sys.columns WHERE object_id = OBJECT_ID('dbo.itself')")
    side.run("CREATE FUNCTION dbo.i (@n int) RETURNS TABLE AS RETURN (SELECT @n AS n, b FROM dbo.u)")
    side.run("CREATE FUNCTION dbo.f () RETURNS @r TABLE (m money) AS BEGIN RETURN END")
    shown = "SELECT c.name, TYPE_NAME(user_type_id), max_length, is_nullable FROM sys.columns c WHERE object_id = OBJECT_ID('{}')"
    assert side.rows(shown.format("dbo.v")) == [
        ("x", "int", 4, False),
        ("y", "nvarchar", 10, True),
        ("z", "int", 4, True),
    ]
    assert side.rows(shown.format("dbo.i")) == [("n", "int", 4, True), ("b", "nvarchar", 10, True)]
    assert side.rows(shown.format("dbo.f")) == [("m", "money", 8, True)]
    assert side.rows("SELECT name FROM dbo.itself") == [("name",)]
    named = "SELECT COLUMN_NAME, ORDINAL_POSITION FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME IN ('v', 'i', 'f')"
    assert side.rows(named) == [("x", 1), ("y", 2), ("z", 3)]
    assert [row[3] for row in side.rows("EXEC sp_columns 'v'")] == ["x", "y", "z"]
    view = "OBJECT_ID('dbo.v')"
    known = f"COL_NAME({view}, 2), COL_LENGTH('dbo.v', 'Y'), COLUMNPROPERTY({view}, 'z', 'ColumnId'), COL_LENGTH('dbo.u', 'c')"
    assert side.rows(f"SELECT {known}") == [("y", 10, 3, None)]
    side.crash()
    side.run("USE db; DROP TABLE dbo.u")
    assert side.rows(shown.format("dbo.v")) == []


def test_names_of_a_view_and_its_schema_may_hold_brackets(side):
    side.run("CREATE SCHEMA [a]]b]")
    side.run("CREATE VIEW [a]]b].[c]]d] AS SELECT 1 AS x")
    assert side.rows("SELECT name FROM sys.columns WHERE object_id = OBJECT_ID('[a]]b].[c]]d]')") == [("x",)]


def test_the_table_of_sql_server_2000_needs_no_schema(side):
    side.run("CREATE TABLE dbo.a (i int PRIMARY KEY)")
    for name in ("sysobjects", "dbo.sysobjects", "sys.sysobjects", "db..sysobjects"):
        assert side.rows(f"SELECT name, xtype FROM {name} WHERE id = OBJECT_ID('a')") == [("a", "U ")]
    assert side.error("SELECT * FROM guest.sysobjects").number == 208


def test_a_route_has_the_addresses_that_it_was_made_and_altered_with(side):
    addresses = "SELECT address, mirror_address FROM sys.routes WHERE name = 'r'"
    side.run(
        "CREATE ROUTE r WITH SERVICE_NAME = 's', BROKER_INSTANCE = '11111111-1111-1111-1111-111111111111', "
        "ADDRESS = 'TCP://a:1', MIRROR_ADDRESS = 'TCP://b:2'"
    )
    assert side.rows(addresses) == [("TCP://a:1", "TCP://b:2")]
    side.run("ALTER ROUTE r WITH ADDRESS = 'TCP://c:3'")
    assert side.rows(addresses) == [("TCP://c:3", "TCP://b:2")]


@pytest.mark.parametrize("statement", ["DROP MASTER KEY", "ALTER MASTER KEY DROP ENCRYPTION BY SERVICE MASTER KEY"])
def test_there_is_no_master_key_at_first(side, statement):
    assert side.error(statement).number == 15151


def test_every_counter_of_the_broker_after_two_messages(side):
    side.run("CREATE QUEUE dbo.counted; CREATE SERVICE counted ON QUEUE dbo.counted ([DEFAULT]);")
    side.run("CREATE BROKER PRIORITY high FOR CONVERSATION SET (PRIORITY_LEVEL = 7);")
    side.run(
        "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE counted TO SERVICE 'counted' WITH ENCRYPTION = OFF; "
        "SEND ON CONVERSATION @h (0x01); SEND ON CONVERSATION @h (0x02); RECEIVE * FROM dbo.counted; "
        "BEGIN CONVERSATION TIMER (@h) TIMEOUT = 1; "
        "BEGIN DIALOG @h FROM SERVICE counted TO SERVICE 'nobody' WITH ENCRYPTION = OFF; SEND ON CONVERSATION @h;"
    )
    side.world.run_for(2)
    counters = dict(side.rows("SELECT RTRIM(counter_name), cntr_value FROM sys.dm_os_performance_counters"))
    assert {name: value for name, value in counters.items() if value} == {
        "Dialog timer event count": 1,
        "Enqueued Local Messages Total": 2,
        "Enqueued Local Messages/sec": 2,
        "Enqueued Messages Total": 3,  # the timer's among them
        "Enqueued Messages/sec": 3,
        "Enqueued P7 Msgs/sec": 3,
        "Enqueued Transmission Msgs/sec": 1,
        "SQL RECEIVE Total": 1,
        "SQL RECEIVEs/sec": 1,
        "SQL SEND Total": 3,
        "SQL SENDs/sec": 3,
    }
    assert list(counters.values()).count(0) == 28
