"""Arithmetic: types, ranges and SQL Server's errors; sizes and depths that a statement may have."""

from decimal import Decimal

import pytest

VARIABLES = "DECLARE @t tinyint = 255, @s smallint = -32768, @i int = 2147483647, @b bigint = 9223372036854775807, @f float = 1e308, @r real = 3e38, @z int = 0; "


@pytest.mark.parametrize(
    ("expression", "number"),
    [
        ("@i + 1", 8115),
        ("@i + 1 - 1", 8115),
        ("@i * 2", 8115),
        ("-2147483648 - 1", 8115),
        ("-(@s)", 8115),
        ("@t + CAST(1 AS tinyint)", 8115),
        ("@s - CAST(1 AS smallint)", 8115),
        ("@b + 1", 8115),
        ("-2147483648 / -@t * @t", None),
        ("(@s * 65536) / -1", 8115),
        ("@f * 10", 8115),
        ("@r * @r", 8115),
        ("(SELECT SUM(x) FROM (VALUES (@i), (1)) AS v (x))", 8115),
        ("1 / @z", 8134),
        ("@f / (@z * 1e0)", 8134),
        ("1.5 % @z", 8134),
        ("CAST(256 AS tinyint)", 220),
        ("CAST(@i AS smallint)", 220),
        ("CAST(@b AS int)", 8115),
        ("CAST(3e9 AS int)", 232),
        ("CAST('256' AS tinyint)", 244),
        ("CAST('40000' AS smallint)", 244),
        ("CAST('2147483648' AS int)", 248),
        ("CAST('9223372036854775808' AS bigint)", 8115),
        ("CAST(99.9 AS decimal(2,1))", 8115),
        ("CAST('inf' AS float)", 8114),
        ("CAST('1_0' AS decimal)", 8114),
        ("CAST(1 AS bit) + CAST(1 AS bit)", 402),
        ("1.5 & 1", 402),
        ("@f % 2", 402),
        ("'a' - 'b'", 402),
        ("NEWID() + 1", 206),
        ("-GETDATE()", 8117),
        ("-'x'", 8117),
        ("GETDATE() * 2", 8117),
        ("CAST(GETDATE() AS date) + 1", 206),
        ("CAST('9999-12-31' AS datetime) + 1", 8115),
        ("GETDATE() + 1e300", 8115),
        ("1e999", 168),
        ("9" * 62, 1007),
        ("CAST(1 AS decimal((38,10)))", 102),
        ("CAST(1 AS decimal(39))", 2750),
        ("CAST(1 AS decimal(3,4))", 192),
        ("CAST(1 AS varchar(8001))", 131),
        ("CAST(1 AS varchar(0))", 1001),
        ("CAST('10:00' AS time(8))", 1002),
        ("CAST(1 AS int(3))", 2716),
        ("(1 = 1) + 1", 102),
        ("LEN(1 = 1)", 102),
        ("CONVERT(varbinary(8), 'zz', 2)", 8114),
        ("REPLICATE(CAST('x' AS varchar(max)), 2147483647)", 701),
    ],
)
def test_an_expression_beyond_its_range_is_sql_servers_error(side, expression, number):
    for statement in (f"SELECT {expression}", f"DECLARE @x nvarchar(50) = {expression}"):
        errors = side.results(VARIABLES + statement).errors
        assert [error.number for error in errors] == ([number] if number else [])


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("7 / -2", -3),
        ("7e0 / 2", 3.5),
        ("-7 % 3", -1),
        ("CAST(-9223372036854775808 AS bigint)", -(2**63)),
        ("CAST(200 AS tinyint) + 100", 300),
        ("-CAST(200 AS tinyint)", -200),
        ("~CAST(5 AS tinyint)", 250),
        ("~CAST(1 AS bit)", 0),
        ("5 ^ 3 ^ 1", 7),
        ("0x0A + 1", 11),
        ("'4' + 1", 5),
        ("5.5 % 2", Decimal("1.5")),
        ("9.9 + 9.9", Decimal("19.8")),
        ("1 / 3.0", Decimal("0.333333")),
        ("CAST(1e30 AS decimal(38, 0))", Decimal(10) ** 30),
        ("CAST('2024-02-28' AS datetime) + 1.5", "2024-02-29 12:00:00.000"),
        ("2 + CAST('2024-02-28' AS datetime)", "2024-03-01 00:00:00.000"),
        ("CAST('2024-02-28' AS datetime) - '1900-01-02'", "2024-02-27 00:00:00.000"),
        ("CAST('2024-02-28' AS smalldatetime) - 0.5", "2024-02-27 12:00:00"),
        ("NULL + 1", None),
        ("NULL + NULL", None),
        ("LEN(REPLICATE('ab', 5000))", 8000),
        ("REPLICATE('x', -1)", None),
    ],
)
def test_an_expression_has_sql_servers_value(side, expression, value):
    assert side.value(f"SELECT {expression}") == value


