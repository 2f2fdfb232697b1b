"""Triggers: when they fire, what they see, and what an error, a ROLLBACK or a send in them does."""

import pytest

from tests.embedded.tsql.sides import TABLE, Results, Side, World
from tests.embedded.tsql.test_permissions import as_login

SET_UP = f"""{TABLE}
CREATE TABLE dbo.log (event varchar(10), id int, n int, old_n int, row_count int, tran_count int);
"""
RECORDS = """
    SET NOCOUNT ON;
    INSERT INTO dbo.log
    SELECT 'row', COALESCE(i.id, d.id), i.n, d.n, @rows, @@TRANCOUNT
    FROM inserted AS i FULL JOIN deleted AS d ON d.id = i.id;
    IF @rows = 0 INSERT INTO dbo.log (event, row_count, tran_count) VALUES ('none', 0, @@TRANCOUNT);
"""
TRIGGER = f"CREATE TRIGGER dbo.tr ON dbo.t AFTER INSERT, UPDATE, DELETE AS DECLARE @rows int = @@ROWCOUNT; {RECORDS}"


def log(side):
    return side.rows("SELECT event, id, n, old_n, row_count, tran_count FROM dbo.log ORDER BY id, n;")


# -- firing ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "logged"),
    [
        ("INSERT INTO dbo.t (n) VALUES (10), (20);", [("row", 3, 10, None, 2, 1), ("row", 4, 20, None, 2, 1)]),
        ("INSERT INTO dbo.t (n) SELECT n FROM dbo.t WHERE n = 5;", [("none", None, None, None, 0, 1)]),
        ("UPDATE dbo.t SET n = n + 1;", [("row", 1, 2, 1, 2, 1), ("row", 2, 3, 2, 2, 1)]),
        ("UPDATE dbo.t SET n = 3 WHERE id = 7;", [("none", None, None, None, 0, 1)]),
        ("DELETE FROM dbo.t WHERE id = 2;", [("row", 2, None, 2, 1, 1)]),
        ("DELETE FROM dbo.t WHERE id = 7;", [("none", None, None, None, 0, 1)]),
        ("BEGIN TRAN; BEGIN TRAN; DELETE FROM dbo.t WHERE id = 1; COMMIT; COMMIT;", [("row", 1, None, 1, 1, 2)]),
        ("TRUNCATE TABLE dbo.t;", []),
    ],
)
def test_a_trigger_fires_once_for_a_statement_and_sees_its_rows(side, statement, logged):
    side.run("INSERT INTO dbo.t (n) VALUES (1), (2);")
    side.run(TRIGGER)
    side.run(statement)
    assert log(side) == logged
    assert side.value("SELECT @@TRANCOUNT;") == 0


def test_compiled_statements_know_of_a_new_trigger_and_forget_a_dropped_one(side):
    side.run("CREATE PROCEDURE dbo.p AS INSERT INTO dbo.t (n) VALUES (1);")
    side.run("EXEC dbo.p;")
    side.run(TRIGGER)
    side.run("EXEC dbo.p;")
    side.run("DISABLE TRIGGER dbo.tr ON dbo.t;")
    side.run("EXEC dbo.p;")
    assert side.rows("SELECT is_disabled FROM sys.triggers;") == [(True,)]
    side.run("ENABLE TRIGGER ALL ON dbo.t;")
    side.run("EXEC dbo.p;")
    side.run("DROP TRIGGER dbo.tr;")
    side.run("EXEC dbo.p;")
    assert [row[1] for row in log(side)] == [2, 4]


def test_the_count_of_the_statement_follows_those_of_its_trigger(side):
    side.run(
        "CREATE TRIGGER dbo.tr ON dbo.t AFTER INSERT AS INSERT INTO dbo.log (id) SELECT id FROM deleted; SELECT n FROM inserted;"
    )
    results = side.run("INSERT INTO dbo.t (n) VALUES (1), (2); SELECT @@ROWCOUNT;")
    assert results.counts == [0, 2, 2, 1]
    assert [rows for _, rows in results.sets] == [[(1,), (2,)], [(2,)]]
    side.run("ALTER TRIGGER dbo.tr ON dbo.t AFTER INSERT AS SET NOCOUNT ON; DELETE FROM dbo.log;")
    assert side.run("INSERT INTO dbo.t (n) VALUES (1);").counts == [1]


