"""Conversion of values between types, in casts and in assignments.

A cast and an assignment to a variable truncate what is too long; an assignment to a column raises 8152, as in SQL
Server. Text converts to binary as bytes: nvarchar as UTF-16LE, varchar in code page 1252. Integers convert to binary
big-endian.
"""

import re
import struct
from collections.abc import Callable
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from functools import lru_cache, partial
from math import isfinite
from typing import Any, NamedTuple

from harness.embedded import utf16
from harness.embedded.errors import UNSUPPORTED, SqlServerError
from harness.embedded.sqltypes import MAX, SqlType
from harness.embedded.tsql.storage import moments, offsets, variants
from harness.embedded.tsql.storage.variants import VARIANT
from harness.embedded.tsql.text.tokens import DIGITS_MAX
from harness.embedded.xml import values as xml_values

Converter = Callable[[Any], Any]
CONVERSION_ERRORS = frozenset({220, 241, 242, 244, 245, 248, 8114, 8115, 8169})


class Truncated(SqlServerError):
    """8152, with the part of the value that fits."""

    def __init__(self, value: str) -> None:
        super().__init__(8152)
        self.value = value


class Place(NamedTuple):
    """Where a value goes, for the error about one that is too long."""

    table: str  # with its database and schema
    column: str


def naming(convert: Converter, table: str, column: str) -> Converter:
    """A strict converter whose error names the column, as since SQL Server 2019."""

    def convert_or_name(value: Any) -> Any:
        try:
            return convert(value)
        except Truncated as error:
            raise SqlServerError(2628, table, column, error.value[:TRUNCATED_MAX]) from None

    return convert_or_name


TRUNCATED_MAX = 100  # characters that the error shows

