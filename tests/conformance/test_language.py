"""The T-SQL around Service Broker: control of flow, transactions, errors, types, refusals."""

import datetime
import uuid

import pyodbc
import pytest

pytestmark = pytest.mark.process


def value(connection, text, *parameters):
    return connection.execute(text, *parameters).fetchval()


@pytest.mark.parametrize(
    ("declared", "given"),
    [
        ("int", 42),
        ("bigint", 2**62),
        ("bit", True),
        ("nvarchar(100)", "Grüße, 世界"),
        ("nvarchar(max)", "x" * 10000),
        ("xml", "<a>Grüße, 世界</a>"),
        ("xml", f"<a>{'x' * 10000}</a>"),
        ("xml", None),
        ("varbinary(max)", bytes(range(256)) * 100),
        ("varbinary(100)", b"\x00\x01"),
        ("uniqueidentifier", uuid.UUID("E7044BCF-CFFF-4526-810B-5A33EB763D0B")),
        ("datetime2(7)", datetime.datetime(2026, 11, 21, 12, 30, 45, 123456)),
        ("float", 1.5),
        ("int", None),
        ("varbinary(max)", None),
    ],
)
def test_values_are_returned_unchanged(connection, declared, given):
    if given is None and declared.startswith("varbinary"):
        given = pyodbc.BinaryNull  # pyodbc sends None as a varchar, which does not become a varbinary by itself
    returned = value(connection, f"DECLARE @v {declared} = ?; SELECT @v;", given)
    if given is pyodbc.BinaryNull:
        given = None
    assert (uuid.UUID(returned) if isinstance(given, uuid.UUID) else returned) == given


def test_row_counts_loops_and_cursors_work_together(services):
    services.execute("CREATE TABLE dbo.numbers (id int IDENTITY NOT NULL PRIMARY KEY, n int NOT NULL);")
    services.execute(
        "DECLARE @i int = 0; WHILE @i < 10 BEGIN SET @i = @i + 1; INSERT INTO dbo.numbers (n) VALUES (@i); END;"
    )
    total = value(
        services,
        """
        SET NOCOUNT ON;
        DECLARE @n int, @total int = 0;
        DECLARE c CURSOR LOCAL FAST_FORWARD FOR SELECT n FROM dbo.numbers WHERE n > 5 ORDER BY n;
        OPEN c;
        FETCH NEXT FROM c INTO @n;
        WHILE @@FETCH_STATUS = 0
        BEGIN
            SET @total += @n;
            FETCH NEXT FROM c INTO @n;
        END;
        CLOSE c;
        DEALLOCATE c;
        SELECT @total;
        """,
    )
    assert total == 6 + 7 + 8 + 9 + 10
    assert services.execute("SET NOCOUNT OFF; UPDATE dbo.numbers SET n = 0 WHERE n > 7;").rowcount == 3


def test_a_cursor_variable_takes_one_cursor_after_another(connection):
    total = value(
        connection,
        """
        SET NOCOUNT ON;
        DECLARE @c CURSOR, @n int, @total int;
        SET @c = CURSOR LOCAL SCROLL FOR SELECT 1;
        OPEN @c;
        FETCH NEXT FROM @c INTO @total;
        CLOSE @c;
        SET @c = CURSOR FOR SELECT 20;
        OPEN @c;
        FETCH NEXT FROM @c INTO @n;
        DEALLOCATE @c;
        SELECT @total + @n;
        """,
    )
    assert total == 21
    with pytest.raises(pyodbc.Error, match="16950"):
        connection.execute("DECLARE @c CURSOR; OPEN @c;")


def test_a_unique_key_has_null_only_once(connection):
    connection.execute("CREATE TABLE dbo.keyed (a int NULL UNIQUE);")
    with pytest.raises(pyodbc.IntegrityError, match="2627"):
        connection.execute("INSERT INTO dbo.keyed VALUES (1), (NULL), (NULL);")
    with pytest.raises(pyodbc.IntegrityError, match="2627"):
        connection.execute("DECLARE @t table (a int NULL UNIQUE); INSERT INTO @t VALUES (NULL), (NULL);")


def test_rollback_undoes_inserts_updates_and_deletes(services, connect):
    services.execute("CREATE TABLE dbo.kept (id int NOT NULL PRIMARY KEY, n int NOT NULL);")
    services.execute("INSERT INTO dbo.kept (id, n) VALUES (1, 10), (2, 20);")
    with connect(autocommit=False) as connection:
        connection.execute("INSERT INTO dbo.kept (id, n) VALUES (3, 30);")
        connection.execute("UPDATE dbo.kept SET n = 11 WHERE id = 1;")
        connection.execute("DELETE FROM dbo.kept WHERE id = 2;")
        connection.rollback()
    assert [tuple(row) for row in services.execute("SELECT id, n FROM dbo.kept ORDER BY id;").fetchall()] == [
        (1, 10),
        (2, 20),
    ]