def test_cursors_conditions_and_subqueries_read_inserted(side):
    side.run(
        """
        CREATE TRIGGER dbo.tr ON dbo.t FOR INSERT AS
        DECLARE @id int, @sum int = 0;
        IF NOT EXISTS (SELECT * FROM inserted WHERE n > 1) RETURN;
        DECLARE rows CURSOR LOCAL FAST_FORWARD FOR SELECT id FROM INSERTED ORDER BY id DESC;
        OPEN rows;
        FETCH NEXT FROM rows INTO @id;
        WHILE @@FETCH_STATUS = 0
        BEGIN
            SET @sum = @sum * 10 + @id;
            FETCH NEXT FROM rows INTO @id;
        END;
        UPDATE dbo.t SET name = CAST(@sum AS nvarchar(10)) WHERE id IN (SELECT i.id FROM inserted AS i);
        """
    )
    side.run("INSERT INTO dbo.t (n) VALUES (1);")
    side.run("INSERT INTO dbo.t (n) VALUES (1), (2), (3);")
    assert side.rows("SELECT id, name FROM dbo.t;") == [(1, None), (2, "432"), (3, "432"), (4, "432")]


def test_inserted_is_not_seen_by_what_the_trigger_calls_and_cannot_be_changed(side):
    side.run("CREATE PROCEDURE dbo.p AS SELECT * FROM inserted;")
    side.run("CREATE TRIGGER dbo.tr ON dbo.t AFTER INSERT AS EXEC dbo.p;")
    assert side.error("INSERT INTO dbo.t (n) VALUES (1);").number == 208
    side.run("ALTER TRIGGER dbo.tr ON dbo.t AFTER INSERT AS EXEC (N'SELECT * FROM inserted;');")
    assert side.error("INSERT INTO dbo.t (n) VALUES (1);").number == 208
    side.run("ALTER TRIGGER dbo.tr ON dbo.t AFTER INSERT AS DELETE FROM inserted;")
    assert side.error("INSERT INTO dbo.t (n) VALUES (1);").number == 286
    assert side.error("SELECT * FROM inserted;").number == 208


def test_triggers_nest_but_do_not_fire_themselves(side):
    side.run("CREATE TABLE dbo.u (n int);")
    side.run("CREATE PROCEDURE dbo.p AS INSERT INTO dbo.t (n) VALUES (-1);")
    side.run(
        """
        CREATE TRIGGER dbo.tr ON dbo.t AFTER INSERT AS
        INSERT INTO dbo.log (n, id) VALUES (TRIGGER_NESTLEVEL(), @@NESTLEVEL);
        INSERT INTO dbo.t (n) VALUES (-1);
        EXEC dbo.p;
        IF TRIGGER_NESTLEVEL(@@PROCID) < 3 INSERT INTO dbo.u (n) SELECT n FROM inserted;
        """
    )
    side.run("CREATE TRIGGER dbo.tr_u ON dbo.u AFTER INSERT AS INSERT INTO dbo.t (n) SELECT n FROM inserted;")
    side.run("INSERT INTO dbo.t (n) VALUES (1);")
    assert side.rows("SELECT n, id FROM dbo.log;") == [(1, 1), (3, 3), (5, 5)]
    assert side.value("SELECT COUNT(*) FROM dbo.t WHERE n = 1;") == 3
    assert side.value("SELECT COUNT(*) FROM dbo.t;") == 9
    assert side.value("SELECT TRIGGER_NESTLEVEL();") == 0


def test_triggers_that_fire_each_other_for_ever_are_error_217(side):
    side.run("CREATE TABLE dbo.u (n int);")
    side.run("CREATE TRIGGER dbo.tr ON dbo.t AFTER INSERT AS INSERT INTO dbo.u (n) SELECT n FROM inserted;")
    side.run("CREATE TRIGGER dbo.tr_u ON dbo.u AFTER INSERT AS INSERT INTO dbo.t (n) SELECT n FROM inserted;")
    assert side.error("INSERT INTO dbo.t (n) VALUES (1);").number == 217
    assert side.value("SELECT COUNT(*) FROM dbo.t;") == 0


def test_identity_is_that_of_the_trigger_and_scope_identity_that_of_the_statement(side):
    side.run("CREATE TABLE dbo.u (id int IDENTITY(100, 1), n int);")
    side.run("CREATE TRIGGER dbo.tr ON dbo.t AFTER INSERT AS INSERT INTO dbo.u (n) SELECT n FROM inserted;")
    assert side.rows("INSERT INTO dbo.t (n) VALUES (7); SELECT @@IDENTITY, SCOPE_IDENTITY();") == [(100, 1)]
    side.run("ALTER TRIGGER dbo.tr ON dbo.t AFTER INSERT AS INSERT INTO dbo.log (n) SELECT n FROM inserted;")
    assert side.rows("INSERT INTO dbo.t (n) VALUES (7); SELECT @@IDENTITY, SCOPE_IDENTITY();") == [(2, 2)]