INTEGER_RANGES = {
    "bit": (0, 1),
    "tinyint": (0, 255),
    "smallint": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
}
INTEGER_BYTES = {"bit": 1, "tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}
FLOATS_MAX = {"real": 3.4028234663852886e38, "float": 1.7976931348623157e308}
_EXACT = Context(prec=4 * DIGITS_MAX)  # enough for every value of a type, so that `quantize` never fails
FLOATS = frozenset({"float", "real"})
DECIMALS = frozenset({"decimal", "numeric", "money"})
UNICODE = frozenset({"nchar", "nvarchar"})
ANSI = frozenset({"char", "varchar"})
TEXT = UNICODE | ANSI
BINARY = frozenset({"binary", "varbinary"})
DATES = frozenset({"date", "time", "datetime", "smalldatetime", "datetime2"})
NUMBERS = frozenset(INTEGER_RANGES) | FLOATS | DECIMALS

_HEXADECIMAL = re.compile("[0-9A-Fa-f]*")
_GUID = re.compile(r"\{?([0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})(?:\}|$)")


def family(type_: SqlType | None) -> str:
    """text, binary, integer, float, decimal, date, uniqueidentifier, or "" if the type is unknown."""
    if type_ is None:
        return ""
    for name, members in _FAMILIES:
        if type_.name in members:
            return name
    return type_.name


_FAMILIES = (
    ("text", TEXT),
    ("binary", BINARY),
    ("integer", frozenset(INTEGER_RANGES)),
    ("float", FLOATS),
    ("decimal", DECIMALS),
    ("date", DATES),
)


def fits(source: SqlType | None, target: SqlType) -> bool:
    """Whether every value of `source` is a value of `target` without conversion."""
    if source is None:
        return False
    if source == target:
        return target.name not in ("char", "nchar", "binary")
    if source.name in INTEGER_RANGES and target.name in INTEGER_RANGES:
        low, high = INTEGER_RANGES[source.name]
        return INTEGER_RANGES[target.name][0] <= low and high <= INTEGER_RANGES[target.name][1]
    same = (source.name in TEXT and target.name in ("varchar", "nvarchar")) or (
        source.name in BINARY and target.name == "varbinary"
    )
    if not same or (source.name in UNICODE and target.name in ANSI):
        return False
    return target.length == MAX or (source.length != MAX and 0 < source.length <= target.length)


@lru_cache(maxsize=4096)
def converter(source: SqlType | None, target: SqlType, *, strict: bool = False, style: int = 0) -> Converter:
    """The function that converts to `target`; a strict one raises `Truncated` where a cast would truncate."""
    if source is not None and source.name in BINARY and target.name in INTEGER_RANGES and target.name != "bit":
        return _from_binary(target)  # always within the range
    if source is not None and source.name == "xml" and target.name not in (*TEXT, *BINARY, "xml"):
        raise SqlServerError(529, "xml", target.name)
    if source == VARIANT and target != VARIANT:
        make = _from_variant(target, strict, style)
    elif source is not None and family(source) in ("date", "datetimeoffset") and target.name in NUMBERS:
        make = _from_moment(source, target)
    else:
        make = _MAKERS[family(target)](source, target, strict, style)

    def convert(value: Any) -> Any:
        return None if value is None else make(value)

    return convert


def convert(value: Any, source: SqlType | None, target: SqlType) -> Any:
    return converter(source, target)(value)


def check_assignable(source: SqlType | None, target: SqlType) -> None:
    """Raise 257 if the conversion needs CAST or CONVERT."""
    if source is None:
        return
    if (
        (source.name in TEXT and target.name in BINARY)
        or (family(source) == "date" and target.name in NUMBERS)
        or (source.name in ("xml", "sql_variant") and target.name != source.name)
    ):
        raise SqlServerError(257, source.name, target.name)


def argument_converter(source: SqlType | None, target: SqlType) -> Converter:
    """The converter of an argument, and of the new value of a column. Text that becomes binary is error 257 only if it
    is not NULL: a client that cannot know the type sends NULL as text."""
    if source is None or source.name not in TEXT or target.name not in BINARY:
        check_assignable(source, target)
        return converter(source, target)

    def refuse(value: Any) -> None:
        if value is not None:
            check_assignable(source, target)

    return refuse


def parameter_converter(source: SqlType | None, target: SqlType) -> Converter | None:
    """The converter of a procedure's argument, None if it is one as it is. A failure is error 8114, whatever CAST would
    say."""
    if fits(source, target):
        return None
    convert = argument_converter(source, target)

    def converted(value: Any) -> Any:
        try:
            return convert(value)
        except SqlServerError as error:
            if source is None or error.number not in CONVERSION_ERRORS:
                raise
            raise SqlServerError(8114, source.name, target.name, state=5) from None

    return converted


# -- text --------------------------------------------------------------------------------------------------------------


def _to_text(source: SqlType | None, target: SqlType, strict: bool, style: int) -> Converter:
    limit, padded = target.length, target.name in ("char", "nchar")
    is_unicode, is_xml = target.name in UNICODE, source is not None and source.name == "xml"
    encoding = "utf-16-le" if is_unicode else "cp1252"
    formatted = _formatter(source, style)
    if_too_long = _if_too_long(source, target)

    def make(value: Any) -> str:
        text = _binary_as_text(value, encoding, style) if isinstance(value, bytes) else formatted(value)
        if not is_unicode and not text.isascii():
            original, text = text, in_code_page(text)
            if is_xml and text != original:
                raise SqlServerError(6355)
        if limit != MAX and utf16.length(text) > limit:
            if if_too_long is not None:
                text = if_too_long()
            elif strict and utf16.cut(text, limit, len(text) * 2).strip(" "):
                raise Truncated(utf16.cut(text, 0, limit))
            text = utf16.cut(text, 0, limit)
        return utf16.padded(text, limit) if padded else text

    return make


def in_code_page(text: str) -> str:
    """The text as char and varchar hold it: with question marks for what code page 1252 does not have."""
    return text.encode("cp1252", utf16.QUESTION_MARKS).decode("cp1252")


def _binary_as_text(value: bytes, encoding: str, style: int) -> str:
    if style in (1, 2):
        return ("0x" if style == 1 else "") + value.hex().upper()
    return value.decode(encoding, "replace")


MONEY_STYLES = {0: ".2f", 1: ",.2f", 2: ".4f"}  # of CONVERT


def _formatter(source: SqlType | None, style: int) -> Callable[[Any], str]:
    kind = family(source)
    if source is not None and kind == "date":
        return moments.as_text(source, style)
    if source is not None and kind == "datetimeoffset":
        return offsets.as_text(source, style)
    if style and kind == "float" and source is not None:
        raise SqlServerError(UNSUPPORTED, f"CONVERT of {source.name} to text with style {style}")
    if kind == "decimal" and source is not None:
        form = f".{source.scale}f"
        if source.name == "money":
            if style not in MONEY_STYLES:
                raise SqlServerError(281, style, source.name)
            form = MONEY_STYLES[style]
        return lambda value: f"{Decimal(repr(value)) if isinstance(value, float) else value:{form}}"
    return _format


def _format(value: Any) -> str:
    """A float has at most six digits, and an exponent has three: `1e+006`."""
    if not isinstance(value, float):
        return str(value)
    digits, sign, exponent = f"{value:.6g}".partition("e")
    return f"{digits}e{exponent[0]}{exponent[1:]:0>3}" if sign else digits


def _if_too_long(source: SqlType | None, target: SqlType) -> Callable[[], str] | None:
    """What becomes of a value whose text is longer than the type: `*` or an error; None for what is cut, as text and
    moments are. https://learn.microsoft.com/sql/t-sql/functions/cast-and-convert-transact-sql#truncate-and-round-results
    """

    def overflow() -> str:
        raise SqlServerError(8115, target.name)

    def no_space_for_money() -> str:
        raise SqlServerError(234, target.name)

    def no_space() -> str:
        raise SqlServerError(8115, "nvarchar") if target.name in UNICODE else SqlServerError(8170)

    def no_xml() -> str:
        raise SqlServerError(6354)

    kind = family(source)
    if kind == "uniqueidentifier":
        return no_space
    if source is not None and source.name == "money":
        return no_space_for_money
    if kind == "xml":
        return no_xml
    if kind in ("integer", "float", "decimal"):
        is_short = source is not None and source.name in ("tinyint", "smallint", "int") and target.name in ANSI
        return (lambda: "*") if is_short else overflow
    return None


# -- binary ------------------------------------------------------------------------------------------------------------


def _to_binary(source: SqlType | None, target: SqlType, strict: bool, style: int) -> Converter:
    limit, padded = target.length, target.name == "binary"
    encoding = "cp1252" if source is not None and source.name in ANSI else "utf-16-le"
    width = INTEGER_BYTES.get(source.name, 8) if source is not None else 4

    def make(value: Any) -> bytes:
        if isinstance(value, bytes):
            data = value
        elif isinstance(value, str) and family(source) not in ("date", "datetimeoffset"):
            data = _text_as_binary(value, source, encoding, style)
        elif isinstance(value, int):
            data = (value % (1 << (8 * width))).to_bytes(width, "big")
            if limit != MAX and limit < width:
                return data[width - limit :]
            return data.rjust(limit, b"\0") if padded else data
        else:
            kind = source.name if source else "float"
            raise SqlServerError(UNSUPPORTED, f"the conversion of {kind} to {target.name}")
        if limit != MAX and len(data) > limit:
            if source is not None and source.name == "xml":
                raise SqlServerError(6354)
            if strict:
                raise Truncated("")
            data = data[:limit]
        return data.ljust(limit, b"\0") if padded else data

    return make


def _text_as_binary(value: str, source: SqlType | None, encoding: str, style: int) -> bytes:
    if source is not None and source.name == "uniqueidentifier":
        return guid_bytes(value)
    if source is not None and source.name == "xml":
        return xml_values.as_binary(value)
    if style in (1, 2):
        digits = value[2:] if style == 1 else value
        if (style == 1 and value[:2].lower() != "0x") or len(digits) % 2 or not _HEXADECIMAL.fullmatch(digits):
            raise SqlServerError(8114, source.name if source is not None else "varchar", "varbinary")
        return bytes.fromhex(digits)
    return value.encode(encoding, utf16.QUESTION_MARKS)


def guid_bytes(text: str) -> bytes:
    """The bytes of a uniqueidentifier as SQL Server stores them: the first three groups little-endian."""
    raw = bytes.fromhex(text.replace("-", ""))
    return raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]


