"""TRY and CATCH, THROW, RAISERROR, PRINT, and what an error ends."""

import pytest

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


def test_a_negative_state_is_1(side):
    assert side.value("BEGIN TRY RAISERROR('x', 16, -1) END TRY BEGIN CATCH SELECT ERROR_STATE() END CATCH") == 1


@pytest.mark.in_process
def test_a_failed_statement_ends_alone_a_failed_conversion_ends_the_batch(side):
    results = side.results("SELECT 1; INSERT dbo.t (n) VALUES (NULL); SELECT 2")
    assert [rows for _, rows in results.sets] == [[(1,)], [(2,)]]
    assert (results.errors[0].number, results.errors[0].line) == (515, 1)
    results = side.results("SELECT 1;\nSELECT CAST('x' AS int);\nSELECT 2")
    assert results.sets[0][1] == [(1,)]
    assert [rows for _, rows in results.sets] == [[(1,)], []] and results.errors[0].line == 2


@pytest.mark.parametrize(
    ("statement", "number", "is_doomed"),
    [
        ("SELECT CAST('x' AS datetime2)", 241, True),
        ("SELECT CAST('2026-13-01' AS datetime)", 242, True),
        ("SELECT CAST('300' AS tinyint)", 244, True),
        ("SELECT CAST('x' AS int)", 245, True),
        ("SELECT CAST('3000000000' AS int)", 248, True),
        ("SELECT CAST('x' AS decimal)", 8114, True),
        ("SELECT CAST('x' AS uniqueidentifier)", 8169, True),
        ("SELECT nocolumn FROM dbo.t", 207, False),
        ("SELECT n FROM dbo.missing", 208, False),
        ("SELECT other.n FROM dbo.t", 4104, False),
        ("SELECT other.* FROM dbo.t", 107, False),
        ("SELECT n FROM dbo.t WHERE n", 4145, False),
    ],
)
def test_a_failed_conversion_also_dooms_the_transaction_and_an_unknown_name_does_not(
    side, statement, number, is_doomed
):
    side.run("BEGIN TRAN")
    results = side.results(f"{statement}; SELECT 1")
    assert number in [error.number for error in results.errors]
    assert all(rows == [] for _, rows in results.sets)
    assert side.value("SELECT @@TRANCOUNT") == (0 if is_doomed else 1)


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
    assert rows == [("dbo.fails", 3)]
    error = side.error("EXEC dbo.fails")
    assert (error.procedure, error.line) == ("dbo.fails", 3)


def test_an_error_names_its_procedure_as_the_call_does_since_2017(world):
    versions = {version: world.side(version, version) for version in ("2016", "2017")}
    for side in versions.values():
        side.run("CREATE SCHEMA app")
        side.run(
            "CREATE PROCEDURE app.[a b] @x int AS\nSELECT 1/0; EXEC ('\n\nSELECT 1/0'); SELECT OBJECT_NAME(@@PROCID)"
        )
    errors, later = ([side.results("EXEC app.[a b] 1") for side in versions.values()] for _ in range(2))
    assert [[(error.procedure, error.line) for error in results.errors] for results in errors] == [
        [("a b", 2), ("", 3)],
        [("app.a b", 2), ("", 3)],
    ]
    assert [results.sets[-1][1] for results in later] == [[("a b",)], [("a b",)]]
    error = versions["2017"].error("EXEC app.[a b]")
    assert (error.number, error.procedure, error.line) == (201, "app.a b", 0)


