"""Values and their types where SQLite, Python or a quick guess have another one than the manual."""

from decimal import Decimal

import pytest

from harness.embedded.sqltypes import MAX, SqlType
from tests.embedded.tsql.sides import Message

REAL = SqlType("real", precision=24)
TENTH = 0.10000000149011612  # the number of 32 bits that is nearest


@pytest.mark.parametrize(
    ("expression", "type_", "value"),
    [
        ("CAST(0.1 AS real)", REAL, TENTH),
        ("CAST(0.1 AS float(24))", REAL, TENTH),
        ("CAST(0.1 AS float(25))", SqlType("float", precision=53), 0.1),
        ("CONVERT(float, CAST('0.1' AS real))", SqlType("float", precision=53), TENTH),
        ("CAST(16777217 AS real)", REAL, 16777216.0),
        ("CAST(0.1 AS real) * 3", REAL, 0.30000001192092896),
        ("SUM(CAST(0.1 AS real))", SqlType("float", precision=53), TENTH),
        ("3000000000", SqlType("decimal", precision=10), Decimal(3000000000)),
        ("3000000000 / 2000000000", SqlType("decimal", precision=21, scale=11), Decimal("1.5")),
        ("9223372036854775807", SqlType("decimal", precision=19), Decimal(9223372036854775807)),
        ("- -5", SqlType("int"), 5),
        ("AVG(7)", SqlType("int"), 7),
        ("SCOPE_IDENTITY()", SqlType("decimal", precision=38), None),
        ("CONCAT('a', 1, NULL)", SqlType("varchar", length=12), "a1"),
        ("CONCAT('a', N'b')", SqlType("nvarchar", length=2), "ab"),
        ("CONCAT(CAST('a' AS varchar(max)), N'b')", SqlType("nvarchar", length=MAX), "ab"),
        ("CONCAT(0x41, 'a')", SqlType("varchar", length=2), "Aa"),
        ("SUBSTRING(CAST('abcdef' AS char(6)), 5, 4)", SqlType("varchar", length=4), "ef"),
        ("0x01 + 0x0203", SqlType("varbinary", length=3), b"\1\2\3"),
        ("N'Ж' + 'Ж'", SqlType("nvarchar", length=2), "Ж?"),
        # "Returns the highest precedence type from the set of types", and converts only what it comes to
        ("CASE WHEN 1 = 1 THEN 1 ELSE 'a' END", SqlType("int"), 1),
        ("CASE WHEN 1 = 0 THEN 'a' ELSE '5' END", SqlType("varchar", length=1), "5"),
        ("CASE WHEN 1 = 0 THEN 1 ELSE '5' END", SqlType("int"), 5),
        ("CASE WHEN 1 = 0 THEN CAST('a' AS int) ELSE 3 END", SqlType("int"), 3),
        ("CASE WHEN 1 = 1 THEN 1 ELSE CAST(0 AS datetime) END", SqlType("datetime"), "1900-01-02 00:00:00.000"),
        ("CASE WHEN 1 = 1 THEN 'a' ELSE N'b' END", SqlType("nvarchar", length=1), "a"),
        ("CASE WHEN 1 = 1 THEN CAST('x' AS char(2)) END", SqlType("char", length=2), "x "),
        ("CASE WHEN 1 = 1 THEN CAST('x' AS char(2)) ELSE CAST('y' AS char(4)) END", SqlType("char", length=4), "x   "),
        ("CASE WHEN 1 = 1 THEN CAST('x' AS char(2)) ELSE 'yyy' END", SqlType("varchar", length=3), "x "),
        ("IIF(1 = 1, CAST(1 AS binary(1)), CAST(1 AS binary(2)))", SqlType("binary", length=2), b"\1\0"),
        ("COALESCE(1, 'a')", SqlType("int"), 1),
        ("COALESCE(NULL, '5', 1)", SqlType("int"), 5),
        ("COALESCE(CAST(NULL AS tinyint), 300)", SqlType("int"), 300),
        # "Returns the same type as check_expression"
        ("ISNULL(1, 'a')", SqlType("int"), 1),
        ("ISNULL(CAST(NULL AS char(2)), 'bcd')", SqlType("char", length=2), "bc"),
        ("ISNULL(CAST(NULL AS int), 1.7)", SqlType("int"), 1),
        ("ISNULL(NULL, 'abc')", SqlType("varchar", length=3), "abc"),
        ("CAST('abc' AS varchar)", SqlType("varchar", length=30), "abc"),
        ("CAST('abc' AS varchar(1))", SqlType("varchar", length=1), "a"),
        ("CAST('abc' AS char varying(2))", SqlType("varchar", length=2), "ab"),
        ("CAST('abc' AS Character  Varying (2))", SqlType("varchar", length=2), "ab"),
        ("CAST('abc' AS [sys].[varchar](2))", SqlType("varchar", length=2), "ab"),
        ("CAST(1 AS integer)", SqlType("int"), 1),
        ("CAST(1 AS dec(1))", SqlType("decimal", precision=1), Decimal(1)),
        ("CAST(1 AS decimal (5, 2))", SqlType("decimal", precision=5, scale=2), Decimal("1.00")),
        ("CAST(1 AS double precision)", SqlType("float", precision=53), 1.0),
    ],
)
def test_a_value_has_the_type_of_the_manual(side, expression, type_, value):
    [(columns, rows)] = side.run(f"SELECT {expression}").sets
    assert (columns[0].type, rows[0][0]) == (type_, value)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        # "datetime to int: round", at noon
        ("CAST(CAST('2000-01-01 11:59:59.997' AS datetime) AS int)", 36524),
        ("CAST(CAST('2000-01-01 12:00' AS datetime) AS int)", 36525),
        ("CAST(CAST('1899-12-31 12:00' AS datetime) AS int)", 0),
        ("CAST(CAST('1900-01-02 06:00' AS datetime) AS float)", 1.25),
        ("CAST(CAST('1900-01-02 06:00' AS smalldatetime) AS decimal(5, 2))", Decimal("1.25")),
        ("CAST(CAST('1900-01-01 06:00' AS datetime) AS bit)", 1),
        # "money to int: round", "numeric to int: truncate"
        ("CAST(CAST(4.5 AS money) AS int)", 5),
        ("CAST(CAST(-4.5 AS money) AS int)", -5),
        ("CAST(4.9 AS int)", 4),
        ("CAST(' -' AS int)", 0),  # a sign alone is zero, as no character is
        ("CAST('' AS float)", 0.0),
        ("CAST('1e3' AS real)", 1000.0),
        ("CAST(N'Жa' AS varchar(5))", "?a"),
        ("DATALENGTH(CONCAT('a', 'b'))", 2),
        ("DATALENGTH(CONCAT(REPLICATE('a', 8000), 'b'))", 8000),
        ("DATALENGTH(REPLICATE(N'a', 4000) + 'b')", 8000),
        ("DATALENGTH(LEFT(12345, 2))", 2),
        ("(SELECT AVG(v) FROM (VALUES (1), (2), (NULL)) AS x (v))", 1),
        ("(SELECT AVG(v) FROM (VALUES (-1), (-2)) AS x (v))", -1),
        ("(SELECT AVG(v) FROM (VALUES (1.0), (2), (2)) AS x (v))", Decimal("1.666666")),
        ("(SELECT AVG(v) FROM (VALUES (1e0), (2)) AS x (v))", 1.5),
        ("(SELECT AVG(v) FROM (SELECT 1 AS v WHERE 1 = 0) AS x)", None),
        ("(SELECT MAX(v) FROM (VALUES ('a'), ('B')) AS x (v))", "B"),
        ("(SELECT MAX(v COLLATE Latin1_General_BIN) FROM (VALUES ('a'), ('B')) AS x (v))", "a"),
        ("CHARINDEX('A', 'aA' COLLATE Latin1_General_BIN)", 2),
        ("REPLACE('aA' COLLATE Latin1_General_CS_AS, 'A', 'x')", "ax"),
        ("DATEADD(microsecond, 1, CAST('2026-01-01' AS datetime2(7)))", "2026-01-01 00:00:00.0000010"),
        ("DATEADD(microsecond, 1, CAST('2026-01-01' AS datetime2(3)))", "2026-01-01 00:00:00.000"),
    ],
)
def test_a_value_is_that_of_the_manual(side, expression, value):
    assert side.value(f"SELECT {expression}") == value


