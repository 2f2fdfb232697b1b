"""The rows of a bulk load, as clients send them: every type, NULL in ROW and NBCROW, and what is wrong with them."""

import contextlib
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import MAX
from harness.embedded.tds.bulk_load import BulkLoad
from harness.embedded.tds.wire import TdsProtocolError
from tests.embedded.tds.captures import logged_in

COLLATION = "0904d00034"
# TYPE_INFO, name and length of the type, a value on the wire, and the value
KINDS = {
    "int4": ("38", "int", 0, "07000000", 7),
    "int1": ("30", "tinyint", 0, "07", 7),
    "int8": ("7f", "bigint", 0, "0700000000000000", 7),
    "intn": ("2604", "int", 0, "0407000000", 7),
    "bitn": ("6801", "bit", 0, "0101", 1),
    "nvarchar": (f"e70800{COLLATION}", "nvarchar", 4, "040041004200", "AB"),
    "nvarchar(max)": (f"e7ffff{COLLATION}", "nvarchar", MAX, "0400000000000000 04000000 41004200 00000000", "AB"),
    "varchar": (f"a70800{COLLATION}", "varchar", 8, "0200 4142", "AB"),
    "varbinary": ("a50400", "varbinary", 4, "0200 0102", b"\1\2"),
    "decimal": ("6a050902", "decimal", 0, "05 01 2c010000", Decimal("3.00")),
    "date": ("28", "date", 0, "03 010000", "0001-01-02"),
    "time": ("2903", "time", 0, "04 e8030000", "00:00:01.000"),
    "guid": ("2410", "uniqueidentifier", 0, "10" + "00" * 16, "00000000-0000-0000-0000-000000000000"),
}
NULLS = {"nvarchar": "ffff", "varchar": "ffff", "varbinary": "ffff", "nvarchar(max)": "ff" * 8}


def load(infos: list[str], rows: str) -> BulkLoad:
    columns = "".join(f"00000000 0900 {info} 01 6100" for info in infos)
    return BulkLoad.decode(False, bytes.fromhex(f"81 {len(infos):02x}00 {columns} {rows}"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_and_null_are_read_by_the_type_of_their_column(kind):
    info, name, length, wire, value = KINDS[kind]
    has_null = kind not in ("int1", "int4", "int8")
    nulls = f"d1 {NULLS.get(kind, '00')} d2 01" if has_null else "d2 01"
    given_load = load([info], f"d1 {wire} {nulls} fd 1000 0000 0000000000000000")
    assert list(given_load.rows()) == [(value,), *[(None,)] * (1 + has_null)]
    [column] = given_load.columns
    assert (column.name, column.type.name, column.type.length) == ("a", name, length)


def test_a_row_without_nulls_has_a_bit_for_each_column():
    values = [KINDS["intn"][3]] * 8
    nine = load(["2604"] * 9, f"d2 0201 {values[0]} {' '.join(values[2:])}")
    assert list(nine.rows()) == [(7, None, 7, 7, 7, 7, 7, 7, None)]


@pytest.mark.parametrize("rows", ["d1 04 0700", "d1 03 070000", "77", "d2"])
def test_a_wrong_stream_is_error_4002_of_the_request(rows):
    with pytest.raises(SqlServerError) as caught:
        list(load(["2604"], rows).rows())
    assert caught.value.number == 4002


@pytest.mark.parametrize("info, what", [("62 10000000", "0x62"), (f"23 00000010 {COLLATION}", "0x23")])
def test_types_that_no_column_has_are_refused_by_number(info, what):
    with pytest.raises(SqlServerError, match=what):
        load([info], "")


def test_a_load_without_columns_breaks_the_protocol():
    with pytest.raises(TdsProtocolError):
        logged_in().receive(bytes.fromhex("07 01 000c 0000 0000") + b"rows")


@given(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3), st.binary(max_size=40), st.booleans())
def test_random_rows_raise_nothing_but_such_errors(kinds, tail, is_damaged):
    infos = "".join(f"00000000 0900 {KINDS[kind][0]} 00" for kind in kinds)
    start = bytes.fromhex(f"81 {len(kinds):02x}00 {infos}")
    data = start[: len(start) // 2] + tail if is_damaged else start + tail
    with contextlib.suppress(TdsProtocolError, SqlServerError):
        list(BulkLoad.decode(False, data).rows())
