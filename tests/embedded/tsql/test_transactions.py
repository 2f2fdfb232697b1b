"""Transactions, TRY and CATCH, locks on rows, and what a crash leaves."""

from __future__ import annotations

import sqlite3

import pytest

from harness.embedded.runtime.tasks import TaskState
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.result_sink import DiscardedResults
from tests.embedded.tsql.sides import Results


def numbers(side, session=None):
    return [row[0] for row in side.rows("SELECT n FROM db.dbo.t ORDER BY n", session)]


def test_transactions_nest_by_count_and_roll_back_whole(side):
    side.run("BEGIN TRAN; BEGIN TRAN; INSERT dbo.t (n) VALUES (1); COMMIT")
    assert side.rows("SELECT @@TRANCOUNT, XACT_STATE()") == [(1, 1)]
    side.run("ROLLBACK")
    assert side.value("SELECT @@TRANCOUNT") == 0
    assert numbers(side) == []
    side.run(
        "BEGIN TRAN; INSERT dbo.t (n) VALUES (1); SAVE TRAN s; INSERT dbo.t (n) VALUES (2); UPDATE dbo.t SET n = 10 WHERE n = 1; ROLLBACK TRAN s; COMMIT"
    )
    assert numbers(side) == [1]


def test_a_rollback_to_a_savepoint_forgets_those_that_came_after_it(side):
    side.run(
        "BEGIN TRAN; SAVE TRAN a; INSERT dbo.t (n) VALUES (1); SAVE TRAN b; INSERT dbo.t (n) VALUES (2); ROLLBACK TRAN a"
    )
    side.run("INSERT dbo.t (n) VALUES (3); INSERT dbo.t (n) VALUES (4)")
    assert side.error("ROLLBACK TRAN b").number == 6401
    side.run("COMMIT")
    assert numbers(side) == [3, 4]


def test_rollback_restores_every_kind_of_change(side):
    side.run("INSERT dbo.t (n) VALUES (1), (2), (3)")
    before = side.rows("SELECT * FROM dbo.t ORDER BY id")
    side.run(
        "BEGIN TRAN; DELETE dbo.t WHERE n = 1; UPDATE dbo.t SET n = n * 10, name = N'x'; INSERT dbo.t (n) VALUES (4); TRUNCATE TABLE dbo.t; INSERT dbo.t (n) VALUES (5); DROP TABLE dbo.t; CREATE TABLE dbo.t (other int); INSERT dbo.t VALUES (1)"
    )
    assert side.rows("SELECT * FROM dbo.t") == [(1,)]
    side.run("ROLLBACK")
    assert side.rows("SELECT * FROM dbo.t ORDER BY id") == before
    assert side.value("SELECT rows FROM sys.partitions WHERE object_id = OBJECT_ID('dbo.t')") == 3


def test_a_failed_statement_undoes_itself_alone(side):
    side.results("BEGIN TRAN; INSERT dbo.t (n) VALUES (1); INSERT dbo.t (n) SELECT 2 UNION ALL SELECT NULL; COMMIT")
    assert numbers(side) == [1]


@pytest.mark.parametrize("before", [[], [(7,)]])
def test_rows_go_into_a_table_variable_all_or_none(side, before):
    frame = Frame(side.session, side.session.database, DiscardedResults(), "", 0)
    frame.declare_table("@t", "i INTEGER UNIQUE")
    if before:
        frame.fill_table("@t", "?", before)
    with pytest.raises(sqlite3.IntegrityError):
        frame.fill_table("@t", "?", [(1,), (2,), (1,)])
    assert frame.sqlite.rows(f"SELECT i FROM temp.{frame.table('@t')}") == before


def test_xact_abort_rolls_back_and_ends_the_batch(side):
    results = side.results(
        "SET XACT_ABORT ON; BEGIN TRAN; INSERT dbo.t (n) VALUES (1); INSERT dbo.t (n) VALUES (NULL); SELECT 1"
    )
    assert results.sets == []
    assert side.value("SELECT @@TRANCOUNT") == 0
    assert numbers(side) == []


def test_catch_sees_the_error_and_throw_sends_it_on_with_its_line(side):
    results = side.results(
        "BEGIN TRY\n  SELECT 1\n  INSERT dbo.t (n) VALUES (NULL)\n  SELECT 2\nEND TRY\nBEGIN CATCH\n"
        "  SELECT ERROR_NUMBER(), ERROR_LINE(), ERROR_SEVERITY(), ERROR_PROCEDURE(), XACT_STATE(), @@ERROR\n  ;THROW\nEND CATCH\nSELECT 3"
    )
    assert [rows for _, rows in results.sets] == [[(1,)], [(515, 3, 16, None, 0, 515)]]
    assert [(error.number, error.line) for error in results.errors] == [(515, 3)]
    assert side.value("SELECT ERROR_NUMBER()") is None


