"""ABS, functions of text, those that choose between values, and aggregates."""

import math
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any
from zlib import crc32

from harness.embedded import utf16
from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.sqltypes import BIGINT, FLOAT, INT, MAX, SYSNAME, SqlType
from harness.embedded.tsql.catalog import data_types
from harness.embedded.tsql.catalog.data_types import TYPES, max_length
from harness.embedded.tsql.storage.conversion import UNICODE, check_assignable, family
from harness.embedded.tsql.storage.sqlite import VALUE_BYTES_MAX
from harness.embedded.tsql.storage.variants import VARIANT, decoded
from harness.embedded.tsql.text.tokens import LENGTHS_MAX
from harness.embedded.tsql.translation.arithmetic import exact, in_range, quotient
from harness.embedded.tsql.translation.fragments import (
    CONDITION,
    NOT_CONSTANT,
    NVARCHAR,
    Fragment,
    collation_of,
    common_type,
    is_null,
    part_of_binary,
    text_length,
)
from harness.embedded.tsql.translation.functions.kinds import Arguments, Function, Functions, aggregate, in_python
from harness.embedded.tsql.translation.functions.text_functions import as_text, long_text_type, text_type, varying
from harness.embedded.tsql.translation.renderer import Renderer, case, check_order, collate, comparable

FLOAT_DIGITS_MAX = 350  # before and after the point


def _len(renderer: Renderer, arguments: Arguments) -> Fragment:
    """LEN: the number of characters without trailing spaces, or of bytes."""
    value = arguments[0]
    big = value.type is not None and value.type.length == MAX
    if family(value.type) == "binary":
        return Fragment(f"length({value.sql})", BIGINT if big else INT)
    return Fragment(_units(renderer, f"rtrim({as_text(renderer, value)}, ' ')"), BIGINT if big else INT)


def _units(renderer: Renderer, sql: str) -> str:
    """The length of a text in UTF-16 units: SQLite counts a surrogate pair once."""
    renderer.function("tsql_units", 1, _length)
    return f"tsql_units({sql})"


def _length(value: Any) -> int | None:
    return None if value is None else utf16.length(value) if isinstance(value, str) else len(str(value))


def _datalength(renderer: Renderer, arguments: Arguments) -> Fragment:
    value = arguments[0]
    type_ = value.type
    result = BIGINT if type_ is not None and type_.length == MAX else INT
    name = type_.name if type_ is not None else "nvarchar"
    if type_ is not None and family(type_) not in ("text", "binary") and name in TYPES:
        return Fragment(f"(CASE WHEN {value.sql} IS NOT NULL THEN {max_length(type_)} END)", result)
    if family(type_) == "binary":
        return Fragment(f"length({value.sql})", result)
    factor = 2 if name in ("nvarchar", "nchar") else 1
    return Fragment(f"({_units(renderer, value.sql)} * {factor})", result)


def _variant_property(renderer: Renderer, arguments: Arguments) -> Fragment:
    renderer.function("variant_property", 2, variant_property)
    return Fragment(f"variant_property({renderer.cast(arguments[0], VARIANT).sql}, {arguments[1].sql})", SYSNAME)


def variant_property(variant: str | None, property_name: Any) -> str | None:
    """SQL_VARIANT_PROPERTY ( value , 'property' ), as text."""
    if variant is None:
        return None
    type_, _ = decoded(variant)
    properties = {
        "basetype": "numeric" if type_.name == "decimal" else type_.name,  # a constant is numeric
        "precision": data_types.precision(type_),
        "scale": data_types.scale(type_),
        "maxlength": max_length(type_),
        "collation": data_types.COLLATION if family(type_) == "text" else None,
    }
    name = str(property_name).lower()
    if name == "totalbytes":
        raise UnsupportedSyntax("SQL_VARIANT_PROPERTY of TotalBytes", 0)
    value = properties.get(name)
    return None if value is None else str(value)