def test_days_are_added_to_the_time_of_now(side):
    assert side.value("SELECT DATEDIFF(hour, GETDATE(), GETDATE() + 1)") == 24


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("SELECT 1 AS a ORDER BY 0.5", 408),
        ("SELECT 1 AS a ORDER BY 2 - 1", 408),
        ("DECLARE @i int = 1; SELECT 1 AS a ORDER BY @i", 1008),
        ("SELECT 1 AS a ORDER BY 'a'", 408),
        ("SELECT 1 AS a ORDER BY 2", 108),
        ("SELECT 1 AS a UNION SELECT 2 ORDER BY 3", 108),
        ("SELECT TOP ('x') 1 AS a", 1060),
        ("SELECT TOP (1.5) 1 AS a", 1060),
        ("SELECT TOP (-1) 1 AS a", 127),
        ("SELECT TOP (NULL) 1 AS a", 1014),
        ("DELETE TOP ('x') dbo.t", 1060),
        ("SELECT 1 AS a ORDER BY a OFFSET 'x' ROWS", 1060),
        ("CREATE TABLE dbo.[a\0b] (a int)", 102),
        ("SELECT 1 AS [a\0b]", 102),
        ("EXEC sp_prepexec", 201),
        ("EXEC sp_prepare", 201),
        ("EXEC sp_execute", 201),
        ("EXEC sp_unprepare", 201),
        ("EXEC sp_execute 'x'", 245),
        ("EXEC sp_configure 'show advanced options', 'x'", 245),
        ("ALTER QUEUE dbo.q WITH ACTIVATION (MAX_QUEUE_READERS = " + "9" * 62 + ")", 1007),
    ],
)
def test_a_wrong_constant_is_sql_servers_error(side, statement, number):
    assert [error.number for error in side.results(statement).errors] == [number]


def test_operators_in_a_row_may_be_many(side):
    assert side.value("SELECT " + "+".join(["1"] * 2000)) == 2000
    assert side.value("SELECT LEN(" + "+".join(["'x'"] * 2000) + ")") == 2000
    assert side.value("DECLARE @n int = 1; SELECT " + "+".join(["@n"] * 300)) == 300
    conditions = " AND ".join(["1 = 1"] * 1500)
    assert side.value(f"SELECT 1 WHERE {conditions}") == 1
    assert side.value(f"DECLARE @n int = 1; IF {conditions.replace('1 = 1', '@n = 1')} SELECT 1") == 1
    assert side.value("SELECT 1 WHERE " + " OR ".join(["1 = 2"] * 1499 + ["1 = 1"])) == 1
    assert side.rows(" UNION ".join(f"SELECT {number % 7}" for number in range(1200))) == [(n,) for n in range(7)]
    assert len(side.rows(" UNION ALL ".join(["SELECT 1"] * 1200))) == 1200


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT " + "(" * 5000 + "1" + ")" * 5000,
        "SELECT " + "- " * 5000 + "1",
        "SELECT 1 WHERE " + "NOT " * 5000 + "1 = 1",
        "DECLARE @n int = 1; SELECT " + "+".join(["@n"] * 3000),
        "SELECT 1 WHERE " + "NOT (" * 200 + "1 = 1" + ")" * 200,
        "SELECT " + "CASE WHEN 1 = 1 THEN " * 300 + "1" + " END" * 300,
    ],
)
def test_what_is_nested_too_deeply_is_error_191_or_has_a_value(side, statement):
    results = side.results(statement)
    assert [error.number for error in results.errors] in ([], [191])