@pytest.mark.parametrize(
    ("arguments", "caught"),
    [
        ("50000, 'x', 256", (50000, "x", 0)),
        ("@decimal, @five, @text", (50003, "5", 2)),
        ("@none, 'x', -1", (35100, None, 10)),
        ("50000, 'x', -1", (2756, "Invalid value -1 for state. State value must not be less than 0.", 1)),
        ("@long, 'x', 1", (8115, None, 1)),
    ],
)
def test_the_arguments_of_throw(side, arguments, caught):
    number, text, state = side.rows(
        "DECLARE @decimal decimal(9, 1) = 50003.7, @five int = 5, @text varchar(3) = '258', @none int, @long bigint = 3e9; "
        f"BEGIN TRY THROW {arguments} END TRY BEGIN CATCH SELECT ERROR_NUMBER(), ERROR_MESSAGE(), ERROR_STATE() END CATCH"
    )[0]
    assert (number, text if caught[1] else None, state) == caught


@pytest.mark.parametrize(
    ("statement", "number", "named"),
    [
        ("THROW 50000, 'a' + 'b', 1", 102, "'+'"),
        ("THROW +50000, 'x', 1", 102, "'+'"),
        ("THROW 50000, 'x', (1)", 102, "'('"),
        ("THROW 50000, 1, 1", 102, "'1'"),
        ("THROW NULL, 'x', 1", 156, "'NULL'"),
        ("THROW -3000000000, 'x', 1", 1080, "-3000000000"),
        ("THROW 50000.5, 'x', 1", 1080, "50000.5"),
        ("EXEC p @a * 2", 102, "'*'"),
        ("EXEC p 'a-b' + 'c'", 102, "'+'"),
        ("EXEC p - 1 * 2", 102, "'*'"),
        ("EXEC p '+'", 2812, "'p'"),
        ("THROW 50000, '(', 1", 50000, "("),
    ],
)
def test_an_argument_is_a_literal_or_a_variable(side, statement, number, named):
    error = side.error(statement)
    assert (error.number, named in error.text) == (number, True)


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


@pytest.mark.in_process
def test_a_condition_resets_error_and_rowcount(side):
    """ "Conditional statements, such as the IF statement, reset @@ERROR." """
    text = "SELECT 1; RAISERROR('x', 16, 1); IF @@ERROR = 50000 SELECT @@ERROR, @@ROWCOUNT"
    assert side.results(text).sets[1][1] == [(0, 0)]
    text = "RAISERROR('x', 16, 1); WHILE @@ERROR = 50000 SELECT @@ERROR"
    assert side.results(text).sets[0][1] == [(0,)]
    assert side.rows("DECLARE @i int; SELECT @i = 1; RAISERROR('x', 1, 1); SELECT @@ROWCOUNT") == [(0,)]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("'%04d|%6s|%-4d|', 10, 1, 5, 'ab', 7", "0005|    ab|7   |"),
        ("'%I64d %I64u', 10, 1, 2147483647, -1", "2147483647 18446744073709551615"),
        ("'%x %X %u %o', 10, 1, -1, 255, -1, 8", "ffffffff FF 4294967295 10"),
        ("'%ld %hd', 10, 1, 64, 6", "64 6"),
        ("'', 10, 1", ""),
    ],
)
def test_raiserror_formats_as_the_manual_says(side, arguments, text):
    assert side.run(f"RAISERROR({arguments})").messages[0].text == text


def test_raiserror_without_a_text_or_with_a_long_one(side):
    assert side.run("DECLARE @m nvarchar(10); RAISERROR(@m, 10, 1)").messages[0].text == " "
    assert side.error("DECLARE @m nvarchar(4000) = REPLICATE('a', 2048); THROW 50000, @m, 1").text == "a" * 2044 + "..."
    assert side.error("RAISERROR(50000, 16, 1)").number == side.error("RAISERROR(500, 16, 1)").number == 2732
    missing = side.error("RAISERROR(50001, 16, 1)")
    assert missing.number == 18054
    assert missing.text.startswith("Error 50001, severity 16, state 1 was raised, but no message with that error")
    assert side.error("RAISERROR(13001, 16, 1)").number == 50001  # SQL Server has it, this server does not


