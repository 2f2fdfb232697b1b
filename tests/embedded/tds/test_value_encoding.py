"""Values as they go to a client and come back from it."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import MAX, SqlType
from harness.embedded.tds.text_forms import datetime_to_text, guid_to_bytes, guid_to_text, text_to_datetime
from harness.embedded.tds.value_decoding import read_typed_value
from harness.embedded.tds.value_encoding import form_of
from harness.embedded.tds.wire import ByteReader, ByteWriter

GUID = "01B241A8-4CDE-45ED-9CC6-EAA548A341F3"


def there_and_back(type_: SqlType, value: object) -> tuple[SqlType, object]:
    out = ByteWriter()
    form = form_of(type_)
    out += form.type_info
    form.encode(out, value)
    reader = ByteReader(bytes(out))
    result = read_typed_value(reader)
    assert reader.at_end()
    return result


VALUES = [
    (SqlType("bit"), 1),
    (SqlType("bit"), 0),
    (SqlType("tinyint"), 255),
    (SqlType("smallint"), -32768),
    (SqlType("int"), 2**31 - 1),
    (SqlType("bigint"), -(2**63)),
    (SqlType("float", precision=53), 1e308),
    (SqlType("real", precision=24), 0.5),
    (SqlType("numeric", precision=38, scale=10), Decimal("-1234567890123456789012345678.0123456789")),
    (SqlType("numeric", precision=5, scale=0), Decimal(0)),
    (SqlType("money"), Decimal("-922337203685477.5808")),
    (SqlType("smallmoney"), Decimal("214748.3647")),
    (SqlType("char", length=3), "abc"),
    (SqlType("varchar", length=10), "Grüße€"),
    (SqlType("varchar", length=MAX), "v" * 9000),
    (SqlType("nchar", length=3), "жжж"),
    (SqlType("nvarchar", length=10), "😀é"),
    (SqlType("nvarchar", length=MAX), "n" * 40_000),
    (SqlType("nvarchar", length=MAX), ""),
    (SqlType("binary", length=2), b"\0\1"),
    (SqlType("varbinary", length=8000), bytes(8000)),
    (SqlType("varbinary", length=MAX), bytes(8001)),
    (SqlType("varbinary", length=MAX), b""),
    (SqlType("xml", length=MAX), "<a/>"),
    (SqlType("uniqueidentifier"), GUID),
    (SqlType("date"), "0001-01-01"),
    (SqlType("date"), "9999-12-31"),
    (SqlType("time", scale=7), "23:59:59.9999999"),
    (SqlType("time", scale=0), "00:00:01"),
    (SqlType("datetime2", scale=7), "2026-11-21 00:52:19.1234567"),
    (SqlType("datetime2", scale=3), "1999-12-31 23:59:59.999"),
    (SqlType("datetime"), "2026-11-21 00:52:19.997"),
    (SqlType("datetime"), "1753-01-01 00:00:00.000"),
    (SqlType("smalldatetime"), "2026-11-21 00:52:00"),
]


@pytest.mark.parametrize("type_, value", VALUES, ids=lambda part: getattr(part, "name", None))
def test_a_value_comes_back_as_it_went(type_, value):
    assert there_and_back(type_, value) == (type_, value)


@pytest.mark.parametrize("type_", {type_.name: type_ for type_, _ in VALUES}.values(), ids=lambda type_: type_.name)
def test_null_comes_back_as_null(type_):
    assert there_and_back(type_, None) == (type_, None)


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))
def test_numeric_keeps_every_digit(units, scale):
    value = Decimal((int(units < 0), tuple(int(digit) for digit in str(abs(units))), -scale))
    assert there_and_back(SqlType("numeric", precision=38, scale=scale), value)[1] == value


@given(st.integers(-53690, 2958463), st.integers(0, 25_919_999))
def test_datetime_comes_back_to_its_tick(days, ticks):
    assert text_to_datetime(datetime_to_text(days, ticks)) == (days, ticks)


def test_datetime_shows_milliseconds_as_sql_server_does():
    # A three-hundredth of a second is 3.33 ms: the manual's .000, .003, .007.
    assert [datetime_to_text(0, ticks)[-3:] for ticks in range(4)] == ["000", "003", "007", "010"]


@given(st.binary(min_size=16, max_size=16))
def test_a_guid_comes_back(value):
    assert guid_to_bytes(guid_to_text(value)) == value


def test_a_guid_has_its_first_three_groups_turned_round():
    assert guid_to_bytes(GUID).hex() == "a841b201de4ced459cc6eaa548a341f3"


@pytest.mark.parametrize(
    "typed",
    [
        "28 03 ffffff",  # a day after 9999-12-31
        "29 07 05 00c0692ac9",  # 24:00:00
        "6f 08 08 ffffff7f 00000000",
    ],
)
def test_a_moment_out_of_range_is_refused_and_no_protocol_error(typed):
    with pytest.raises(SqlServerError) as raised:
        read_typed_value(ByteReader(bytes.fromhex(typed)))
    assert raised.value.number == 8023