def test_throw_and_raiserror_reach_the_client_with_their_text(connection):
    with pytest.raises(pyodbc.Error, match=r"broken.*50001"):
        connection.execute("THROW 50001, N'broken', 1;")
    with pytest.raises(pyodbc.Error, match="went wrong 5"):
        connection.execute("RAISERROR (N'went wrong %d', 16, 1, 5);")


def test_a_syntax_error_stops_the_whole_batch(connection):
    with pytest.raises(pyodbc.Error, match=r"Incorrect syntax near the keyword .FROM..*\(156\)"):
        connection.execute("CREATE TABLE dbo.never (id int NOT NULL);\nSELECT FROM;")
    assert value(connection, "SELECT OBJECT_ID(N'dbo.never');") is None


def test_a_column_that_its_table_lacks_stops_the_whole_batch_and_a_missing_table_its_statement(connection):
    connection.execute("CREATE TABLE dbo.narrow (id int NOT NULL);")
    with pytest.raises(pyodbc.Error, match=r"Invalid column name 'late'.*\(207\)"):
        connection.execute(
            "INSERT dbo.narrow VALUES (1); ALTER TABLE dbo.narrow ADD late int; SELECT late FROM dbo.narrow;"
        )
    assert value(connection, "SELECT COUNT(*) FROM dbo.narrow;") == 0
    assert value(connection, "IF 1 = 0 SELECT late FROM dbo.missing; SELECT COL_LENGTH('dbo.narrow', 'late');") is None


def test_several_result_sets_come_one_after_another(connection):
    # Without NOCOUNT, and each read to its end: FreeTDS skips an empty result set that has no count.
    cursor = connection.execute("SELECT 1; SELECT N'two', 2; SELECT 3 WHERE 1 = 0;")
    assert [tuple(row) for row in cursor.fetchall()] == [(1,)]
    assert cursor.nextset() and [tuple(row) for row in cursor.fetchall()] == [("two", 2)]
    assert cursor.nextset() and cursor.fetchall() == []
    assert not cursor.nextset()


def test_altering_a_broker_priority_keeps_its_id_and_the_settings_left_out(services):
    services.execute(
        "CREATE BROKER PRIORITY Urgent FOR CONVERSATION SET (LOCAL_SERVICE_NAME = [//Test/Target], PRIORITY_LEVEL = 7);"
    )
    described = """
        SELECT p.priority_id, s.name, p.priority FROM sys.conversation_priorities AS p
        INNER JOIN sys.services AS s ON s.service_id = p.local_service_id WHERE p.name = N'Urgent';
    """
    identifier, *_ = services.execute(described).fetchone()
    services.execute("ALTER BROKER PRIORITY Urgent FOR CONVERSATION SET (PRIORITY_LEVEL = 3);")
    assert tuple(services.execute(described).fetchone()) == (identifier, "//Test/Target", 3)


def test_objects_of_the_broker_show_their_owners(services):
    services.execute("CREATE USER owner WITHOUT LOGIN;")
    services.execute(
        "CREATE MESSAGE TYPE m AUTHORIZATION owner; CREATE CONTRACT c AUTHORIZATION owner (m SENT BY ANY);"
    )
    services.execute("CREATE ROUTE r AUTHORIZATION owner WITH ADDRESS = 'LOCAL';")
    services.execute("ALTER AUTHORIZATION ON SERVICE::[//Test/Target] TO owner;")
    for view in ("service_message_types", "service_contracts", "routes", "services"):
        assert value(services, f"SELECT COUNT(*) FROM sys.{view} WHERE principal_id = USER_ID('owner');") == 1
    with pytest.raises(pyodbc.Error, match="15151"):
        services.execute("CREATE MESSAGE TYPE n AUTHORIZATION nobody;")


def test_names_of_databases_services_and_types_come_from_the_catalog(services):
    assert value(services, "SELECT COUNT(*) FROM sys.services WHERE name LIKE N'//Test/%';") == 2
    assert value(services, "SELECT is_broker_enabled FROM sys.databases WHERE database_id = DB_ID();") is True
    assert (
        value(services, "SELECT validation_desc FROM sys.service_message_types WHERE name = N'//Test/Message';")
        == "BINARY"
    )
    assert (
        value(services, "SELECT name FROM sys.service_contracts WHERE name = N'//Test/Contract';") == "//Test/Contract"
    )


@pytest.mark.parametrize(
    ("query", "identifier"),
    [
        ("SELECT message_type_id FROM sys.service_message_types WHERE name = N'//Test/Message';", 65536),
        ("SELECT service_contract_id FROM sys.service_contracts WHERE name = N'//Test/Contract';", 65536),
        ("SELECT service_id FROM sys.services WHERE name = N'//Test/Initiator';", 65536),
        ("SELECT route_id FROM sys.routes WHERE name = N'AutoCreatedLocal';", 65536),
    ],
)
def test_ids_of_each_kind_count_from_65536(services, query, identifier):
    assert value(services, query) == identifier