def test_the_rows_of_a_union_and_of_values_have_one_type(side):
    assert side.rows("SELECT 1 UNION ALL SELECT '2'") == [(1,), (2,)]
    assert side.rows("SELECT x FROM (VALUES (1), ('2')) AS v (x)") == [(1,), (2,)]
    assert side.rows("SELECT CAST('10:00' AS time) AS a UNION ALL SELECT CAST('2024-01-02' AS datetime)") == [
        ("1900-01-01 10:00:00.000",),
        ("2024-01-02 00:00:00.000",),
    ]
    assert side.rows("SELECT NULL UNION ALL SELECT 'a' UNION ALL SELECT N'b'") == [(None,), ("a",), ("b",)]
    for statement, number in (
        ("SELECT 1 UNION SELECT 'x'", 245),
        ("SELECT GETDATE() UNION SELECT '2024-02-30'", 242),
        ("SELECT x FROM (VALUES (1), (2, 3)) AS v (x)", 10709),
        ("SELECT 1 UNION SELECT 1, 2", 205),
    ):
        assert side.error(statement).number == number


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("SELECT CONVERT(int)", 102),
        ("UPDATE dbo.t SET n = SUM(1)", 157),
        ("UPDATE dbo.t SET n = (SELECT SUM(1))", None),
        ("EXEC sp_prepare 0x0", None),
        ("RAISERROR('%999999999d', 16, 1, 1)", 2787),
        ("RAISERROR('x', 300, -1) WITH LOG", 50000),
        ("RAISERROR('%d', 16, 1, 1.5)", 2786),
        ("SELECT 1 AS a GROUP BY 1", 164),
        ("SELECT 1 WHERE 'a' LIKE 'a' ESCAPE 'ab'", 506),
        ("SELECT 1 WHERE 'a' LIKE '[z-a]'", None),
        ("DBCC TRACEON (NULL)", 2560),
        ("CREATE TABLE dbo.u (a bit IDENTITY)", 2749),
        ("CREATE TABLE dbo.u (a tinyint IDENTITY(256, 1))", 2752),
        ("CREATE TABLE dbo.u (a tinyint IDENTITY(255, 1), b int); INSERT dbo.u (b) VALUES (1), (2)", 8115),
        ("DECLARE @u TABLE (a int, A int)", 2705),
        ("SELECT SERVERPROPERTY('IsClustered'), SERVERPROPERTY(N'Edi' + 'tion')", None),
        ("ALTER DATABASE db MODIFY FILE (NAME = db, SIZE = 99999999999999999999MB)", 1842),
        ("EXEC sp_executesql N'', N''; EXEC (N'\0')", 102),
        (f"SELECT 1 AS [{'a' * 128}]", None),
        (f"SELECT 1 AS [{'a' * 129}]", 103),
        (f"SELECT 1 AS '{'a' * 129}'", 103),
        (f"SELECT 1 AS {'a' * 129}", 103),
        (f"DECLARE @{'a' * 129} int", 103),
        (f"CREATE QUEUE {'a' * 129}", 103),
        *[(f"{statement} []", 1038) for statement in ("CREATE DATABASE", "CREATE QUEUE", "SELECT 1 AS", "USE")],
        ('SELECT * FROM ""', 1038),
        ("SELECT 1 AS ''", 1038),
    ],
)
def test_what_generated_batches_found(side, statement, number):
    assert [error.number for error in side.results(statement).errors] == ([number] if number else [])
