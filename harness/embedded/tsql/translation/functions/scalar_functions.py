"""Functions of text, those that choose between values, and aggregates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import BIGINT, INT, MAX, SqlType
from harness.embedded.tsql.storage.conversion import INTEGER_BYTES, family
from harness.embedded.tsql.storage.sqlite import VALUE_BYTES_MAX
from harness.embedded.tsql.translation.arithmetic import in_range
from harness.embedded.tsql.translation.fragments import CONDITION, NVARCHAR, NVARCHAR_MAX, Fragment, common_type
from harness.embedded.tsql.translation.functions.kinds import Arguments, Function, Functions, in_python
from harness.embedded.tsql.translation.renderer import Renderer, case, comparable


def _text(renderer: Renderer, value: Fragment) -> str:
    return renderer.cast(value, NVARCHAR_MAX).sql if family(value.type) not in ("text", "binary", "") else value.sql


def _text_type(arguments: Arguments) -> SqlType:
    type_ = arguments[0].type
    return type_ if type_ is not None and family(type_) == "text" else NVARCHAR_MAX


def _long_text_type(arguments: Arguments) -> SqlType:
    """REPLICATE, REPLACE: the longest type that is not (max)."""
    type_ = _text_type(arguments)
    if type_.length == MAX:
        return type_
    return NVARCHAR if type_.name in ("nvarchar", "nchar") else SqlType("varchar", length=8000)


def _of_text(name: str) -> Function:
    """A function of one text: UPPER, LOWER, LTRIM, RTRIM."""

    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        type_ = _text_type(arguments)
        varying = {"nchar": "nvarchar", "char": "varchar"}.get(type_.name, type_.name)
        return Fragment(f"{name}({_text(renderer, arguments[0])})", SqlType(varying, length=type_.length))

    return Function(1, 1, render)


def _len(renderer: Renderer, arguments: Arguments) -> Fragment:
    """LEN: the number of characters without trailing spaces, or of bytes."""
    value = arguments[0]
    big = value.type is not None and value.type.length == MAX
    sql = f"length({value.sql})" if family(value.type) == "binary" else f"length(rtrim({_text(renderer, value)}, ' '))"
    return Fragment(sql, BIGINT if big else INT)


FIXED_SIZES = {
    **INTEGER_BYTES,
    "float": 8,
    "real": 4,
    "uniqueidentifier": 16,
    "datetime": 8,
    "smalldatetime": 4,
    "date": 3,
}


def _datalength(renderer: Renderer, arguments: Arguments) -> Fragment:
    value = arguments[0]
    type_ = value.type
    result = BIGINT if type_ is not None and type_.length == MAX else INT
    name = type_.name if type_ is not None else "nvarchar"
    if name in FIXED_SIZES:
        return Fragment(f"(CASE WHEN {value.sql} IS NOT NULL THEN {FIXED_SIZES[name]} END)", result)
    factor = 2 if name in ("nvarchar", "nchar") else 1
    return Fragment(f"(length({value.sql}) * {factor})", result)


def _substring(renderer: Renderer, arguments: Arguments) -> Fragment:
    """Positions before the first count: SUBSTRING(x, 0, 3) has two characters, unlike SQLite's substr."""
    value, start, length = arguments
    type_ = value.type
    sql = _text(renderer, value)
    if isinstance(start.constant, int) and isinstance(length.constant, int):
        if length.constant < 0:
            raise SqlServerError(537, "substring")
        first, end = max(1, start.constant), max(0, start.constant + length.constant)
        whole = type_ if type_ is not None and family(type_) == "binary" else _text_type(arguments)
        longest = max(1, length.constant)
        result = SqlType(whole.name, length=longest if whole.length == MAX else min(longest, whole.length))
        if longest > 8000 and whole.length == MAX:
            result = SqlType(whole.name, length=MAX)
        return Fragment(f"substr({sql}, {first}, {max(0, end - first)})", result)
    renderer.function("tsql_substring", 3, substring)
    kind = type_ if family(type_) == "binary" else _text_type(arguments)
    return Fragment(f"tsql_substring({sql}, {start.sql}, {length.sql})", kind)


def substring(value: Any, start: Any, length: Any) -> Any:
    if value is None or start is None or length is None:
        return None
    if length < 0:
        raise SqlServerError(537, "substring")
    return value[max(0, start - 1) : max(0, start - 1 + length)]


def _isnull(renderer: Renderer, arguments: Arguments) -> Fragment:
    """ISNULL: the second argument is converted to the type of the first."""
    value, other = arguments
    if value.type is not None and other.type is not None:
        other = renderer.cast(other, value.type)
    return Fragment(f"ifnull({value.sql}, {other.sql})", value.type or other.type, nullable=other.nullable)


def _coalesce(renderer: Renderer, arguments: Arguments) -> Fragment:
    common = common_type([argument.type for argument in arguments])
    inner = ", ".join(renderer.to_family(argument, common).sql for argument in arguments)
    return Fragment(f"coalesce({inner})", common)


def _nullif(renderer: Renderer, arguments: Arguments) -> Fragment:
    left, right = comparable(renderer, *arguments)
    return Fragment(f"(CASE WHEN {left} = {right} THEN NULL ELSE {arguments[0].sql} END)", arguments[0].type)


def _iif(renderer: Renderer, arguments: Arguments) -> Fragment:
    if arguments[0].type is not CONDITION:
        raise SqlServerError(4145, "IIF")
    return case(renderer, [(arguments[0].sql, arguments[1])], arguments[2])


