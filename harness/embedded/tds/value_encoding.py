"""TYPE_INFO and values to the client, as COLMETADATA, ROW and RETURNVALUE hold them.

`form_of` returns the `TypeForm` of a `SqlType`: its TYPE_INFO bytes and a function that appends one value. Forms are
cached, so that a row takes one call a column.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from harness.embedded.sqltypes import MAX, SqlType
from harness.embedded.tds.text_forms import guid_to_bytes, split_moment, text_to_datetime, text_to_days, text_to_units
from harness.embedded.tds.value_decoding import NULL_PLP, NULL_USHORT, DataType, time_size
from harness.embedded.tds.wire import ByteWriter, to_utf16

# SQL_Latin1_General_CP1_CI_AS: language 0x0409, ignore case, kana and width; sort id 52. Code page 1252.
COLLATION = bytes.fromhex("0904D00034")
LENGTH_MAX = 8000  # bytes of a value that is not (max)

_EXACT = Context(prec=60)  # decimal's default of 28 digits would round numeric(38)

Encode = Callable[[ByteWriter, Any], None]


class TypeForm(NamedTuple):
    type_info: bytes
    encode: Encode


@lru_cache(maxsize=4096)
def form_of(type_: SqlType) -> TypeForm:
    form = FORMS.get(type_.name)
    assert form is not None, f"no TDS form of {type_.name}"
    return form(type_)


def _integer(width: int) -> Callable[[SqlType], TypeForm]:
    def encode(out: ByteWriter, value: Any) -> None:
        if value is None:
            out.append(0)
        else:
            out.append(width)
            out += int(value).to_bytes(width, "little", signed=signed)

    signed = width > 1
    return lambda _: TypeForm(bytes((DataType.INTN, width)), encode)


def _bit(type_: SqlType) -> TypeForm:
    def encode(out: ByteWriter, value: Any) -> None:
        out += b"\0" if value is None else b"\1\1" if value else b"\1\0"

    return TypeForm(bytes((DataType.BITN, 1)), encode)


def _float(type_: SqlType) -> TypeForm:
    def encode(out: ByteWriter, value: Any) -> None:
        if value is None:
            out.append(0)
        else:
            out.append(8)
            out.double(float(value))

    return TypeForm(bytes((DataType.FLTN, 8)), encode)


def _real(type_: SqlType) -> TypeForm:
    def encode(out: ByteWriter, value: Any) -> None:
        if value is None:
            out.append(0)
        else:
            out.append(4)
            out.single(float(value))

    return TypeForm(bytes((DataType.FLTN, 4)), encode)


def _decimal(type_: SqlType) -> TypeForm:
    precision, scale = type_.precision or 18, type_.scale
    width = 5 if precision <= 9 else 9 if precision <= 19 else 13 if precision <= 28 else 17

    def encode(out: ByteWriter, value: Any) -> None:
        if value is None:
            out.append(0)
            return
        units = _units(value, scale)
        out.append(width)
        out.append(int(units >= 0))
        out += abs(units).to_bytes(width - 1, "little")

    return TypeForm(bytes((DataType.NUMERICN, width, precision, scale)), encode)


def _money(width: int) -> Callable[[SqlType], TypeForm]:
    def encode(out: ByteWriter, value: Any) -> None:
        if value is None:
            out.append(0)
            return
        units = _units(value, 4).to_bytes(width, "little", signed=True)
        out.append(width)
        out += units[4:] + units[:4] if width == 8 else units

    return lambda _: TypeForm(bytes((DataType.MONEYN, width)), encode)


def _units(value: Any, scale: int) -> int:
    scaled = _EXACT.scaleb(value if isinstance(value, Decimal) else Decimal(str(value)), scale)
    return int(scaled.to_integral_value(ROUND_HALF_UP, _EXACT))


def _binary(data_type: DataType) -> Callable[[SqlType], TypeForm]:
    return lambda type_: _sized(data_type, type_.length, b"", bytes)


def _character(data_type: DataType) -> Callable[[SqlType], TypeForm]:
    return lambda type_: _sized(data_type, type_.length, COLLATION, lambda text: text.encode("cp1252", "replace"))


def _national(data_type: DataType) -> Callable[[SqlType], TypeForm]:
    def form(type_: SqlType) -> TypeForm:
        length = MAX if type_.length == MAX else 2 * type_.length
        return _sized(data_type, length, COLLATION, to_utf16)

    return form


def _sysname(type_: SqlType) -> TypeForm:
    return _sized(DataType.NVARCHAR, 2 * 128, COLLATION, to_utf16)


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

    if length == MAX or length > LENGTH_MAX:
        return TypeForm(bytes((data_type,)) + NULL_USHORT.to_bytes(2, "little") + collation, encode_plp)
    size = length or 1  # T-SQL's varchar without a length is varchar(1)
    return TypeForm(bytes((data_type,)) + size.to_bytes(2, "little") + collation, encode)


def _xml(type_: SqlType) -> TypeForm:
    return TypeForm(bytes((DataType.XML, 0)), _sized(DataType.NVARCHAR, MAX, COLLATION, to_utf16).encode)


def _guid(type_: SqlType) -> TypeForm:
    def encode(out: ByteWriter, value: Any) -> None:
        if value is None:
            out.append(0)
        else:
            out.append(16)
            out += guid_to_bytes(value)

    return TypeForm(bytes((DataType.GUID, 16)), encode)


def _date(type_: SqlType) -> TypeForm:
    def encode(out: ByteWriter, value: Any) -> None:
        if value is None:
            out.append(0)
        else:
            out.append(3)
            out += text_to_days(value).to_bytes(3, "little")

    return TypeForm(bytes((DataType.DATEN,)), encode)


def _time(type_: SqlType) -> TypeForm:
    scale, size = type_.scale, time_size(type_.scale)

    def encode(out: ByteWriter, value: Any) -> None:
        if value is None:
            out.append(0)
        else:
            out.append(size)
            out += text_to_units(value, scale).to_bytes(size, "little")

    return TypeForm(bytes((DataType.TIMEN, scale)), encode)


def _datetime2(type_: SqlType) -> TypeForm:
    scale, size = type_.scale, time_size(type_.scale)

    def encode(out: ByteWriter, value: Any) -> None:
        if value is None:
            out.append(0)
        else:
            day, time = split_moment(value)
            out.append(size + 3)
            out += text_to_units(time, scale).to_bytes(size, "little") + text_to_days(day).to_bytes(3, "little")

    return TypeForm(bytes((DataType.DATETIME2N, scale)), encode)


def _datetime(type_: SqlType) -> TypeForm:
    def encode(out: ByteWriter, value: Any) -> None:
        if value is None:
            out.append(0)
        else:
            days, ticks = text_to_datetime(value)
            out.append(8)
            out.long(days)
            out.ulong(ticks)

    return TypeForm(bytes((DataType.DATETIMN, 8)), encode)


def _smalldatetime(type_: SqlType) -> TypeForm:
    def encode(out: ByteWriter, value: Any) -> None:
        if value is None:
            out.append(0)
        else:
            days, ticks = text_to_datetime(value)
            out.append(4)
            out.ushort(days)
            out.ushort(ticks // (60 * 300))

    return TypeForm(bytes((DataType.DATETIMN, 4)), encode)


FORMS: dict[str, Callable[[SqlType], TypeForm]] = {
    "bit": _bit,
    "tinyint": _integer(1),
    "smallint": _integer(2),
    "int": _integer(4),
    "bigint": _integer(8),
    "real": _real,
    "float": _float,
    "decimal": _decimal,
    "numeric": _decimal,
    "smallmoney": _money(4),
    "money": _money(8),
    "char": _character(DataType.BIGCHAR),
    "varchar": _character(DataType.BIGVARCHAR),
    "nchar": _national(DataType.NCHAR),
    "nvarchar": _national(DataType.NVARCHAR),
    "sysname": _sysname,
    "xml": _xml,
    "binary": _binary(DataType.BIGBINARY),
    "varbinary": _binary(DataType.BIGVARBINARY),
    "uniqueidentifier": _guid,
    "date": _date,
    "time": _time,
    "datetime2": _datetime2,
    "datetime": _datetime,
    "smalldatetime": _smalldatetime,
}