NO_TYPES = (
    "decimal()",
    "varchar()",
    "datetime2( )",
    "float()",
    "int()",
    "decimal(5,)",
    "decimal(,2)",
    "varchar(5 char)",
)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT CAST('1' AS {})",
        "SELECT TRY_CAST('1' AS {})",
        "SELECT CONVERT({}, '1')",
        "SELECT TRY_CONVERT({}, '1')",
        "DECLARE @v {} = 1, @w int",
        "DECLARE @t TABLE (c {} PRIMARY KEY, d {} UNIQUE(c))",
        "CREATE PROCEDURE dbo.p (@p {}) AS RETURN 1",
        "EXEC sp_executesql N'RETURN', N'@p {}', '1'",
    ],
)
def test_a_type_without_its_numbers_is_wrong_syntax(side, text):
    assert [side.error(text.replace("{}", type_)).number for type_ in NO_TYPES] == [102] * len(NO_TYPES)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("SELECT CAST(1 AS string)", 50001),
        ("SELECT CAST(1 AS int unsigned)", 102),
        ("SELECT CAST('a' AS varchar(5) COLLATE Latin1_General_BIN)", 102),
        ("SELECT CAST(1 AS boolean)", 50001),
        ("SELECT CAST(1 AS text(5))", 2716),
        ("SELECT CAST(1 AS dbo.int)", 2715),
        ("DECLARE @v dbo.int", 2715),
        ("SELECT CAST(1 AS varchar(10) FORMAT 'x')", 102),
        ("SELECT CAST(1 AS varchar(10) DEFAULT 1 ON CONVERSION ERROR)", 102),
        ("SELECT CAST(1 AS int, 'x')", 102),
        ("SELECT CONVERT(int 1)", 102),
        ("SELECT CONVERT(varchar(10), 1, 0, 5)", 102),
        ("SELECT 1::int", 50001),
        ("SELECT date '2020-01-01'", 207),
    ],
)
def test_a_conversion_of_another_dialect_is_an_error(side, text, number):
    assert side.error(text).number == number


