"""TYPE_INFO and values from the client: [MS-TDS] sections 2.2.5.4 to 2.2.5.6.

`read_typed_value` reads what follows the name and flags of a call's parameter. `READERS` has a function for each type
that drivers send. Types that are not supported are refused by name; an unknown type breaks the protocol. Above
TDS, dates, times and identifiers are text.
"""

from collections.abc import Callable
from datetime import date
from decimal import Context, Decimal
from enum import IntEnum
from functools import lru_cache
from struct import unpack
from typing import Any

from harness.embedded.errors import UNSUPPORTED, SqlServerError
from harness.embedded.sqltypes import MAX, SqlType
from harness.embedded.tds.wire import ByteReader, TdsProtocolError, from_utf16

TypedValue = tuple[SqlType, Any]

NULL_USHORT = 0xFFFF  # CHARBIN_NULL of types with a two-byte length; as a maximum length it means (max)
NULL_PLP = 0xFFFFFFFFFFFFFFFF
NULL_LONG = 0xFFFFFFFF
_COLLATION_SIZE = 5
_COLLATION_UTF8 = 0x04  # fUTF8 in the fourth byte
PRECISION_MAX = 38
SCALE_MAX = 7  # of time, datetime2 and datetimeoffset
OFFSET_MAX_MINUTES = 14 * 60
DAY_1900 = date(1900, 1, 1).toordinal()  # where datetime begins to count
DAY_MAX = date.max.toordinal() - 1


class DataType(IntEnum):
    """The type tokens in use, named as in the specification without TYPE."""

    NULL = 0x1F
    IMAGE = 0x22
    TEXT = 0x23
    GUID = 0x24
    INTN = 0x26
    DATEN = 0x28
    TIMEN = 0x29
    DATETIME2N = 0x2A
    DATETIMEOFFSETN = 0x2B
    INT1 = 0x30
    BIT = 0x32
    INT2 = 0x34
    INT4 = 0x38
    DATETIM4 = 0x3A
    FLT4 = 0x3B
    MONEY = 0x3C
    DATETIME = 0x3D
    FLT8 = 0x3E
    SSVARIANT = 0x62
    NTEXT = 0x63
    BITN = 0x68
    DECIMALN = 0x6A
    NUMERICN = 0x6C
    FLTN = 0x6D
    MONEYN = 0x6E
    DATETIMN = 0x6F
    MONEY4 = 0x7A
    INT8 = 0x7F
    BIGVARBINARY = 0xA5
    BIGVARCHAR = 0xA7
    BIGBINARY = 0xAD
    BIGCHAR = 0xAF
    NVARCHAR = 0xE7
    NCHAR = 0xEF
    UDT = 0xF0
    XML = 0xF1
    TVP = 0xF3


EXACT = Context(prec=60)  # the default of 28 digits would round numeric(38)
_type = lru_cache(maxsize=4096)(SqlType)  # parameters' types repeat call after call


def read_typed_value(reader: ByteReader) -> TypedValue:
    number = reader.byte()
    read = READERS.get(number)
    if read is None:
        raise TdsProtocolError(f"unknown data type 0x{number:02X}")
    return read(reader)


def read_plp(reader: ByteReader) -> bytes | None:
    """Read partially length-prefixed data: a total length or a special value, then chunks up to an empty one."""
    total = reader.ulonglong()
    if total == NULL_PLP:
        return None
    size = reader.ulong()
    if not size:
        return b""
    first = reader.take(size)
    size = reader.ulong()
    if not size:
        return first
    chunks = [first]
    while size:  # ends: every turn takes at least five bytes from a finite message
        chunks.append(reader.take(size))
        size = reader.ulong()
    return b"".join(chunks)


def _binary(name: str) -> Callable[[ByteReader], TypedValue]:
    def read(reader: ByteReader) -> TypedValue:
        length, value = _sized(reader)
        return _type(name, length), value

    return read