def _substring(renderer: Renderer, arguments: Arguments) -> Fragment:
    """Positions before the first count: SUBSTRING(x, 0, 3) has two characters, unlike SQLite's substr."""
    value, start, length = arguments
    type_ = value.type
    sql = as_text(renderer, value)
    is_binary = type_ is not None and family(type_) == "binary"
    kind = (
        SqlType("varbinary", length=type_.length) if type_ is not None and is_binary else varying(text_type(arguments))
    )
    if isinstance(start.constant, int) and isinstance(length.constant, int):
        if length.constant < 0:
            raise SqlServerError(537, "substring")
        first, end = max(1, start.constant), max(0, start.constant + length.constant)
        longest = max(1, length.constant)
        if kind.length != MAX or longest <= LENGTHS_MAX[kind.name]:
            kind = SqlType(kind.name, length=longest if kind.length == MAX else min(longest, kind.length))
        if is_binary and (part := part_of_binary(sql, first, max(0, end - first))) is not None:
            return Fragment(part, kind)
    renderer.function("tsql_substring", 3, substring)
    return Fragment(f"tsql_substring({sql}, {start.sql}, {length.sql})", kind, collation=value.collation)


def substring(value: Any, start: Any, length: Any) -> Any:
    if value is None or start is None or length is None:
        return None
    if length < 0:
        raise SqlServerError(537, "substring")
    first, end = max(0, start - 1), max(0, start - 1 + length)
    return utf16.cut(value, first, end) if isinstance(value, str) else value[first:end]


def _isnull(renderer: Renderer, arguments: Arguments) -> Fragment:
    """ISNULL: the second argument is converted to the type of the first."""
    value, other = arguments
    if value.type is not None and other.type is not None:
        check_assignable(other.type, value.type)
        other = renderer.cast(other, value.type)
    type_ = value.type or other.type
    return Fragment(
        f"ifnull({value.sql}, {other.sql})", type_, nullable=other.nullable, collation=collation_of(*arguments)
    )


def _coalesce(renderer: Renderer, arguments: Arguments) -> Fragment:
    if all(is_null(argument) for argument in arguments):
        raise SqlServerError(4127)
    common = common_type([argument.type for argument in arguments])
    inner = ", ".join(renderer.to_family(argument, common).sql for argument in arguments)
    return Fragment(f"coalesce({inner})", common, collation=collation_of(*arguments))


def _nullif(renderer: Renderer, arguments: Arguments) -> Fragment:
    if is_null(arguments[0]):
        raise SqlServerError(4151)
    left, right = comparable(renderer, *arguments)
    return Fragment(f"(CASE WHEN {left} = {right} THEN NULL ELSE {arguments[0].sql} END)", arguments[0].type)


def _iif(renderer: Renderer, arguments: Arguments) -> Fragment:
    if arguments[0].type is not CONDITION:
        raise SqlServerError(4145, "IIF")
    return case(renderer, [(arguments[0].sql, arguments[1])], arguments[2])


def _concat(renderer: Renderer, arguments: Arguments) -> Fragment:
    """CONCAT: NULL counts as an empty string."""
    parts = [f"ifnull({sql}, '')" for sql in _texts(renderer, arguments)]
    return _joined(f"({' || '.join(parts)})", arguments)


def _concat_ws(renderer: Renderer, arguments: Arguments) -> Fragment:
    """`CONCAT_WS ( separator , value [ , ... ] )`: without values that are NULL."""
    separator, *values = _texts(renderer, arguments)
    parts = [f"ifnull(ifnull({separator}, '') || {sql}, '')" for sql in values]
    separators = [arguments[0]] * (len(values) - 1)
    return _joined(f"substr({' || '.join(parts)}, ifnull(length({separator}), 0) + 1)", separators + arguments[1:])


def _name_of_text(arguments: Arguments) -> str:
    """nvarchar if an argument is of Unicode."""
    is_unicode = any(argument.type is not None and argument.type.name in UNICODE for argument in arguments)
    return "nvarchar" if is_unicode else "varchar"


def _texts(renderer: Renderer, arguments: Arguments) -> list[str]:
    wide = SqlType(_name_of_text(arguments), length=MAX)
    return [
        (argument if family(argument.type) in ("text", "") else renderer.cast(argument, wide)).sql
        for argument in arguments
    ]


