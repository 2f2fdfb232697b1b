"""What published Service Broker scripts found, each reduced to the statements that failed.

The scripts of tests/listings/published run whole. Sources of the others: "Pro SQL Server 2008 Service Broker" (K. Aschenbrenner, Apress, its samples), Remus Rusanu's blog, the manual's
pages on Service Broker, and the manual's pages on the views.
"""

from pathlib import Path

import pytest

from harness.files.script_text import split
from tests.embedded.tsql.sides import LISTINGS, World

PUBLISHED = sorted((LISTINGS / "published").glob("*.sql"))
EXPECTED = "-- Errors: "  # the first line of a script that is published with errors
EVENTS = "http://schemas.microsoft.com/SQL/Notifications/PostEventNotification"
TARGET = f"""
CREATE QUEUE dbo.q; CREATE SERVICE s ON QUEUE dbo.q ([DEFAULT]);
CREATE QUEUE dbo.events; CREATE SERVICE listener ON QUEUE dbo.events ([{EVENTS}]);
"""


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_a_published_script_runs_as_its_author_says(path: Path):
    """Each script checks its own effects and throws 50000 if one is missing."""
    side = World().side("Here", "2022")
    side.run("CREATE DATABASE db")
    side.run("USE db")
    text = path.read_text()
    first = text.partition("\n")[0]
    expected = [int(number) for number in first.removeprefix(EXPECTED).split()] if first.startswith(EXPECTED) else []
    errors = [
        (error.number, batch.line + error.line - 1, error.text)
        for batch in split(text)
        for _ in range(batch.count)
        for error in side.results(batch.text).errors
    ]
    assert [number for number, _, _ in errors] == expected, errors


def test_a_certificate_starts_on_a_date_of_the_samples(side):
    """Samples of chapters 7, 8 and 11: START_DATE = '01/01/2007'."""
    side.run("CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'password1!'")
    side.run("CREATE CERTIFICATE c WITH SUBJECT = 'For Service Broker', START_DATE = '10/31/2007'")
    assert side.value("SELECT start_date FROM sys.certificates") == "2007-10-31 00:00:00.000"


def test_the_rows_of_a_queue_are_counted_through_its_internal_table(side):
    """Rusanu, "Fast way to check message count", with the view that came in place of sysindexes."""
    side.run(TARGET)
    side.run(
        "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' WITH ENCRYPTION = OFF; "
        "SEND ON CONVERSATION @h ('1'); SEND ON CONVERSATION @h ('2');"
    )
    assert side.rows(
        "SELECT q.name, p.row_count FROM sys.dm_db_partition_stats AS p JOIN sys.internal_tables AS i "
        "ON p.object_id = i.object_id JOIN sys.service_queues AS q ON q.object_id = i.parent_object_id "
        "WHERE p.index_id = 1 AND q.is_ms_shipped = 0"
    ) == [("q", 2), ("events", 0)]


def test_the_queue_of_a_service_is_found_through_its_usages(side):
    side.run(TARGET)
    assert side.rows(
        "SELECT s.name, q.name FROM sys.services AS s JOIN sys.service_queue_usages AS u ON u.service_id = s.service_id "
        "JOIN sys.service_queues AS q ON q.object_id = u.service_queue_id WHERE s.service_id > 65535"
    ) == [("s", "q"), ("listener", "events")]


def test_one_notification_tells_of_both_events_of_a_queue(side):
    """The manual's grammar: FOR { event_type } [ , ...n ]."""
    side.run(TARGET)
    side.run(
        "CREATE EVENT NOTIFICATION n ON QUEUE dbo.q FOR QUEUE_ACTIVATION, BROKER_QUEUE_DISABLED "
        "TO SERVICE 'listener', 'current database'"
    )
    side.run(
        "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' WITH ENCRYPTION = OFF; "
        "SEND ON CONVERSATION @h ('1');"
    )
    side.world.run_for(1)
    for _ in range(5):
        side.run("BEGIN TRANSACTION; RECEIVE * FROM dbo.q; ROLLBACK")
    side.world.run_for(1)
    bodies = [body for (body,) in side.rows("SELECT CAST(message_body AS nvarchar(max)) FROM dbo.events")]
    assert "<EventType>QUEUE_ACTIVATION</EventType>" in bodies[0]
    assert "<EventType>BROKER_QUEUE_DISABLED</EventType>" in bodies[-1]


