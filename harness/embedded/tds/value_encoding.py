"""TYPE_INFO and values to the client, as COLMETADATA, ROW and RETURNVALUE hold them.

`form_of` returns the `TypeForm` of a `SqlType`: its TYPE_INFO bytes and a function that appends one value. Forms are
cached, so that a row takes one call a column. A column that cannot be NULL is sent with the fixed type (INT4, not INTN)
where there is one, as SQL Server does: SqlClient reads INTN as INT4, without a length, if the column is not nullable.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from itertools import repeat, starmap
from typing import Any, NamedTuple

from harness.embedded.sqltypes import MAX, SqlType
from harness.embedded.tds.value_decoding import DAY_1900, EXACT, NULL_PLP, NULL_USHORT, DataType, time_size
from harness.embedded.tds.wire import ByteWriter, to_utf16
from harness.embedded.utf16 import QUESTION_MARKS

# SQL_Latin1_General_CP1_CI_AS: language 0x0409, ignore case, kana and width; sort id 52. Code page 1252.
COLLATION = bytes.fromhex("0904D00034")
LENGTH_MAX = 8000  # bytes of a value that is not (max)

Encode = Callable[[ByteWriter, Any], None]


class TypeForm(NamedTuple):
    type_info: bytes
    encode: Encode
    fixed: TypeForm | None = None  # of columns that cannot be NULL, if that differs
    layout: str = ""  # of an integer, with its length if it has one, for `struct`


@lru_cache(maxsize=4096)
def form_of(type_: SqlType, *, nullable: bool = True) -> TypeForm:
    form = FORMS.get(type_.name)
    assert form is not None, f"no TDS form of {type_.name}"
    form = form if isinstance(form, TypeForm) else form(type_)
    return form if nullable or form.fixed is None else form.fixed


@lru_cache(maxsize=4096)
def packer(token: int, forms: tuple[TypeForm, ...]) -> Callable[[Sequence[Sequence[Any]]], bytes] | None:
    """Return a function that encodes rows of integers at once, each behind a token; None if there are other columns.

    It is several times as fast as value by value, and raises struct.error if a value is NULL or does not fit.
    """
    if not all(form.layout for form in forms):
        return None
    pack = struct.Struct("<B" + "".join(form.layout for form in forms)).pack

    def pack_rows(rows: Sequence[Sequence[Any]]) -> bytes:
        parts: list[Iterable[int]] = [repeat(token)]
        for form, column in zip(forms, zip(*rows, strict=True), strict=True):
            if len(form.layout) > 1:
                parts.append(repeat(struct.calcsize(form.layout[1:])))
            parts.append(column)
        return b"".join(starmap(pack, zip(*parts, strict=False)))

    return pack_rows


def _nullable(
    size: int, to_bytes: Callable[[Any], bytes], *type_info: int, fixed: DataType | None = None, layout: str = ""
) -> TypeForm:
    """A type whose values have one size: a one-byte length, 0 for NULL, and the bytes; of the fixed type only these."""
    length = bytes((size,))

    def encode(out: ByteWriter, value: Any) -> None:
        out += b"\0" if value is None else length + to_bytes(value)

    def encode_fixed(out: ByteWriter, value: Any) -> None:
        out += to_bytes(value)

    fixed_form = None if fixed is None else TypeForm(bytes((fixed,)), encode_fixed, None, layout)
    return TypeForm(bytes(type_info), encode, fixed_form, layout and f"B{layout}")


_INTEGERS = {1: (DataType.INT1, "B"), 2: (DataType.INT2, "h"), 4: (DataType.INT4, "i"), 8: (DataType.INT8, "q")}


def _integer(width: int) -> TypeForm:
    signed = width > 1

    def to_bytes(value: Any) -> bytes:
        return int(value).to_bytes(width, "little", signed=signed)

    fixed, layout = _INTEGERS[width]
    return _nullable(width, to_bytes, DataType.INTN, width, fixed=fixed, layout=layout)


def _bit(value: Any) -> bytes:
    if value is None:
        raise TypeError("NULL in a column of type bit that cannot be NULL")
    return b"\1" if value else b"\0"


def _decimal(type_: SqlType) -> TypeForm:
    precision, scale = type_.precision or 18, type_.scale
    width = 5 if precision <= 9 else 9 if precision <= 19 else 13 if precision <= 28 else 17

    def to_bytes(value: Any) -> bytes:
        units = _units(value, scale)
        return bytes((units >= 0,)) + abs(units).to_bytes(width - 1, "little")

    return _nullable(width, to_bytes, DataType.NUMERICN, width, precision, scale)


def _money(width: int) -> TypeForm:
    def to_bytes(value: Any) -> bytes:
        units = _units(value, 4).to_bytes(width, "little", signed=True)
        return units[4:] + units[:4] if width == 8 else units

    return _nullable(width, to_bytes, DataType.MONEYN, width, fixed=DataType.MONEY if width == 8 else DataType.MONEY4)


def _units(value: Any, scale: int) -> int:
    scaled = EXACT.scaleb(value if isinstance(value, Decimal) else Decimal(str(value)), scale)
    return int(scaled.to_integral_value(ROUND_HALF_UP, EXACT))


def _binary(data_type: DataType) -> Callable[[SqlType], TypeForm]:
    return lambda type_: _sized(data_type, type_.length, b"", bytes)


def _character(data_type: DataType) -> Callable[[SqlType], TypeForm]:
    return lambda type_: _sized(data_type, type_.length, COLLATION, lambda text: text.encode("cp1252", QUESTION_MARKS))


def _national(data_type: DataType) -> Callable[[SqlType], TypeForm]:
    def form(type_: SqlType) -> TypeForm:
        length = MAX if type_.length == MAX else 2 * type_.length
        return _sized(data_type, length, COLLATION, to_utf16)

    return form


def _sized(data_type: DataType, length: int, collation: bytes, to_bytes: Callable[[Any], bytes]) -> TypeForm:
    def encode_plp(out: ByteWriter, value: Any) -> None:
        if value is None:
            out.ulonglong(NULL_PLP)
            return
        encoded = to_bytes(value)
        out.ulonglong(len(encoded))
        if encoded:
            out.ulong(len(encoded))
            out += encoded
        out += b"\0\0\0\0"

    def encode(out: ByteWriter, value: Any) -> None:
        if value is None:
            out += b"\xff\xff"
            return
        encoded = to_bytes(value)[:size]
        out.ushort(len(encoded))
        out += encoded

    if data_type is DataType.XML:
        return TypeForm(bytes((data_type, 0)), encode_plp)  # without a schema: [MS-TDS] section 2.2.5.5.3
    if length == MAX or length > LENGTH_MAX:
        return TypeForm(bytes((data_type,)) + NULL_USHORT.to_bytes(2, "little") + collation, encode_plp)
    size = length or 1  # T-SQL's varchar without a length is varchar(1)
    return TypeForm(bytes((data_type,)) + size.to_bytes(2, "little") + collation, encode)


def guid_to_bytes(text: str) -> bytes:
    return uuid.UUID(text).bytes_le


def _days(text: str) -> bytes:
    """Days since 0001-01-01 of a text that begins with a date."""
    return (date.fromisoformat(text[:10]).toordinal() - 1).to_bytes(3, "little")


def _units_of_time(text: str, scale: int) -> int:
    """Units of 10^-scale seconds since midnight; digits beyond `scale` are cut. Midnight if the text holds no time."""
    if not text:
        return 0
    clock, _, fraction = text.partition(".")
    hour, minute, second = clock.split(":") if clock.count(":") == 2 else (*clock.split(":"), "0")
    seconds = 3600 * int(hour) + 60 * int(minute) + int(second)
    return int(f"{seconds}{fraction[:scale]:0<{scale}}") if scale else seconds


def _time(type_: SqlType) -> TypeForm:
    scale, size = type_.scale, time_size(type_.scale)
    return _nullable(size, lambda text: _units_of_time(text, scale).to_bytes(size, "little"), DataType.TIMEN, scale)


def _datetime2(type_: SqlType) -> TypeForm:
    scale, size = type_.scale, time_size(type_.scale)

    def to_bytes(text: str) -> bytes:
        return _units_of_time(text[11:].strip(), scale).to_bytes(size, "little") + _days(text)

    return _nullable(size + 3, to_bytes, DataType.DATETIME2N, scale)


def _datetimeoffset(type_: SqlType) -> TypeForm:
    scale, size = type_.scale, time_size(type_.scale)

    def to_bytes(text: str) -> bytes:
        utc, _, offset = text.rpartition(" ")
        minutes = int(offset[1:3]) * 60 + int(offset[4:])
        minutes = -minutes if offset[0] == "-" else minutes
        return (
            _units_of_time(utc[11:], scale).to_bytes(size, "little")
            + _days(utc)
            + minutes.to_bytes(2, "little", signed=True)
        )

    return _nullable(size + 5, to_bytes, DataType.DATETIMEOFFSETN, scale)


def text_to_datetime(text: str) -> tuple[int, int]:
    """Days since 1900-01-01 and three-hundredths of a second of `YYYY-MM-DD[ hh:mm:ss[.fffffff]]`."""
    days = date.fromisoformat(text[:10]).toordinal() - DAY_1900
    ticks = (_units_of_time(text[11:].strip(), 7) * 3 + 50_000) // 100_000
    return (days, ticks) if ticks < 25_920_000 else (days + 1, 0)


def _datetime(text: str) -> bytes:
    return struct.pack("<iI", *text_to_datetime(text))


def _smalldatetime(text: str) -> bytes:
    days, ticks = text_to_datetime(text)
    return struct.pack("<HH", days, ticks // (60 * 300))


FORMS: dict[str, TypeForm | Callable[[SqlType], TypeForm]] = {
    "bit": _nullable(1, _bit, DataType.BITN, 1, fixed=DataType.BIT),
    "tinyint": _integer(1),
    "smallint": _integer(2),
    "int": _integer(4),
    "bigint": _integer(8),
    "real": _nullable(4, lambda value: struct.pack("<f", float(value)), DataType.FLTN, 4, fixed=DataType.FLT4),
    "float": _nullable(8, lambda value: struct.pack("<d", float(value)), DataType.FLTN, 8, fixed=DataType.FLT8),
    "decimal": _decimal,
    "numeric": _decimal,
    "smallmoney": _money(4),
    "money": _money(8),
    "char": _character(DataType.BIGCHAR),
    "varchar": _character(DataType.BIGVARCHAR),
    "nchar": _national(DataType.NCHAR),
    "nvarchar": _national(DataType.NVARCHAR),
    "sysname": _sized(DataType.NVARCHAR, 2 * 128, COLLATION, to_utf16),
    "binary": _binary(DataType.BIGBINARY),
    "varbinary": _binary(DataType.BIGVARBINARY),
    "uniqueidentifier": _nullable(16, guid_to_bytes, DataType.GUID, 16),
    "xml": _sized(DataType.XML, MAX, b"", to_utf16),
    "date": _nullable(3, _days, DataType.DATEN),
    "time": _time,
    "datetime2": _datetime2,
    "datetimeoffset": _datetimeoffset,
    "datetime": _nullable(8, _datetime, DataType.DATETIMN, 8, fixed=DataType.DATETIME),
    "smalldatetime": _nullable(4, _smalldatetime, DataType.DATETIMN, 4, fixed=DataType.DATETIM4),
}