def _joined(sql: str, parts: Arguments) -> Fragment:
    """A text of those parts, of a (max) type if one is; another is truncated."""
    name = _name_of_text(parts)
    lengths = [text_length(part.type) for part in parts if part.type is not None]
    if MAX in lengths:
        return Fragment(sql, SqlType(name, length=MAX), nullable=False)
    length = min(max(1, sum(lengths)), LENGTHS_MAX[name])
    if sum(lengths) > length:
        sql = f"substr({sql}, 1, {length})"
    return Fragment(sql, SqlType(name, length=length), nullable=False)


def _choose(renderer: Renderer, arguments: Arguments) -> Fragment:
    """`CHOOSE ( index , value [ , ... ] )`, which SQL Server too makes a CASE; its error is that of a CASE."""
    index, values = renderer.cast(arguments[0], INT).sql, arguments[1:]
    return case(
        renderer, [(f"{index} = {at}", value) for at, value in enumerate(values, 1)], Fragment("NULL", None, None)
    )


def _type_of_number(type_: SqlType | None, name: str) -> SqlType:
    """ "Expression: tinyint, smallint, int: int; bigint; decimal and numeric; money; float, real: float" """
    kind = family(type_)
    if type_ is None or kind in ("text", "float"):
        return FLOAT
    if kind not in ("integer", "decimal") or type_.name == "bit":
        raise SqlServerError(8116, type_.name, name)
    return INT if kind == "integer" and type_.name != "bigint" else type_


def _abs(renderer: Renderer, arguments: Arguments) -> Fragment:
    """`ABS ( number )`; "ABS(-2147483648)" is an overflow of int."""
    [value] = arguments
    type_ = _type_of_number(value.type, "abs")
    if family(value.type) == "text":
        value = renderer.cast(value, FLOAT)
    sql = f"abs({value.sql})"
    return Fragment(in_range(renderer, sql, type_) if family(type_) == "integer" else sql, type_)


def _in_floats(renderer: Renderer, name: str, calculate: Callable[..., float], arguments: Arguments) -> Fragment:
    """A calculation with the arguments as floats."""

    def calculated(*numbers: float) -> float:
        try:
            return calculate(*numbers)
        except OverflowError:
            raise SqlServerError(8115, "float") from None
        except ValueError:
            raise SqlServerError(3623) from None

    floats = [renderer.cast(argument, FLOAT) for argument in arguments]
    return in_python(name, calculated, FLOAT).render(renderer, floats)


def _power(renderer: Renderer, arguments: Arguments) -> Fragment:
    """`POWER ( number , exponent )`: calculated in floats, and of the type of the number."""
    type_ = _type_of_number(arguments[0].type, "power")
    if type_.name in ("decimal", "numeric"):
        type_ = SqlType("decimal", precision=38, scale=type_.scale)
    return renderer.cast(_in_floats(renderer, "power", math.pow, arguments), type_)


def _sqrt(renderer: Renderer, arguments: Arguments) -> Fragment:
    return _in_floats(renderer, "sqrt", math.sqrt, arguments)


def _whole(name: str, rounded: Callable[[Any], int]) -> Function:
    """FLOOR, CEILING: of the type of the number, a decimal without decimal places."""

    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        [value] = arguments
        if value.type is None or family(value.type) == "text":
            value = renderer.cast(value, FLOAT)
        type_ = value.type or FLOAT
        if family(type_) not in ("integer", "float", "decimal") or type_.name == "bit":
            raise SqlServerError(8116, type_.name, name)
        if family(type_) == "integer":
            return value
        renderer.function(name, 1, lambda number: None if number is None else float(rounded(number)))
        return Fragment(f"{name}({value.sql})", type_._replace(scale=0) if type_.scale else type_)

    return Function(1, 1, render)


