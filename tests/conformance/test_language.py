"""The T-SQL around Service Broker: control of flow, transactions, errors, types, refusals."""

import datetime
import decimal
import uuid

import pyodbc
import pytest

pytestmark = pytest.mark.process


def value(connection, text, *parameters):
    return connection.execute(text, *parameters).fetchval()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("7 / 2", 3),
        ("-7 % 3", -1),
        ("N'a' + N'b'", "ab"),
        ("LEN(N'ab  ')", 2),
        ("DATALENGTH(N'ab')", 4),
        ("DATALENGTH(0x010203)", 3),
        ("SUBSTRING(N'abcdef', 2, 3)", "bcd"),
        ("SUBSTRING(0x0102030405, 2, 2)", b"\x02\x03"),
        ("CAST(0x00000102 AS int)", 258),
        ("CAST(258 AS varbinary(4))", b"\x00\x00\x01\x02"),
        ("CAST(0x0102030405 AS varbinary(2))", b"\x01\x02"),
        ("CAST(N'12' AS int)", 12),
        ("CONVERT(nvarchar(10), 12)", "12"),
        ("ISNULL(NULL, 5)", 5),
        ("COALESCE(NULL, NULL, 3)", 3),
        ("REPLICATE('x', 5)", "xxxxx"),
        ("CASE WHEN 1 = 1 THEN N'yes' ELSE N'no' END", "yes"),
        ("NULLIF(1, 1)", None),
        ("@@TRANCOUNT", 0),
        ("DATEDIFF(second, '2026-01-01T00:00:00', '2026-01-01T00:01:30')", 90),
        ("ABS(-2.5)", decimal.Decimal("2.5")),
        ("DATENAME(tzoffset, SWITCHOFFSET(CAST('2026-01-01 10:00 +02:00' AS datetimeoffset), '-05:30'))", "-05:30"),
    ],
)
def test_expressions_have_sql_servers_values(connection, expression, expected):
    assert value(connection, f"SELECT {expression};") == expected


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


def test_identity_columns_of_tables_and_table_variables_number_rows(connection):
    connection.execute("CREATE TABLE dbo.numbers (id int IDENTITY, a int);")
    query = "SET NOCOUNT ON; DECLARE @t table (n int IDENTITY(5, 1), a int); INSERT INTO @t VALUES (1), (2); "
    assert (
        value(connection, query + "DELETE FROM @t WHERE n = 6; INSERT INTO @t VALUES (3); SELECT MAX(n) FROM @t;") == 7
    )
    for change in (query + "UPDATE @t SET n = 1;", "UPDATE dbo.numbers SET id = 1;"):
        with pytest.raises(pyodbc.Error, match="8102"):
            connection.execute(change)


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


def test_a_table_variable_survives_a_rollback(connection):
    assert (
        value(
            connection,
            """
        SET NOCOUNT ON;
        DECLARE @t table (n int);
        BEGIN TRANSACTION;
        INSERT INTO @t VALUES (1), (2);
        ROLLBACK TRANSACTION;
        SELECT COUNT(*) FROM @t;
        """,
        )
        == 2
    )


def test_catch_sees_number_message_and_line_and_the_transaction_can_commit(services):
    services.execute("CREATE TABLE dbo.pair (id int NOT NULL PRIMARY KEY);")
    row = services.execute(
        """
        SET NOCOUNT ON;
        DECLARE @number int, @line int, @state int;
        BEGIN TRANSACTION;
        INSERT INTO dbo.pair (id) VALUES (1);
        BEGIN TRY
            INSERT INTO dbo.pair (id) VALUES (1);
        END TRY
        BEGIN CATCH
            SELECT @number = ERROR_NUMBER(), @line = ERROR_LINE(), @state = XACT_STATE();
        END CATCH;
        COMMIT TRANSACTION;
        SELECT @number, @line, @state, COUNT(*) FROM dbo.pair;
        """
    ).fetchone()
    assert tuple(row) == (2627, 7, 1, 1)


def test_procedures_take_parameters_and_return_output_and_status(services):
    services.execute(
        "CREATE PROCEDURE dbo.Twice @n int, @result int OUTPUT AS BEGIN SET @result = 2 * @n; RETURN 7; END;"
    )
    row = services.execute(
        "SET NOCOUNT ON; DECLARE @r int, @s int; EXECUTE @s = dbo.Twice @n = 21, @result = @r OUTPUT; SELECT @r, @s;"
    ).fetchone()
    assert tuple(row) == (42, 7)


def test_throw_and_raiserror_reach_the_client_with_their_text(connection):
    with pytest.raises(pyodbc.Error, match=r"broken.*50001"):
        connection.execute("THROW 50001, N'broken', 1;")
    with pytest.raises(pyodbc.Error, match="went wrong 5"):
        connection.execute("RAISERROR (N'went wrong %d', 16, 1, 5);")


def test_an_error_names_its_procedure_as_the_call_does_and_no_function(connection):
    connection.execute("CREATE FUNCTION dbo.Divided (@by int) RETURNS int AS\nBEGIN\nRETURN 1 / @by;\nEND;")
    connection.execute("CREATE PROCEDURE dbo.Calls AS\nSET NOCOUNT ON;\nDECLARE @n int = dbo.Divided(0);")
    caught = "BEGIN TRY EXECUTE {}; END TRY BEGIN CATCH SELECT ERROR_PROCEDURE(), ERROR_LINE(); END CATCH;"
    for name in ("dbo.Calls", "Calls"):
        assert tuple(connection.execute(caught.format(name)).fetchone()) == (name, 3)


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


def test_a_value_that_is_too_long_names_its_column(connection):
    connection.execute("CREATE TABLE dbo.narrow (name varchar(3) NULL);")
    with pytest.raises(
        pyodbc.Error, match=r"table '\w+\.dbo\.narrow', column 'name'\. Truncated value: 'abc'\..*\(2628\)"
    ):
        connection.execute("INSERT dbo.narrow VALUES ('abcd');")


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
