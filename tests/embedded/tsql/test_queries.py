"""Expressions, conditions, queries and changes have the values and errors of SQL Server."""

from decimal import Decimal

import pytest


@pytest.mark.parametrize(
    ("expression", "type_name", "value"),
    [
        ("1", "int", 1),
        ("3000000000", "decimal", 3000000000),
        ("1.50", "decimal", Decimal("1.50")),
        ("1e0", "float", 1.0),
        ("N'x'", "nvarchar", "x"),
        ("'x'", "varchar", "x"),
        ("0x01", "varbinary", b"\x01"),
        ("NULL", "int", None),
        ("1 + 2.5", "decimal", Decimal("3.5")),
        ("CAST(1 AS bit)", "bit", 1),
        (
            "CAST('e7044bcf-cfff-4526-810b-5a33eb763d0b' AS uniqueidentifier)",
            "uniqueidentifier",
            "E7044BCF-CFFF-4526-810B-5A33EB763D0B",
        ),
        ("CAST('20260102 03:04:05.678' AS datetime2(3))", "datetime2", "2026-01-02 03:04:05.678"),
        ("CAST(0x0102 AS char(3))", "char", "\x01\x02 "),
        ("CAST(N'ab' AS varbinary(10))", "varbinary", b"a\0b\0"),
        ("CAST('ab' AS varbinary(10))", "varbinary", b"ab"),
        ("CAST(5 AS binary(2))", "binary", b"\0\5"),
        ("CAST(CAST(-1 AS bigint) AS varbinary(8))", "varbinary", b"\xff" * 8),
        ("CAST(SUBSTRING(0x0000000000000102FF, 1, 8) AS bigint)", "bigint", 258),
        ("TRY_CAST('x' AS int)", "int", None),
        ("CONVERT(varchar(30), CAST('2026-01-02' AS date), 112)", "varchar", "20260102"),
        ("CONVERT(varchar(10), 0xAB, 1)", "varchar", "0xAB"),
        ("ISNULL(CAST(NULL AS varchar(2)), 'long')", "varchar", "lo"),
        ("COALESCE(NULL, 1, 2.5)", "decimal", Decimal("1.0")),
        ("IIF(1 > 2, 'a', 'b')", "varchar", "b"),
        ("LEN('')", "int", 0),
        ("DATALENGTH(CAST('x' AS nvarchar(10)))", "int", 2),
        ("DATEDIFF_BIG(NANOSECOND, '1970-01-01', '1970-01-01T00:00:01.0000001')", "bigint", 1_000_000_100),
        ("DATEADD(month, 1, CAST('2026-01-31' AS date))", "date", "2026-02-28"),
        ("CHARINDEX('B', 'abc')", "int", 2),
        ("QUOTENAME('a]b')", "nvarchar", "[a]]b]"),
        ("CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END", "varchar", "b"),
        ("REPLICATE('ab', 3)", "varchar", "ababab"),
        ("5 % 3 * -2", "int", -4),
        ("6 ^ 3 | 8 & 12", "int", 12),
        ("DB_NAME()", "nvarchar", "db"),
        ("OBJECT_ID(N'dbo.nothing')", "int", None),
        ("SUSER_SNAME()", "nvarchar", "sa"),
        ("@@SERVERNAME", "nvarchar", "Here"),
    ],
)
def test_expressions_have_sql_servers_types_and_values(side, expression, type_name, value):
    [(columns, rows)] = side.run(f"SELECT {expression} AS v;").sets
    assert (columns[0].name, columns[0].type.name, rows[0][0]) == ("v", type_name, value)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("N'ABC' = N'abc'", True),
        ("'abc' LIKE 'A_c%'", True),
        ("'a-c' LIKE 'a[-b]c'", True),
        ("'abc' LIKE '%[^a-z]%'", False),
        ("'abc' NOT LIKE 'A_c%'", False),
        ("'abc' NOT LIKE 'x%'", True),
        ("'abc' NOT LIKE '%[^a-z]%'", True),
        ("'a%c' NOT LIKE 'a!%%' ESCAPE '!'", False),
        ("'abc' LIKE '{}'", False),
        ("'{0}' LIKE '{0}'", True),
        ("'a{' LIKE '{[a-c]'", False),
        ("'5' = 5", True),
        ("1 IN (3, 2, 1)", True),
        ("2 !< 2 AND 2 !> 2 AND 1 < > 2 AND 1 ! = 2 AND 2 > = 2", True),
        ("N'X' IN (N'a', N'x')", True),
        ("NULL = NULL", False),
        ("NOT (1 = 2) AND 3 BETWEEN 2 AND 4", True),
        ("EXISTS (SELECT 1 FROM dbo.t)", False),
        ("CAST('2026-01-01' AS datetime) = CAST('2026-01-01' AS datetime2(7))", True),
        ("'2026-01-02' > CAST('2026-01-01' AS datetime2(7))", True),
        ("0x0102 = CAST(258 AS binary(2))", True),
        (
            "'00000000-0000-0000-0000-0000000000ff' = CAST('00000000-0000-0000-0000-0000000000FF' AS uniqueidentifier)",
            True,
        ),
        (
            "CAST('FF000000-0000-0000-0000-000000000001' AS uniqueidentifier) < CAST('00000000-0000-0000-0000-000000000002' AS uniqueidentifier)",
            True,
        ),
    ],
)
def test_conditions_are_true_as_in_sql_server(side, condition, holds):
    assert side.run(f"IF {condition} PRINT 'yes' ELSE PRINT 'no'").prints == ["yes" if holds else "no"]