def _round(renderer: Renderer, arguments: Arguments) -> Fragment:
    """`ROUND ( number , places [ , truncates ] )`: halves away from zero, of the type of the number."""
    type_ = _type_of_number(arguments[0].type, "round")
    is_integer = family(type_) == "integer"

    def rounded(number: Any, places: Any, truncates: Any = 0) -> Any:
        if number is None or places is None or truncates is None:
            return None
        places = min(max(places, -FLOAT_DIGITS_MAX), FLOAT_DIGITS_MAX)
        way = ROUND_DOWN if truncates else ROUND_HALF_UP
        result = Decimal(repr(number)).quantize(Decimal(1).scaleb(-places), way, Context(prec=3 * FLOAT_DIGITS_MAX))
        return int(result) if is_integer else float(result)

    renderer.function(f"round_{type_.name}", -1, rounded)
    values = [renderer.cast(arguments[0], type_).sql, *(renderer.cast(argument, INT).sql for argument in arguments[1:])]
    return renderer.cast(Fragment(f"round_{type_.name}({', '.join(values)})", BIGINT if is_integer else type_), type_)


def _checksum(*values: Any) -> int:
    """CHECKSUM ( value [, ...] ): the same int for equal values; not that of SQL Server, which does not document it."""
    text = "\0".join(value.hex() if isinstance(value, bytes) else str(value).casefold() for value in values)
    return crc32(text.encode()) - 2**31


def _checksums(renderer: Renderer, arguments: Arguments) -> Fragment:
    renderer.function(f"checksum_{len(arguments)}", len(arguments), _checksum)
    return Fragment(f"checksum_{len(arguments)}({', '.join(argument.sql for argument in arguments)})", INT)


def _location(place: bytes) -> str:
    """Format a %%physloc%% as `(file:page:slot)`."""
    page, file, slot = (int.from_bytes(part, "little") for part in (place[:4], place[4:6], place[6:8]))
    return f"({file}:{page}:{slot})"


# -- aggregates and ROW_NUMBER, with an OVER clause or without one -----------------------------------------------------


def _count(type_: SqlType) -> Function:
    def render(renderer: Renderer, arguments: Arguments, over: str) -> Fragment:
        return Fragment(f"count({arguments[0].sql}){over}", type_, nullable=False)

    return aggregate(1, 1, render)


def _extreme(name: str) -> Function:
    """MIN, MAX: "numeric, character, uniqueidentifier, or datetime column. MAX cannot be used with bit columns." """

    def render(renderer: Renderer, arguments: Arguments, over: str) -> Fragment:
        [value] = arguments
        if value.type is not None and value.type.name in ("bit", "uniqueidentifier"):  # whose order SQLite ignores
            raise SqlServerError(8117, value.type.name, name)
        check_order(renderer, value)
        sql = value.sql + collate(value) if family(value.type) == "text" else value.sql
        return Fragment(f"{name}({sql}){over}", value.type, collation=value.collation)

    return aggregate(1, 1, render)


def _sum(renderer: Renderer, arguments: Arguments, over: str) -> Fragment:
    """SUM: of integers up to int an int, of decimals one of 38 digits."""
    [value] = arguments
    type_ = value.type
    sql = f"sum({value.sql}){over}"
    if type_ is None:
        return Fragment(sql, None)
    _check_number(type_, "sum")
    if family(type_) == "decimal":
        sql = exact(renderer, sql, type_.scale)
        return Fragment(sql, type_ if type_.name == "money" else SqlType("decimal", precision=38, scale=type_.scale))
    result = INT if type_.name in ("tinyint", "smallint") else FLOAT if type_.name == "real" else type_
    return Fragment(in_range(renderer, sql, result), result)


def _check_number(type_: SqlType, name: str) -> None:
    if family(type_) not in ("integer", "float", "decimal") or type_.name == "bit":
        raise SqlServerError(8117, type_.name, name)


def _avg(renderer: Renderer, arguments: Arguments, over: str) -> Fragment:
    """AVG: of integers an integer, of decimals one of at least six decimal places."""
    [value] = arguments
    type_ = value.type
    if type_ is None:
        raise SqlServerError(8117, "NULL", "avg")
    _check_number(type_, "avg")
    total, count = _sum(renderer, arguments, over), f"count({value.sql}){over}"
    if family(type_) != "decimal":
        return Fragment(f"({total.sql} / {count})", total.type)
    result = type_ if type_.name == "money" else SqlType("decimal", precision=38, scale=max(6, type_.scale))
    return Fragment(quotient(renderer, total.sql, count, result.scale), result)


