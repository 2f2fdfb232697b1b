"""Functions, comparisons and conversions of text and numbers, each as its page of the manual has it."""

import hashlib
import math
import re
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.embedded.tsql.translation.expression_renderers import compiled_pattern
from harness.embedded.tsql.translation.functions import FUNCTIONS


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("'a' = 'a '", True),
        ("N'a  ' = 'A'", True),
        ("'a' <> 'a '", False),
        ("'a ' IN ('b', 'a')", True),
        ("'a' IN ('b ', 'a ')", True),
        ("'a ' BETWEEN 'a' AND 'a'", True),
        ("'a' < 'a '", False),
        ("' a' = 'a'", False),
        ("NULLIF('a', 'a ') IS NULL", True),
        ("CASE 'a ' WHEN 'a' THEN 1 END = 1", True),
        ("CAST('a' AS char(5)) = 'a'", True),
        ("EXISTS (SELECT 1 FROM (VALUES (N'x  ')) AS v (c) WHERE c = N'X')", True),
        ("'a' = 'A' COLLATE Latin1_General_BIN", False),
        ("'A' COLLATE Latin1_General_CS_AS = 'a'", False),
        ("'a' = 'a ' COLLATE Latin1_General_BIN", True),
        ("(SELECT COUNT(*) FROM (SELECT c FROM (VALUES ('a'), ('a '), ('A')) AS v (c) GROUP BY c) AS g) = 1", True),
        ("(SELECT COUNT(*) FROM (SELECT DISTINCT c FROM (VALUES ('a'), ('a '), ('A')) AS v (c)) AS g) = 1", True),
        ("(SELECT COUNT(*) FROM (SELECT 'a' AS c UNION SELECT 'A ' UNION SELECT 'b') AS g) = 2", True),
        ("EXISTS (SELECT N'a' INTERSECT SELECT N'A ')", True),
        ("EXISTS (SELECT 'a' EXCEPT SELECT 'A ')", False),
        # Published answers of SQL Server
        ("0x = 0x00", True),
        ("0x01 = 0x0100", True),
        ("0x0001 = 0x01", False),
        ("0x20 = 0x2020", False),
        ("0x01 < 0x0100", False),
        ("CAST(0x01 AS binary(3)) IN (0x02, 0x01)", True),
        ("(SELECT COUNT(DISTINCT c) FROM (VALUES (0x), (0x00), (0x0000)) AS v (c)) = 1", True),
    ],
)
def test_comparisons_have_no_regard_to_blanks_and_zeros_at_the_end(side, condition, holds):
    assert side.run(f"IF {condition} PRINT 'yes' ELSE PRINT 'no'").prints == ["yes" if holds else "no"]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("ABS(-3)", 3),
        ("ABS(-2.5)", Decimal("2.5")),
        ("ABS(CAST(-7 AS smallint))", 7),
        ("ABS('-1.5')", 1.5),
        ("ABS(NULL)", None),
        ("REPLACE('ABC', 'b', 'x')", "AxC"),
        ("REPLACE('aAa', 'A', '')", ""),
        ("REPLACE('a.c', '.', '-')", "a-c"),
        ("REPLACE('abc', '', 'x')", "abc"),
        ("REPLACE('abc', NULL, 'x')", None),
        ("REPLACE('abc', 'b', NULL)", None),
        ("DATALENGTH(REPLACE(REPLICATE('a', 8000), 'a', 'bb'))", 8000),
        ("DATALENGTH(REPLACE(CAST(REPLICATE('a', 8000) AS nvarchar(max)), 'a', 'bb'))", 32000),
        ("LEFT('abc', NULL)", None),
        ("LEFT(12345, 2)", "12"),
        ("RIGHT('abc', 0)", ""),
        ("CHARINDEX('', 'abc')", 0),
        ("CHARINDEX('C', 'abcabc', 4)", 6),
        ("CHARINDEX('a', 'abc', -5)", 1),
        ("CHARINDEX('a', 'abc', NULL)", None),
        ("CHARINDEX(0x02, 0x0102)", 2),
        ("QUOTENAME('a', '''')", "'a'"),
        ("QUOTENAME('a', ')')", "(a)"),
        ("QUOTENAME('a', 'x')", None),
        ("QUOTENAME('a', NULL)", None),
        ("QUOTENAME(REPLICATE('a', 129))", None),
        ("CHAR(128)", "\u20ac"),
        ("CHAR(65)", "A"),
        ("CHAR(256)", None),
        ("UPPER(N'stra\u00dfe \u00e9')", "STRA\u00dfE \u00c9"),
        ("LOWER(N'\u00c9A')", "\u00e9a"),
        ("STUFF('abcdef', 2, 3, 'ijklmn')", "aijklmnef"),
        ("STUFF('abc', 2, 1, NULL)", "ac"),
        ("STUFF('abc', 2, 100, '')", "a"),
        ("STUFF('abc', 3, 0, 'x')", "abxc"),
        ("STUFF('abc', 0, 1, 'x')", None),
        ("STUFF('abc', 4, 1, 'x')", None),
        ("STUFF('abc', 1, -1, 'x')", None),
        ("STUFF(NULL, 1, 1, 'x')", None),
        ("STUFF(N'\U0001f600b', 3, 1, N'\u00e9')", "\U0001f600\u00e9"),
        ("STUFF(0x010203, 2, 1, 0xFF)", b"\x01\xff\x03"),
        ("STUFF(123, 2, 1, 45)", "1453"),
        ("STR(123.45, 6, 1)", " 123.5"),
        ("STR(123.45, 2, 2)", "**"),
        ("STR(FLOOR(123.45), 8, 3)", " 123.000"),
        ("STR(123.456, 5, 3)", "123.5"),
        ("LTRIM(STR(-7))", "-7"),
        ("STR(NULL)", None),
        ("STR(1, 0)", None),
        ("STR(1e300, 302)", f" {1e300:.0f}"),
        ("PARSENAME('[a.b].c..d', 1)", "d"),
        ("PARSENAME('[a.b].c..d', 2)", None),
        ("PARSENAME('[a.b].c..d', 4)", "a.b"),
        ("PARSENAME('a.b', 3)", None),
        ("PARSENAME('a.b.c.d.e', 1)", None),
        ("SUSER_NAME(1)", "sa"),
        ("CURRENT_USER + SESSION_USER + SYSTEM_USER + USER", "dbodbosadbo"),
        ("ISNULL(SUSER_NAME(99), SUSER_NAME(-1))", None),
        ("SUBSTRING(CAST(N'' AS varbinary(10)), 1, 2)", b""),
        ("CAST(SUBSTRING(DECOMPRESS(COMPRESS('')), 1, 2) AS varbinary(1))", b""),
        ("CAST(NULLIF(0x, 0x) AS varbinary(1))", None),
        ("DATALENGTH(CAST(REPLICATE(CAST(0x01 AS varbinary(max)), 9000) AS varbinary(8000)) + 0x01)", 8000),
        ("LTRIM('  a ')", "a "),
        ("RTRIM(N' a  ')", " a"),
        ("DATALENGTH(SYSDATETIME())", 8),
        ("DATALENGTH(CAST('10:00' AS time(2)))", 3),
        ("DATALENGTH(CAST(1 AS decimal(12, 2)))", 9),
        ("DATALENGTH(CAST(1 AS money))", 8),
        ("CHOOSE(3, 'a', 'b')", None),
        ("CHOOSE(1.9, 'a', NULL)", "a"),
        ("CHOOSE(1, 1, 2.5)", Decimal("1.0")),
        ("CONCAT_WS(NULL, 'a', 1)", "a1"),
        ("CONCAT_WS(', ', N'x', NULL, 2.5, '')", "x, 2.5, "),
        ("CONCAT_WS(',', NULL, NULL)", ""),
        ("LEN(CONCAT_WS('--', REPLICATE('a', 7999), 'b'))", 8000),
        ("POWER(2, 0.5)", 1),
        ("POWER(2.0, 0.5)", Decimal("1.4")),
        ("POWER(CAST(10 AS bigint), 18)", 10**18),
        ("POWER('2', -1)", 0.5),
        ("SQRT(2)", math.sqrt(2)),
        ("FLOOR(-2.5)", Decimal("-3")),
        ("FLOOR('2.5')", 2.0),
        ("FLOOR(NULL)", None),
        ("CEILING(5)", 5),
        ("CEILING(2.1)", Decimal("3")),
        ("CEILING(CAST(2.5 AS money))", Decimal("3.0000")),
        ("ROUND(748.58, -1)", Decimal("750.00")),
        ("ROUND(150.75, 0, 1)", Decimal("150.00")),
        ("ROUND(-1.55, 1)", Decimal("-1.60")),
        ("ROUND(125, -1)", 130),
        ("ROUND('1.25', 1)", 1.3),
        ("ASCII(N'€')", 128),
        ("ASCII('')", None),
        ("UNICODE(N'€')", 8364),
        ("UNICODE(N'\N{GRINNING FACE}')", 55357),
        ("NCHAR(8364)", "€"),
        ("NCHAR(65536)", None),
        ("HASHBYTES('md5', 'a')", hashlib.md5(b"a").digest()),
        ("HASHBYTES('SHA1', N'a')", hashlib.sha1(b"a\0").digest()),
        ("HASHBYTES('SHA2_512', 0x61)", hashlib.sha512(b"a").digest()),
        ("HASHBYTES('none', 'a')", None),
    ],
)
def test_functions_have_the_values_of_the_manual(side, expression, value):
    assert side.value(f"SELECT {expression}") == value