@pytest.mark.parametrize(
    "text",
    [
        "DECLARE @v varbinary(9) = 'a'",
        "DECLARE @v varbinary(9); SET @v = N'a'",
        "DECLARE @v binary(9), @n nvarchar(9); SET @v = @n",
        "DECLARE @v varbinary(9); SELECT @v = name FROM dbo.t",
        "DECLARE @v TABLE (v varbinary(9)); INSERT @v VALUES ('a')",
        "INSERT dbo.binaries SELECT name FROM dbo.t",
        "UPDATE dbo.binaries SET v = 'a'",
        "EXEC dbo.takes_binary 'a'",
        "DECLARE @v varbinary(9); EXEC dbo.gives_text @v OUTPUT",
        "EXEC sp_executesql N'RETURN', N'@v varbinary(9)', N'a'",
        "CREATE PROCEDURE dbo.p @v varbinary(9) = 'a' AS RETURN",
        "DECLARE @v TABLE (v varbinary(9)); RECEIVE service_name FROM dbo.q INTO @v",
    ],
)
def test_text_becomes_binary_by_cast_alone(side, text):
    side.run("CREATE TABLE dbo.binaries (v varbinary(9)); CREATE QUEUE dbo.q")
    side.run("CREATE PROCEDURE dbo.takes_binary @v varbinary(9) AS RETURN")
    side.run("CREATE PROCEDURE dbo.gives_text @v varchar(9) OUTPUT AS SET @v = 'a'")
    side.run("INSERT dbo.t (n, name) VALUES (1, 'a')")
    assert side.error(text).number == 257