def guid_text(data: bytes) -> str:
    raw = data[:16].ljust(16, b"\0")
    digits = (raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]).hex().upper()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


# -- numbers -----------------------------------------------------------------------------------------------------------


def _from_binary(target: SqlType) -> Converter:
    """Read the last bytes of a binary; fewer than the type has are unsigned. One function: it runs for every row."""
    width = INTEGER_BYTES[target.name]
    is_signed = target.name not in ("bit", "tinyint")
    from_bytes = int.from_bytes

    def from_binary(value: bytes | None) -> int | None:
        if value is None:
            return None
        if len(value) < width:
            return from_bytes(value, "big")
        return from_bytes(value[-width:], "big", signed=is_signed)

    return from_binary


def _from_moment(source: SqlType, target: SqlType) -> Converter:
    """Days since 1900, which only datetime and smalldatetime have; an integer is the nearest, from noon on the next."""
    if source.name not in moments.DATETIMES:
        raise SqlServerError(529, source.name, target.name)
    make = _MAKERS[family(target)](None, target, False, 0)
    is_whole = target.name in INTEGER_RANGES and target.name != "bit"

    def from_moment(value: str) -> Any:
        days = moments.days_since_1900(value)
        return make((days + Decimal("0.5")).to_integral_value(ROUND_FLOOR) if is_whole else days)

    return from_moment