@pytest.mark.parametrize(
    ("frame", "sums"),
    [
        ("ROWS UNBOUNDED PRECEDING", [1, 3, 5]),
        ("ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", [1, 3, 4]),
        ("RANGE UNBOUNDED PRECEDING", [1, 5, 5]),
    ],
)
def test_a_window_has_a_frame(side, frame, sums):
    rows = side.rows(f"SELECT SUM(n) OVER (ORDER BY n {frame}) FROM (VALUES (1), (2), (2)) AS v (n)")
    assert sorted(sum_ for (sum_,) in rows) == sums


def test_queries_join_group_and_window(side):
    side.run("INSERT dbo.t (n, name) VALUES (1, N'a'), (2, N'b'), (2, N'B'), (3, NULL)")
    assert side.rows(
        "SELECT name, COUNT(*) c, SUM(n) s FROM dbo.t WHERE name IS NOT NULL GROUP BY name ORDER BY name DESC"
    ) == [("b", 2, 4), ("a", 1, 1)]
    assert side.rows(
        "WITH x AS (SELECT id, SUM(n) OVER (ORDER BY id) AS total, ROW_NUMBER() OVER (PARTITION BY n ORDER BY id) r FROM db.dbo.t AS u) "
        "SELECT TOP (2) t.id, x.total, x.r FROM dbo.t JOIN x ON x.id = t.id ORDER BY t.id DESC"
    ) == [(4, 8, 1), (3, 5, 2)]
    assert side.rows(
        "SELECT a.n FROM (SELECT DISTINCT n FROM t) AS a LEFT JOIN (VALUES (2), (9)) v(n) ON v.n = a.n WHERE v.n IS NULL"
    ) == [(1,), (3,)]
    assert side.rows("SELECT n FROM t WHERE id = 1 UNION ALL SELECT 7 ORDER BY n DESC") == [(7,), (1,)]
    assert side.rows("SELECT (SELECT MAX(n) FROM t AS i WHERE i.id < o.id) FROM t AS o ORDER BY id") == [
        (None,),
        (1,),
        (2,),
        (2,),
    ]
    assert side.error("SELECT nothing FROM dbo.t").number == 207
    assert side.error("SELECT id FROM dbo.t AS a, dbo.t AS b").number == 209
    assert side.error("SELECT * FROM dbo.missing").text == "Invalid object name 'dbo.missing'."