@pytest.mark.parametrize(
    ("expression", "number"),
    [
        ("ABS(CAST(-2147483648 AS int))", 8115),
        ("ABS(GETDATE())", 8116),
        ("LEFT('abc', -1)", 536),
        ("RIGHT('abc', -1)", 536),
        ("STUFF(REPLICATE('a', 8000), 1, 0, 'b')", 8152),
        ("CHOOSE(1, NULL, NULL)", 8133),
        ("POWER(2, 31)", 232),
        ("POWER(10.0, 38)", 8115),
        ("POWER(1e1, 400)", 8115),
        ("POWER(GETDATE(), 2)", 8116),
        ("FLOOR(CAST(1 AS bit))", 8116),
        ("CEILING(GETDATE())", 8116),
        ("ROUND(748.58, -3)", 8115),
        ("ROUND(2147483647, -1)", 8115),
        ("ROUND(GETDATE(), 1)", 8116),
        ("SQRT(-1)", 3623),
        ("HASHBYTES('md5', 5)", 8116),
        ("HASHBYTES('md4', 'a')", 50001),
        ("NCHAR(55357)", 50001),
    ],
)
def test_what_a_function_refuses_is_the_manuals_error(side, expression, number):
    assert side.error(f"SELECT {expression}").number == number


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("CAST(12345 AS varchar(2))", "*"),
        ("CAST(12345 AS char(3))", "*  "),
        ("CAST(123 AS varchar(3))", "123"),
        ("CAST(1e6 AS varchar(30))", "1e+006"),
        ("CAST(0.00001e0 AS varchar(30))", "1e-005"),
        ("CAST(123456.7e0 AS varchar(30))", "123457"),
        ("CAST(CAST(12.3456 AS money) AS varchar(30))", "12.35"),
        ("CAST(CAST(1.5 AS decimal(10, 3)) AS varchar(30))", "1.500"),
    ],
)
def test_a_number_as_text(side, expression, value):
    assert side.value(f"SELECT {expression}") == value


