"""Transactions, locks on rows, identity values, and recovery from a crash."""

import pytest

from harness.embedded.runtime.tasks import TaskState
from tests.embedded.tsql.sides import Results


def numbers(side, session=None):
    return [row[0] for row in side.rows("SELECT n FROM db.dbo.t ORDER BY n", session)]


def test_transactions_nest_by_count_and_roll_back_as_a_whole(side):
    side.run("BEGIN TRAN; BEGIN TRAN; INSERT dbo.t (n) VALUES (1); COMMIT")
    assert side.rows("SELECT @@TRANCOUNT, XACT_STATE()") == [(1, 1)]
    side.run("ROLLBACK")
    assert side.value("SELECT @@TRANCOUNT") == 0
    assert numbers(side) == []
    side.run(
        "BEGIN TRAN; INSERT dbo.t (n) VALUES (1); SAVE TRAN s; INSERT dbo.t (n) VALUES (2); UPDATE dbo.t SET n = 10 WHERE n = 1; ROLLBACK TRAN s; COMMIT"
    )
    assert numbers(side) == [1]


def test_a_rollback_to_a_savepoint_discards_later_savepoints(side):
    side.run(
        "BEGIN TRAN; SAVE TRAN a; INSERT dbo.t (n) VALUES (1); SAVE TRAN b; INSERT dbo.t (n) VALUES (2); ROLLBACK TRAN a"
    )
    side.run("INSERT dbo.t (n) VALUES (3); INSERT dbo.t (n) VALUES (4)")
    assert side.error("ROLLBACK TRAN b").number == 6401
    side.run("COMMIT")
    assert numbers(side) == [3, 4]


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_savepoints_and_the_count_of_rows_end_with_their_transaction(side, end):
    assert side.value(f"BEGIN TRAN; SAVE TRAN a; INSERT dbo.t (n) VALUES (1); {end}; SELECT @@ROWCOUNT") == 0
    assert side.error("BEGIN TRAN; ROLLBACK TRAN a").number == 6401


def test_rollback_restores_every_kind_of_change(side):
    side.run("INSERT dbo.t (n) VALUES (1), (2), (3)")
    before = side.rows("SELECT * FROM dbo.t ORDER BY id")
    side.run(
        "BEGIN TRAN; DELETE dbo.t WHERE n = 1; UPDATE dbo.t SET n = n * 10, name = N'x'; INSERT dbo.t (n) VALUES (4); TRUNCATE TABLE dbo.t; INSERT dbo.t (n) VALUES (5); DROP TABLE dbo.t; CREATE TABLE dbo.t (other int); EXEC ('INSERT dbo.t VALUES (1)')"
    )
    assert side.rows("SELECT * FROM dbo.t") == [(1,)]
    side.run("ROLLBACK")
    assert side.rows("SELECT * FROM dbo.t ORDER BY id") == before
    assert side.value("SELECT rows FROM sys.partitions WHERE object_id = OBJECT_ID('dbo.t')") == 3


def test_a_failed_statement_undoes_only_itself(side):
    side.results("BEGIN TRAN; INSERT dbo.t (n) VALUES (1); INSERT dbo.t (n) SELECT 2 UNION ALL SELECT NULL; COMMIT")
    assert numbers(side) == [1]


def test_an_implicit_transaction_begins_with_a_change(side):
    side.run("SET IMPLICIT_TRANSACTIONS ON")
    side.run("INSERT dbo.t (n) VALUES (1)")
    assert side.value("SELECT @@TRANCOUNT") == 1
    side.run("IF @@TRANCOUNT > 0 ROLLBACK TRAN")
    assert numbers(side) == []
    side.run("ROLLBACK; BEGIN TRAN")  # "starts two nested transactions", as none is open
    assert side.value("SELECT @@TRANCOUNT") == 2
    side.run("ROLLBACK; SET IMPLICIT_TRANSACTIONS OFF")


