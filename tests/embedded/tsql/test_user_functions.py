"""Functions that CREATE FUNCTION makes: of one value, RETURNS TABLE, and those whose statements fill a table."""

from decimal import Decimal
from uuid import UUID

import pytest

from tests.embedded.tsql.test_permissions import as_login

SET_UP = """
CREATE TABLE dbo.t (id int PRIMARY KEY, name nvarchar(20)); INSERT dbo.t VALUES (1, N'a'), (2, N'b'), (3, NULL)
GO
CREATE FUNCTION dbo.repeated (@count int, @text nvarchar(10) = N'-') RETURNS nvarchar(100) AS
BEGIN
    DECLARE @result nvarchar(100) = N'', @i int = 0
    WHILE @i < @count
    BEGIN
        SET @i += 1
        SET @result = @result + @text
    END
    IF @result = N'' RETURN N'none'
    RETURN @result
END
GO
CREATE FUNCTION dbo.count_to (@id int) RETURNS int WITH SCHEMABINDING AS
BEGIN
    DECLARE @n int
    SELECT @n = COUNT(*) FROM dbo.t WHERE id <= @id
    RETURN @n
END
GO
CREATE FUNCTION dbo.from_id (@id int) RETURNS TABLE AS RETURN (SELECT t.id, t.name FROM dbo.t WHERE t.id >= @id)
GO
CREATE FUNCTION dbo.numbers (@most int) RETURNS @r TABLE (n int PRIMARY KEY, text nvarchar(20), bytes varbinary(9)) AS
BEGIN
    DECLARE @n int = 0
    WHILE @n < @most
    BEGIN
        INSERT @r VALUES (@n, N'n' + CAST(@n AS nvarchar(9)), CAST(@n AS varbinary(4)))
        SET @n += 1
    END
    RETURN
END
GO
CREATE FUNCTION dbo.factorial (@n int) RETURNS bigint AS
BEGIN
    IF @n <= 1 RETURN 1
    RETURN @n * dbo.factorial(@n - 1)
END
"""


def test_a_function_of_one_value_stands_where_a_value_does(side):
    assert side.rows("SELECT dbo.repeated(id, name) FROM dbo.t ORDER BY id") == [("a",), ("bb",), (None,)]
    assert side.rows("SELECT dbo.repeated(2, DEFAULT), db.dbo.repeated(0, N'x')") == [("--", "none")]
    assert side.rows("DECLARE @x nvarchar(9) = dbo.repeated(2, N'z'); SELECT @x") == [("zz",)]
    assert side.run("IF dbo.repeated(1, N'q') = N'q' PRINT 'yes'").prints == ["yes"]
    assert side.rows("SELECT id FROM dbo.t WHERE dbo.repeated(id, N'c') = N'cc'") == [(2,)]
    assert side.value("SELECT dbo.factorial(15)") == 1_307_674_368_000
    assert side.error("SELECT dbo.factorial(40)").number == 217


def test_a_function_reads_tables_also_of_the_statement_that_calls_it(side):
    side.run("UPDATE dbo.t SET name = CAST(dbo.count_to(id) AS nvarchar(9))")
    assert side.rows("SELECT name FROM dbo.t ORDER BY id") == [("1",), ("2",), ("3",)]
    side.run("DELETE dbo.t WHERE dbo.count_to(id) = 2")
    assert side.rows("SELECT id, dbo.count_to(id) FROM dbo.t ORDER BY id") == [(1, 1), (3, 2)]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT * FROM dbo.from_id(2)", [(2, "b"), (3, None)]),
        ("DECLARE @v int = 3; SELECT f.k FROM dbo.from_id(@v) AS f (k, l)", [(3,)]),
        ("SELECT t.id, f.id FROM dbo.t CROSS APPLY dbo.from_id(t.id + 1) f ORDER BY t.id, f.id", [(1, 2), (1, 3), (2, 3)]),
        ("SELECT t.id, f.id FROM dbo.t OUTER APPLY dbo.from_id(t.id + 2) f ORDER BY t.id", [(1, 3), (2, None), (3, None)]),
        ("SELECT t.id, (SELECT COUNT(*) FROM dbo.from_id(t.id)) FROM dbo.t ORDER BY t.id", [(1, 3), (2, 2), (3, 1)]),
        ("SELECT t.id FROM dbo.t JOIN dbo.from_id(3) AS f ON f.id = t.id", [(3,)]),
        ("SELECT * FROM dbo.numbers(2)", [(0, "n0", b"\0\0\0\0"), (1, "n1", b"\0\0\0\1")]),
        ("SELECT t.id, n.text FROM dbo.t CROSS APPLY dbo.numbers(t.id - 1) n ORDER BY t.id, n.n", [(2, "n0"), (3, "n0"), (3, "n1")]),
        ("SELECT n.n FROM dbo.t OUTER APPLY dbo.numbers(t.id - 2) n ORDER BY t.id", [(None,), (None,), (0,)]),
    ],
)  # fmt: skip
def test_functions_that_return_tables(side, query, rows):
    assert side.rows(query) == rows