def test_an_error_in_a_called_procedure_is_caught_with_its_procedure_and_line(side):
    side.run("CREATE PROCEDURE dbo.fails AS\n\nINSERT dbo.t (n) VALUES (NULL)")
    rows = side.rows("BEGIN TRY EXEC dbo.fails END TRY BEGIN CATCH SELECT ERROR_PROCEDURE(), ERROR_LINE() END CATCH")
    assert rows == [("fails", 3)]
    error = side.error("EXEC dbo.fails")
    assert (error.procedure, error.line) == ("fails", 3)


def test_a_doomed_transaction_can_only_be_rolled_back(side):
    side.run("CREATE TABLE dbo.other (a int)")
    text = """
        SET XACT_ABORT ON;
        BEGIN TRAN;
        BEGIN TRY INSERT dbo.t (n) VALUES (NULL) END TRY
        BEGIN CATCH
            SELECT XACT_STATE();
            BEGIN TRY INSERT dbo.other VALUES (1) END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH
            ROLLBACK;
            INSERT dbo.other VALUES (2);
        END CATCH"""
    assert [rows for _, rows in side.run(text).sets] == [[(-1,)], [(3930,)]]
    assert side.rows("SELECT a FROM dbo.other") == [(2,)]
    results = side.results("BEGIN TRAN; BEGIN TRY SELECT CAST('x' AS int) END TRY BEGIN CATCH PRINT 'caught' END CATCH")
    assert results.errors[-1].number == 3998
    assert side.value("SELECT @@TRANCOUNT") == 0


def test_implicit_transactions_begin_with_a_change(side):
    side.run("SET IMPLICIT_TRANSACTIONS ON")
    side.run("INSERT dbo.t (n) VALUES (1)")
    assert side.value("SELECT @@TRANCOUNT") == 1
    side.run("IF @@TRANCOUNT > 0 ROLLBACK TRAN")
    assert numbers(side) == []
    side.run("BEGIN TRAN")
    assert side.value("SELECT @@TRANCOUNT") == 2
    side.run("ROLLBACK; SET IMPLICIT_TRANSACTIONS OFF")


def test_a_procedure_that_leaves_a_transaction_open_is_error_266(side):
    side.run("CREATE PROCEDURE dbo.opens AS BEGIN TRAN")
    assert side.error("EXEC dbo.opens").number == 266
    side.run("ROLLBACK")


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


def test_who_changes_a_row_that_another_has_changed_waits_for_its_end(side):
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


def test_who_waits_for_one_row_of_another_does_not_hold_up_who_waits_for_its_next(side):
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
    assert numbers(side) == [11, 22]


def test_no_identity_is_given_twice(side):
    side.run("INSERT dbo.t (n) VALUES (1), (2); DELETE dbo.t WHERE n = 2; INSERT dbo.t (n) VALUES (3)")
    side.run("BEGIN TRAN; INSERT dbo.t (n) VALUES (4); ROLLBACK; INSERT dbo.t (n) VALUES (5)")
    side.run("BEGIN TRAN; TRUNCATE TABLE dbo.t; INSERT dbo.t (n) VALUES (6); ROLLBACK; INSERT dbo.t (n) VALUES (7)")
    assert side.rows("SELECT id, n FROM dbo.t ORDER BY id") == [(1, 1), (3, 3), (5, 5), (6, 7)]


def test_truncating_an_empty_table_starts_its_identity_anew_until_it_is_rolled_back(side):
    side.run("INSERT dbo.t (n) VALUES (1), (2); DELETE dbo.t; BEGIN TRAN; TRUNCATE TABLE dbo.t")
    side.run("INSERT dbo.t (n) VALUES (3)")
    assert side.rows("SELECT id, n FROM dbo.t") == [(1, 3)]
    side.run("ROLLBACK; INSERT dbo.t (n) VALUES (4)")
    assert side.rows("SELECT id, n FROM dbo.t") == [(3, 4)]
    side.run("DELETE dbo.t; TRUNCATE TABLE dbo.t; INSERT dbo.t (n) VALUES (5)")
    assert side.rows("SELECT id, n FROM dbo.t") == [(1, 5)]


def test_numbers_that_others_took_while_a_truncation_was_open_stay_theirs(side):
    other = side.connect("db")
    side.run("INSERT dbo.t (n) VALUES (1); DELETE dbo.t; BEGIN TRAN; TRUNCATE TABLE dbo.t")
    side.run("INSERT dbo.t (n) VALUES (2), (3), (4)", other)
    side.run("ROLLBACK; INSERT dbo.t (n) VALUES (5)")
    assert side.rows("SELECT id, n FROM dbo.t ORDER BY id") == [(1, 2), (2, 3), (3, 4), (4, 5)]


def test_default_values_are_those_of_the_columns_that_have_one(side):
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


def test_what_was_committed_survives_a_crash_and_nothing_else_does(side):
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


def test_an_error_under_a_procedures_own_xact_abort_leaves_no_transaction_open(side):
    side.run("CREATE PROCEDURE dbo.fails AS SET XACT_ABORT ON; BEGIN TRANSACTION; INSERT dbo.t (n) VALUES (NULL);")
    assert [error.number for error in side.results("EXEC dbo.fails").errors] == [515]
    assert side.value("SELECT @@TRANCOUNT") == 0