def _string_agg(renderer: Renderer, arguments: Arguments) -> Fragment:
    """STRING_AGG: without NULLs, in no order; of what is no text, nvarchar. DBeaver asks for the events of triggers so.

    https://learn.microsoft.com/sql/t-sql/functions/string-agg-transact-sql
    """
    value, separator = arguments
    if value.type is not None and family(value.type) == "binary":
        raise SqlServerError(8116, value.type.name, "string_agg")
    if "?" not in separator.sql and separator.constant is NOT_CONSTANT:
        raise SqlServerError(8733, "STRING_AGG")
    type_ = long_text_type(arguments) if family(value.type) in ("text", "") else NVARCHAR
    sql = f"group_concat({as_text(renderer, value)}, {as_text(renderer, separator)})"
    if type_.length == MAX:
        return Fragment(sql, type_, collation=value.collation)
    longest = type_.length

    def bounded(text: str | None) -> str | None:
        if text is not None and utf16.length(text) > longest:
            raise SqlServerError(9829, "STRING_AGG")
        return text

    renderer.function(f"aggregated_{longest}", 1, bounded)
    return Fragment(f"aggregated_{longest}({sql})", type_, collation=value.collation)


def _replicate(renderer: Renderer, arguments: Arguments) -> Fragment:
    """REPLICATE: "the return value is truncated at 8,000 bytes" unless the text is of a (max) type."""
    text, count = arguments
    type_ = long_text_type(arguments)
    longest = VALUE_BYTES_MAX if type_.length == MAX else type_.length

    def replicate(text: str | None, count: int | None) -> str | None:
        if text is None or count is None or count < 0:
            return None
        if not text:
            return ""
        if count * len(text) > longest and type_.length == MAX:
            raise SqlServerError(701, "default")
        return (text * min(count, longest // len(text) + 1))[:longest]

    name = f"replicate_{longest}"
    renderer.function(name, 2, replicate)
    return Fragment(f"{name}({as_text(renderer, text)}, {renderer.cast(count, BIGINT).sql})", type_)


def _ranking(name: str) -> Function:
    def render(renderer: Renderer, arguments: Arguments, over: str) -> Fragment:
        return Fragment(f"{name}(){over}", BIGINT, nullable=False)

    return aggregate(0, 0, render, only_windowed=True)


FUNCTIONS: Functions = {
    "ABS": Function(1, 1, _abs),
    "AVG": aggregate(1, 1, _avg),
    "CEILING": _whole("ceiling", math.ceil),
    "CHECKSUM": Function(1, 64, _checksums),
    "CHOOSE": Function(2, 254, _choose),
    "COALESCE": Function(1, 64, _coalesce),
    "CONCAT": Function(2, 254, _concat),
    "CONCAT_WS": Function(3, 254, _concat_ws),
    "COUNT": _count(INT),
    "COUNT_BIG": _count(BIGINT),
    "DATALENGTH": Function(1, 1, _datalength),
    "DENSE_RANK": _ranking("dense_rank"),
    "FLOOR": _whole("floor", math.floor),
    "IIF": Function(3, 3, _iif, takes_condition=True),
    "ISNULL": Function(2, 2, _isnull),
    "LEN": Function(1, 1, _len),
    "MAX": _extreme("max"),
    "MIN": _extreme("min"),
    "NULLIF": Function(2, 2, _nullif),
    "POWER": Function(2, 2, _power),
    "RANK": _ranking("rank"),
    "REPLICATE": Function(2, 2, _replicate),
    "ROUND": Function(2, 3, _round),
    "ROW_NUMBER": _ranking("row_number"),
    "SQL_VARIANT_PROPERTY": Function(2, 2, _variant_property),
    "SQRT": Function(1, 1, _sqrt),
    "STRING_AGG": Function(2, 2, _string_agg),
    "SUBSTRING": Function(3, 3, _substring),
    "SUM": aggregate(1, 1, _sum),
    "SYS.FN_PHYSLOCFORMATTER": in_python("physlocformatter", _location, SqlType("varchar", length=128)),
}