def test_notifications_with_fan_in_share_one_message_of_an_event(side):
    side.run(TARGET)
    for name, fan_in in (("a", "WITH FAN_IN"), ("b", "WITH FAN_IN"), ("c", "")):
        side.run(
            f"CREATE EVENT NOTIFICATION {name} ON QUEUE dbo.q {fan_in} FOR QUEUE_ACTIVATION "
            "TO SERVICE 'listener', 'current database'"
        )
    side.run(
        "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' WITH ENCRYPTION = OFF; "
        "SEND ON CONVERSATION @h ('1');"
    )
    side.world.run_for(1)
    assert side.value("SELECT COUNT(*) FROM dbo.events") == 2


def test_a_condition_ends_before_a_statement_whose_word_is_not_reserved(side):
    """Receive loops of "Pro SQL Server 2008 Service Broker", chapter 6, and scripts that check the version."""
    side.run(TARGET)
    side.run(
        "DECLARE @h uniqueidentifier, @t sysname = N'DEFAULT', @b varbinary(10), @g uniqueidentifier; "
        "BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' WITH ENCRYPTION = OFF; "
        "IF (@t = 'DEFAULT') SEND ON CONVERSATION @h (N'1'); "
        "IF @t <> 'DEFAULT' PRINT 'no' ELSE SEND ON CONVERSATION @h (N'2')"
    )
    side.world.run_for(1)
    received = (
        "DECLARE @b nvarchar(9), @g uniqueidentifier; IF 1 = 1 GET CONVERSATION GROUP @g FROM dbo.q; {}; PRINT @b"
    )
    assert side.run(received.format("IF @g IS NOT NULL RECEIVE TOP (1) @b = message_body FROM dbo.q")).prints == ["1"]
    assert side.run(received.format("WHILE @b IS NULL RECEIVE TOP (1) @b = message_body FROM dbo.q")).prints == ["2"]
    assert (
        side.error("IF CAST(SERVERPROPERTY('ProductMajorVersion') AS int) > 1 THROW 50000, 'too new', 1").number
        == 50000
    )


def test_the_parts_of_a_moment_and_stuff_make_statements(side):
    """A scheduler that sets its timer to a whole second, and a script that puts SET in place of the first comma."""
    assert 0 <= side.value("SELECT DATEPART(ms, DATEADD(ms, -DATEPART(ms, GETUTCDATE()), GETUTCDATE()))") <= 3
    text = "DECLARE @sql nvarchar(max) = N', AUTO_CLOSE OFF'; SET @sql = STUFF(@sql, 1, 1, N'SET'); "
    assert side.run(text + "EXECUTE (N'ALTER DATABASE CURRENT ' + @sql + N', AUTO_SHRINK OFF'); PRINT @sql").prints == [
        "SET AUTO_CLOSE OFF"
    ]


def test_a_column_that_no_queue_has_is_named(side):
    side.run(TARGET)
    for items in ("nothing", "message_body, nothing AS x", "CAST(nothing AS int) AS x"):
        refused = side.error(f"RECEIVE {items} FROM dbo.q")
        assert (refused.number, refused.text) == (207, "Invalid column name 'nothing'.")


POISON = """CREATE PROCEDURE dbo.work AS
SET XACT_ABORT ON
DECLARE @b nvarchar(9)
BEGIN TRANSACTION
WAITFOR (RECEIVE TOP (1) @b = message_body FROM dbo.q), TIMEOUT 200
BEGIN TRY
    SELECT @b = 1 / 0
    COMMIT
END TRY
BEGIN CATCH
    ROLLBACK
END CATCH"""