def test_changes_count_rows_and_convert_values(side):
    results = side.run(
        "INSERT INTO dbo.t (n, name) SELECT '5', 12 UNION ALL SELECT 6, N'x'; UPDATE t SET n += 1, name = DEFAULT_ FROM (SELECT N'y' AS DEFAULT_) AS q WHERE n = 5; DELETE TOP (1) FROM dbo.t WHERE n > 5"
    )
    assert results.counts == [2, 1, 1]
    assert side.rows("SELECT n, name FROM dbo.t") == [(6, "x")]
    assert side.run("UPDATE a SET n = b.k FROM dbo.t AS a JOIN (VALUES (6, 60)) b(n, k) ON a.n = b.n").counts == [1]
    assert side.rows("SELECT n FROM dbo.t") == [(60,)]
    assert side.rows("DELETE dbo.t OUTPUT deleted.n, deleted.name AS was WHERE n = 60") == [(60, "x")]
    assert side.rows("INSERT dbo.t (n) OUTPUT inserted.id VALUES (1)") == [(3,)]
    assert side.value("SELECT SCOPE_IDENTITY()") == 3
    side.run("TRUNCATE TABLE dbo.t; INSERT dbo.t (n) VALUES (1)")
    assert side.rows("SELECT id FROM dbo.t") == [(1,)]


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("INSERT dbo.t (n) VALUES (NULL)", 515),
        ("INSERT dbo.t (n, name) VALUES (1, N'more than ten')", 2628),
        ("INSERT dbo.t (id, n) VALUES (1, 1)", 544),
        ("INSERT dbo.t (n) VALUES (1, 2)", 110),
        ("INSERT dbo.t VALUES (1)", 213),
        ("INSERT dbo.t SELECT 1", 213),
        ("INSERT dbo.t (n, name) SELECT 1", 120),
        ("INSERT dbo.t (n) SELECT 1, 2", 121),
        ("ALTER DATABASE master SET TRUSTWORTHY ON", 5058),
        ("ALTER TABLE dbo.t ALTER COLUMN name nvarchar(10) COLLATE Latin1_General_CI_AS", 50001),
        ("INSERT dbo.t (n) VALUES ('x')", 245),
        ("INSERT dbo.t (n) VALUES (3000000000)", 8115),
        ("DECLARE @i int = 2147483647; SET @i = @i + 1", 8115),
        ("DECLARE @i int = 2147483647; SET @i += 1", 8115),
        ("DECLARE @i int = -2147483648; SET @i = -@i", 8115),
        ("DECLARE @i smallint = 32767; SET @i = @i + 1", 220),
        ("DECLARE @i bigint = 9223372036854775807; SET @i = @i + 1", 8115),
        ("SELECT 1 / 0", 8134),
        ("DECLARE @z int = 0; SELECT 1 / @z", 8134),
        ("SELECT CAST('x' AS uniqueidentifier)", 8169),
        ("DECLARE @d datetime = '2026-13-01'", 242),
        ("SELECT nofunction(1)", 195),
        ("SELECT LEN()", 174),
        ("DECLARE @t table (a int); INSERT @t VALUES (1, 2)", 213),
        ("INSERT sys.objects (name) VALUES (1)", 259),
        ("CREATE TABLE dbo.t (a int)", 2714),
        ("DROP TABLE dbo.missing", 3701),
        ("EXEC dbo.missing", 2812),
        ("EXEC ..missing", 2812),
        ("USE missing", 911),
        ("SELECT * FROM missing.dbo.t", 208),
        ("INSERT missing..t (n) VALUES (1)", 208),
        ("DELETE missing.dbo.t", 208),
        ("FETCH NEXT FROM nocursor", 16916),
        ("DECLARE c CURSOR FOR SELECT 1; OPEN c; OPEN c", 16905),
        ("DECLARE c SCROLL CURSOR FOR SELECT 1 FOR READ ONLY; OPEN c; OPEN c", 16905),
        ("DECLARE c CURSOR LOCAL GLOBAL FOR SELECT 1", 1048),
        ("DECLARE c CURSOR FORWARD_ONLY SCROLL FOR SELECT 1", 1048),
        ("DECLARE c CURSOR LOCAL OPTIMISTIC FOR SELECT 1", 50001),
        ("DECLARE c CURSOR FOR SELECT n FROM dbo.t FOR UPDATE OF n", 50001),
        ("DECLARE @o table (a int); INSERT dbo.t (n) OUTPUT inserted.n, inserted.id INTO @o VALUES (1)", 213),
        ("DECLARE @o table (a int, b int); INSERT dbo.t (n) OUTPUT inserted.n INTO @o (a, b) VALUES (1)", 120),
        (
            "DECLARE @o table (a int, b int); INSERT dbo.t (n) OUTPUT inserted.n, inserted.id INTO @o (a) VALUES (1)",
            121,
        ),
        ("SAVE TRANSACTION s", 628),
        ("SELECT n FROM dbo.t WHERE SUM(n) > 1", 147),
        ("DELETE dbo.t WHERE COUNT(*) > 1", 147),
        ("SELECT SUM(CASE WHEN EXISTS (SELECT 1) THEN 1 END) FROM dbo.t", 130),
        ("SELECT MAX(COUNT(*)) FROM dbo.t", 130),
        ("SELECT n FROM dbo.t WHERE ROW_NUMBER() OVER (ORDER BY n) = 1", 4108),
        ("SELECT n FROM dbo.t GROUP BY n HAVING MAX(COUNT(*)) > 1", 130),
        ("UPDATE dbo.t SET n = SUM(n) OVER ()", 4108),
        ("SELECT n FROM dbo.t ORDER BY SUM(n)", 8120),
        ("DECLARE @a int = 1, @b int = @a", 137),
        ("EXEC sp_executesql 'SELECT 1'", 214),
        ("EXEC sp_executesql N'SELECT @a', '@a int', 1", 214),
    ],
)
def test_errors_have_sql_servers_numbers(side, statement, number):
    assert [error.number for error in side.results(statement).errors] == [number]