def _from_variant(target: SqlType, strict: bool, style: int) -> Converter:
    def make(variant: str) -> Any:
        type_, value = variants.decoded(variant)
        return converter(type_, target, strict=strict, style=style)(value)

    return make


def _to_variant(source: SqlType | None, target: SqlType, strict: bool, style: int) -> Converter:
    if source is None or source == target:
        return lambda variant: variant
    if source.length == MAX or source.name == "xml":
        raise SqlServerError(206, source.name + ("(max)" if source.length == MAX else ""), target.name)
    return partial(variants.encoded, source)


def _to_integer(source: SqlType | None, target: SqlType, strict: bool, style: int) -> Converter:
    low, high = INTEGER_RANGES[target.name]
    from_binary = _from_binary(target)
    is_money = source is not None and source.name == "money"

    def make(value: Any) -> int:
        if isinstance(value, bytes):
            number: int = from_binary(value)
        elif isinstance(value, str):
            number = _integer_from_text(value, source, target)
        elif isinstance(value, float) and not isfinite(value):
            raise SqlServerError(232, target.name, value)
        elif is_money:  # "money to int: round", unlike other numbers
            number = int(Decimal(str(value)).to_integral_value(ROUND_HALF_UP))
        else:
            number = int(value)
        if target.name == "bit":
            return int(bool(value if isinstance(value, float | Decimal) else number))
        if not low <= number <= high:
            raise _overflow(value, source, target)
        return number

    return make


# As the errors 244 call the types
_COLUMN_NAMES = {"tinyint": "INT1", "smallint": "INT2"}


def _overflow(value: Any, source: SqlType | None, target: SqlType) -> SqlServerError:
    """The error for a value beyond the range of an integer type, which depends on the type that it has."""
    if isinstance(value, str) and target.name != "bigint":
        value_shown = (source.name if source is not None else "nvarchar", value.strip()[:100])
        return (
            SqlServerError(248, *value_shown)
            if target.name == "int"
            else SqlServerError(244, *value_shown, _COLUMN_NAMES[target.name])
        )
    if isinstance(value, float) and family(source) != "decimal":
        return SqlServerError(232, target.name, f"{value:f}")
    if isinstance(value, int) and target.name in _COLUMN_NAMES and -(2**31) <= value < 2**31:
        return SqlServerError(220, target.name, value)
    return SqlServerError(8115, target.name)


def _integer_from_text(value: str, source: SqlType | None, target: SqlType) -> int:
    text = value.strip()
    if target.name == "bit" and text.lower() in ("true", "false"):
        return int(text.lower() == "true")
    if text == "":
        return 0
    if not re.fullmatch(r"[+-]?[0-9]*", text):
        raise SqlServerError(245, "nvarchar" if source is None else source.name, value[:100], target.name)
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > DIGITS_MAX:  # beyond every type, and int() refuses thousands of digits
        digits = digits[:DIGITS_MAX]
    return -int(digits or "0") if text[0] == "-" else int(digits or "0")


def _to_float(source: SqlType | None, target: SqlType, strict: bool, style: int) -> Converter:
    bound = FLOATS_MAX[target.name]
    is_real = target.name == "real"

    def make(value: Any) -> float:
        if isinstance(value, bytes):
            raise SqlServerError(529, source.name if source else "varbinary", target.name)
        if isinstance(value, str):
            value = _number_text(value, _FLOAT, source, target) if value.strip() else 0
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise SqlServerError(8114, source.name if source else "nvarchar", target.name) from None
        if not abs(number) <= bound:
            raise SqlServerError(8115, target.name)
        return as_real(number) if is_real else number

    return make