@pytest.mark.parametrize("handling", ["ON", "OFF"])
def test_a_procedure_that_rolls_back_and_ends_lets_others_go_on(side, handling):
    """The manual's "Handling Transact-SQL Errors": ROLLBACK in CATCH, and the procedure ends without an error."""
    side.run(TARGET)
    side.run(POISON)
    side.run(
        f"ALTER QUEUE dbo.q WITH POISON_MESSAGE_HANDLING (STATUS = {handling}), "
        "ACTIVATION (STATUS = ON, PROCEDURE_NAME = dbo.work, MAX_QUEUE_READERS = 1, EXECUTE AS OWNER)"
    )
    side.run(
        "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' WITH ENCRYPTION = OFF; "
        "SEND ON CONVERSATION @h (N'x')"
    )
    side.world.run_for(1)
    assert side.value("SELECT is_receive_enabled FROM sys.service_queues WHERE name = 'q'") == (handling == "OFF")


def test_objects_of_the_broker_show_the_owners_that_they_have(side):
    """A script that joins sys.services and sys.certificates by their owners; another that changes them."""
    side.run("CREATE USER owner WITHOUT LOGIN; CREATE QUEUE dbo.q")
    side.run(
        "CREATE MESSAGE TYPE m AUTHORIZATION owner; CREATE CONTRACT c AUTHORIZATION owner (m SENT BY ANY); "
        "CREATE SERVICE s AUTHORIZATION owner ON QUEUE dbo.q; CREATE SERVICE other ON QUEUE dbo.q; "
        "CREATE ROUTE r AUTHORIZATION owner WITH ADDRESS = 'LOCAL'; "
        "CREATE REMOTE SERVICE BINDING b AUTHORIZATION owner TO SERVICE 'far' WITH USER = owner; "
        "ALTER AUTHORIZATION ON SERVICE::other TO owner"
    )
    side.crash()
    side.run("USE db")
    views = "service_message_types", "service_contracts", "services", "routes", "remote_service_bindings"
    owned = [f"SELECT COUNT(*) FROM sys.{view} WHERE principal_id = USER_ID('owner')" for view in views]
    assert [side.value(query) for query in owned] == [1, 1, 2, 1, 1]


def test_an_owner_that_does_not_exist_is_refused_to_a_sysadmin_too(side):
    side.run(TARGET)
    assert side.error("CREATE SERVICE x AUTHORIZATION nobody ON QUEUE dbo.q").number == 15151
    assert side.error("ALTER AUTHORIZATION ON SERVICE::s TO nobody").number == 15151


def test_a_column_is_named_by_a_text_before_it(side):
    """The manual's SELECT: `column_alias = expression`, where an alias may be in quotation marks."""
    results = side.run("SELECT 'a b' = 1, 'c' = N'd' UNION ALL SELECT 2, IIF('x' = N'y', 'e', 'f')")
    [(columns, rows)] = results.sets
    assert [column.name for column in columns] == ["a b", "c"] and rows == [(1, "d"), (2, "f")]


def test_a_variable_may_be_named_like_a_word_that_ends_expressions(side):
    side.run("CREATE PROCEDURE dbo.doubled @n int, @out int OUTPUT AS SET @out = 2 * @n")
    assert side.run("DECLARE @out int EXEC dbo.doubled 4, @out OUTPUT PRINT @out").prints == ["8"]
    assert side.rows("DECLARE @case int = 1 SELECT CASE @case WHEN 1 THEN 5 END WHERE @case = 1") == [(5,)]


def test_a_cursor_variable_takes_one_cursor_after_another(side):
    """The publisher of "Pro SQL Server 2008 Service Broker", chapter 10, sends to each subscriber by one."""
    loop = (
        "OPEN @c; FETCH NEXT FROM @c INTO @n; WHILE @@FETCH_STATUS = 0 BEGIN PRINT @n; FETCH NEXT FROM @c INTO @n END "
        "CLOSE @c; "
    )
    declared = "DECLARE @c CURSOR, @n int; "
    two = declared + "SET @c = CURSOR LOCAL SCROLL FOR SELECT 1 UNION SELECT 2; " + loop
    assert side.run(two + "SET @c = CURSOR FOR SELECT 3; " + loop + "DEALLOCATE @c").prints == ["1", "2", "3"]
    assert side.run(two).prints == ["1", "2"]  # the variable of another run has none
    assert side.error(declared + "OPEN @c").number == 16950
    assert side.error(two + "DEALLOCATE @c; FETCH @c").number == 16950
    assert side.error("FETCH @c").number == 137
    assert side.error("DECLARE @c CURSOR, @c int").number == 134


