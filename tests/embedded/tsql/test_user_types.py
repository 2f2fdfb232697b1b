"""Types that CREATE TYPE makes: other names of types, and types of tables for variables and parameters."""

import pytest

SET_UP = """
CREATE TYPE dbo.lines AS TABLE (id int PRIMARY KEY, name nvarchar(20) DEFAULT N'none', place int IDENTITY(5, 1))
CREATE TYPE dbo.others AS TABLE (id int)
CREATE TYPE phone FROM nvarchar(20)
GO
CREATE PROCEDURE dbo.add_up @lines dbo.lines READONLY, @more int = 1 AS SELECT COUNT(*), SUM(id) + @more FROM @lines
GO
CREATE PROCEDURE dbo.pass_on @l lines READONLY AS EXEC dbo.add_up @l, @more = 10
"""


def test_a_table_variable_of_a_named_type_is_passed_to_procedures(side):
    fill = "DECLARE @v dbo.lines; INSERT @v (id) VALUES (1), (2); INSERT @v VALUES (7, N'x')"
    assert side.rows(f"{fill}; EXEC dbo.add_up @v") == [(3, 11)]
    assert side.rows(f"{fill}; EXEC dbo.add_up @more = 4, @lines = @v") == [(3, 14)]
    results = side.run(f"{fill}; EXEC dbo.pass_on @v; EXEC dbo.pass_on @v; SELECT * FROM @v")
    assert [rows for _, rows in results.sets] == [[(3, 20)], [(3, 20)], [(1, "none", 5), (2, "none", 6), (7, "x", 7)]]
    assert side.rows("DECLARE @v lines; EXEC dbo.pass_on @v") == side.rows("EXEC dbo.pass_on") == [(0, None)]


def test_an_alias_is_its_type(side):
    side.run("CREATE TABLE dbo.people (id int, number phone, other dbo.phone)")
    side.run("CREATE PROCEDURE dbo.call_up @number phone AS INSERT dbo.people (id, number) VALUES (1, @number)")
    side.run("DECLARE @p dbo.phone = N'0123'; EXEC dbo.call_up @p")
    assert side.rows("SELECT number FROM dbo.people") == [("0123",)]
    lengths = "SELECT max_length FROM sys.columns WHERE object_id = OBJECT_ID('dbo.people') AND name <> 'id'"
    assert side.rows(lengths) == [(40,), (40,)]


def test_types_are_shown_and_survive_a_crash(side):
    side.world.run_for(1)
    side.crash()
    side.run("USE db")
    shown = "SELECT name, is_table_type, max_length FROM sys.types WHERE is_user_defined = 1 ORDER BY name"
    assert side.rows(shown) == [("lines", 1, -1), ("others", 1, -1), ("phone", 0, 40)]
    assert side.rows("SELECT TYPE_NAME(TYPE_ID('dbo.phone')), TYPE_ID('int'), TYPE_ID('nothing')") == [
        ("phone", 56, None)
    ]
    assert side.rows("DECLARE @v lines; INSERT @v (id) VALUES (3); EXEC dbo.pass_on @v") == [(1, 13)]


def test_a_batch_means_the_type_that_is_there_when_it_runs(side):
    batch = "DECLARE @o dbo.others; INSERT @o VALUES (1); SELECT * FROM @o"
    assert side.rows(batch) == [(1,)]
    side.run("DROP TYPE dbo.others")
    assert side.error(batch).number == 2715
    side.run("CREATE TYPE dbo.others AS TABLE (name nvarchar(9))")
    assert side.rows(batch) == [("1",)]
    side.run("BEGIN TRANSACTION; DROP TYPE dbo.others; ROLLBACK")
    assert side.rows(batch) == [("1",)]


REFUSED = {
    "CREATE PROCEDURE dbo.x @l dbo.lines AS RETURN": 352,
    "CREATE PROCEDURE dbo.x @l dbo.lines READONLY, @l int AS RETURN": 134,
    "EXEC('CREATE PROCEDURE dbo.x @l dbo.lines READONLY AS DELETE @l'); DECLARE @v dbo.lines; EXEC dbo.x @v": 10700,
    "EXEC dbo.add_up 5": 206,
    "EXEC dbo.add_up NULL": 206,
    "DECLARE @o dbo.others; EXEC dbo.add_up @o": 206,
    "DECLARE @o dbo.others; EXEC dbo.add_up DEFAULT, @o": 206,
    "DECLARE @t TABLE (id int); EXEC dbo.add_up @t": 137,
    "DROP TYPE dbo.lines": 3732,
    "DROP TYPE dbo.nothing": 218,
    "CREATE TYPE phone FROM int": 219,
    "CREATE TYPE nothing.phone FROM int": 2760,
    "CREATE TYPE dbo.x FROM dbo.nothing": 2715,
    "CREATE TYPE dbo.x AS TABLE (a int, a int)": 2705,
    "CREATE TYPE dbo.x EXTERNAL NAME a.b": 50001,
    "CREATE FUNCTION dbo.f (@l dbo.lines READONLY) RETURNS int AS BEGIN RETURN 1 END": 50001,
    "EXEC sp_executesql N'SELECT 1', N'@l dbo.lines READONLY'": 50001,
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused(side, text):
    assert side.error(text).number == REFUSED[text]
