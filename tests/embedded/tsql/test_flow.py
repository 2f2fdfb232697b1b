"""TRY and CATCH, THROW, RAISERROR, PRINT, and what an error ends."""

from __future__ import annotations

from harness.embedded.errors import SqlServerError


def numbers(side, session=None):
    return [row[0] for row in side.rows("SELECT n FROM db.dbo.t ORDER BY n", session)]


def test_print_raiserror_and_throw(side):
    results = side.results(
        "PRINT 'a' + 'b'; RAISERROR ('info %s', 0, 1, 'x'); RAISERROR (N'bad %d of %s', 16, 3, 5, N'y'); SELECT 1; THROW 50005, N'end', 2; SELECT 2"
    )
    assert [(m.number, m.severity, m.text) for m in results.messages] == [
        (0, 0, "ab"),
        (0, 0, "info x"),
        (50000, 16, "bad 5 of y"),
        (50005, 16, "end"),
    ]
    assert len(results.sets) == 1


def test_a_failed_statement_ends_alone_a_failed_conversion_ends_the_batch(side):
    results = side.results("SELECT 1; INSERT dbo.t (n) VALUES (NULL); SELECT 2")
    assert [rows for _, rows in results.sets] == [[(1,)], [(2,)]]
    assert (results.errors[0].number, results.errors[0].line) == (515, 1)
    results = side.results("SELECT 1;\nSELECT CAST('x' AS int);\nSELECT 2")
    assert results.sets[0][1] == [(1,)]
    assert len(results.sets) == 1 and results.errors[0].line == 2


def test_unsupported_syntax_has_its_own_error_number():
    assert SqlServerError(50001, "x").severity == 16


def test_xact_abort_rolls_back_and_ends_the_batch(side):
    results = side.results(
        "SET XACT_ABORT ON; BEGIN TRAN; INSERT dbo.t (n) VALUES (1); INSERT dbo.t (n) VALUES (NULL); SELECT 1"
    )
    assert results.sets == []
    assert side.value("SELECT @@TRANCOUNT") == 0
    assert numbers(side) == []


def test_catch_sees_the_error_and_throw_raises_it_again_with_its_line(side):
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


def test_an_error_under_a_procedures_own_xact_abort_leaves_no_transaction_open(side):
    side.run("CREATE PROCEDURE dbo.fails AS SET XACT_ABORT ON; BEGIN TRANSACTION; INSERT dbo.t (n) VALUES (NULL);")
    assert [error.number for error in side.results("EXEC dbo.fails").errors] == [515]
    assert side.value("SELECT @@TRANCOUNT") == 0