def test_output_to_the_client_is_refused_where_the_statement_fires_triggers(side):
    side.run(TRIGGER.replace("INSERT, UPDATE", "INSERT"))
    error = side.error("INSERT INTO dbo.t (n) OUTPUT inserted.id VALUES (1);")
    assert (error.number, "'dbo.t' of the DML" in error.text) == (334, True)
    assert side.error("DELETE FROM t OUTPUT deleted.id;").number == 334
    side.run("INSERT INTO dbo.t (n) VALUES (1);")
    assert side.rows("UPDATE dbo.t SET n = 2 OUTPUT inserted.n;") == [(2,)]
    assert side.rows("DECLARE @t TABLE (id int); DELETE FROM dbo.t OUTPUT deleted.id INTO @t; SELECT id FROM @t;") == [
        (1,)
    ]


# -- errors and transactions -------------------------------------------------------------------------------------------

FAILS = "CREATE TRIGGER dbo.tr ON dbo.t AFTER INSERT AS SET NOCOUNT ON; INSERT INTO dbo.log (id) VALUES (1); {}"


@pytest.mark.in_process
@pytest.mark.parametrize(
    ("body", "numbers"),
    [
        ("SELECT 1 / 0;", [8134]),
        ("INSERT INTO dbo.t (n) VALUES (NULL);", [515]),
        ("THROW 50001, N'no', 1;", [50001]),
        ("ROLLBACK;", [3609]),
        ("RAISERROR(N'no', 16, 1); ROLLBACK;", [50000, 3609]),
        ("COMMIT;", [3609]),
        ("BEGIN TRY SELECT 1 / 0; END TRY BEGIN CATCH END CATCH;", [3616]),
        ("BEGIN TRY RAISERROR(N'no', 16, 1); END TRY BEGIN CATCH END CATCH;", [3616]),
    ],
)
@pytest.mark.parametrize("begin", ["", "BEGIN TRAN; INSERT INTO dbo.log (id) VALUES (0); "])
def test_an_error_in_a_trigger_ends_the_batch_and_the_transaction(side, begin, body, numbers):
    side.run(FAILS.format(body))
    results = side.results(f"{begin}INSERT INTO dbo.t (n) VALUES (1); PRINT 'on';")
    assert [error.number for error in results.errors] == numbers
    assert results.prints == []
    kept = int(body.startswith("COMMIT"))
    outer = int(bool(begin))
    assert side.value("SELECT COUNT(*) FROM dbo.t;") == kept
    assert side.value("SELECT COUNT(*) FROM dbo.log;") == kept * (1 + outer)
    assert side.rows("SELECT @@TRANCOUNT, XACT_STATE();") == [(0, 0)]


@pytest.mark.in_process
def test_raiserror_in_a_trigger_alone_ends_nothing(side):
    side.run(FAILS.format("RAISERROR(N'no', 16, 1);"))
    results = side.results("INSERT INTO dbo.t (n) VALUES (1); PRINT 'on';")
    assert ([error.number for error in results.errors], results.prints) == ([50000], ["on"])
    assert side.value("SELECT COUNT(*) FROM dbo.t;") == 1


def test_with_xact_abort_off_an_error_in_a_trigger_ends_its_statement_alone(side):
    side.run(
        FAILS.format("SET XACT_ABORT OFF; INSERT INTO dbo.t (n) VALUES (NULL); INSERT INTO dbo.log (id) VALUES (2);")
    )
    assert side.error("INSERT INTO dbo.t (n) VALUES (1);").number == 515
    assert side.rows("SELECT id FROM dbo.log;") == [(1,), (2,)]


@pytest.mark.parametrize(("begin", "state"), [("", 0), ("BEGIN TRAN;", -1)])
def test_try_catches_the_error_of_a_trigger_in_a_doomed_transaction(side, begin, state):
    side.run(FAILS.format("DECLARE @zero int = 0; SET @zero = 1 / @zero;"))
    rows = side.rows(
        f"""{begin} BEGIN TRY INSERT INTO dbo.t (n) VALUES (1); END TRY
        BEGIN CATCH SELECT ERROR_NUMBER(), ERROR_PROCEDURE(), XACT_STATE(); IF @@TRANCOUNT > 0 ROLLBACK; END CATCH;"""
    )
    assert rows == [(8134, "tr", state)]
    assert side.value("SELECT COUNT(*) FROM dbo.t;") == 0


