"""Variables and table variables."""

import sqlite3

import psutil
import pytest

from harness.embedded.sqltypes import ResultSink
from harness.embedded.tsql.session.session import Frame


@pytest.mark.parametrize("type_", ["char", "nchar", "varchar", "nvarchar", "char varying", "varbinary"])
def test_a_variable_without_a_length_has_one_character(side, type_):
    text = f"DECLARE @v {type_}; SET @v = CAST('abc' AS {type_}(3)); SELECT CAST(@v AS varchar(3)) + '.'"
    assert side.rows(text) == [("a.",)]


def test_select_assigns_the_last_row_and_without_rows_leaves_variables_alone(side):
    side.run("INSERT dbo.t (n) VALUES (1), (2), (3)")
    assert side.rows("DECLARE @a int = 9, @b int; SELECT @a = n, @b = id FROM dbo.t ORDER BY n; SELECT @a, @b") == [
        (3, 3)
    ]
    assert side.rows("DECLARE @a int = 9; SELECT @a = n FROM dbo.t WHERE n > 5; SELECT @a, @@ROWCOUNT") == [(9, 0)]
    assert side.value("DECLARE @a int = 1; SELECT @a = @a + COUNT(*) FROM dbo.t; SELECT @a") == 4


def test_select_adds_up_a_variable_row_by_row_in_the_order_of_its_rows(side):
    side.run("INSERT dbo.t (n) VALUES (2), (1), (3)")
    joined = (
        "DECLARE @s nvarchar(max), @n int = 0; SELECT @s = COALESCE(@s + N',', N'') + CAST(n AS nvarchar(9)), @n = n "
    )
    assert side.rows(joined + "FROM dbo.t ORDER BY n DESC; SELECT @s, @n, @@ROWCOUNT") == [("3,2,1", 1, 3)]
    assert side.rows(joined + "FROM dbo.t WHERE n > 9; SELECT @s, @n, @@ROWCOUNT") == [(None, 0, 0)]
    assert side.error("DECLARE @a tinyint = 200; SELECT @a = @a + 20 * n FROM dbo.t").number == 220
    assert side.error("DECLARE @a int = 0; SELECT @a = @a + (SELECT 1) FROM dbo.t").number == 50001


def test_a_table_variable_belongs_to_its_run_and_outlives_a_rollback(side):
    side.run(
        "CREATE PROCEDURE dbo.p AS DECLARE @t table (a int, b nvarchar(5) DEFAULT N'x'); BEGIN TRAN; INSERT @t (a) VALUES (1); ROLLBACK; UPDATE @t SET a = a + 1; SELECT a, b FROM @t"
    )
    assert side.rows("EXEC dbo.p") == [(2, "x")]
    assert side.rows("EXEC dbo.p") == [(2, "x")]


def test_an_emptied_table_variable_frees_its_table_for_the_next(side):
    side.results("CREATE PROCEDURE dbo.p AS BEGIN DECLARE @t TABLE (i int); INSERT INTO @t VALUES (1); END;")
    assert side.rows(
        "DECLARE @t TABLE (i int); INSERT INTO @t VALUES (7), (8); DELETE FROM @t; DECLARE @deleted int = @@ROWCOUNT;"
        "EXEC dbo.p; DECLARE @left int = (SELECT COUNT(*) FROM @t); INSERT INTO @t VALUES (9);"
        "SELECT @deleted, @left, i FROM @t;"
    ) == [(2, 0, 9)]
    kept = side.instance.sqlite.rows("SELECT name FROM sqlite_temp_master WHERE name LIKE '@%'")
    assert len(kept) == 1


@pytest.mark.in_process
@pytest.mark.parametrize("before", [[], [(7,)]])
def test_rows_go_into_a_table_variable_all_or_none(side, before):
    frame = Frame(side.session, side.session.database, ResultSink(), "", 0)
    frame.declared = {"@t": "i INTEGER UNIQUE"}
    if before:
        frame.fill_table("@t", "?", before)
    with pytest.raises(sqlite3.IntegrityError):
        frame.fill_table("@t", "?", [(1,), (2,), (1,)])
    assert frame.sqlite.rows(f"SELECT i FROM temp.{frame.table('@t')}") == before


def test_a_long_value_is_itself_wherever_a_parameter_stands(side):
    side.run("CREATE TABLE dbo.long (id int IDENTITY, a varchar(max), b varbinary(max))")
    long = "DECLARE @v varchar(max) = REPLICATE(CAST('x?1' AS varchar(max)), 50000), @w varbinary(max); SET @w = CAST(@v AS varbinary(max)); "
    side.run(long + "INSERT dbo.long (a, b) VALUES ('?1', @w), (@v, 0x3f31), ('it''s ?2', NULL)")
    assert side.rows("SELECT LEN(a), DATALENGTH(b) FROM dbo.long ORDER BY id") == [
        (2, 150_000),
        (150_000, 2),
        (7, None),
    ]
    assert side.value(long + "SELECT COUNT(*) FROM dbo.long WHERE a = @v OR b = @w OR a = '?1'") == 2
    assert (
        side.value(long + "SELECT RIGHT(@v, 2) + ' ?1 ' + @v FROM dbo.long WHERE a = 'it''s ?2'")
        == "?1 ?1 " + "x?1" * 50_000
    )


