"""Moments: their precision, their text, and arithmetic with them, as the manual gives them."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.embedded.sqltypes import DATETIME as DATETIME_TYPE
from harness.embedded.tsql.storage import moments

DATETIME = "CAST('2026-01-02 03:04:05.678' AS datetime)"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        # "Datetime values are rounded to increments of .000, .003, or .007 seconds": the manual's table
        ("CAST('1998-01-01 23:59:59.999' AS datetime)", "1998-01-02 00:00:00.000"),
        ("CAST('1998-01-01 23:59:59.995' AS datetime)", "1998-01-01 23:59:59.997"),
        ("CAST('1998-01-01 23:59:59.998' AS datetime)", "1998-01-01 23:59:59.997"),
        ("CAST('1998-01-01 23:59:59.992' AS datetime)", "1998-01-01 23:59:59.993"),
        ("CAST('1998-01-01 23:59:59.990' AS datetime)", "1998-01-01 23:59:59.990"),
        ("CAST('1998-01-01 23:59:59.991' AS datetime)", "1998-01-01 23:59:59.990"),
        ("CAST(CAST('2026-01-02 03:04:05.6789' AS datetime2) AS datetime)", "2026-01-02 03:04:05.680"),
        ("DATEADD(millisecond, 1, CAST('2026-01-02' AS datetime))", "2026-01-02 00:00:00.000"),
        ("DATEADD(day, 1, 0)", "1900-01-02 00:00:00.000"),
        ("DATEADD(hour, -1, 1.5)", "1900-01-02 11:00:00.000"),
        ("DATEADD(millisecond, 2, CAST('2026-01-02' AS datetime))", "2026-01-02 00:00:00.003"),
        # "Values that are 29.998 seconds or less are rounded down to the nearest minute"
        ("CAST('2007-05-08 12:35:29.998' AS smalldatetime)", "2007-05-08 12:35:00"),
        ("CAST('2007-05-08 12:35:29.999' AS smalldatetime)", "2007-05-08 12:36:00"),
        ("CAST('2026-01-02 23:59:59.9999999' AS datetime2(0))", "2026-01-03 00:00:00"),
        ("CAST('2026-01-02 03:04:05.1235' AS datetime2(3))", "2026-01-02 03:04:05.124"),
        ("CAST('12:15:04.1237' AS time(3))", "12:15:04.124"),
        ("CAST('23:59:59.9' AS time(0))", "00:00:00"),
        ("CAST('9999-12-31 23:59:59.9999999' AS datetime2(3))", "9999-12-31 23:59:59.999"),
        ("CAST('2026-01-02 12:30:20:1' AS datetime)", "2026-01-02 12:30:20.000"),
        ("CAST('2026-01-02 12:30:20:15' AS datetime)", "2026-01-02 12:30:20.017"),
        ("CAST('' AS datetime)", "1900-01-01 00:00:00.000"),
        ("CAST('10/31/2009' AS datetime)", "2009-10-31 00:00:00.000"),
        ("CAST('1.2.2009 3:04' AS datetime)", "2009-01-02 03:04:00.000"),
        ("CAST('2009/1/2' AS date)", "2009-01-02"),
        ("CAST(2 AS datetime)", "1900-01-03 00:00:00.000"),
        ("CAST(1.5 AS smalldatetime)", "1900-01-02 12:00:00"),
        ("CAST(CAST('10:00' AS time) AS datetime)", "1900-01-01 10:00:00.000"),
        ("DATEADD(hour, 20, CAST('10:00:00' AS time(0)))", "06:00:00"),
        ("DATEADD(nanosecond, 150, CAST('2026-01-02' AS datetime2))", "2026-01-02 00:00:00.0000002"),
        ("DATEDIFF(minute, CAST('10:00' AS time), CAST('11:30' AS time))", 90),
    ],
)
def test_a_moment_has_the_precision_of_its_type(side, expression, value):
    assert side.value(f"SELECT {expression}") == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (f"CAST({DATETIME} AS varchar(30))", "Jan  2 2026  3:04AM"),
        (f"CONVERT(nvarchar(30), {DATETIME})", "Jan  2 2026  3:04AM"),
        (f"CONVERT(varchar(30), {DATETIME}, 100)", "Jan  2 2026  3:04AM"),
        ("CAST(CAST('2026-11-22 00:30' AS smalldatetime) AS varchar(30))", "Nov 22 2026 12:30AM"),
        ("CAST(CAST('2026-11-22 12:30' AS datetime) AS varchar(30))", "Nov 22 2026 12:30PM"),
        (f"CAST({DATETIME} AS varchar(6))", "Jan  2"),
        (f"'at ' + CAST({DATETIME} AS varchar(30))", "at Jan  2 2026  3:04AM"),
        (f"CONCAT('at ', {DATETIME})", "at Jan  2 2026  3:04AM"),
        ("CAST(CAST('2026-01-02 03:04:05.678' AS datetime2(3)) AS varchar(30))", "2026-01-02 03:04:05.678"),
        ("CAST(CAST('2026-01-02' AS date) AS varchar(30))", "2026-01-02"),
        (f"CONVERT(varchar(30), {DATETIME}, 112)", "20260102"),
        (f"CONVERT(varchar(30), {DATETIME}, 23)", "2026-01-02"),
        (f"CONVERT(varchar(30), {DATETIME}, 1)", "01/02/26"),
        (f"CONVERT(varchar(30), {DATETIME}, 101)", "01/02/2026"),
        (f"CONVERT(varchar(30), {DATETIME}, 102)", "2026.01.02"),
        (f"CONVERT(varchar(30), {DATETIME}, 103)", "02/01/2026"),
        (f"CONVERT(varchar(30), {DATETIME}, 106)", "02 Jan 2026"),
        (f"CONVERT(varchar(30), {DATETIME}, 107)", "Jan 02, 2026"),
        (f"CONVERT(varchar(30), {DATETIME}, 9)", "Jan  2 2026  3:04:05:677AM"),
        (f"CONVERT(varchar(30), {DATETIME}, 113)", "02 Jan 2026 03:04:05:677"),
        ("CONVERT(varchar(30), CAST('2026-01-02' AS date), 12)", "260102"),
        (f"CONVERT(varchar(30), {DATETIME}, 108)", "03:04:05"),
        (f"CONVERT(varchar(30), {DATETIME}, 114)", "03:04:05:677"),
        (f"CONVERT(varchar(30), {DATETIME}, 120)", "2026-01-02 03:04:05"),
        (f"CONVERT(varchar(30), {DATETIME}, 121)", "2026-01-02 03:04:05.677"),
        (f"CONVERT(varchar(30), {DATETIME}, 126)", "2026-01-02T03:04:05.677"),
        ("CONVERT(varchar(30), CAST('2026-01-02' AS datetime), 126)", "2026-01-02T00:00:00"),
        ("CONVERT(varchar(30), CAST('2026-01-02' AS date), 126)", "2026-01-02"),
        ("CONVERT(varchar(30), CAST('03:04' AS time(0)), 108)", "03:04:00"),
        (f"CONVERT(varchar(30), {DATETIME}, 22)", "01/02/26  3:04:05 AM"),
        ("CONVERT(varchar(30), CAST('2026-01-02' AS date), 0)", "Jan  2 2026"),
        ("CONVERT(varchar(30), CAST('2026-01-02 13:04:05.678' AS datetime2(3)), 0)", "Jan  2 2026  1:04PM"),
        ("CONVERT(varchar(30), CAST('2026-01-02 13:04:05.678' AS datetime2(3)), 109)", "Jan  2 2026  1:04:05.678PM"),
        ("CONVERT(varchar(30), CAST('2026-01-02 13:04:05' AS datetime2(0)), 113)", "02 Jan 2026 13:04:05"),
        ("CONVERT(varchar(30), CAST('14:25:36.123' AS time(3)), 0)", "2:25PM"),
        ("CONVERT(varchar(30), CAST('14:25:36.123' AS time(3)), 109)", "2:25:36.123PM"),
        ("CONVERT(varchar(30), CAST('14:25:36.123' AS time(3)), 22)", " 2:25:36 PM"),
        ("CONVERT(varchar(30), CAST('2026-01-02 03:04' AS smalldatetime), 121)", "2026-01-02 03:04:00.000"),
        (
            "CONVERT(varchar(40), CAST('2026-01-02 03:04:05 +02:00' AS datetimeoffset(0)), 120)",
            "2026-01-02 03:04:05 +02:00",
        ),
        (
            "CONVERT(varchar(40), CAST('2026-01-02 03:04:05 +02:00' AS datetimeoffset(0)), 126)",
            "2026-01-02T03:04:05+02:00",
        ),
    ],
)
def test_a_moment_as_text_has_its_style(side, expression, value):
    assert side.value(f"SELECT {expression}") == value


@pytest.mark.parametrize(
    ("expression", "number"),
    [
        ("CAST('1752-12-31' AS datetime)", 242),
        ("CAST('2026-02-30' AS datetime)", 242),
        ("CAST('2026-02-30' AS datetime2)", 241),
        ("CAST('2079-06-07' AS smalldatetime)", 242),
        ("CAST('2026-01-02 03:04:05.1234' AS datetime)", 241),
        ("CAST('13/02/2026' AS datetime)", 242),
        ("CAST('01/02-2026' AS datetime)", 241),
        ("CAST(CAST('2026-01-02' AS date) AS time)", 529),
        ("CAST(5 AS date)", 529),
        (f"CAST({DATETIME} AS varbinary(8))", 50001),
        ("TRY_CAST(5 AS date)", 529),
        ("CONVERT(varchar(30), CAST('2026-01-02' AS date), 114)", 281),
        (f"CONVERT(varchar(30), {DATETIME}, 127)", 50001),
        (f"CONVERT(varchar(30), {DATETIME}, 99)", 281),
        ("CONVERT(varchar(30), CAST('03:04' AS time), 112)", 8114),
        ("CONVERT(varchar(30), CAST('2026-01-02' AS date), 108)", 8114),
        ("CONVERT(datetime, '2026-01-02', 103)", 50001),
        ("DATEADD(hour, 1, CAST('2026-01-02' AS date))", 9810),
        ("DATEADD(day, 1, CAST('03:04' AS time))", 9810),
        ("DATEADD(year, 8000, CAST('2026-01-02' AS date))", 517),
    ],
)
def test_what_a_type_of_moments_cannot_hold_is_an_error(side, expression, number):
    assert side.error(f"SELECT {expression}").number == number


@pytest.mark.parametrize(
    ("literal", "type_", "text"),
    [
        ("0x0000A2E800C5C100", "datetime", "2014-03-08 12:00:00.000"),
        ("0xFFFFFFFF00000000", "datetime", "1899-12-31 00:00:00.000"),
        ("0xA2E80001", "smalldatetime", "2014-03-08 00:01:00.000"),
        ("0x5B950A", "date", "1900-01-01"),
        ("0x03C0E0AB04", "time(3)", "21:46:13.056"),
        ("0x0700E80A7E8E5B950A", "datetime2", "1900-01-01 17:00:00.0000000"),
        ("0x07A00627C0A5173D0B0000", "datetimeoffset", "2017-07-26 19:46:29.3386912 +00:00"),
        ("0x07A00627C0A5173D0B78FF", "datetimeoffset", "2017-07-26 17:30:29.3386912 -02:16"),
    ],
)
def test_the_bytes_of_a_moment_that_tools_script_are_read(side, literal, type_, text):
    assert side.value(f"SELECT CONVERT(varchar(40), CAST({literal} AS {type_}), 121)") == text


def test_money_as_text_has_its_styles(side):
    styles = ", ".join(f"CONVERT(varchar(30), CAST(1234567.891 AS money), {style})" for style in (0, 1, 2))
    assert side.rows(f"SELECT {styles}") == [("1234567.89", "1,234,567.89", "1234567.8910")]
    assert side.error("SELECT CONVERT(varchar(3), CAST(12345 AS money))").number == 234
    assert side.value("SELECT CONVERT(varchar(9), CAST(0xFFFFFFFFFFFFFFFF AS money), 2)") == "-0.0001"
    assert side.value("SELECT CONVERT(varchar(9), CAST(0x0101 AS money), 2)") == "0.0257"


def test_now_is_a_value_of_datetime(side):
    assert (
        side.value("SELECT CASE WHEN GETDATE() = CAST(CONVERT(varchar(30), GETDATE(), 121) AS datetime) THEN 1 END")
        == 1
    )
    for _ in range(10):
        side.world.run_for(0.0123)
        assert side.value("SELECT GETDATE()")[-1] in "037"


MOMENT = "CAST('2007-10-30 12:15:32.1234567' AS datetime2)"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        # The manual's tables of DATEPART and DATENAME
        *((f"DATEPART({part}, {MOMENT})", value) for part, value in (("year", 2007), ("yyyy", 2007), ("qq", 4))),
        *((f"DATEPART({part}, {MOMENT})", value) for part, value in (("month", 10), ("dayofyear", 303), ("dd", 30))),
        *((f"DATEPART({part}, {MOMENT})", value) for part, value in (("week", 44), ("weekday", 3), ("hour", 12))),
        *((f"DATEPART({part}, {MOMENT})", value) for part, value in (("minute", 15), ("ss", 32), ("ms", 123))),
        *((f"DATEPART({part}, {MOMENT})", value) for part, value in (("mcs", 123456), ("ns", 123456700))),
        *((f"DATENAME({part}, {MOMENT})", value) for part, value in (("month", "October"), ("dw", "Tuesday"))),
        *((f"DATENAME({part}, {MOMENT})", value) for part, value in (("year", "2007"), ("hour", "12"))),
        ("DATEPART(iso_week, '2010-01-03')", 53),
        ("DATEPART(week, '2010-01-03')", 2),
        ("DATEPART(week, '2010-12-31')", 53),
        ("DATEPART(weekday, CAST('2026-11-22' AS date))", 1),
        ("DATEPART(millisecond, CAST('2026-01-02 03:04:05.678' AS datetime))", 677),
        ("DATEPART(year, '12:10:30.123')", 1900),
        ("DATEPART(hour, '2026-01-02')", 0),
        ("DATEPART(second, CAST('12:10:30' AS time))", 30),
        ("DATEPART(hour, CAST('2026-01-02 23:30 +02:00' AS datetimeoffset))", 23),
        ("DATEPART(day, CAST('2026-01-02 00:30 +02:00' AS datetimeoffset))", 2),
        ("DATEPART(day, NULL)", None),
        ("YEAR(0)", 1900),
        ("MONTH('2007-04-30T01:01:01.1234567')", 4),
        ("DAY(CAST('2015-04-30' AS date))", 30),
    ],
)
def test_the_parts_of_a_moment(side, expression, value):
    assert side.value(f"SELECT {expression}") == value


@pytest.mark.parametrize(
    ("expression", "number", "named"),
    [
        ("DATEPART(hour, CAST('2026-01-02' AS date))", 9810, "datepart"),
        ("DATENAME(year, CAST('10:00' AS time))", 9810, "datename"),
        ("YEAR(CAST('10:00' AS time))", 9810, "year"),
        ("DATEPART(fortnight, GETDATE())", 155, "datepart"),
        ("DATEADD(iso_week, 1, GETDATE())", 155, "dateadd"),
        ("DATEPART(day, 'x')", 241, ""),
    ],
)
def test_a_part_that_a_moment_does_not_have_is_refused(side, expression, number, named):
    refused = side.error(f"SELECT {expression}")
    assert refused.number == number and named in refused.text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Jan 15 2024 10:30AM", "2024-01-15 10:30:00.000"),
        ("Jan 15 2024 12:05AM", "2024-01-15 00:05:00.000"),
        ("January 15, 2024 12:05:07.5 pm", "2024-01-15 12:05:07.500"),
        ("15 Jan 2024", "2024-01-15 00:00:00.000"),
        ("15-Jan-24 8 PM", "2024-01-15 20:00:00.000"),
        ("Jan 15 50", "1950-01-15 00:00:00.000"),
        ("2024 Jan 15", "2024-01-15 00:00:00.000"),
        ("Jan 2024", "2024-01-01 00:00:00.000"),
        ("2024-01-15 1:2:3", "2024-01-15 01:02:03.000"),
        ("3:04PM", "1900-01-01 15:04:00.000"),
    ],
)
def test_days_in_words_and_hours_of_half_a_day_are_read(side, text, value):
    assert side.value(f"SELECT CAST('{text}' AS datetime)") == value
    assert side.value(f"SELECT TRY_CAST('{text}' AS datetime2(3))") == value


@pytest.mark.parametrize(
    "text", ["Foo 15 2024", "Janus 15 2024", "Jan", "Jan 32 2024", "Jan 15 2024 13:00 AM", "15 2024", "Jan 15 2024 x"]
)
def test_other_words_are_no_moment(side, text):
    assert side.value(f"SELECT TRY_CAST('{text}' AS datetime2)") is None
    assert side.error(f"SELECT CAST('{text}' AS datetime)").number in (241, 242)


@given(st.datetimes(datetime(1753, 1, 1), datetime(9999, 12, 31)))
def test_what_the_server_writes_of_a_datetime_it_reads(moment):
    written = moments.as_text(DATETIME_TYPE, 0)(moment.strftime("%Y-%m-%d %H:%M:00.000").rjust(23, "0"))
    assert moments.conversion(None, DATETIME_TYPE)(written)[:16] == moment.strftime("%Y-%m-%d %H:%M").rjust(16, "0")


def test_waitfor_takes_single_digits(side):
    before_ns = side.world.clock.now_ns
    side.run("WAITFOR DELAY '0:0:1'")
    assert side.world.clock.now_ns - before_ns >= 1_000_000_000