def test_null_that_a_client_sends_as_text_becomes_binary(side):
    """The driver asks SQL Server for the type of the parameter, in a way that this server does not have."""
    side.run("CREATE TABLE dbo.binaries (v varbinary(9))")
    side.run("CREATE PROCEDURE dbo.takes_binary @v varbinary(9) AS RETURN")
    for statement in ("INSERT dbo.binaries VALUES (@v)", "UPDATE dbo.binaries SET v = @v", "EXEC dbo.takes_binary @v"):
        side.call("sp_executesql", statement, "@v varchar(1)", None)
        with pytest.raises(Message, match="257"):
            side.call("sp_executesql", statement, "@v varchar(1)", "a")
    assert side.rows("SELECT v FROM dbo.binaries") == [(None,)]


@pytest.mark.parametrize(
    ("expression", "number"),
    [
        ("CASE WHEN 1 = 0 THEN 1 ELSE 'a' END", 245),
        ("CASE WHEN 1 = 1 THEN 'a' ELSE 1 END", 245),
        ("CASE WHEN 1 = 1 THEN 1 ELSE NEWID() END", 206),
        ("CASE WHEN 1 = 1 THEN NULL ELSE NULL END", 8133),
        ("IIF(1 = 1, NULL, NULL)", 8133),
        ("COALESCE(NULL, 'a', 1)", 245),
        ("COALESCE(NULL, NULL)", 4127),
        ("NULLIF(NULL, 1)", 4151),
        ("ISNULL(CAST(NULL AS int), 'a')", 245),
        ("ISNULL(CAST(NULL AS int), GETDATE())", 257),
        ("ISNULL(0x01, 'a')", 257),
        ("1 FROM dbo.t WHERE n = 'a'", 245),
    ],
)
def test_values_of_types_without_a_common_one_are_an_error(side, expression, number):
    assert side.error(f"SELECT {expression}").number == number


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("CAST(0.1 AS real) = 0.1", True),
        ("CAST(0.1 AS real) = 0.1e0", False),
        ("CAST('2020-01-01' AS datetime) > 40000", True),
        ("CAST('2020-01-01' AS datetime) < 40000", False),
        ("CAST('1900-01-02' AS datetime) = 1", True),
        ("9007199254740993 = 9007199254740992", False),
        ("('a' COLLATE Latin1_General_BIN) = 'A'", False),
        ("'a' COLLATE Latin1_General_BIN LIKE 'A'", False),
        ("'a' LIKE 'A' COLLATE Latin1_General_CS_AS", False),
        ("'a' IN ('A' COLLATE Latin1_General_BIN)", False),
        ("LOWER('A' COLLATE Latin1_General_BIN) = 'A'", False),
        ("'a' + ('b' COLLATE Latin1_General_BIN) = 'AB'", False),
        ("CASE WHEN 1 = 1 THEN 'a' COLLATE Latin1_General_BIN END = 'A'", False),
        ("N'Ärger' COLLATE Latin1_General_CI_AI = N'arger'", True),
        ("N'Ärger' COLLATE Latin1_General_CI_AI IN (N'arge', N'arger')", True),
        ("N'Ärger' = N'arger'", False),
        ("'a%' LIKE 'a[!%]' ESCAPE '!'", True),
        ("'a!' LIKE 'a[!%]' ESCAPE '!'", False),
        ("'a!' LIKE 'a!' ESCAPE '!'", False),
        ("'-' LIKE '[a-]'", True),
        ("'^' LIKE '[a^]'", True),
        ("'b' LIKE '[^a-c]'", False),
        ("'[' LIKE '[[]'", True),
    ],
)
def test_comparisons_have_the_types_and_collations_of_the_manual(side, condition, holds):
    assert side.run(f"IF {condition} PRINT 'yes' ELSE PRINT 'no'").prints == ["yes" if holds else "no"]


def test_order_and_groups_have_the_collation_of_their_expression(side):
    values = "FROM (VALUES ('a'), ('B'), ('b')) AS x (v)"
    order = f"SELECT v {values} ORDER BY v COLLATE Latin1_General_BIN"
    assert [row for (row,) in side.rows(order)] == ["B", "a", "b"]
    assert side.rows(f"SELECT COUNT(*) {values} GROUP BY v COLLATE Latin1_General_BIN") == [(1,)] * 3
    windowed = f"SELECT COUNT(*) OVER (PARTITION BY LEFT(v, 1)) {values} ORDER BY 1"
    assert side.rows(windowed) == [(1,), (2,), (2,)]