def test_a_table_that_a_function_fills_has_values_of_any_type(side):
    values = {
        "int": (7, 7),
        "bit": (1, 1),
        "decimal(5, 2)": (2.25, Decimal("2.25")),
        "float": (0.1, 0.1),
        "nchar(2)": ("N'a'", "a "),
        "varbinary(2)": ("0x00", b"\0"),
        "date": ("'20240102'", "2024-01-02"),
        "time": ("'10:00'", "10:00:00.0000000"),
        "datetime": ("'20240102 10:00'", "2024-01-02 10:00:00.000"),
        "datetimeoffset": ("'2024-01-02 10:00 +02:00'", "2024-01-02 08:00:00.0000000 +02:00"),
        "uniqueidentifier": (f"'{UUID(int=1)}'", str(UUID(int=1))),
        "xml": ("'<a/>'", "<a/>"),
    }
    columns = ", ".join(f"c{place} {type_}" for place, type_ in enumerate(values))
    row = ", ".join(str(value) for value, _ in values.values())
    side.run(f"CREATE FUNCTION dbo.typed () RETURNS @r TABLE ({columns}) AS BEGIN INSERT @r VALUES ({row}) RETURN END")
    assert side.rows("SELECT * FROM dbo.typed()") == [tuple(value for _, value in values.values())]
    assert side.value("SELECT DATEADD(day, 1, c8) FROM dbo.typed()") == "2024-01-03 10:00:00.000"


@pytest.mark.in_process
def test_an_error_in_a_function_ends_the_statement_that_calls_it(side):
    side.run("CREATE FUNCTION dbo.divided (@by int) RETURNS int AS\n\nBEGIN RETURN 1 / @by END")
    results = side.results("SELECT dbo.divided(0) SELECT 'after'")
    assert [error.number for error in results.errors] == [8134]
    assert results.sets[-1][1] == [("after",)]
    side.run("CREATE PROCEDURE dbo.calls AS\nSELECT dbo.divided(0)")
    caught = "BEGIN TRY {} END TRY BEGIN CATCH SELECT ERROR_NUMBER(), ERROR_LINE(), ERROR_PROCEDURE() END CATCH"
    assert side.run(caught.format("SELECT dbo.divided(0)")).sets[-1][1] == [(8134, 1, None)]
    assert side.run(caught.format("EXEC calls")).sets[-1][1] == [(8134, 2, "calls")]


def test_what_a_function_changes_nobody_sees(side):
    shown = side.rows("DECLARE @x int; SELECT @x = id FROM dbo.t WHERE dbo.count_to(3) = 3; SELECT @@ROWCOUNT, @@ERROR")
    assert shown == [(3, 0)]


def test_functions_are_shown_altered_dropped_and_survive_a_crash(side):
    side.world.run_for(1)
    side.crash()
    side.run("USE db")
    types = side.rows("SELECT name, type FROM sys.objects WHERE type IN ('FN', 'IF', 'TF') ORDER BY name")
    assert types == [("count_to", "FN"), ("factorial", "FN"), ("from_id", "IF"), ("numbers", "TF"), ("repeated", "FN")]
    assert side.value("SELECT dbo.repeated(1, N'x')") == "x"
    assert side.value("SELECT COUNT(*) FROM INFORMATION_SCHEMA.ROUTINES WHERE ROUTINE_TYPE = 'FUNCTION'") == 5
    parameters = "SELECT name FROM sys.parameters WHERE object_id = OBJECT_ID('dbo.repeated') ORDER BY parameter_id"
    assert side.rows(parameters) == [("@count",), ("@text",)]
    side.run("ALTER FUNCTION dbo.repeated (@count int) RETURNS int AS BEGIN RETURN @count END")
    assert side.value("SELECT dbo.repeated(7)") == 7
    assert side.error("ALTER FUNCTION dbo.repeated (@count int) RETURNS TABLE AS RETURN SELECT 1 AS a").number == 2010
    side.run("DROP FUNCTION dbo.repeated, dbo.from_id")
    assert side.value("SELECT OBJECT_ID('dbo.repeated')") is None
    assert side.error("SELECT * FROM dbo.from_id(1)").number == 208