def _concat(renderer: Renderer, arguments: Arguments) -> Fragment:
    """CONCAT: NULL counts as an empty string."""
    parts = [f"ifnull({_text(renderer, argument)}, '')" for argument in arguments]
    return Fragment("(" + " || ".join(parts) + ")", NVARCHAR_MAX)


def _charindex(renderer: Renderer, arguments: Arguments) -> Fragment:
    renderer.function("tsql_charindex", 3, charindex)
    start = arguments[2].sql if len(arguments) == 3 else "1"
    return Fragment(f"tsql_charindex({arguments[0].sql}, {arguments[1].sql}, {start})", INT)


def charindex(wanted: Any, text: Any, start: Any) -> int | None:
    if wanted is None or text is None:
        return None
    if isinstance(text, str):
        wanted, text = str(wanted).lower(), text.lower()
    return int(text.find(wanted, max(0, (start or 1) - 1))) + 1


def _location(place: bytes) -> str:
    """Format a %%physloc%% as `(file:page:slot)`."""
    page, file, slot = (int.from_bytes(part, "little") for part in (place[:4], place[4:6], place[6:8]))
    return f"({file}:{page}:{slot})"


def _char(code: int) -> str | None:
    return chr(code) if 0 <= code < 256 else None


def _quotename(text: str, sign: str = "[") -> str:
    closing = {"[": "]", "(": ")", "<": ">", "{": "}"}.get(sign, sign)
    return f"{'[' if sign == ']' else sign}{text.replace(closing, closing * 2)}{closing}"


# -- aggregates and ROW_NUMBER; a NUL character in their SQL marks the place of OVER -----------------------------------


def _aggregate(name: str, type_: Callable[[SqlType | None], SqlType | None]) -> Function:
    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        return Fragment(f"{name}({arguments[0].sql})\0", type_(arguments[0].type), nullable=name != "count")

    return Function(1, 1, render)


def _sum(renderer: Renderer, arguments: Arguments) -> Fragment:
    """SUM: of integers up to int an int, of decimals one of 38 digits."""
    [value] = arguments
    type_ = value.type
    sql = f"sum({value.sql})\0"
    if type_ is None:
        return Fragment(sql, None)
    if family(type_) not in ("integer", "float", "decimal") or type_.name == "bit":
        raise SqlServerError(8117, type_.name, "sum")
    if family(type_) == "decimal":
        return Fragment(sql, type_ if type_.name == "money" else SqlType("decimal", precision=38, scale=type_.scale))
    result = INT if type_.name in ("tinyint", "smallint") else type_
    return Fragment(in_range(renderer, sql, result), result)


def _replace(renderer: Renderer, arguments: Arguments) -> Fragment:
    """REPLACE: it "truncates the return value at 8,000 bytes" unless the text is of a (max) type."""
    type_ = _long_text_type(arguments)
    sql = f"replace({', '.join(_text(renderer, argument) for argument in arguments)})"
    return Fragment(sql if type_.length == MAX else f"substr({sql}, 1, {type_.length})", type_)


def _replicate(renderer: Renderer, arguments: Arguments) -> Fragment:
    """REPLICATE: "the return value is truncated at 8,000 bytes" unless the text is of a (max) type."""
    text, count = arguments
    type_ = _long_text_type(arguments)
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
    return Fragment(f"{name}({_text(renderer, text)}, {renderer.cast(count, BIGINT).sql})", type_)


def _row_number(renderer: Renderer, arguments: Arguments) -> Fragment:
    return Fragment("row_number()\0", BIGINT, nullable=False)


FUNCTIONS: Functions = {
    "CHAR": in_python("char", _char, SqlType("char", length=1)),
    "CHARINDEX": Function(2, 3, _charindex),
    "COALESCE": Function(1, 64, _coalesce),
    "CONCAT": Function(2, 254, _concat),
    "COUNT": _aggregate("count", lambda _: INT),
    "COUNT_BIG": _aggregate("count", lambda _: BIGINT),
    "DATALENGTH": Function(1, 1, _datalength),
    "IIF": Function(3, 3, _iif, takes_condition=True),
    "ISNULL": Function(2, 2, _isnull),
    "LEFT": in_python("left", lambda text, count: text[:count], _text_type),
    "LEN": Function(1, 1, _len),
    "LOWER": _of_text("lower"),
    "LTRIM": _of_text("ltrim"),
    "MAX": _aggregate("max", lambda type_: type_),
    "MIN": _aggregate("min", lambda type_: type_),
    "NULLIF": Function(2, 2, _nullif),
    "QUOTENAME": in_python("quotename", _quotename, SqlType("nvarchar", length=258)),
    "REPLACE": Function(3, 3, _replace),
    "REPLICATE": Function(2, 2, _replicate),
    "RIGHT": in_python("right", lambda text, count: text[max(0, len(text) - count) :], _text_type),
    "ROW_NUMBER": Function(0, 0, _row_number, only_windowed=True),
    "RTRIM": _of_text("rtrim"),
    "SUBSTRING": Function(3, 3, _substring),
    "SUM": Function(1, 1, _sum),
    "SYS.FN_PHYSLOCFORMATTER": in_python("physlocformatter", _location, SqlType("varchar", length=128)),
    "UPPER": _of_text("upper"),
}