@pytest.mark.parametrize(
    ("expression", "number"),
    [
        ("CAST(12345 AS nvarchar(2))", 8115),
        ("CAST(12345678901 AS varchar(3))", 8115),
        ("CAST(123.45 AS varchar(3))", 8115),
        ("CAST(NEWID() AS varchar(10))", 8170),
        ("CONVERT(varchar(30), 1e0, 2)", 50001),
    ],
)
def test_a_value_too_long_for_its_text_is_an_error(side, expression, number):
    assert side.error(f"SELECT {expression}").number == number


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("0.1 + 0.2", Decimal("0.3")),
        ("CASE WHEN 0.1 + 0.2 = 0.3 THEN 1 END", 1),
        ("2.0 / 3", Decimal("0.666666")),
        ("1.0 / 3 * 3", Decimal("0.9999990")),
        ("1.25 * 0.5", Decimal("0.625")),
        ("10 % 0.3", Decimal("0.1")),
        ("(SELECT SUM(v) FROM (VALUES (0.1), (0.2), (0.3), (0.1), (0.2), (0.3)) AS x (v))", Decimal("1.2")),
        ("(SELECT CASE WHEN SUM(v) = 0.3 THEN 1 END FROM (VALUES (0.1), (0.2)) AS x (v))", 1),
        ("CAST(1234567890123.45 AS decimal(19, 2))", Decimal("1234567890123.45")),
        ("CAST('-0.005' AS decimal(19, 2))", Decimal("-0.01")),
    ],
)
def test_decimals_are_exact(side, expression, value):
    assert side.value(f"SELECT {expression}") == value