def test_who_may_execute_a_function_reads_through_it(side):
    side.run("CREATE LOGIN ann WITH PASSWORD = 'Pp1!aaaaaaaa'; CREATE USER ann")
    ann = as_login(side, "ann", "db")
    assert side.error("SELECT dbo.count_to(3)", ann).number == 229
    assert side.error("SELECT * FROM dbo.from_id(3)", ann).number == 229
    side.run("GRANT EXECUTE ON dbo.count_to TO ann; GRANT SELECT ON dbo.from_id TO ann")
    assert side.value("SELECT dbo.count_to(3)", ann) == 3
    assert side.rows("SELECT id FROM dbo.from_id(3)", ann) == [(3,)]
    assert side.error("SELECT id FROM dbo.t", ann).number == 229


REFUSED = {
    "SELECT dbo.nothing(1)": 4121,
    "SELECT * FROM dbo.nothing(1)": 208,
    "SELECT dbo.repeated(1)": 313,
    "SELECT dbo.repeated(1, N'', 3)": 8144,
    "SELECT dbo.count_to(N'x')": 245,
    "SELECT * FROM dbo.repeated(1, N'')": 208,
    "SELECT dbo.from_id(1)": 4121,
    "CREATE FUNCTION dbo.repeated () RETURNS int AS BEGIN RETURN 1 END": 2714,
    "CREATE FUNCTION dbo.x () RETURNS int AS BEGIN INSERT dbo.t (id) VALUES (9) RETURN 1 END": 443,
    "CREATE FUNCTION dbo.x () RETURNS int AS BEGIN IF 1 = 1 EXEC dbo.p RETURN 1 END": 443,
    "CREATE FUNCTION dbo.x () RETURNS int AS BEGIN SELECT 1 RETURN 1 END": 444,
    "CREATE FUNCTION dbo.x () RETURNS int AS BEGIN DECLARE @a int END": 455,
    "CREATE FUNCTION dbo.x () RETURNS int AS BEGIN RETURN END": 102,
    "CREATE FUNCTION dbo.x () RETURNS @r TABLE (a int) AS BEGIN RETURN 1 END": 178,
    "CREATE FUNCTION dbo.x () RETURNS int AS BEGIN RETURN @b END": 137,
    "CREATE FUNCTION dbo.x (@a int, @a int) RETURNS int AS BEGIN RETURN 1 END": 134,
    "CREATE FUNCTION dbo.x () RETURNS TABLE AS RETURN (SELECT nothing FROM dbo.t)": 207,
    "CREATE FUNCTION dbo.x () RETURNS TABLE AS RETURN (SELECT 1)": 4514,
    "CREATE FUNCTION dbo.x () RETURNS int WITH RETURNS NULL ON NULL INPUT AS BEGIN RETURN 1 END": 50001,
    "CREATE FUNCTION dbo.x () RETURNS int AS EXTERNAL NAME a.b.c": 50001,
    "SELECT 1 CREATE FUNCTION dbo.x () RETURNS int AS BEGIN RETURN 1 END": 111,
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused(side, text):
    assert side.error(text).number == REFUSED[text]


def test_a_function_that_is_missing_is_found_before_anything_runs(side):
    results = side.results("SELECT 1; IF 1 = 0 SELECT dbo.nothing(1)")
    assert [error.number for error in results.errors] == [4121] and not results.sets
    assert side.error("CREATE PROCEDURE dbo.calls AS SELECT dbo.nothing(1)").number == 4121
    assert side.value("SELECT OBJECT_ID('dbo.calls')") is None
    side.results("EXEC ('SELECT dbo.nothing(1)'); EXEC ('CREATE TABLE dbo.behind (n int)')")
    assert side.rows("SELECT n FROM dbo.behind") == []


def test_the_error_of_a_side_effect_names_the_statement(side):
    text = side.error("CREATE FUNCTION dbo.x () RETURNS int AS BEGIN DROP TABLE dbo.t; RETURN 1 END").text
    assert "'DROP TABLE'" in text