def test_what_a_trigger_does_after_its_rollback_stays_and_inserted_has_no_rows_then(side):
    side.run(
        """CREATE TRIGGER dbo.tr ON dbo.t AFTER INSERT AS SET NOCOUNT ON;
        ROLLBACK; INSERT INTO dbo.log (id, n) SELECT COUNT(*), @@TRANCOUNT FROM inserted;"""
    )
    assert side.error("BEGIN TRAN; INSERT INTO dbo.t (n) VALUES (1);").number == 3609
    assert side.rows("SELECT id, n FROM dbo.log;") == [(0, 0)]


def test_try_catches_the_end_of_the_transaction_in_a_trigger(side):
    side.run(FAILS.format("ROLLBACK;"))
    rows = side.rows(
        "BEGIN TRY BEGIN TRAN; INSERT INTO dbo.t (n) VALUES (1); END TRY BEGIN CATCH SELECT ERROR_NUMBER(), @@TRANCOUNT; END CATCH;"
    )
    assert rows == [(3609, 0)]


def test_a_row_conflict_lets_the_statement_wait_and_fire_once(side, world):
    side.run("INSERT INTO dbo.t (n) VALUES (1);")
    side.run(TRIGGER)
    other = side.connect("db")
    side.run("BEGIN TRAN; UPDATE dbo.t SET n = 2;")
    results = []
    side.scheduler.spawn(_collect(results, other), "other")
    world.run_for(1)
    assert log(side) == [("row", 1, 2, 1, 1, 1)]
    side.run("COMMIT;")
    world.run_for(1)
    assert log(side) == [("row", 1, 2, 1, 1, 1), ("row", 1, 3, 2, 1, 1)]


def _collect(results, session):
    sink = Results()
    results.append(sink)
    yield from session.batch("UPDATE dbo.t SET n = n + 1;", sink)


# -- messages ----------------------------------------------------------------------------------------------------------

BROKER = """
CREATE QUEUE dbo.q;
CREATE SERVICE s ON QUEUE dbo.q ([DEFAULT]);
CREATE TABLE dbo.orders (id int IDENTITY PRIMARY KEY, handle uniqueidentifier, body varbinary(100));
GO
CREATE TRIGGER dbo.sends ON dbo.orders AFTER INSERT AS
SET NOCOUNT ON;
DECLARE @handle uniqueidentifier, @body varbinary(100);
DECLARE rows CURSOR LOCAL FAST_FORWARD FOR SELECT handle, body FROM inserted ORDER BY id;
OPEN rows;
FETCH NEXT FROM rows INTO @handle, @body;
WHILE @@FETCH_STATUS = 0
BEGIN
    IF @handle IS NULL
        BEGIN DIALOG @handle FROM SERVICE s TO SERVICE N's', 'CURRENT DATABASE' WITH ENCRYPTION = OFF;
    SEND ON CONVERSATION @handle (@body);
    IF @body = 0x03 END CONVERSATION @handle;
    FETCH NEXT FROM rows INTO @handle, @body;
END;
"""


def test_a_trigger_begins_dialogs_sends_and_ends_them(side):
    for batch in BROKER.split("GO\n"):
        side.run(batch)
    side.run("INSERT INTO dbo.orders (body) VALUES (0x01);")
    handle = side.value("SELECT conversation_handle FROM sys.conversation_endpoints WHERE is_initiator = 1;")
    side.run(f"INSERT INTO dbo.orders (handle, body) SELECT '{handle}', body FROM (VALUES (0x02), (0x03)) AS v (body);")
    bodies = side.rows("RECEIVE message_body, message_type_name FROM dbo.q;")
    assert [body for body, _ in bodies] == [b"\x01", b"\x02", b"\x03", None]
    side.run("BEGIN TRAN; INSERT INTO dbo.orders (body) VALUES (0x01); ROLLBACK;")
    assert side.rows("RECEIVE message_body FROM dbo.q;") == []


def test_a_send_that_fails_undoes_the_insert(side):
    for batch in BROKER.split("GO\n"):
        side.run(batch)
    results = side.results("INSERT INTO dbo.orders (body) VALUES (0x01), (NULL); PRINT 'on';")
    assert ([error.number for error in results.errors], results.prints) == ([8433], [])
    assert side.value("SELECT COUNT(*) FROM dbo.orders;") == 0
    assert side.value("SELECT COUNT(*) FROM sys.conversation_endpoints;") == 0
    assert side.rows("RECEIVE message_body FROM dbo.q;") == []


