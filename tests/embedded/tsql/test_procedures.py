"""CREATE PROCEDURE, and calls by EXECUTE."""

import pytest


def test_procedures_return_output_status_and_defaults(side):
    side.run(
        "CREATE OR ALTER PROC dbo.p @a int, @b nvarchar(10) = N'def', @c int = NULL OUTPUT AS SET @c = @a * 2; SELECT @b; RETURN @a + 1"
    )
    results = side.run("DECLARE @r int, @o int; EXEC @r = p 4, @c = @o OUTPUT; SELECT @r, @o")
    assert [rows for _, rows in results.sets] == [[("def",)], [(5, 8)]]
    assert side.error("EXEC dbo.p").number == 201
    assert side.error("EXEC dbo.p 1, 2, 3, 4").number == 8144
    assert side.error("EXEC dbo.p @a = 1, @x = 2").number == 8145
    for call in ("EXEC dbo.p 'x'", "EXEC dbo.p 3000000000", "EXEC sp_executesql N'SELECT @a', N'@a int', 'x'"):
        assert side.error(call).number == 8114, call
    side.run("CREATE PROCEDURE dbo.without AS RETURN")
    assert side.error("EXEC dbo.without 1").number == side.error("EXEC dbo.without @a = 1").number == 8146
    assert side.error("EXEC dbo.p N'x'").text == "Error converting data type nvarchar to int."
    assert side.run("p 1").sets[0][1] == [("def",)]
    side.run("CREATE PROCEDURE dbo.deep AS EXEC dbo.deep")
    assert side.error("EXEC dbo.deep").number == 217


@pytest.mark.parametrize("name", ["p.q", "dbo.p", "[dbo].[p.q]", '"dbo"."p.q"', " dbo . [p.q] ", "[p.q]", "", None])
def test_a_variable_names_the_procedure_in_brackets_or_without(side, name):
    side.run("CREATE PROCEDURE dbo.[p.q] @a int AS SELECT @a")
    text = "NULL" if name is None else f"N'{name}'"
    results = side.results(f"DECLARE @p nvarchar(100) = {text}; EXEC @p 3")
    called = name is not None and "p.q" in name and name != "p.q"
    assert results.sets[0][1] == [(3,)] if called else [error.number for error in results.errors] == [2812]


def test_options_without_effect_stand_beside_others(side):
    side.run("CREATE PROCEDURE dbo.p @a int WITH RECOMPILE, EXECUTE AS OWNER AS SELECT USER_NAME(), @a")
    assert side.rows("EXEC dbo.p 5 WITH RECOMPILE") == [("dbo", 5)]
    side.run("CREATE VIEW dbo.v WITH VIEW_METADATA, SCHEMABINDING AS SELECT 1 AS a")
    assert side.error("ALTER VIEW dbo.v WITH EXECUTE AS OWNER AS SELECT 1 AS a").number == 156
    assert (
        "a procedure WITH ENCRYPTION" in side.error("ALTER PROCEDURE dbo.p WITH RECOMPILE, ENCRYPTION AS RETURN").text
    )


def test_a_procedure_with_a_mistake_is_not_created(side):
    assert side.error("CREATE PROCEDURE dbo.bad AS SELECT 1\nSELECT @x").line == 2
    assert side.error("CREATE PROCEDURE dbo.bad AS SELECT a FROM t FOR XML EXPLICIT").number == 50001
    assert side.value("SELECT COUNT(*) FROM sys.procedures") == 0


def test_a_module_with_a_column_that_its_table_has_not_is_not_created(side):
    side.run("CREATE TYPE dbo.rows AS TABLE (n int)")
    for definition, number in {
        "PROCEDURE dbo.m AS INSERT dbo.missing VALUES (1);\nSELECT bad FROM dbo.t": 207,
        "PROCEDURE dbo.m @rows dbo.rows READONLY AS\nINSERT @rows VALUES (1)": 10700,
        "TRIGGER dbo.m ON dbo.t AFTER INSERT AS SELECT n FROM inserted;\nSELECT bad FROM inserted": 207,
        "FUNCTION dbo.m() RETURNS int AS BEGIN\nRETURN (SELECT bad FROM dbo.t) END": 207,
        "FUNCTION dbo.m() RETURNS @r TABLE (n int) AS BEGIN\nINSERT @r SELECT bad FROM dbo.t RETURN END": 207,
    }.items():
        error = side.error(f"CREATE {definition}")
        assert (error.number, error.line) == (number, 2), definition
        assert side.value("SELECT OBJECT_ID('dbo.m')") is None
    side.run("CREATE PROCEDURE dbo.late AS INSERT dbo.t (n) VALUES (1); SELECT bad FROM dbo.later")
    side.run("CREATE TABLE dbo.later (good int)")
    assert side.error("EXEC dbo.late").number == 207
    assert side.rows("SELECT n FROM dbo.t") == []


def test_a_module_is_created_where_a_table_is_missing(side):
    for number, body in enumerate(
        (
            "SELECT bad FROM dbo.t WHERE EXISTS (SELECT 1 FROM dbo.missing)",
            "CREATE TABLE #x (a int); SELECT bad FROM #x",
            "SELECT n INTO dbo.made FROM dbo.t; SELECT bad FROM dbo.made",
            "WITH c AS (SELECT n FROM dbo.t) SELECT bad FROM dbo.missing",
            "INSERT dbo.t (n, bad) SELECT 1, 2 FROM dbo.missing",
        )
    ):
        side.run(f"CREATE PROCEDURE dbo.defers{number} AS {body}")
    assert (
        side.error("CREATE PROCEDURE dbo.not_made AS WITH c AS (SELECT n FROM dbo.t) SELECT bad FROM c").number == 207
    )
    error = side.error("CREATE PROCEDURE dbo.not_made AS SELECT * FROM dbo.missing;\nSELECT bad FROM dbo.t")
    assert (error.number, error.line, error.procedure) == (207, 2, "not_made")