@pytest.mark.parametrize(
    "text",
    [
        "SELECT CAST('12345678901234567.89' AS decimal(19, 2))",
        "SELECT 12345678901234567.89",
        "DECLARE @d decimal(19, 2) = '12345678901234567.89'; SELECT @d",
        "DECLARE @d decimal(19, 2) = 1234567890123.45; SELECT @d * 1.000001",
        "CREATE TABLE dbo.d (d decimal(19, 2)); INSERT dbo.d VALUES ('12345678901234567.89')",
        "SELECT SUM(v) FROM (VALUES (90000000000000.01), (90000000000000.01), (900000000000000.0)) AS x (v)",
        "DECLARE @b bigint = 9007199254740993; SELECT CAST(@b AS decimal(38, 0))",
    ],
)
def test_decimals_of_more_than_15_digits_are_refused(side, text):
    error = side.error(text)
    assert error.number == 50001 and "15 digits" in error.text


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("CAST('abc' AS char(10)) LIKE 'abc'", True),
        ("'abc ' LIKE 'abc '", True),
        ("'abc ' LIKE 'ab[c]'", True),
        ("'abc' LIKE 'abc '", False),
        ("N'abc ' LIKE N'abc'", False),
        ("'abc ' LIKE N'abc'", False),
        ("'abc ' NOT LIKE 'abc'", False),
        ("5 IN (SELECT v FROM (VALUES ('5')) AS x (v))", True),
        ("'5' IN (SELECT v FROM (VALUES (5)) AS x (v))", True),
        ("'A ' IN (SELECT v FROM (VALUES ('a')) AS x (v))", True),
        ("'b' IN (SELECT v FROM (VALUES ('a')) AS x (v) UNION SELECT 'B ')", True),
        ("NULL IN (SELECT 1)", False),
        ("(SELECT COUNT(DISTINCT c) FROM (VALUES ('a'), ('A'), ('a ')) AS v (c)) = 1", True),
        ("(SELECT COUNT(*) FROM (SELECT DISTINCT c FROM (VALUES ('a'), ('A'), ('b')) AS v (c)) AS d) = 2", True),
        ("(SELECT COUNT(*) FROM (SELECT N'a' AS c UNION SELECT N'A') AS d) = 1", True),
        ("(SELECT COUNT(*) FROM (SELECT 'a' AS c EXCEPT SELECT 'A') AS d) = 0", True),
    ],
)
def test_like_and_in_compare_as_the_manual_says(side, condition, holds):
    assert side.run(f"IF {condition} PRINT 'yes' ELSE PRINT 'no'").prints == ["yes" if holds else "no"]


PATTERNS = st.lists(st.sampled_from(["%", "%", "_", "a", "b", "[ab]", "[^a]"]), max_size=8)