def _character(name: str) -> Callable[[ByteReader], TypedValue]:
    def read(reader: ByteReader) -> TypedValue:
        at = reader.position
        encoding = _encoding(reader.data[at + 2 : at + 2 + _COLLATION_SIZE])
        length, value = _sized(reader, _COLLATION_SIZE)
        return _type(name, length), None if value is None else value.decode(encoding, "replace")

    return read


def _national(name: str) -> Callable[[ByteReader], TypedValue]:
    def read(reader: ByteReader) -> TypedValue:
        length, value = _sized(reader, _COLLATION_SIZE)
        return _type(name, length if length == MAX else length // 2), None if value is None else from_utf16(value)

    return read


def _sized(reader: ByteReader, skip: int = 0) -> tuple[int, bytes | None]:
    """The maximum length and the bytes of a type with two-byte lengths or PLP; `skip` jumps over the collation."""
    length = reader.ushort()
    if skip:
        reader.take(skip)
    if length == NULL_USHORT:
        return MAX, read_plp(reader)
    size = reader.ushort()
    return length, None if size == NULL_USHORT else reader.take(size)


def _encoding(collation: bytes) -> str:
    # Drivers send the server's own collation, which the login named, or a UTF-8 one.
    return "utf-8" if len(collation) == _COLLATION_SIZE and collation[3] & _COLLATION_UTF8 else "cp1252"


def _long_text(encoding: str | None) -> Callable[[ByteReader], TypedValue]:
    """text, ntext and image: deprecated, but FreeTDS sends them for long values."""

    def read(reader: ByteReader) -> TypedValue:
        reader.ulong()  # maximum length
        if encoding is not None:
            collation = reader.take(_COLLATION_SIZE)
        size = reader.ulong()
        value = None if size == NULL_LONG else reader.take(size)
        if encoding is None:
            return _type("varbinary", MAX), value
        if encoding == "utf-16-le":
            return _type("nvarchar", MAX), None if value is None else from_utf16(value)
        return _type("varchar", MAX), None if value is None else value.decode(_encoding(collation), "replace")

    return read


def _guid(reader: ByteReader) -> TypedValue:
    _expect(reader.byte(), (16,), "a guid")
    size = _expect(reader.byte(), (0, 16), "a guid")
    return _type("uniqueidentifier"), guid_to_text(reader.take(16)) if size else None


_INTEGERS = {1: "tinyint", 2: "smallint", 4: "int", 8: "bigint"}
_FLOATS = {4: ("real", 24, "<f"), 8: ("float", 53, "<d")}
_MONEYS = {4: "smallmoney", 8: "money"}
_DATETIMES = {4: "smalldatetime", 8: "datetime"}


def _nullable(widths: tuple[int, ...], read_width: Callable[[ByteReader, int, bool], TypedValue]) -> Any:
    """A type with a one-byte maximum length and a one-byte length, 0 for NULL."""

    def read(reader: ByteReader) -> TypedValue:
        width = _expect(reader.byte(), widths, "a type")
        size = _expect(reader.byte(), (0, width), "a value")
        return read_width(reader, width, size == 0)

    return read


def _fixed(width: int, read_width: Callable[[ByteReader, int, bool], TypedValue]) -> Any:
    return lambda reader: read_width(reader, width, False)


def _expect(size: int, allowed: tuple[int, ...], type_name: str) -> int:
    if size not in allowed:
        raise TdsProtocolError(f"{type_name} of {size} bytes")
    return size


def _integer(reader: ByteReader, width: int, null: bool) -> TypedValue:
    type_ = _type(_INTEGERS[width])
    return type_, None if null else int.from_bytes(reader.take(width), "little", signed=width > 1)


def _bit(reader: ByteReader, width: int, null: bool) -> TypedValue:
    return _type("bit"), None if null else int(reader.byte() != 0)


def _float(reader: ByteReader, width: int, null: bool) -> TypedValue:
    name, precision, layout = _FLOATS[width]
    return _type(name, 0, precision), None if null else unpack(layout, reader.take(width))[0]


def _money(reader: ByteReader, width: int, null: bool) -> TypedValue:
    if null:
        return _type(_MONEYS[width]), None
    value = reader.take(width)
    # Eight bytes come as the high half, then the low half.
    units = int.from_bytes(value[4:] + value[:4] if width == 8 else value, "little", signed=True)
    return _type(_MONEYS[width]), Decimal(units).scaleb(-4)


def _datetime(reader: ByteReader, width: int, null: bool) -> TypedValue:
    type_ = _type(_DATETIMES[width])
    if null:
        return type_, None
    if width == 8:
        return type_, datetime_to_text(reader.long(), reader.ulong())
    days, minutes = reader.ushort(), reader.ushort()
    return type_, datetime_to_text(days, minutes * 60 * 300)[:19]


def _decimal(name: str) -> Callable[[ByteReader], TypedValue]:
    def read(reader: ByteReader) -> TypedValue:
        width, precision, scale = reader.byte(), reader.byte(), reader.byte()
        # FreeTDS gives the bytes that the precision needs, other drivers 5, 9, 13 or 17.
        if not 2 <= width <= 17 or not 1 <= precision <= PRECISION_MAX or scale > precision:
            raise TdsProtocolError(f"{name}({precision}, {scale}) of {width} bytes")
        size = reader.byte()
        type_ = _type(name, 0, precision, scale)
        if not size:
            return type_, None
        if not 2 <= size <= width:
            raise TdsProtocolError(f"{name} of {size} bytes")
        sign = reader.byte()
        digits = EXACT.scaleb(Decimal(int.from_bytes(reader.take(size - 1), "little")), -scale)
        return type_, digits if sign else digits.copy_negate()

    return read


def _date(reader: ByteReader) -> TypedValue:
    size = _expect(reader.byte(), (0, 3), "date")
    return _type("date"), days_to_text(int.from_bytes(reader.take(3), "little")) if size else None


def _time(reader: ByteReader) -> TypedValue:
    scale, size = _scale_and_size(reader, 0)
    value = units_to_text(int.from_bytes(reader.take(size), "little"), scale) if size else None
    return _type("time", 0, 0, scale), value


def _datetime2(reader: ByteReader) -> TypedValue:
    scale, size = _scale_and_size(reader, 3)
    type_ = _type("datetime2", 0, 0, scale)
    return type_, _day_and_time(reader, size - 3, scale) if size else None


def _datetimeoffset(reader: ByteReader) -> TypedValue:
    scale, size = _scale_and_size(reader, 5)
    type_ = _type("datetimeoffset", 0, 0, scale)
    if not size:
        return type_, None
    units = int.from_bytes(reader.take(size - 5), "little") * 10 ** (SCALE_MAX - scale)
    utc = f"{days_to_text(int.from_bytes(reader.take(3), 'little'))} {units_to_text(units, SCALE_MAX)}"
    minutes = int.from_bytes(reader.take(2), "little", signed=True)
    if abs(minutes) > OFFSET_MAX_MINUTES:
        raise SqlServerError(8023, "datetimeoffset")
    return type_, f"{utc} {'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def _scale_and_size(reader: ByteReader, extra: int) -> tuple[int, int]:
    scale = reader.byte()
    if scale > SCALE_MAX:
        raise TdsProtocolError(f"a time of scale {scale}")
    return scale, _expect(reader.byte(), (0, time_size(scale) + extra), "a time")


def _day_and_time(reader: ByteReader, size: int, scale: int) -> str:
    units = int.from_bytes(reader.take(size), "little")
    days = int.from_bytes(reader.take(3), "little")
    return f"{days_to_text(days)} {units_to_text(units, scale)}"


def time_size(scale: int) -> int:
    """Bytes of a time of day: 3 up to two digits of a second, 4 up to four, else 5."""
    return 3 if scale <= 2 else 4 if scale <= 4 else 5


def _null(reader: ByteReader) -> TypedValue:
    return _type("nvarchar", 1), None


def _refused(type_name: str) -> Callable[[ByteReader], TypedValue]:
    def read(reader: ByteReader) -> TypedValue:
        raise SqlServerError(UNSUPPORTED, type_name)

    return read


READERS: dict[int, Callable[[ByteReader], TypedValue]] = {
    DataType.NULL: _null,
    DataType.IMAGE: _long_text(None),
    DataType.TEXT: _long_text("collation"),
    DataType.NTEXT: _long_text("utf-16-le"),
    DataType.GUID: _guid,
    DataType.INTN: _nullable((1, 2, 4, 8), _integer),
    DataType.DATEN: _date,
    DataType.TIMEN: _time,
    DataType.DATETIME2N: _datetime2,
    DataType.DATETIMEOFFSETN: _datetimeoffset,
    DataType.INT1: _fixed(1, _integer),
    DataType.BIT: _fixed(1, _bit),
    DataType.INT2: _fixed(2, _integer),
    DataType.INT4: _fixed(4, _integer),
    DataType.INT8: _fixed(8, _integer),
    DataType.FLT4: _fixed(4, _float),
    DataType.FLT8: _fixed(8, _float),
    DataType.MONEY4: _fixed(4, _money),
    DataType.MONEY: _fixed(8, _money),
    DataType.DATETIM4: _fixed(4, _datetime),
    DataType.DATETIME: _fixed(8, _datetime),
    DataType.BITN: _nullable((1,), _bit),
    DataType.FLTN: _nullable((4, 8), _float),
    DataType.MONEYN: _nullable((4, 8), _money),
    DataType.DATETIMN: _nullable((4, 8), _datetime),
    DataType.DECIMALN: _decimal("decimal"),
    DataType.NUMERICN: _decimal("numeric"),
    DataType.BIGVARBINARY: _binary("varbinary"),
    DataType.BIGBINARY: _binary("binary"),
    DataType.BIGVARCHAR: _character("varchar"),
    DataType.BIGCHAR: _character("char"),
    DataType.NVARCHAR: _national("nvarchar"),
    DataType.NCHAR: _national("nchar"),
    DataType.XML: _refused("parameters of type xml"),
    DataType.SSVARIANT: _refused("parameters of type sql_variant"),
    DataType.UDT: _refused("parameters of CLR types"),
    DataType.TVP: _refused("table-valued parameters"),
}


# -- dates, times and identifiers as text: [MS-TDS] section 2.2.5.5.1.8, "Date/Times" ----------------------------------


def guid_to_text(value: bytes) -> str:
    """The first three groups are little-endian on the wire."""
    text = value.hex().upper()
    return (
        f"{text[6:8]}{text[4:6]}{text[2:4]}{text[0:2]}-{text[10:12]}{text[8:10]}-{text[14:16]}{text[12:14]}"
        f"-{text[16:20]}-{text[20:]}"
    )


def days_to_text(days: int) -> str:
    """Days since 0001-01-01."""
    if not 0 <= days <= DAY_MAX:
        raise SqlServerError(8023, "date")
    return date.fromordinal(days + 1).isoformat()


def units_to_text(units: int, scale: int) -> str:
    """Units of 10^-scale seconds since midnight, with exactly `scale` digits."""
    seconds, fraction = divmod(units, 10**scale)
    if seconds >= 86_400:
        raise SqlServerError(8023, "time")
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02}:{minute:02}:{second:02}" + (f".{fraction:0{scale}}" if scale else "")


def datetime_to_text(days: int, ticks: int) -> str:
    """datetime: days since 1900-01-01 and three-hundredths of a second, shown in milliseconds."""
    day, milliseconds = divmod((days + DAY_1900 - 1) * 86_400_000 + (ticks * 10 + 1) // 3, 86_400_000)
    return f"{days_to_text(day)} {units_to_text(milliseconds, 3)}"