@pytest.mark.parametrize(
    ("expression", "value"),
    [("6 & 3 + 1", 3), ("1 | 4 - 1", 4), ("1 + 6 & 3", 3), ("6 ^ 3 * 2", 0), ("5 - 3 & 1", 0), ("~1 + 2", 0)],
)
def test_bitwise_operators_have_the_precedence_of_addition(side, expression, value):
    assert side.value(f"SELECT {expression}") == value
    assert side.value(f"DECLARE @v int = {expression}; SELECT @v") == value


def test_a_select_may_assign_and_compute_at_once(side):
    assert side.rows("DECLARE @a int = 2, @b int = 9; SELECT @a *= 1 + 2, @b -= (4 - 1) - 1; SELECT @a, @b") == [(6, 7)]
    side.run("INSERT dbo.t (n) VALUES (5)")
    assert side.value("DECLARE @a int = 2; SELECT @a += MAX(n) FROM dbo.t WHERE n > 1; SELECT @a") == 7


@pytest.fixture
def three(side):
    side.run("INSERT dbo.t (n, name) VALUES (1, N'a'), (2, N'b'), (2, N'c')")
    return side


@pytest.mark.parametrize(
    ("value", "joined"),
    [("',' + v", ",a,b"), ("v + N','", "a,b,"), ("'(' + v", "(a(b"), ("'FROM'", "FROMFROM"), ("LEFT(v, 1)", "ab")],
)
def test_values_are_added_up_with_the_signs_that_end_an_item(side, value, joined):
    rows = "(VALUES ('a'), ('b')) AS x (v)"
    assert side.rows(
        f"DECLARE @s nvarchar(9) = N'', @n int = 0; SELECT @s += {value}, @n += 1 FROM {rows}; SELECT @s, @n"
    ) == [(joined, 2)]