@pytest.mark.parametrize(
    ("statement", "begun"),
    [
        ("SELECT n FROM dbo.t", 1),
        ("SELECT n FROM dbo.t WITH (NOLOCK)", 1),
        ("SELECT 1 WHERE EXISTS (SELECT n FROM dbo.t)", 1),
        ("SELECT name FROM sys.objects", 1),
        ("DECLARE @n int; SELECT @n = n FROM dbo.t", 1),
        ("WITH c AS (SELECT n FROM dbo.t) SELECT n FROM c", 1),
        ("DECLARE c CURSOR FOR SELECT 1; OPEN c", 1),
        # "SELECT GETDATE(); or SELECT 1, 'ABC'; do not require transactions"
        ("SELECT GETDATE()", 0),
        ("SELECT 1, 'ABC'", 0),
        ("DECLARE @n int = 1; SELECT @n = @n", 0),
        ("WITH c AS (SELECT 1 AS n) SELECT n FROM c", 0),
        ("SET FMTONLY ON; SELECT n FROM dbo.t; SET FMTONLY OFF", 0),
        ("SELECT nosuch FROM dbo.t", 0),
    ],
)
def test_an_implicit_transaction_begins_with_a_select_from_a_table(side, statement, begun):
    side.run("SET IMPLICIT_TRANSACTIONS ON")
    side.results(statement)
    assert side.value("SELECT @@TRANCOUNT") == begun


@pytest.mark.in_process
def test_a_closed_or_reset_session_rolls_back(side):
    other = side.connect("db")
    side.run("BEGIN TRAN; INSERT dbo.t (n) VALUES (1)", other)
    other.close()
    assert numbers(side) == []
    other = side.connect("db")
    side.run("SET NOCOUNT ON; BEGIN TRAN; INSERT dbo.t (n) VALUES (1)", other)
    other.reset()
    assert numbers(side) == []
    assert side.run("INSERT dbo.t (n) VALUES (2)", other).counts == [1]


def test_a_change_of_a_row_waits_for_the_transaction_that_changed_it(side):
    side.run("INSERT dbo.t (n) VALUES (1), (2)")
    other = side.connect("db")
    side.run("BEGIN TRAN; UPDATE dbo.t SET n = 10 WHERE n = 1")
    side.run("UPDATE dbo.t SET n = 20 WHERE n = 2", other)
    results = Results()
    task = side.scheduler.spawn(other.batch("UPDATE dbo.t SET n = n + 1 WHERE id = 1", results), "other")
    side.world.run_for(1)
    assert task.state is TaskState.WAITING
    side.run("ROLLBACK")
    side.world.run_for(1)
    assert task.state is TaskState.DONE and results.counts == [1]
    assert numbers(side) == [2, 20]


def test_two_sessions_wait_for_different_rows_of_one_transaction(side):
    side.run("INSERT dbo.t (n) VALUES (1), (2)")
    one, two = side.connect("db"), side.connect("db")
    side.run("BEGIN TRAN; UPDATE dbo.t SET n = n * 10")
    first, second = Results(), Results()
    side.scheduler.spawn(one.batch("BEGIN TRAN; UPDATE dbo.t SET n = n + 1 WHERE id = 1", first), "one")
    side.scheduler.spawn(two.batch("UPDATE dbo.t SET n = n + 2 WHERE id = 2", second), "two")
    side.world.run_for(1)
    assert first.counts == second.counts == []
    side.run("COMMIT")
    side.world.run_for(1)
    assert first.counts == second.counts == [1]
    assert numbers(side) == [10, 22]
    side.run("COMMIT", one)
    assert numbers(side) == [11, 22]


def test_no_identity_value_is_used_twice(side):
    side.run("INSERT dbo.t (n) VALUES (1), (2); DELETE dbo.t WHERE n = 2; INSERT dbo.t (n) VALUES (3)")
    side.run("BEGIN TRAN; INSERT dbo.t (n) VALUES (4); ROLLBACK; INSERT dbo.t (n) VALUES (5)")
    side.run("BEGIN TRAN; TRUNCATE TABLE dbo.t; INSERT dbo.t (n) VALUES (6); ROLLBACK; INSERT dbo.t (n) VALUES (7)")
    assert side.rows("SELECT id, n FROM dbo.t ORDER BY id") == [(1, 1), (3, 3), (5, 5), (6, 7)]


