"""datetimeoffset: compared as moments, shown with their offsets."""

import pytest

from harness.embedded.sqltypes import Parameter, SqlType


@pytest.mark.parametrize(
    "text, scale, shown",
    [
        ("2026-11-22 01:02:03.4567891 -05:00", 7, "2026-11-22 01:02:03.4567891 -05:00"),
        ("2026-11-22T01:02:03+05:30", 3, "2026-11-22 01:02:03.000 +05:30"),
        ("2026-11-22 23:59:59.9999Z", 0, "2026-11-23 00:00:00 +00:00"),
        ("2026-11-22", 0, "2026-11-22 00:00:00 +00:00"),
        ("2026-01-01 00:30:00 +14:00", 0, "2026-01-01 00:30:00 +14:00"),
    ],
)
def test_text_becomes_a_moment_with_its_offset_and_text_again(side, text, scale, shown):
    assert side.rows(f"SELECT CAST(CAST('{text}' AS datetimeoffset({scale})) AS varchar(40))") == [(shown,)]


@pytest.mark.parametrize("text", ["2026-11-22 01:00 +14:01", "2026-11-22 01:00 +01:60", "0001-01-01 00:00 +01:00", "x"])
def test_what_is_no_moment_is_an_error(side, text):
    assert side.error(f"SELECT CAST('{text}' AS datetimeoffset)").number in (241, 517)


def test_one_moment_is_equal_at_every_offset(side):
    side.run("CREATE TABLE dbo.o (o datetimeoffset(0) NOT NULL UNIQUE, n int)")
    side.run("INSERT dbo.o VALUES ('2026-11-22 12:00 +00:00', 2), ('2026-11-22 12:00 +01:00', 1)")
    assert side.error("INSERT dbo.o VALUES ('2026-11-22 13:00 +01:00', 3)").number == 2627
    assert side.rows("SELECT n FROM dbo.o ORDER BY o") == [(1,), (2,)]
    assert side.rows("SELECT n FROM dbo.o WHERE o = '2026-11-22 07:00 -05:00'") == [(2,)]
    assert side.rows("SELECT n FROM dbo.o WHERE o IN ('2026-11-22 10:00 -01:00')") == [(1,)]
    assert side.rows("SELECT n FROM dbo.o WHERE o < CAST('2026-11-22 12:00' AS datetime)") == [(1,)]
    assert side.rows("SELECT COUNT(*) FROM (SELECT DISTINCT o FROM dbo.o) AS d") == [(2,)]
    assert side.rows("SELECT CASE WHEN MAX(o) = '2026-11-22 12:00' THEN 1 ELSE 0 END FROM dbo.o") == [(1,)]


def test_a_cast_to_another_type_of_moment_takes_the_local_time(side):
    cast = "CAST(CAST('2026-11-22 01:02:03.5 -05:00' AS datetimeoffset) AS {})"
    types = ("datetime2(1)", "date", "time(0)", "datetime")
    assert side.rows("SELECT " + ", ".join(cast.format(type_) for type_ in types)) == [
        ("2026-11-22 01:02:03.5", "2026-11-22", "01:02:04", "2026-11-22 01:02:03.500")
    ]


def test_a_parameter_keeps_moment_and_offset(side):
    side.run("CREATE PROCEDURE dbo.p @a datetimeoffset(3), @b datetimeoffset(3) OUTPUT AS SET @b = @a")
    given = Parameter("@a", SqlType("datetimeoffset", scale=7), "2026-11-22 06:02:03.4567891 -05:00", False)
    found = side.rpc("dbo.p", [given, Parameter("@b", SqlType("datetimeoffset", scale=3), None, True)])
    assert found.values == {"@b": "2026-11-22 06:02:03.4570000 -05:00"}