def test_raiserror_finds_a_message_of_the_system_by_its_number(side):
    """The manual: RAISERROR (15600, -1, -1, 'mysp_CreateCustomer')."""
    raised = side.error("RAISERROR(15600, -1, -1, 'mysp_CreateCustomer')")
    assert (raised.number, raised.severity) == (15600, 16)
    assert raised.text == "An invalid parameter or option was specified for procedure 'mysp_CreateCustomer'."
    shown = side.run("RAISERROR(15151, 5, 1, 'find', 'login')").messages[0]
    assert (shown.number, shown.severity) == (15151, 5)
    assert shown.text.startswith("Cannot find the login '(null)'")
    assert side.rows(
        "SELECT message_id, language_id, severity FROM sys.messages WHERE message_id IN (15600, 9617)"
    ) == [(9617, 1033, 16), (15600, 1033, 16)]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("'[%*.*s]', 16, 1, 7, 3, 'abcdef'", "[    abc]"),
        ("'[%-*d]', 16, 1, 6, 42", "[42    ]"),
        ("'[%0*d]', 16, 1, 6, 42", "[000042]"),
        ("'[%*s]', 16, 1, -8, 'abc'", "[abc]"),
        ("'[%.*s]', 16, 1, -1, 'abc'", "[abc]"),
        ("'[%*.*d]', 16, 1, 8, 5, 42", "[   00042]"),
    ],
)
def test_raiserror_takes_widths_and_precisions_from_arguments(side, arguments, text):
    assert side.error(f"RAISERROR({arguments}) WITH NOWAIT, SETERROR").text == text


def test_raiserror_refuses_arguments_that_do_not_fit(side):
    assert side.error("RAISERROR('[%*s]', 16, 1, 'x', 'abc')").number == 2786
    assert side.error("DECLARE @b bigint = 5000000000; RAISERROR('%d', 16, 1, @b)").number == 2786
    assert side.error("RAISERROR('[%*d]', 16, 1, 2000000000, 1)").number == 2787  # 2 GB of blanks
    arguments = ", 1" * 20
    assert side.error(f"RAISERROR('x', 16, 1{arguments})").text == "x"
    assert side.error(f"PRINT 'x' RAISERROR('x', 16, 1{arguments}, 1)").number == 2747


@pytest.mark.parametrize(("state", "shown"), [("0", 0), ("255", 255), ("256", 0), ("300", 44), ("-5", 1), ("NULL", 0)])
def test_a_state_above_255_begins_anew_and_one_below_0_is_1(side, state, shown):
    text = (
        f"DECLARE @s int = {state}; BEGIN TRY RAISERROR('x', 16, @s) END TRY BEGIN CATCH SELECT ERROR_STATE() END CATCH"
    )
    assert side.rows(text) == [(shown,)]


def test_a_loop_and_an_assignment_set_the_count_of_rows(side):
    three = "SELECT 1 UNION SELECT 2 UNION SELECT 3; "
    for statement, count in {
        "DECLARE @a int": 3,
        "DECLARE @a int = 5": 1,
        "WHILE 1 = 0 PRINT 'x'": 0,
        "WHILE 1 = 1 BEGIN SELECT 1; BREAK END": 0,
    }.items():
        assert side.run(f"{three}{statement}; SELECT ROWCOUNT_BIG()").sets[-1][1] == [(count,)], statement


def test_what_ends_a_change_but_not_its_batch_is_told_behind_it(side):
    for text, numbers in {
        "INSERT dbo.t (n) VALUES (NULL); PRINT 'x'": [515, 3621, 0],
        "DECLARE @t TABLE (n int NOT NULL); INSERT @t VALUES (NULL)": [515, 3621],
        "SELECT 1 / 0": [8134],
        "INSERT dbo.t (n) SELECT 1 / 0": [8134, 3621],
        "INSERT dbo.t (n) SELECT n FROM dbo.missing": [208],
        "SET XACT_ABORT ON; INSERT dbo.t (n) VALUES (NULL)": [515],
    }.items():
        assert [message.number for message in side.results(text).messages] == numbers, text