def test_an_activated_procedure_fires_triggers(side, world):
    side.run(TRIGGER)
    side.run("CREATE QUEUE dbo.q; CREATE SERVICE s ON QUEUE dbo.q ([DEFAULT]);")
    side.run(
        "CREATE PROCEDURE dbo.p AS DECLARE @b varbinary(10); RECEIVE TOP (1) @b = message_body FROM dbo.q; IF @b = 0x01 INSERT INTO dbo.t (n) VALUES (9);"
    )
    side.run(
        "ALTER QUEUE dbo.q WITH ACTIVATION (STATUS = ON, PROCEDURE_NAME = dbo.p, MAX_QUEUE_READERS = 1, EXECUTE AS OWNER);"
    )
    side.run(
        "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' WITH ENCRYPTION = OFF; SEND ON CONVERSATION @h (0x01);"
    )
    world.run_for(1)
    assert [row[2] for row in log(side)] == [9]


# -- definitions -------------------------------------------------------------------------------------------------------


def test_the_views_show_triggers_and_they_are_there_after_a_restart(side):
    side.run(TRIGGER)
    side.run("DISABLE TRIGGER tr ON t;")
    side.run("CREATE OR ALTER TRIGGER dbo.second ON dbo.t FOR UPDATE AS RETURN;")
    for _ in range(2):
        side.run("USE db;")
        assert side.rows(
            "SELECT name, type, type_desc, OBJECT_NAME(parent_id), is_disabled, is_instead_of_trigger FROM sys.triggers ORDER BY name;"
        ) == [("second", "TR", "SQL_TRIGGER", "t", False, False), ("tr", "TR", "SQL_TRIGGER", "t", True, False)]
        assert side.rows(
            "SELECT e.type, e.type_desc FROM sys.trigger_events AS e WHERE e.object_id = OBJECT_ID('dbo.tr', 'TR') ORDER BY e.type;"
        ) == [(1, "INSERT"), (2, "UPDATE"), (3, "DELETE")]
        assert side.rows("SELECT OBJECT_NAME(parent_object_id) FROM sys.objects WHERE type = 'TR';") == [("t",), ("t",)]
        assert side.value("SELECT OBJECT_DEFINITION(OBJECT_ID('dbo.tr'));") == TRIGGER
        assert side.value("SELECT definition FROM sys.sql_modules WHERE object_id = OBJECT_ID('dbo.tr');") == TRIGGER
        assert side.value("SELECT COUNT(*) FROM INFORMATION_SCHEMA.ROUTINES;") == 0
        side.crash()
    side.run("USE db; ENABLE TRIGGER tr ON t;")
    side.run("INSERT INTO dbo.t (n) VALUES (1);")
    assert len(log(side)) == 1
    side.run("DROP TABLE dbo.t;")
    side.crash()
    side.run("USE db;")
    assert side.value("SELECT COUNT(*) FROM sys.objects WHERE type = 'TR';") == 0