@pytest.mark.parametrize(
    "expression, value",
    [
        ("DATEADD(day, 1, @d)", "2026-02-02 04:00:00.0000000 -05:00"),
        ("DATEADD(month, 1, @d)", "2026-03-01 04:00:00.0000000 -05:00"),
        ("DATEADD(microsecond, 1, @d)", "2026-02-01 04:00:00.0000000 -05:00"),
        ("DATEADD(microsecond, 1, CAST(@d AS datetimeoffset))", "2026-02-01 04:00:00.0000010 -05:00"),
        # "DATEDIFF uses the time zone offset component of startdate or enddate"
        ("DATEDIFF(day, @d, CAST('2026-02-01 01:00 -05:00' AS datetimeoffset))", 0),
        ("DATEDIFF(month, @d, CAST('2026-02-01' AS datetime2))", 0),
        ("DATEDIFF(hour, @d, CAST('2026-01-31 23:00' AS datetime2))", -5),
    ],
)
def test_arithmetic_with_it_keeps_its_offset(side, expression, value):
    assert side.value(f"DECLARE @d datetimeoffset(3) = '2026-01-31 23:00 -05:00'; SELECT {expression}") == value


@pytest.mark.parametrize(
    "expression, value",
    [
        ("SWITCHOFFSET(@d, '-05:30')", "2026-01-31 21:00:00.0000000 -05:30"),
        ("SWITCHOFFSET(@d, 60)", "2026-01-31 21:00:00.0000000 +01:00"),
        ("SWITCHOFFSET(CAST('2026-01-31 21:00' AS datetime2), '+14:00')", "2026-01-31 21:00:00.0000000 +14:00"),
        ("SWITCHOFFSET(@d, NULL)", None),
        ("DATEPART(tzoffset, @d)", 120),
        ("DATENAME(tz, @d)", "+02:00"),
    ],
)
def test_its_offset_is_read_and_switched(side, expression, value):
    assert side.value(f"DECLARE @d datetimeoffset(3) = '2026-01-31 23:00 +02:00'; SELECT {expression}") == value


@pytest.mark.parametrize(
    "expression, number",
    [
        ("SWITCHOFFSET(SYSDATETIMEOFFSET(), '+14:01')", 9812),
        ("SWITCHOFFSET(SYSDATETIMEOFFSET(), 'Z')", 9812),
        ("SWITCHOFFSET(SYSDATETIMEOFFSET(), -841)", 9812),
        ("DATEPART(tzoffset, GETDATE())", 9810),
        ("DATEADD(tzoffset, 1, SYSDATETIMEOFFSET())", 155),
    ],
)
def test_an_offset_that_does_not_exist_is_an_error(side, expression, number):
    assert side.error(f"SELECT {expression}").number == number


@pytest.mark.parametrize(
    "query",
    [
        "SELECT COUNT(*) FROM (SELECT DISTINCT d FROM m) AS t",
        "SELECT COUNT(DISTINCT d) FROM m",
        "SELECT COUNT(*) FROM (SELECT d FROM m GROUP BY d) AS t",
        "SELECT COUNT(*) FROM (SELECT d FROM m UNION SELECT d FROM m) AS t",
        "SELECT MAX(r) FROM (SELECT DENSE_RANK() OVER (ORDER BY d) AS r FROM m) AS t",
    ],
)
def test_one_moment_in_two_offsets_is_equal(side, query):
    moments = "SELECT CAST(v AS datetimeoffset) AS d FROM (VALUES ('2026-01-01 10:00Z'), ('2026-01-01 12:00 +02:00')) AS t (v)"
    assert side.value(f"WITH m AS ({moments}) {query}") == 1


def test_the_clock_gives_it(side):
    [(columns, [(now,)])] = side.run("SELECT SYSDATETIMEOFFSET()").sets
    assert columns[0].type == SqlType("datetimeoffset", scale=7) and now.endswith(" +00:00")
    assert side.rows("SELECT DATALENGTH(SYSDATETIMEOFFSET())") == [(10,)]