def test_a_string_is_no_word_of_a_clause(side):
    assert side.rows("SELECT DISTINCT 'ON' AS a, COUNT(DISTINCT 'ON') AS b") == [("ON", 1)]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("SELECT (SELECT n FROM dbo.t)", 512),
        ("SELECT id FROM dbo.t AS a WHERE n = (SELECT n FROM dbo.t AS b WHERE b.id > a.id)", 512),
        ("DECLARE @n int = (SELECT n FROM dbo.t)", 512),
        ("IF (SELECT n FROM dbo.t) = 1 PRINT 'x'", 512),
        ("SELECT n, id FROM dbo.t GROUP BY n", 8120),
        ("SELECT n, COUNT(*) FROM dbo.t", 8120),
        ("SELECT *, COUNT(*) FROM dbo.t", 8120),
        ("SELECT n + id FROM dbo.t GROUP BY n + 1", 8120),
        ("SELECT n FROM dbo.t GROUP BY n HAVING id > 1", 8121),
        ("SELECT n FROM dbo.t GROUP BY n ORDER BY id", 8127),
        ("SELECT DISTINCT n FROM dbo.t ORDER BY id", 145),
        ("SELECT * FROM (SELECT 1 AS a, 2 AS A) AS d", 8156),
        ("SELECT * FROM (SELECT 1) AS d (a, b)", 8158),
        ("SELECT * FROM (SELECT 1, 2) AS d (a)", 8159),
        ("SELECT 1 FROM dbo.t AS a JOIN dbo.t AS b USING (n)", 102),
        ("WITH d AS (SELECT n, n FROM dbo.t) SELECT 1 FROM d", 8156),
        ("SELECT ROW_NUMBER() OVER (PARTITION BY n) FROM dbo.t", 4112),
        ("SELECT n FROM dbo.t ORDER BY name COLLATE Latin1_General_CS_AS", 50001),
        ("CREATE TABLE dbo.v (a varchar(10) COLLATE Latin1_General_BIN)", 50001),
        ("DECLARE @i int = GETDATE()", 257),
        ("DECLARE @i int; SELECT @i = GETDATE()", 257),
        ("INSERT dbo.t (n) VALUES (GETDATE())", 257),
        ("SELECT CAST(CAST('2026-01-02' AS date) AS int)", 529),
        ("SELECT CAST(SYSDATETIMEOFFSET() AS bigint)", 529),
        ("SELECT CASE WHEN CAST('2026-01-02' AS date) > 4 THEN 1 END", 206),
        ("SELECT CASE WHEN NEWID() = 4 THEN 1 END", 206),
        ("SELECT CASE WHEN GETDATE() > CAST('10:00' AS time) THEN 1 END", 402),
        ("SELECT CAST('1e3' AS decimal(10, 2))", 8114),
        ("SELECT CAST(1e39 AS real)", 8115),
        ("SELECT AVG(v) FROM (VALUES (2147483647), (1)) AS x (v)", 8115),
        ("SELECT DATEADD(microsecond, 1, GETDATE())", 9810),
    ],
)
def test_what_has_no_one_value_is_an_error(three, text, number):
    assert three.error(text).number == number


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (
            "SELECT id, (SELECT name FROM dbo.t AS u WHERE u.id = t.id + 1) FROM dbo.t AS t",
            [(1, "b"), (2, "c"), (3, None)],
        ),
        ("SELECT (SELECT TOP (1) n FROM dbo.t ORDER BY n DESC), (SELECT n FROM dbo.t WHERE id = 9)", [(2, None)]),
        ("SELECT t.n + 1, COUNT(*) AS c FROM dbo.t GROUP BY n + 1 HAVING COUNT(*) > 1 ORDER BY c", [(3, 2)]),
        ("SELECT n, COUNT(*) OVER () FROM dbo.t WHERE n = 1", [(1, 1)]),
        (
            "SELECT id FROM dbo.t AS a WHERE EXISTS (SELECT * FROM dbo.t AS b WHERE a.n = b.n GROUP BY b.n)",
            [(1,), (2,), (3,)],
        ),
        ("SELECT DISTINCT n AS x FROM dbo.t ORDER BY x DESC", [(2,), (1,)]),
        ("SELECT AVG(n) OVER (PARTITION BY n) FROM dbo.t ORDER BY id", [(1,), (2,), (2,)]),
    ],
)
def test_groups_and_subqueries_that_the_manual_allows(three, query, rows):
    assert three.rows(query) == rows


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("N'Ä' = N'ä'", True),
        ("N'ä' LIKE N'Ä%'", True),
        ("N'Ä' = N'a'", False),
        ("N'Äb' < N'az'", True),
        ("N'Ärger' < N'Zebra'", True),
        ("N'straße' = N'STRASSE'", True),
        ("N'Ａ' = N'a'", True),
        ("N'Ä' IN (N'x', N'ä ')", True),
        ("N'ÑU' BETWEEN N'ñu' AND N'Ñu'", True),
        ("NULLIF(N'É', N'é') IS NULL", True),
        ("N'Ä' = N'ä' COLLATE Latin1_General_BIN", False),
    ],
)
def test_letters_of_all_alphabets_compare_without_case(side, expression, value):
    assert side.value(f"SELECT CASE WHEN {expression} THEN 1 ELSE 0 END") == value
    side.run("DECLARE @x nvarchar(10) = N'Ä'; IF NOT @x = N'ä' THROW 50000, 'x', 1")


def test_letters_with_accents_stand_beside_those_without(side):
    side.run("CREATE TABLE dbo.words (word nvarchar(20) PRIMARY KEY)")
    side.run("INSERT dbo.words VALUES (N'Zebra'), (N'Ärger'), (N'apfel'), (N'Arger'), (N'ähre'), (N'Über')")
    words = ["ähre", "apfel", "Arger", "Ärger", "Über", "Zebra"]
    assert side.rows("SELECT word FROM dbo.words ORDER BY word") == [(word,) for word in words]
    assert side.error("INSERT dbo.words VALUES (N'äRGER')").number == 2627
    assert side.value("SELECT COUNT(*) FROM (SELECT N'é' AS w UNION SELECT N'É') AS x") == 1