def test_an_argument_by_position_cannot_follow_one_by_name(side):
    side.run("CREATE PROCEDURE dbo.two @a int, @b int AS SELECT @a, @b")
    assert side.rows("EXEC dbo.two 1, @b = 2") == [(1, 2)]
    assert side.error("EXEC dbo.two @a = 1, 2").text.startswith("Must pass parameter number 2 and subsequent")


@pytest.mark.parametrize(
    ("definition", "number"),
    [
        ("ALTER PROCEDURE dbo.t AS SELECT 1", 2010),
        ("CREATE OR ALTER VIEW dbo.t AS SELECT 1 AS a", 2010),
        ("ALTER PROCEDURE dbo.missing AS SELECT 1", 208),
        ("CREATE PROCEDURE other.dbo.p AS SELECT 1", 166),
        ("CREATE VIEW dbo.v AS SELECT 1 AS a, 2 AS A", 4506),
        ("CREATE FUNCTION dbo.f() RETURNS TABLE AS RETURN SELECT 1 AS a, 2 AS a", 4506),
        ("CREATE VIEW dbo.v AS SELECT n FROM dbo.t ORDER BY n", 1033),
        ("CREATE VIEW dbo.v AS SELECT 1 AS a UNION SELECT 2 ORDER BY a", 1033),
        ("CREATE FUNCTION dbo.f() RETURNS TABLE AS RETURN (SELECT n FROM dbo.t ORDER BY n)", 1033),
        ("CREATE PROCEDURE dbo.p AS SELECT n FROM (SELECT n FROM dbo.t ORDER BY n) AS d", 1033),
        ("CREATE PROCEDURE dbo.p AS WITH c AS (SELECT n FROM dbo.t ORDER BY n) SELECT n FROM c", 1033),
        ("CREATE PROCEDURE dbo.p AS DECLARE @n int = (SELECT n FROM dbo.t ORDER BY n)", 1033),
    ],
)
def test_a_definition_is_refused(side, definition, number):
    assert side.error(definition).number == number


def test_an_order_that_chooses_is_no_mistake(side):
    side.run("INSERT dbo.t (n) VALUES (2), (1)")
    side.run("CREATE VIEW dbo.v AS SELECT TOP (1) n FROM dbo.t ORDER BY n")
    assert side.rows("SELECT n, (SELECT n FROM dbo.t ORDER BY n FOR XML PATH('')) FROM dbo.v") == [
        (1, "<n>1</n><n>2</n>")
    ]
    side.run("INSERT dbo.t (n) SELECT n FROM (SELECT n FROM dbo.t ORDER BY n OFFSET 1 ROWS) AS d ORDER BY n")
    assert side.value("SELECT COUNT(*) FROM dbo.t") == 3


def test_dynamic_sql_runs_in_the_session(side):
    assert side.rows("DECLARE @s nvarchar(50) = N'1 + 1'; EXEC (N'SELECT ' + @s)") == [(2,)]
    assert side.rows(
        "DECLARE @r int; EXEC sp_executesql N'SET @o = @a + 1', N'@a int, @o int OUTPUT', @a = 4, @o = @r OUTPUT; SELECT @r"
    ) == [(5,)]
    assert side.error("EXEC ('SELECT')").number == 102
    assert side.rows("EXEC sp_executesql N'SELECT @a, @b', N'@a int, @b varchar(5) = ''five''', 3") == [(3, "five")]
    assert side.error("EXEC sp_executesql N'SELECT @a', N'@a int'").number == 8178


def test_a_procedure_that_leaves_a_transaction_open_is_error_266(side):
    side.run("CREATE PROCEDURE dbo.opens AS BEGIN TRAN")
    for text in ("EXEC dbo.opens", "EXEC ('BEGIN TRAN')", "EXEC sp_executesql N'COMMIT'"):
        assert side.error(text).number == 266
    side.run("ROLLBACK")


def test_an_error_of_a_call_names_the_procedure_and_has_line_0(side):
    side.run("CREATE PROCEDURE dbo.opens @a int = 1 AS BEGIN TRAN")
    for call, number in {"EXEC dbo.opens": 266, "EXEC dbo.opens 'x'": 8114}.items():
        error = side.error(call)
        assert (error.number, error.procedure, error.line) == (number, "dbo.opens", 0)


def test_an_error_with_xact_abort_on_in_a_procedure_ends_its_caller_too(side):
    side.run("CREATE PROCEDURE dbo.p AS SET XACT_ABORT ON; INSERT INTO dbo.t (n) VALUES (NULL);")
    results = side.results("BEGIN TRAN; EXEC dbo.p; PRINT 'on';")
    assert ([error.number for error in results.errors], results.prints) == ([515], [])


@pytest.mark.parametrize(
    ("text", "number"), [("EXEC @p", 137), ("EXEC @r = dbo.p", 137), ("EXEC ('EXEC @p')", 137), ("@p int", 102)]
)
def test_a_variable_that_names_a_procedure_must_be_declared(side, text, number):
    assert side.error(text).number == number