def test_a_cursor_fetches_its_rows_in_order(side):
    side.run("INSERT dbo.t (n) VALUES (1), (2)")
    text = """
        DECLARE @n int, @s nvarchar(10) = N'';
        DECLARE c CURSOR FOR SELECT n FROM dbo.t;
        OPEN c;
        FETCH NEXT FROM c INTO @n;
        WHILE @@FETCH_STATUS = 0
        BEGIN
            SELECT @s = @s + CONVERT(nvarchar(10), @n);
            IF @n = 9 CONTINUE;
            FETCH c INTO @n;
        END
        CLOSE c DEALLOCATE c
        SELECT @s"""
    assert side.value(text) == "12"
    assert side.value(text) == "12"


@pytest.mark.parametrize(
    "join, nullable",
    [
        ("JOIN dbo.t b ON b.id = a.id", (False, False)),
        ("CROSS JOIN dbo.t b", (False, False)),
        ("LEFT JOIN dbo.t b ON b.id = a.id + 1", (False, True)),
        ("RIGHT JOIN dbo.t b ON b.id = a.id + 1", (True, False)),
        ("FULL JOIN dbo.t b ON b.id = a.id + 1", (True, True)),
    ],
)
@pytest.mark.parametrize("select", ["a.n, b.n", "*"])
def test_a_column_is_nullable_where_an_outer_join_can_miss_its_row(side, join, nullable, select):
    side.run("INSERT dbo.t (n) VALUES (1), (2)")
    [(columns, _)] = side.run(f"SELECT {select} FROM dbo.t a {join}").sets
    assert tuple(column.nullable for column in columns if column.name == "n") == nullable


def test_a_function_that_can_give_null_is_nullable(side):
    for expression in ("SCOPE_IDENTITY()", "@@IDENTITY", "ERROR_NUMBER()", "(SELECT id FROM dbo.t)", "MAX(1)"):
        assert side.rows(f"SELECT {expression} WHERE 1 = 1") == [(None if expression != "MAX(1)" else 1,)]


def test_the_order_of_a_union_may_name_the_table_of_its_first_query(side):
    side.run("INSERT dbo.t (n) VALUES (2), (1)")
    assert side.rows("SELECT a.n FROM dbo.t a UNION SELECT b.n + 5 FROM dbo.t b ORDER BY a.n") == [
        (1,),
        (2,),
        (6,),
        (7,),
    ]