def test_a_rollback_takes_a_trigger_back(side):
    side.run(
        "BEGIN TRAN; EXEC (N'CREATE TRIGGER dbo.tr ON dbo.t AFTER INSERT AS SELECT 1;'); INSERT INTO dbo.t (n) VALUES (1); ROLLBACK;"
    )
    assert side.run("INSERT INTO dbo.t (n) VALUES (1);").sets == []
    side.run(TRIGGER)
    side.run("BEGIN TRAN; DROP TABLE dbo.t; ROLLBACK;")
    side.run("INSERT INTO dbo.t (n) VALUES (1);")
    assert len(log(side)) == 1


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("CREATE TRIGGER dbo.tr ON dbo.t AFTER INSERT AS RETURN;", 2714),
        ("CREATE TRIGGER dbo.log ON dbo.t AFTER INSERT AS RETURN;", 2714),
        ("CREATE TABLE dbo.tr (n int);", 2714),
        ("CREATE PROCEDURE dbo.tr AS RETURN;", 2714),
        ("CREATE QUEUE dbo.tr;", 2714),
        ("CREATE TRIGGER dbo.x ON dbo.nowhere AFTER INSERT AS RETURN;", 8197),
        ("CREATE TRIGGER db.dbo.x ON dbo.t AFTER INSERT AS RETURN;", 166),
        ("CREATE TRIGGER dbo.x ON master.dbo.t AFTER INSERT AS RETURN;", 8197),
        ("ALTER TRIGGER dbo.x ON dbo.t AFTER INSERT AS RETURN;", 208),
        ("ALTER TRIGGER dbo.tr ON dbo.log AFTER INSERT AS RETURN;", 2110),
        ("DROP TRIGGER dbo.x;", 3701),
        ("DISABLE TRIGGER dbo.x ON dbo.t;", 1088),
        ("DISABLE TRIGGER dbo.tr ON dbo.log;", 1088),
        ("ENABLE TRIGGER ALL ON dbo.nowhere;", 1088),
        ("CREATE TRIGGER dbo.x ON dbo.t AFTER INSERT AS RETURN 1;", 178),
        ("CREATE TRIGGER dbo.x ON dbo.t AFTER MERGE AS RETURN;", 156),
        ("SELECT 1; CREATE TRIGGER dbo.x ON dbo.t AFTER INSERT AS RETURN;", 111),
        ("CREATE TRIGGER x ON DATABASE FOR CREATE_TABLE AS RETURN;", 50001),
        ("CREATE TRIGGER x ON ALL SERVER FOR LOGON AS RETURN;", 50001),
        ("DROP TRIGGER x ON DATABASE;", 50001),
        ("DISABLE TRIGGER x ON DATABASE;", 50001),
        ("CREATE TRIGGER dbo.x ON dbo.t WITH ENCRYPTION AFTER INSERT AS RETURN;", 50001),
        ("CREATE TRIGGER dbo.x ON dbo.t AFTER UPDATE AS SELECT COLUMNS_UPDATED();", 50001),
        ("ALTER DATABASE db SET RECURSIVE_TRIGGERS ON;", 50001),
    ],
)
def test_definitions_that_are_refused(side, statement, number):
    side.run(TRIGGER)
    assert side.error(statement).number == number
    assert side.value("SELECT COUNT(*) FROM sys.triggers;") == 1


@pytest.mark.in_process
@pytest.mark.parametrize(
    ("change", "prints"),
    [
        ("INSERT dbo.t (n) VALUES (3)", ["n", "n or name", "id"]),
        ("UPDATE dbo.t SET n = n", ["n", "n or name"]),
        ("UPDATE t SET NAME = N'b' FROM dbo.t AS t WHERE 1 = 0", ["n or name", "not n"]),
        ("WITH c (x) AS (SELECT n FROM dbo.t) UPDATE c SET x = 1", ["n", "n or name"]),
        ("DELETE dbo.t", ["not n"]),
    ],
)
@pytest.mark.parametrize("kind", ["AFTER", "INSTEAD OF"])
def test_update_tells_which_columns_the_statement_assigns(side, kind, change, prints):
    """The manual, UPDATE(): also where no row or value changes; "TRUE in INSERT actions" for every column."""
    side.run("INSERT dbo.t (n) VALUES (1), (2)")
    side.run(
        f"CREATE TRIGGER dbo.x ON dbo.t {kind} INSERT, UPDATE, DELETE AS IF UPDATE(n) PRINT 'n' "
        "IF UPDATE([n]) OR UPDATE (name) PRINT 'n or name' IF UPDATE(id) PRINT 'id' IF NOT EXISTS (SELECT 1 WHERE UPDATE(N)) PRINT 'not n'"
    )
    assert side.run(change).prints == prints


def test_update_of_a_column_belongs_to_triggers(side):
    assert side.error("IF UPDATE(n) PRINT 'x'").number == 140
    assert side.error("SELECT UPDATE(n)").number == 102
    side.run("CREATE TRIGGER dbo.x ON dbo.t AFTER INSERT AS IF UPDATE(nothing) PRINT 'x'")
    assert side.error("INSERT dbo.t (n) VALUES (1)").number == 207
    side.run("ALTER TRIGGER dbo.x ON dbo.t AFTER INSERT AS EXEC dbo.called")
    side.run("CREATE PROCEDURE dbo.called AS IF UPDATE(n) PRINT 'x'")
    assert side.error("INSERT dbo.t (n) VALUES (1)").number == 140


def test_dropping_what_is_not_there_is_allowed_with_if_exists(side):
    side.run(TRIGGER)
    side.run("DROP TRIGGER IF EXISTS dbo.x, dbo.tr;")
    assert side.value("SELECT COUNT(*) FROM sys.triggers;") == 0
    side.run("ALTER DATABASE db SET RECURSIVE_TRIGGERS OFF;")


# -- permissions -------------------------------------------------------------------------------------------------------


@pytest.fixture
def ann(side):
    side.run("CREATE LOGIN ann WITH PASSWORD = 'Secret-word-1'; CREATE USER ann FOR LOGIN ann;")
    return as_login(side, "ann", "db")