def as_real(number: float) -> float:
    """The number of 32 bits that is nearest."""
    nearest: float = struct.unpack("<f", struct.pack("<f", number))[0]
    return nearest


_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_FLOAT = re.compile(_DECIMAL.pattern + "(?:[eE][+-]?[0-9]{1,4})?")


def _number_text(value: str, form: re.Pattern[str], source: SqlType | None, target: SqlType) -> str:
    """The text of a number without the spaces around it; Python's `inf`, `nan` and `1_0` are none."""
    text = value.strip()
    if form.fullmatch(text) is None:
        raise SqlServerError(8114, source.name if source else "nvarchar", target.name)
    return text


def _to_decimal(source: SqlType | None, target: SqlType, strict: bool, style: int) -> Converter:
    quantum = Decimal(1).scaleb(-target.scale)
    bound = Decimal(10) ** (target.precision - target.scale)

    def make(value: Any) -> Decimal:
        if isinstance(value, bytes):
            if target.name != "money":
                raise SqlServerError(8114, source.name if source else "varbinary", "numeric")
            return Decimal(int.from_bytes(value[-8:].rjust(8, b"\0"), signed=True)).scaleb(-4)
        number = Decimal(_number_text(value, _DECIMAL, source, target) if isinstance(value, str) else str(value))
        if not number.is_finite() or number.adjusted() > DIGITS_MAX:
            raise SqlServerError(8115, target.name)
        number = number.quantize(quantum, ROUND_HALF_UP, _EXACT)
        if abs(number) >= bound:
            raise SqlServerError(8115, target.name)
        return number

    return make


def stored_decimal(value: Decimal) -> float:
    """A decimal as SQLite keeps it: a float, which has 15 digits of every decimal. What has more is refused."""
    number = float(value)
    if Decimal(repr(number)) != value:
        raise SqlServerError(UNSUPPORTED, f"decimals of more than 15 digits ({value:f})")
    return number


# -- moments and identifiers ------------------------------------------------------------------------------------------


def _to_date(source: SqlType | None, target: SqlType, strict: bool, style: int) -> Converter:
    if family(source) == "text":
        moments.check_reading_style(style, target)
    if family(source) == "datetimeoffset":
        return offsets.to_moment(target)
    return moments.conversion(source, target)


def _to_offset(source: SqlType | None, target: SqlType, strict: bool, style: int) -> Converter:
    if family(source) == "text":
        moments.check_reading_style(style, target)
    return offsets.conversion(source, target)


def _to_guid(source: SqlType | None, target: SqlType, strict: bool, style: int) -> Converter:
    def make(value: Any) -> str:
        if isinstance(value, bytes):
            return guid_text(value)
        match = _GUID.match(value) if isinstance(value, str) else None
        if match is None:
            raise SqlServerError(8169)
        return match[1].upper()

    return make


def _to_xml(source: SqlType | None, target: SqlType, strict: bool, style: int) -> Converter:
    if source is not None and source.name not in (*TEXT, *BINARY, "xml"):
        raise SqlServerError(529, source.name, "xml")
    if style not in (0, 1):
        raise SqlServerError(UNSUPPORTED, f"CONVERT to xml with style {style}")
    if source is not None and source.name == "xml":
        return str
    is_unicode = source is None or source.name in UNICODE

    def make(value: Any) -> str:
        if isinstance(value, bytes):
            return xml_values.from_binary(value, keeps_space=style == 1)
        return xml_values.from_text(value, is_unicode=is_unicode, keeps_space=style == 1)

    return make


_MAKERS: dict[str, Callable[[SqlType | None, SqlType, bool, int], Converter]] = {
    "text": _to_text,
    "binary": _to_binary,
    "integer": _to_integer,
    "float": _to_float,
    "decimal": _to_decimal,
    "date": _to_date,
    "datetimeoffset": _to_offset,
    "uniqueidentifier": _to_guid,
    "xml": _to_xml,
    "sql_variant": _to_variant,
}