def test_options_of_the_session_are_bits(side):
    assert side.value("SELECT @@OPTIONS") == 5432
    assert side.value("SET XACT_ABORT, NOCOUNT ON; SELECT @@OPTIONS") == 5432 + 512 + 16384
    assert side.value("SET QUOTED_IDENTIFIER OFF; SET IMPLICIT_TRANSACTIONS ON; SELECT @@OPTIONS & 258") == 2


def test_a_name_that_is_not_found_is_not_caught_at_its_own_level(side):
    catches = "BEGIN TRY {} END TRY BEGIN CATCH PRINT ERROR_NUMBER() END CATCH; PRINT 'after'"
    results = side.results(catches.format("SELECT * FROM dbo.missing"))
    assert ([one.number for one in results.errors], results.prints) == ([208], [])
    assert side.run(catches.format("EXEC ('SELECT * FROM dbo.missing')")).prints == ["208", "after"]
    side.run("CREATE PROCEDURE dbo.reads AS SELECT * FROM dbo.missing")
    assert side.run(catches.format("EXEC dbo.reads")).prints == ["208", "after"]
    again = "BEGIN TRY EXEC dbo.reads END TRY BEGIN CATCH THROW END CATCH"
    assert side.run(catches.format(again)).prints == ["208", "after"]


def test_a_name_that_is_not_found_ends_what_was_called_but_not_its_caller(side):
    reads = "INSERT dbo.t (n) VALUES (1); SELECT * FROM dbo.missing; INSERT dbo.t (n) VALUES (2)"
    side.run("CREATE TABLE dbo.late (n int)")
    side.run(f"CREATE PROCEDURE dbo.reads AS {reads}")
    side.run("CREATE PROCEDURE dbo.calls AS IF 1 = 1 EXEC dbo.reads; INSERT dbo.t (n) VALUES (@@ERROR)")
    side.run("CREATE PROCEDURE dbo.lacks AS INSERT dbo.t (n) VALUES (1); SELECT c FROM dbo.no_table_yet")
    side.run("CREATE TABLE dbo.no_table_yet (n int)")
    side.run("CREATE TRIGGER dbo.fires ON dbo.late AFTER INSERT AS SET XACT_ABORT OFF; SELECT * FROM dbo.missing")
    for text, number, rows in [
        ("EXEC dbo.reads", 208, [1, 9]),
        ("EXEC dbo.calls", 208, [1, 9, 208]),
        ("EXEC dbo.lacks", 207, [9]),
        (f"EXEC ('{reads}')", 208, [1, 9]),
        ("EXEC ('SELEC FROM')", 156, [9]),
        (f"EXEC sp_executesql N'{reads}'", 208, [1, 9]),
        ("INSERT dbo.late (n) VALUES (1)", 208, []),
        ("SET XACT_ABORT ON; EXEC dbo.reads", 208, []),
    ]:
        side.run("BEGIN TRAN")
        assert side.error(f"{text}; INSERT dbo.t (n) VALUES (9)").number == number
        assert side.rows("SELECT n FROM dbo.t ORDER BY n") == [(n,) for n in rows], text
        side.run("SET XACT_ABORT OFF; IF @@TRANCOUNT > 0 ROLLBACK")


@pytest.mark.in_process
def test_a_transaction_that_is_left_open_is_told_behind_what_ended_a_procedure(side):
    side.run("CREATE PROCEDURE dbo.begins AS BEGIN TRAN; SELECT * FROM dbo.missing; COMMIT")
    for call in ("EXEC dbo.begins", "EXEC ('BEGIN TRAN; SELECT * FROM dbo.missing')"):
        results = side.results(f"{call}; PRINT @@TRANCOUNT; ROLLBACK")
        assert ([error.number for error in results.errors], results.prints) == ([208, 266], ["1"])