def test_whoever_may_alter_the_table_may_create_and_drop_its_triggers(side, ann):
    assert side.error(TRIGGER, ann).number == 8197
    side.run("GRANT SELECT ON dbo.t TO ann;")
    assert side.error(TRIGGER, ann).number == 8197
    side.run(TRIGGER)
    assert side.error("DISABLE TRIGGER dbo.tr ON dbo.t;", ann).number == 1088
    assert side.error("DROP TRIGGER dbo.tr;", ann).number == 3701
    assert side.error(TRIGGER.replace("CREATE", "ALTER"), ann).number == 8197
    side.run("GRANT ALTER ON dbo.t TO ann;")
    side.run(TRIGGER.replace("CREATE", "ALTER"), ann)
    side.run("DISABLE TRIGGER dbo.tr ON dbo.t; DROP TRIGGER dbo.tr;", ann)
    side.run(TRIGGER, ann)
    owner = TRIGGER.replace("CREATE", "ALTER").replace("AFTER", "WITH EXECUTE AS OWNER AFTER")
    assert side.error(owner, ann).number == 15151


@pytest.mark.parametrize(
    ("execute_as", "user"), [("", "ann"), ("WITH EXECUTE AS CALLER", "ann"), ("WITH EXECUTE AS OWNER", "dbo")]
)
def test_a_trigger_runs_as_the_caller_or_as_the_user_of_execute_as(side, ann, execute_as, user):
    """Ownership chains let it change what the caller may not."""
    side.run("CREATE TABLE dbo.seen (name nvarchar(128));")
    side.run(f"CREATE TRIGGER dbo.tr ON dbo.t {execute_as} AFTER INSERT AS INSERT INTO dbo.seen VALUES (USER_NAME());")
    side.run("GRANT INSERT ON dbo.t TO ann;")
    side.run("INSERT INTO dbo.t (n) VALUES (1);", ann)
    assert side.rows("SELECT name FROM dbo.seen;") == [(user,)]
    assert side.rows("SELECT name FROM sys.triggers;", ann) == [("tr",)]
    assert side.value("SELECT OBJECT_DEFINITION(OBJECT_ID('dbo.tr'));", ann) is None


# -- INSTEAD OF --------------------------------------------------------------------------------------------------------


@pytest.fixture
def instead() -> Side:
    side = World().side("Here")
    side.run(
        "CREATE TABLE dbo.t (id int IDENTITY PRIMARY KEY, a nvarchar(20) NOT NULL); CREATE TABLE dbo.log (a nvarchar(40))"
    )
    side.run(
        "CREATE TRIGGER dbo.before ON dbo.t INSTEAD OF INSERT NOT FOR REPLICATION AS BEGIN "
        "INSERT dbo.log SELECT N'instead ' + ISNULL(a, N'null') FROM inserted; "
        "INSERT dbo.t (a) SELECT ISNULL(a, N'empty') FROM inserted END"
    )
    side.run("CREATE TRIGGER dbo.behind ON dbo.t AFTER INSERT AS INSERT dbo.log SELECT N'after ' + a FROM inserted")
    return side  # fmt: skip


def test_an_instead_of_trigger_alone_gets_the_rows(instead):
    assert instead.rows("INSERT dbo.t (a) VALUES (N'x'), (NULL); SELECT @@ROWCOUNT") == [(2,)]
    assert instead.rows("SELECT id, a FROM dbo.t ORDER BY id") == [(1, "x"), (2, "empty")]
    logged = [row[0] for row in instead.rows("SELECT a FROM dbo.log")]
    assert logged == ["instead x", "instead null", "after x", "after empty"]


def test_an_instead_of_trigger_for_update_and_delete_keeps_the_rows(instead):
    instead.run("INSERT dbo.t (a) VALUES (N'x'); DELETE dbo.log")
    instead.run("CREATE TRIGGER dbo.kept ON dbo.t INSTEAD OF UPDATE, DELETE AS "
                "INSERT dbo.log SELECT N'old ' + a FROM deleted; INSERT dbo.log SELECT N'new ' + a FROM inserted")  # fmt: skip
    instead.run("UPDATE dbo.t SET a = N'y'; DELETE dbo.t")
    assert instead.rows("SELECT a FROM dbo.t") == [("x",)]
    assert instead.rows("SELECT a FROM dbo.log") == [("old x",), ("new y",), ("old x",)]
    instead.run("ALTER TABLE dbo.t DISABLE TRIGGER kept; DELETE dbo.t; ALTER TABLE dbo.t ENABLE TRIGGER ALL")
    assert instead.rows("SELECT a FROM dbo.t") == []