def test_the_moment_of_arrival_is_received_by_its_name(side):
    """A script that stores the local time: SWITCHOFFSET(@received, DATEPART(TZOFFSET, SYSDATETIMEOFFSET()))."""
    side.run(TARGET)
    side.run(
        "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' WITH ENCRYPTION = OFF; "
        "SEND ON CONVERSATION @h (N'x')"
    )
    assert "message_enqueue_time" not in [
        c.name for c in side.run("BEGIN TRAN; RECEIVE * FROM dbo.q; ROLLBACK").sets[0][0]
    ]
    [(seconds,)] = side.rows(
        "DECLARE @at datetimeoffset, @body nvarchar(9); RECEIVE @at = message_enqueue_time, @body = message_body FROM dbo.q; "
        "SELECT ABS(DATEDIFF(second, CONVERT(datetime, SWITCHOFFSET(@at, DATEPART(tzoffset, SYSDATETIMEOFFSET()))), GETDATE()))"
    )
    assert seconds < 5


def test_rebuilding_a_queue_changes_nothing(side):
    side.run(TARGET)
    for text in ("REBUILD", "REBUILD WITH (MAXDOP = 2)", "REORGANIZE", "REORGANIZE WITH (LOB_COMPACTION = ON)"):
        side.run(f"ALTER QUEUE dbo.q {text}")
    assert side.error("ALTER QUEUE dbo.nothing REBUILD").number == 15151
    assert side.error("ALTER QUEUE dbo.q MOVE TO [PRIMARY]").number == 50001


def test_a_member_is_added_to_a_role_by_the_procedure_too(side):
    side.run("CREATE USER u WITHOUT LOGIN; EXEC sys.sp_addrolemember N'db_datareader', N'u'")
    side.run("EXEC sp_addrolemember @membername = 'u', @rolename = 'db_owner'")
    side.run("EXEC sp_addrolemember [db_datawriter], u")  # names without quotation marks are texts here
    roles = ", ".join(f"IS_MEMBER('db_{name}')" for name in ("datareader", "owner", "datawriter"))
    side.run(f"CREATE PROCEDURE dbo.roles WITH EXECUTE AS 'u' AS SELECT {roles}")
    assert side.rows("EXEC dbo.roles") == [(1, 1, 1)]
    assert side.error("EXEC sp_addrolemember 'nothing', 'u'").number == 15151
    assert side.error("EXEC sp_addrolemember 'db_owner'").number == 201


def test_a_receive_stands_behind_an_assignment_without_a_semicolon(side):
    side.run(TARGET)
    assert side.run("DECLARE @h int SET @h = 5 RECEIVE TOP (1) @h = 1 FROM dbo.q PRINT @h").prints == ["5"]


def test_a_name_from_xml_in_a_message_is_that_of_its_procedure(side):
    """W. D. Miller, a procedure that runs others by their names: the name is sent as xml and received as nvarchar."""
    side.run(TARGET)
    side.run("CREATE PROCEDURE dbo.task AS SELECT 5")
    text = """
        DECLARE @h uniqueidentifier, @x xml = N'task', @name nvarchar(100);
        BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' WITH ENCRYPTION = OFF;
        SEND ON CONVERSATION @h (@x);
        RECEIVE @name = message_body FROM dbo.q;
        EXEC @name;
        SELECT LEN(@name) WHERE @name = N'TASK';
    """
    assert [rows for _, rows in side.run(text).sets] == [[(5,)], [(5,)]]


def test_the_default_of_a_key_is_newsequentialid(side):
    """A schedule of deadlines for a supply chain."""
    side.run("CREATE TABLE dbo.deadlines (id uniqueidentifier CONSTRAINT d DEFAULT (NEWSEQUENTIALID()), n int)")
    side.run("INSERT dbo.deadlines (n) VALUES (1), (2); INSERT dbo.deadlines (n) SELECT n + 2 FROM dbo.deadlines")
    identifiers = [id for (id,) in side.rows("SELECT id FROM dbo.deadlines ORDER BY n")]
    assert identifiers == sorted(identifiers) and len(set(identifiers)) == 4
    assert side.error("SELECT NEWSEQUENTIALID()").number == 302
