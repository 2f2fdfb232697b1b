"""Values that a client must not send. What it may send is tested with `value_encoding` and with captured requests."""

import pytest

from harness.embedded.errors import SqlServerError
from harness.embedded.tds.value_decoding import read_typed_value
from harness.embedded.tds.wire import ByteReader


@pytest.mark.parametrize(
    "typed",
    [
        "28 03 ffffff",  # a day after 9999-12-31
        "29 07 05 00c0692ac9",  # 24:00:00
        "6f 08 08 ffffff7f 00000000",  # a datetime after 9999-12-31
    ],
)
def test_a_date_or_time_out_of_range_is_an_error_for_the_client(typed):
    with pytest.raises(SqlServerError) as raised:
        read_typed_value(ByteReader(bytes.fromhex(typed)))
    assert raised.value.number == 8023