def test_a_table_has_one_instead_of_trigger_for_each_event(instead):
    second = instead.error("CREATE TRIGGER dbo.second ON dbo.t INSTEAD OF INSERT AS RETURN")
    assert (second.number, "'before'" in second.text) == (2111, True)
    instead.world.run_for(1)
    instead.crash()
    shown = "SELECT name, is_instead_of_trigger FROM sys.triggers ORDER BY name"
    assert instead.rows(shown) == [("before", 1), ("behind", 0)]


def test_a_trigger_sees_the_columns_that_its_table_has_now(instead):
    instead.run("CREATE TABLE dbo.s (a int); CREATE TABLE dbo.texts (x nvarchar(max))")
    instead.run(
        "CREATE TRIGGER dbo.shows ON dbo.s AFTER INSERT AS INSERT dbo.texts SELECT (SELECT * FROM inserted FOR JSON AUTO)"
    )
    instead.run("INSERT dbo.s VALUES (1); ALTER TABLE dbo.s ADD b int")
    instead.run("INSERT dbo.s VALUES (2, 3)")
    assert instead.rows("SELECT x FROM dbo.texts") == [('[{"a":1}]',), ('[{"a":2,"b":3}]',)]


# -- their order -------------------------------------------------------------------------------------------------------


@pytest.fixture
def three(side):
    side.run("CREATE TABLE dbo.fired (seq int IDENTITY, name varchar(1))")
    for name in "abc":
        side.run(f"CREATE TRIGGER {name} ON dbo.t AFTER INSERT AS INSERT dbo.fired (name) VALUES ('{name}')")
    return side


def fired(side):
    side.run("DELETE dbo.fired; INSERT dbo.t (n) VALUES (1)")
    return "".join(name for (name,) in side.rows("SELECT name FROM dbo.fired ORDER BY seq"))


def test_one_trigger_is_fired_first_and_one_last(three):
    three.run("EXEC sp_settriggerorder 'c', 'First', 'INSERT'; EXEC sp_settriggerorder 'dbo.a', 'last', 'insert'")
    assert fired(three) == "cba"
    shown = "SELECT OBJECT_NAME(object_id), is_first, is_last FROM sys.trigger_events ORDER BY object_id"
    assert three.rows(shown) == [("a", False, True), ("b", False, False), ("c", True, False)]
    three.run("EXEC sp_settriggerorder @stmttype = 'INSERT', @order = 'None', @triggername = 'c', @namespace = NULL")
    three.run("ALTER TRIGGER a ON dbo.t AFTER INSERT AS INSERT dbo.fired (name) VALUES ('a')")
    properties = "SELECT OBJECTPROPERTY(OBJECT_ID('{}'), 'ExecIs{}InsertTrigger')"
    assert three.value(properties.format("a", "Last")) == three.value(properties.format("c", "First")) == 0
    assert fired(three)[0] != "c"


def test_the_order_of_triggers_survives_a_crash(three):
    three.run("EXEC sp_settriggerorder 'c', 'First', 'INSERT'")
    three.world.run_for(1)
    three.crash()
    three.run("USE db")
    assert fired(three)[0] == "c"


@pytest.mark.parametrize(
    ("arguments", "number", "words"),
    [
        ("'b', 'first', 'insert'", 15130, "There already exists a 'first' trigger for 'insert'."),
        ("'dbo.b', 'First', 'UPDATE'", 15125, "Trigger 'dbo.b' is not a trigger for 'update'."),
        ("'kept', 'Last', 'UPDATE'", 15133, "INSTEAD OF trigger 'kept' cannot be associated with an order."),
        ("'dbo.no', 'First', 'INSERT'", 15165, "Could not find object 'dbo.no' or you do not have permission."),
        ("'b', 'Middle', 'INSERT'", 15600, "'sys.sp_settriggerorder'"),
        ("'b', 'First', 'MERGE'", 15600, "'sys.sp_settriggerorder'"),
        ("'b', 'First'", 201, "'@stmttype'"),
        ("'b', 'First', 'LOGON', 'SERVER'", 50001, "logon triggers"),
    ],
)
def test_a_trigger_that_gets_no_order(three, arguments, number, words):
    three.run("EXEC sp_settriggerorder 'c', 'First', 'INSERT'")
    three.run("CREATE TRIGGER kept ON dbo.t INSTEAD OF UPDATE AS RETURN")
    error = three.error(f"EXEC sp_settriggerorder {arguments}")
    assert error.number == number and words in error.text