@pytest.mark.parametrize(
    "query",
    [
        *("SELECT 1,", "SELECT 1,, 2", "SELECT , 1", "SELECT 1 AS", "SELECT n, FROM dbo.t", "SELECT * FROM dbo.t,"),
        *(
            "SELECT 1 WHERE 1 IN (1,)",
            "SELECT LEN('a',)",
            "SELECT CONVERT(int, 1,)",
            "SELECT COUNT(DISTINCT) FROM dbo.t",
        ),
        *("SELECT n FROM dbo.t ORDER BY n,", "SELECT n FROM dbo.t GROUP BY n,", "SELECT 1 WHERE 1 == 1"),
        *("SELECT n FROM dbo.t LIMIT 1", "SELECT n FROM dbo.t OFFSET 1 ROWS", "SELECT * EXCEPT (n) FROM dbo.t"),
        *("SELECT DISTINCT ON (n) n FROM dbo.t", "SELECT n FROM dbo.t ORDER BY n NULLS FIRST"),
        *("SELECT 1 WHERE 1 ISNULL", "SELECT 1 WHERE 1 NOT NULL", "SELECT 1 WHERE 1 BETWEEN SYMMETRIC 2 AND 0"),
        *("SELECT a.n FROM dbo.t AS a JOIN dbo.t AS b", "SELECT a.n FROM dbo.t AS a LEFT JOIN dbo.t AS b"),
        *("SELECT a.n FROM dbo.t AS a JOIN dbo.t AS b ON", "SELECT a.n FROM dbo.t AS a CROSS JOIN dbo.t AS b ON 1 = 1"),
        "SELECT a.n FROM dbo.t AS a LEFT SEMI JOIN dbo.t AS b ON a.n = b.n",
        *(f"WITH c AS {word} (SELECT 1 AS n) SELECT n FROM c" for word in ("MATERIALIZED", "NOT MATERIALIZED")),
        *(f"SELECT n FROM dbo.t ORDER BY n OFFSET 0 {rest}" for rest in ("", "ROWS FETCH 1 ROWS ONLY")),
        *(
            f"SELECT n FROM dbo.t ORDER BY n OFFSET 0 ROWS FETCH NEXT {rest}"
            for rest in ("1 ROWS", "ROWS ONLY", "1 ONLY")
        ),
    ],
)
def test_clauses_of_other_dialects_are_wrong_syntax(side, query):
    assert side.error(query).number in (102, 156)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT ISNULL(n, 1), ',', 'a,', '==' AS [from] FROM dbo.t WHERE n IS NOT NULL AND NOT n IS NULL",
        "SELECT n * -1, COUNT(*) FROM dbo.t GROUP BY n EXCEPT SELECT 1, 2",
        "SELECT a.n FROM dbo.t AS a, dbo.t AS b CROSS JOIN dbo.t AS c",
        "SELECT a.n FROM dbo.t AS a JOIN dbo.t AS b ON b.n = a.n LEFT OUTER JOIN dbo.t AS c ON c.n = b.n",
        "SELECT n FROM dbo.t ORDER BY n OFFSET 0 ROWS FETCH NEXT 1 ROWS ONLY",
        "SELECT n FROM dbo.t ORDER BY n OFFSET 1 ROW FETCH FIRST (1 + 1) ROW ONLY",
        "SELECT n AS materialized FROM dbo.t AS a (NOLOCK) WHERE EXISTS (SELECT 1 FROM dbo.t WITH (UPDLOCK, ROWLOCK))",
        "WITH c (m) AS (SELECT n FROM dbo.t) SELECT m FROM c UNION ALL SELECT TOP 1 1 FROM c ORDER BY m OFFSET 1 ROWS",
        "SELECT x FROM (SELECT n FROM dbo.t) AS a (x) CROSS JOIN (VALUES (1)) AS b (y)",
        "SELECT TOP 1 Rows FROM (SELECT 1 AS Rows) AS a UNION ALL SELECT TOP (1) Only FROM (SELECT 1 Only) AS a",
        "SELECT Sql Security, n Sort FROM (SELECT n, 1 AS Sql FROM dbo.t) AS Cluster",
    ],
)
def test_clauses_like_those_of_other_dialects_are_right(side, query):
    side.run(query)