def test_truncate_resets_the_identity_and_its_rollback_restores_it(side):
    side.run("INSERT dbo.t (n) VALUES (1), (2); DELETE dbo.t; BEGIN TRAN; TRUNCATE TABLE dbo.t")
    side.run("INSERT dbo.t (n) VALUES (3)")
    assert side.rows("SELECT id, n FROM dbo.t") == [(1, 3)]
    side.run("ROLLBACK; INSERT dbo.t (n) VALUES (4)")
    assert side.rows("SELECT id, n FROM dbo.t") == [(3, 4)]
    side.run("DELETE dbo.t; TRUNCATE TABLE dbo.t; INSERT dbo.t (n) VALUES (5)")
    assert side.rows("SELECT id, n FROM dbo.t") == [(1, 5)]


def test_identity_values_taken_during_an_open_truncate_are_not_reused(side):
    other = side.connect("db")
    side.run("INSERT dbo.t (n) VALUES (1); DELETE dbo.t; BEGIN TRAN; TRUNCATE TABLE dbo.t")
    side.run("INSERT dbo.t (n) VALUES (2), (3), (4)", other)
    side.run("ROLLBACK; INSERT dbo.t (n) VALUES (5)")
    assert side.rows("SELECT id, n FROM dbo.t ORDER BY id") == [(1, 2), (2, 3), (3, 4), (4, 5)]


def test_default_values_come_from_the_columns(side):
    side.run("CREATE TABLE dbo.d (a int NULL, id int IDENTITY NOT NULL, b int NOT NULL DEFAULT 3)")
    side.run("INSERT dbo.d DEFAULT VALUES; INSERT dbo.d (b, a) VALUES (5, 4)")
    assert side.rows("SELECT * FROM dbo.d ORDER BY id") == [(None, 1, 3), (4, 2, 5)]


def test_a_lock_timeout_and_a_deadlock_are_errors(side):
    side.run("INSERT dbo.t (n) VALUES (1), (2)")
    other = side.connect("db")
    side.run("BEGIN TRAN; UPDATE dbo.t SET n = 10 WHERE id = 1")
    assert side.error("SET LOCK_TIMEOUT 100; DELETE dbo.t WHERE id = 1", other).number == 1222
    side.run("SET LOCK_TIMEOUT -1; BEGIN TRAN; UPDATE dbo.t SET n = 20 WHERE id = 2", other)
    results = Results()
    side.scheduler.spawn(other.batch("UPDATE dbo.t SET n = 11 WHERE id = 1", results), "other")
    side.world.run_for(1)
    assert side.error("UPDATE dbo.t SET n = 21 WHERE id = 2").number == 1205
    side.run("IF @@TRANCOUNT > 0 ROLLBACK")
    side.world.run_for(1)
    assert results.counts == [1]
    side.run("ROLLBACK", other)
    assert numbers(side) == [1, 2]


def test_only_committed_changes_survive_a_crash(side):
    side.run("INSERT dbo.t (n) VALUES (1), (2); DELETE dbo.t WHERE n = 1; UPDATE dbo.t SET n = 3")
    side.run("CREATE PROCEDURE dbo.p AS SELECT n FROM dbo.t")
    side.run("CREATE TABLE dbo.gone (a int); DROP TABLE dbo.gone")
    side.run("BEGIN TRAN; INSERT dbo.t (n) VALUES (9)")
    side.crash()
    assert side.rows("USE db; EXEC dbo.p") == [(3,)]
    side.run("INSERT dbo.t (n) VALUES (4)")
    assert side.rows("SELECT id FROM dbo.t ORDER BY id") == [(2,), (3,)]
    assert side.value("SELECT OBJECT_ID('dbo.gone')") is None


def test_messages_and_rows_commit_and_roll_back_together(side):
    side.run("CREATE QUEUE dbo.q; CREATE SERVICE [s] ON QUEUE dbo.q ([DEFAULT])")
    side.run(
        "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE [s] TO SERVICE 's' WITH ENCRYPTION = OFF; SEND ON CONVERSATION @h (N'x')"
    )
    side.run(
        "BEGIN TRAN; DECLARE @b varbinary(max); RECEIVE TOP (1) @b = message_body FROM dbo.q; INSERT dbo.t (n) VALUES (1); ROLLBACK"
    )
    assert numbers(side) == []
    rows = side.rows("RECEIVE CAST(message_body AS nvarchar(10)) AS body, message_type_name FROM dbo.q")
    assert rows == [("x", "DEFAULT")]
