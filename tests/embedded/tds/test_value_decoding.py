"""Values that a client must not send. What it may send is tested with `value_encoding` and with captured requests."""

import pytest

from harness.embedded.errors import SqlServerError
from harness.embedded.tds.value_decoding import read_typed_value
from harness.embedded.tds.wire import ByteReader


@pytest.mark.parametrize(
    "typed",
    [
        "28 03 ffffff",  # a day after 9999-12-31
        "28 03 dbb937",  # the next one
        "2b 07 0a 0000000000 000000 4903",  # 14 hours and a minute before UTC
        "29 07 05 00c0692ac9",  # 24:00:00
        "6f 08 08 ffffff7f 00000000",  # a datetime after 9999-12-31
    ],
)
def test_a_date_or_time_out_of_range_is_an_error_for_the_client(typed):
    with pytest.raises(SqlServerError) as raised:
        read_typed_value(ByteReader(bytes.fromhex(typed)))
    assert raised.value.number == 8023


@pytest.mark.parametrize(
    ("typed", "type_", "value"),
    [
        ("22 10000000 02000000 0102", "varbinary", b"\1\2"),  # image
        ("ad 0200 0200 0102", "binary", b"\1\2"),
        ("23 10000000 0904d00034 02000000 4142", "varchar", "AB"),  # text
        ("23 10000000 0904d00034 ffffffff", "varchar", None),
        ("a7 0800 0904d00400 0200 c3a9", "varchar", "\u00e9"),  # in UTF-8
        ("a7 0800 0904d00034 0200 c3a9", "varchar", "\u00c3\u00a9"),  # in code page 1252
    ],
)
def test_the_type_says_how_bytes_are_read(typed, type_, value):
    read_type, read_value = read_typed_value(ByteReader(bytes.fromhex(typed)))
    assert (read_type.name, read_value) == (type_, value)