def test_what_a_request_held_in_memory_is_free_after_it(side):
    before = psutil.Process().memory_info().rss
    for number in range(4):
        side.results(
            "DECLARE @v varchar(max) = REPLICATE(CAST('x' AS varchar(max)), 40000000); "
            f"SELECT LEN(@v) + {number}; SELECT 1 / (LEN(@v) - 40000000);"
        )
    assert psutil.Process().memory_info().rss - before < 60_000_000


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ("DECLARE @Foo int; DECLARE @FOO int", "'@FOO' has already been declared"),
        ("SET @Foo = 1", 'the scalar variable "@Foo"'),
        ("DELETE @Foo", 'the table variable "@Foo"'),
        ("INSERT @Foo VALUES (1)", 'the table variable "@Foo"'),
        ("DECLARE @Tab TABLE (A int NOT NULL); INSERT @tab VALUES (NULL)", "column 'A', table '@Tab'"),
        ("DECLARE @Tab TABLE (a int PRIMARY KEY); INSERT @tab VALUES (1), (1)", "in object 'dbo.@Tab'"),
        ("DECLARE @Tab TABLE (a int IDENTITY); INSERT @tab (a) VALUES (1)", "in table '@Tab'"),
        ("DECLARE @Tab TABLE (Ab int, AB int)", "Column name 'AB' in table '@Tab'"),
        ("CREATE TABLE dbo.Tab (Ab int, AB int)", "Column name 'AB' in table 'Tab'"),
        ("EXEC dbo.P @Beta = 1", "@Beta is not a parameter for procedure P."),
        ("DECLARE @x int; EXEC dbo.P @x OUTPUT", 'The formal parameter "@Alpha"'),
        ("EXEC sp_executesql N'', N'@Alpha int', @Beta = 1", "query '(@Alpha int)' expects the parameter '@Alpha'"),
        ("OPEN Cur", "'Cur' does not exist"),
        ("DECLARE @Cur CURSOR; OPEN @Cur", "'@Cur' does not currently have a cursor"),
    ],
)
def test_errors_show_names_as_they_are_written(side, batch, words):
    side.run("CREATE PROCEDURE dbo.P @Alpha int AS RETURN")
    assert words in side.error(batch).text


@pytest.mark.parametrize(
    "batch",
    [
        "DECLARE # int = 1; SELECT # AS a, #+1, a = #, # FROM dbo.t WHERE # IS NOT NULL AND n BETWEEN # AND # ORDER BY n",
        "DECLARE # nvarchar(max) = N''; SELECT # = # + CAST(n AS nvarchar(9)) FROM dbo.t; SET # += N'@'; SELECT #",
        "DECLARE # TABLE (a int); INSERT # SELECT n FROM dbo.t; SELECT a FROM #; SELECT x.a FROM # AS x;",
        "DECLARE # xml = N'<a b=\"1\"/>'; SELECT #.value('(/a/@b)[1]', 'int'), #.exist('/a');",
        "EXEC sp_executesql N'SELECT #, @@SPID', N'# int', # = 4",
        "DECLARE # int = 1 WHILE # < 3 SET # += 1 IF # = 3 SELECT # END",
        "SELECT # FROM dbo.t",
        "DECLARE # int, # int",
    ],
)
def test_a_variable_may_be_called_by_the_sign_alone(side, batch):
    side.run("INSERT dbo.t (n) VALUES (1), (2)")

    def outcome(name):
        results = side.results(batch.replace("#", name))
        return [rows for _, rows in results.sets], [(one.number, one.text.replace(name, "#")) for one in results.errors]

    assert outcome("@") == outcome("@letters")


@pytest.mark.parametrize(
    ("change", "values"),
    [
        ("SET @v = n = n + 10 WHERE n = 1", [(11, 11), (11, 2)]),
        ("SET @v = n, n = n + 10 WHERE n = 1", [(1, 11), (1, 2)]),
        ("SET @v = t.n += 1, name = N'x' FROM dbo.t AS t WHERE n = 2", [(3, 1), (3, 3)]),
        ("SET n = 7, @v = n = n WHERE n = 99", 264),
        ("SET @v = n = 4 WHERE n = 99", [(9, 1), (9, 2)]),
        ("SET @v = n = 2.9 WHERE n = 1", [(2, 2), (2, 2)]),
        ("SET @v = (SELECT MAX(id) + 5 FROM dbo.t)", [(7, 1), (7, 2)]),
        ("SET @v += 1", 50001),
        ("SET @v = n = @v + 1", 50001),
        ("SET @v = n = 1 WHERE n = @v", 50001),
        ("SET @w = n = 1", 137),
        ("SET @v = name = N'x'", 245),
    ],
)
def test_update_assigns_variables(side, change, values):
    """The manual, UPDATE: `@variable = column = value` is the value after the change, `@variable = column` that before."""
    side.run("INSERT dbo.t (n) VALUES (1), (2)")
    results = side.results(f"DECLARE @v int = 9; UPDATE dbo.t {change}; SELECT @v, n FROM dbo.t")
    assert values == (results.errors[0].number if results.errors else results.sets[-1][1])
