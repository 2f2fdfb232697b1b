"""Values encoded for a client and decoded again."""

from decimal import Decimal, InvalidOperation

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.embedded.sqltypes import MAX, SqlType
from harness.embedded.tds.value_decoding import datetime_to_text, guid_to_text, read_typed_value
from harness.embedded.tds.value_encoding import form_of, guid_to_bytes, text_to_datetime
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
    (SqlType("uniqueidentifier"), GUID),
    (SqlType("date"), "0001-01-01"),
    (SqlType("date"), "9999-12-31"),
    (SqlType("time", scale=7), "23:59:59.9999999"),
    (SqlType("time", scale=0), "00:00:01"),
    (SqlType("datetime2", scale=7), "2026-11-21 00:52:19.1234567"),
    (SqlType("datetime2", scale=3), "1999-12-31 23:59:59.999"),
    (SqlType("datetimeoffset", scale=7), "2026-11-21 00:52:19.1234567 -05:30"),
    (SqlType("datetimeoffset", scale=0), "0001-01-01 00:00:00.0000000 +00:00"),
    (SqlType("datetimeoffset", scale=7), "2026-11-21 00:52:19.1234567 +14:00"),
    (SqlType("datetime"), "2026-11-21 00:52:19.997"),
    (SqlType("datetime"), "1753-01-01 00:00:00.000"),
    (SqlType("smalldatetime"), "2026-11-21 00:52:00"),
]


@pytest.mark.parametrize("type_, value", VALUES, ids=lambda part: getattr(part, "name", None))
def test_a_value_is_decoded_as_it_was_encoded(type_, value):
    assert there_and_back(type_, value) == (type_, value)


@pytest.mark.parametrize("type_", {type_.name: type_ for type_, _ in VALUES}.values(), ids=lambda type_: type_.name)
def test_null_is_decoded_as_null(type_):
    assert there_and_back(type_, None) == (type_, None)


FIXED = {  # type: token of the fixed type, TYPE_INFO of the nullable one
    "bit": (0x32, "6801"),
    "tinyint": (0x30, "2601"),
    "smallint": (0x34, "2602"),
    "int": (0x38, "2604"),
    "bigint": (0x7F, "2608"),
    "real": (0x3B, "6d04"),
    "float": (0x3E, "6d08"),
    "smallmoney": (0x7A, "6e04"),
    "money": (0x3C, "6e08"),
    "smalldatetime": (0x3A, "6f04"),
    "datetime": (0x3D, "6f08"),
}


@pytest.mark.parametrize("type_, value", [pair for pair in VALUES if pair[0].name in FIXED], ids=str)
def test_a_column_that_cannot_be_null_has_the_fixed_type_and_values_without_a_length(type_, value):
    # SqlClient: tdsType = isNullable ? metaType.NullableType : metaType.TDSType, whatever token the server sent.
    token, type_info = FIXED[type_.name]
    nullable, fixed = form_of(type_), form_of(type_, nullable=False)
    assert (fixed.type_info, nullable.type_info.hex()) == (bytes((token,)), type_info)
    whole, bare = ByteWriter(), ByteWriter()
    nullable.encode(whole, value)
    fixed.encode(bare, value)
    assert whole == bytes((len(bare),)) + bare
    assert read_typed_value(ByteReader(fixed.type_info + bare)) == (type_, value)
    with pytest.raises((TypeError, InvalidOperation)):
        fixed.encode(bare, None)


@pytest.mark.parametrize("type_", {t.name: t for t, _ in VALUES if t.name not in FIXED}.values(), ids=lambda t: t.name)
def test_other_types_have_one_form(type_):
    assert form_of(type_, nullable=False).type_info == form_of(type_).type_info
    assert form_of(type_, nullable=False).fixed is None


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))
def test_numeric_keeps_every_digit(units, scale):
    value = Decimal((int(units < 0), tuple(int(digit) for digit in str(abs(units))), -scale))
    assert there_and_back(SqlType("numeric", precision=38, scale=scale), value)[1] == value


@pytest.mark.parametrize(("precision", "size"), [(9, 5), (10, 9), (19, 9), (20, 13), (28, 13), (29, 17)])
def test_the_precision_of_numeric_says_its_size(precision, size):
    assert form_of(SqlType("numeric", precision=precision)).type_info[1] == size


def test_zero_is_positive():
    out = ByteWriter()
    form_of(SqlType("numeric", precision=5, scale=2)).encode(out, Decimal(0))
    assert out.hex() == "050100000000"


@given(st.integers(-53690, 2958463), st.integers(0, 25_919_999))
def test_datetime_keeps_its_tick(days, ticks):
    assert text_to_datetime(datetime_to_text(days, ticks)) == (days, ticks)


def test_datetime_shows_milliseconds_as_sql_server_does():
    # A three-hundredth of a second is 3.33 ms: the manual's .000, .003, .007.
    assert [datetime_to_text(0, ticks)[-3:] for ticks in range(4)] == ["000", "003", "007", "010"]


@given(st.binary(min_size=16, max_size=16))
def test_a_guid_is_decoded_as_it_was_encoded(value):
    assert guid_to_bytes(guid_to_text(value)) == value


def test_the_first_three_groups_of_a_guid_are_little_endian():
    assert guid_to_bytes("01B241A8-4CDE-45ED-9CC6-EAA548A341F3").hex() == "a841b201de4ced459cc6eaa548a341f3"