@pytest.mark.parametrize(
    ("statement", "number", "words"),
    [
        ("SELECT x FROM dbo.t AS a (x, y)", 321, '"x" is not a recognized table hints option.'),
        ("SELECT 1 FROM dbo.t WITH (NOLOCK, faster)", 321, '"faster" is not'),
        ("UPDATE dbo.t WITH (faster) SET n = 1", 321, '"faster" is not'),
        ("SELECT TOP 1 n FROM dbo.t ORDER BY n OFFSET 1 ROWS", 10741, "same query or sub-query as a OFFSET"),
        ("SELECT TOP 1 n FROM dbo.t ORDER BY n OFFSET 1 ROWS FETCH NEXT 1 ROWS ONLY", 10741, "A TOP can not be used"),
        ("SELECT n FROM dbo.t ORDER BY n OFFSET -1 ROWS", 10742, "may not be negative"),
        ("SELECT n FROM dbo.t ORDER BY n OFFSET 0 ROWS FETCH NEXT 0 ROWS ONLY", 10744, "greater then zero"),
        ("UPDATE dbo.t SET n = 1, N = 2", 264, "'N' is specified more than once"),
        (
            "CREATE TABLE dbo.v (a varchar(9) COLLATE Latin1_General_CI_AI)",
            50001,
            "with the collation Latin1_General_CI_AI",
        ),
        ("SELECT 'a' COLLATE Nowhere", 448, "Invalid collation 'Nowhere'."),
        ("SELECT 'a' COLLATE Latin1_General_CS_AI", 50001, "regard to case alone"),
        ("SELECT 1 WHERE 'a' LIKE 'a' COLLATE Latin1_General_CI_AI", 50001, "without regard to accents"),
        ("DELETE dbo.t WHERE n = 1 ORDER BY n", 156, "'ORDER'"),
        ("UPDATE dbo.t SET n = 1 FROM dbo.t WHERE n = 1 UNION SELECT 1", 156, "'UNION'"),
        ("UPDATE dbo.t SET n = 1 WHERE n = 1 GROUP BY n", 156, "'GROUP'"),
        ("SELECT n FROM dbo.t ORDER BY n WHERE n = 1", 156, "'WHERE'"),
        ("SELECT n FROM dbo.t FOR XML PATH ORDER BY n", 156, "'ORDER'"),
        ("SELECT n FROM dbo.t OPTION (RECOMPILE) FOR XML PATH", 156, "'FOR'"),
        ("SELECT TOP (1) DISTINCT n FROM dbo.t", 156, "'DISTINCT'"),
        ("SELECT n FROM dbo.t GROUP BY DISTINCT n", 156, "'DISTINCT'"),
        ("SELECT ABS(DISTINCT n) FROM dbo.t", 156, "'DISTINCT'"),
        ("SELECT COUNT(DISTINCT n) OVER () FROM dbo.t", 10759, "with the OVER clause"),
        ("SELECT SUM(n) OVER (ORDER BY n GROUPS 1 PRECEDING) FROM dbo.t", 102, "'GROUPS'"),
        ("SELECT SUM(n) OVER (ORDER BY n ROWS 1 PRECEDING EXCLUDE TIES) FROM dbo.t", 102, "'EXCLUDE'"),
        ("SELECT SUM(n) OVER (ORDER BY n RANGE BETWEEN CURRENT ROW AND 1 FOLLOWING) FROM dbo.t", 4194, "RANGE is only"),
        ("SELECT SUM(n) OVER (ROWS 1 PRECEDING) FROM dbo.t", 10756, "must have an ORDER BY"),
        ("SELECT RANK() OVER (ORDER BY n ROWS 1 PRECEDING) FROM dbo.t", 10752, "'rank' may not have"),
        ("SELECT n INTO dbo.kept FROM dbo.t FOR XML PATH", 6819, "in a SELECT INTO statement"),
        ("DECLARE @x nvarchar(max); SELECT @x = n FROM dbo.t FOR JSON PATH", 6819, "in a ASSIGNMENT statement"),
        ("INSERT dbo.t (n) SELECT n FROM dbo.t FOR JSON PATH", 13602, "in a INSERT statement"),
    ],
)
def test_no_clause_is_taken_in_silence(side, statement, number, words):
    error = side.error(statement)
    assert (error.number, words in error.text) == (number, True), error