def test_error_behind_a_block_is_that_of_its_last_statement(side):
    for block in ("IF 1 = 1 {}", "BEGIN {} END", "BEGIN TRY THROW 50005, 'y', 1 END TRY BEGIN CATCH {} END CATCH"):
        assert side.error(block.format("RAISERROR('x', 16, 1)") + " INSERT dbo.t (n) VALUES (@@ERROR)").number == 50000
        assert side.rows("DELETE dbo.t OUTPUT deleted.n") == [(50000,)], block


def test_what_ends_is_taken_from_memory_until_a_server_is_asked(side):
    side.run("CREATE FUNCTION dbo.f () RETURNS int AS BEGIN RETURN (SELECT n FROM dbo.missing) END")
    side.run("CREATE PROCEDURE dbo.takes @a int AS SELECT @a")
    side.run("BEGIN TRY THROW 50005, 'y', 1 END TRY BEGIN CATCH END CATCH INSERT dbo.t (n) VALUES (@@ERROR)")
    assert side.rows("DELETE dbo.t OUTPUT deleted.n") == [(50005,)]
    for text, number, rows in [("SELECT dbo.f()", 208, [(9,)]), ("EXEC dbo.takes 'x'", 8114, [])]:
        assert side.error(f"{text}; INSERT dbo.t (n) VALUES (9)").number == number
        assert side.rows("DELETE dbo.t OUTPUT deleted.n") == rows, text


def test_scope_identity_is_that_of_the_scope(side):
    side.run("CREATE PROCEDURE dbo.inserts AS SELECT SCOPE_IDENTITY(); INSERT dbo.t (n) VALUES (2)")
    side.run("CREATE TABLE dbo.plain (n int)")
    text = "INSERT dbo.t (n) VALUES (1); EXEC dbo.inserts; SELECT SCOPE_IDENTITY(), @@IDENTITY"
    assert [rows for _, rows in side.run(text).sets] == [[(None,)], [(1, 2)]]
    assert side.rows("SELECT SCOPE_IDENTITY()") == [(1,)]
    assert side.rows("INSERT dbo.plain VALUES (1); SELECT SCOPE_IDENTITY(), @@IDENTITY") == [(None, None)]


def test_the_state_of_a_caught_error_may_be_zero(side):
    caught = "BEGIN TRY THROW 50000, '', 0 END TRY BEGIN CATCH SELECT ERROR_STATE(), ERROR_MESSAGE(), ERROR_PROCEDURE() END CATCH"
    assert side.rows(caught) == [(0, "", None)]


@pytest.mark.in_process
@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("REPLICATE('a', 8000)", 8000),
        ("CAST(REPLICATE('a', 8000) AS varchar(max)) + 'b'", 8000),
        ("REPLICATE(N'a', 4000) + N'b'", 4000),
        ("@v", 8000),
        ("@n", 4000),
    ],
)
def test_print_cuts_text_at_8000_characters_and_unicode_text_at_4000(side, text, length):
    declared = "DECLARE @v varchar(max) = REPLICATE('a', 8000), @n nvarchar(max) = REPLICATE('a', 8000); SET @v += @v; "
    [printed] = side.run(f"{declared} PRINT {text}").prints
    assert len(printed) == length


@pytest.mark.parametrize("execute", ["EXEC (N'{}')", "EXEC sp_executesql N'{}'"])
def test_a_text_that_does_not_compile_is_an_error_of_the_statement_that_runs_it(side, execute):
    """TRY does not handle syntax errors and the like of its own level, but those of a lower one:
    https://learn.microsoft.com/sql/t-sql/language-elements/try-catch-transact-sql"""
    statement = execute.format("\n\nSET @undeclared = 1;")
    caught = "SELECT ERROR_NUMBER(), ERROR_LINE()"
    assert side.rows(f"BEGIN TRY {statement}; END TRY BEGIN CATCH {caught}; END CATCH;") == [(137, 3)]