@given(st.text("aAbc\N{GRINNING FACE}", max_size=10), PATTERNS)
@example("a" * 8000, ["%", "[ab]"] * 5 + ["[^a]", "%"])  # a search that goes back would never end
def test_a_pattern_of_like_matches_as_its_parts_do(text, parts):
    matches = compiled_pattern("".join(parts), "", re.IGNORECASE)
    if len(text) < 100:
        expression = "".join({"%": ".*", "_": "."}.get(part, part) for part in parts)
        assert bool(matches(text)) == (re.fullmatch(expression, text, re.IGNORECASE) is not None)
    else:
        assert not matches(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("SELECT MAX(v) FROM (SELECT CAST(1 AS bit) AS v) AS x", 8117),
        ("SELECT MIN(NEWID())", 8117),
        ("SELECT CAST(1000 AS decimal(2, 0))", 8115),
        ("DECLARE @i int = 1000; SELECT CAST(@i AS decimal(2, 0))", 8115),
        ("SET ROWCOUNT 10", 50001),
        ("SELECT COUNT(DISTINCT 1, 2)", 102),
        ("SET ANSI_NULLS OFF", 50001),
        ("SET QUOTED_IDENTIFIER, CONCAT_NULL_YIELDS_NULL OFF", 50001),
        ("DECLARE @n int = 1; SET ROWCOUNT @n", 102),
    ],
)
def test_what_is_not_supported_is_an_error_and_not_ignored(side, text, number):
    assert side.error(text).number == number


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("STRING_AGG(v, ', ')", "a, b"),
        ("STRING_AGG(n, @s)", "1+2+3"),
        ("STRING_AGG(v, NULL)", "ab"),
        ("STRING_AGG(CASE WHEN n > 3 THEN v END, ',')", None),
        ("LEN(STRING_AGG(CAST(REPLICATE('x', 5000) AS varchar(max)), ','))", 15002),
        ("STRING_AGG(v, v)", 8733),
        ("STRING_AGG(0x01, ',')", 8116),
        ("STRING_AGG(REPLICATE('x', 2666), N',')", "x" * 2666 + "," + "x" * 2666 + "," + "x" * 2666),
        ("STRING_AGG(REPLICATE('x', 2667), N',')", 9829),
    ],
)
def test_texts_of_several_rows_as_one(side, call, value):
    """The manual, STRING_AGG: NULLs add nothing, what is no text becomes nvarchar, other results have 8,000 bytes."""
    text = f"DECLARE @s nvarchar(5) = '+'; SELECT {call} FROM (VALUES (1, 'a'), (2, NULL), (3, 'b')) AS t (n, v)"
    results = side.results(text)
    assert [value] == ([error.number for error in results.errors] or [results.sets[0][1][0][0]])


def test_compress_and_decompress(side):
    assert side.value("SELECT CAST(DECOMPRESS(COMPRESS(N'äöü')) AS nvarchar(9))") == "äöü"
    assert side.value("SELECT CAST(DECOMPRESS(COMPRESS('abc')) AS varchar(9))") == "abc"
    assert side.value("SELECT COMPRESS(CAST(NULL AS varchar(9)))") is None
    assert side.error("SELECT DECOMPRESS(0x1234)").number == 50001


def test_rows_of_the_same_rank(side):
    ranks = "SELECT n, RANK() OVER (ORDER BY n), DENSE_RANK() OVER (ORDER BY n) FROM (VALUES (2), (1), (1)) AS v (n)"
    assert side.rows(f"{ranks} ORDER BY n") == [(1, 1, 1), (1, 1, 1), (2, 3, 2)]
    assert side.error("SELECT DENSE_RANK() OVER (PARTITION BY n) FROM dbo.t").number == 4112
    assert side.error("SELECT RANK() FROM dbo.t").number == 10753


@pytest.mark.in_process
def test_no_type_of_an_argument_is_a_defect(side):
    for name, function in FUNCTIONS.items():
        for count in range(function.least, min(function.most, 3) + 1):
            for value in ("'x'", "0x01", "1.5", "GETDATE()", "NULL"):
                side.results(f"SELECT {name}({', '.join([value] * count)})")  # a defect is raised, an error is a result


@pytest.mark.parametrize("function", ["DB_NAME", "OBJECT_NAME", "SCHEMA_NAME", "SUSER_NAME", "TYPE_NAME", "USER_NAME"])
def test_an_id_is_a_number(side, function):
    assert side.value(f"SELECT {function}('1')") == side.value(f"SELECT {function}(1)")
    assert side.error(f"SELECT {function}('x')").number == 245