def test_columns_show_the_collation_they_have(side):
    side.run(
        "CREATE TABLE dbo.c (a varchar(9) COLLATE DATABASE_DEFAULT, b nchar(9) COLLATE SQL_Latin1_General_CP1_CI_AS)"
    )
    shown = side.rows("SELECT collation_name FROM sys.columns WHERE object_id = OBJECT_ID('dbo.c')")
    assert shown == [("SQL_Latin1_General_CP1_CI_AS",)] * 2


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("WITH c AS (SELECT 7 AS n) INSERT dbo.t (n) SELECT n FROM c", [7]),
        ("WITH c (n) AS (SELECT 8), d AS (SELECT n + 1 AS n FROM c) INSERT dbo.t (n) SELECT n FROM c UNION ALL SELECT n FROM d", [8, 9]),
        ("SELECT 1; WITH c AS (SELECT 3 AS n) INSERT INTO dbo.t (n) OUTPUT inserted.id SELECT n FROM c SELECT 5", [3]),
    ],
)  # fmt: skip
def test_a_common_table_expression_stands_before_an_insert(side, text, numbers):
    side.run(text)
    assert side.rows("SELECT n FROM dbo.t ORDER BY n") == [(number,) for number in numbers]
    assert side.error("WITH c AS (SELECT 1 AS n) INSERT dbo.t (n) VALUES (1)").number == 50001


def test_query_hints_of_changes_have_no_effect(side):
    side.run("INSERT dbo.t (n) VALUES (1), (2) OPTION (MAXDOP 1); INSERT dbo.t (n) SELECT 3 OPTION (RECOMPILE)")
    side.run("UPDATE dbo.t SET n = n + 1 OPTION (MAXDOP 1, RECOMPILE); DELETE dbo.t WHERE n = 2 OPTION (LOOP JOIN)")
    assert side.rows("SELECT n FROM dbo.t ORDER BY n") == [(3,), (4,)]


@pytest.mark.parametrize(("version", "names"), [("2017", False), ("2019", True)])
def test_a_value_that_is_too_long_names_its_column_since_2019(world, version, names):
    side = world.side("Named", version)
    side.run(
        "CREATE DATABASE db; USE db; CREATE TABLE dbo.t (id int, c varchar(3) DEFAULT 'long', b binary(1), d varchar(300))"
    )
    for change, table, column, value in (
        ("INSERT dbo.t (c) VALUES ('abcd')", "db.dbo.t", "c", "abc"),
        ("INSERT dbo.t (id, d, c) SELECT 1, 'abcd', 'abcd'", "db.dbo.t", "c", "abc"),
        ("INSERT dbo.t (id) VALUES (1)", "db.dbo.t", "c", "lon"),
        ("INSERT dbo.t (d) VALUES (REPLICATE('x', 301))", "db.dbo.t", "d", "x" * 100),
        ("INSERT dbo.t (b) VALUES (0x0102)", "db.dbo.t", "b", ""),
        ("DECLARE @T TABLE (c varchar(2)); INSERT @t VALUES ('abc')", "@T", "c", "ab"),
        ("INSERT dbo.t (c) VALUES ('abc'); UPDATE dbo.t SET c += 'd'", "db.dbo.t", "c", "abc"),
        ("ALTER TABLE dbo.t ALTER COLUMN c varchar(2)", "db.dbo.t", "c", "ab"),
    ):
        error, text = side.error(change), "String or binary data would be truncated"
        assert error.number == (2628 if names else 8152), change
        shown = f" in table '{table}', column '{column}'. Truncated value: '{value}'"
        assert error.text == f"{text}{shown if names else ''}.", change
    assert side.rows("DECLARE @v varchar(2); UPDATE dbo.t SET @v = 'abc'; SELECT @v") == [("ab",)]


def test_a_query_may_stand_in_parentheses(side):
    assert side.rows("(SELECT 1 UNION SELECT 2) INTERSECT SELECT 2") == [(2,)]
    assert side.error("(SELECT 1) ORDER BY 1").number == 50001
    assert side.error("(1)").number == 102
