"""Functions of text, those that choose between values, and aggregates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.embedded import utf16
from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import BIGINT, INT, MAX, SqlType
from harness.embedded.tsql.catalog.data_types import TYPES, max_length
from harness.embedded.tsql.storage.conversion import family
from harness.embedded.tsql.storage.sqlite import VALUE_BYTES_MAX
from harness.embedded.tsql.translation.arithmetic import exact, in_range
from harness.embedded.tsql.translation.fragments import CONDITION, NVARCHAR_MAX, Fragment, common_type
from harness.embedded.tsql.translation.functions.kinds import Arguments, Function, Functions, in_python
from harness.embedded.tsql.translation.functions.text_functions import as_text, long_text_type, text_type
from harness.embedded.tsql.translation.renderer import Renderer, case, comparable


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


def _substring(renderer: Renderer, arguments: Arguments) -> Fragment:
    """Positions before the first count: SUBSTRING(x, 0, 3) has two characters, unlike SQLite's substr."""
    value, start, length = arguments
    type_ = value.type
    sql = as_text(renderer, value)
    is_binary = family(type_) == "binary"
    kind = type_ if is_binary else text_type(arguments)
    if isinstance(start.constant, int) and isinstance(length.constant, int):
        if length.constant < 0:
            raise SqlServerError(537, "substring")
        first, end = max(1, start.constant), max(0, start.constant + length.constant)
        whole = type_ if type_ is not None and is_binary else text_type(arguments)
        longest = max(1, length.constant)
        kind = SqlType(whole.name, length=longest if whole.length == MAX else min(longest, whole.length))
        if longest > 8000 and whole.length == MAX:
            kind = SqlType(whole.name, length=MAX)
        if is_binary:
            return Fragment(f"substr({sql}, {first}, {max(0, end - first)})", kind)
    renderer.function("tsql_substring", 3, substring)
    return Fragment(f"tsql_substring({sql}, {start.sql}, {length.sql})", kind)


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
    parts = [f"ifnull({as_text(renderer, argument)}, '')" for argument in arguments]
    return Fragment("(" + " || ".join(parts) + ")", NVARCHAR_MAX)


def _location(place: bytes) -> str:
    """Format a %%physloc%% as `(file:page:slot)`."""
    page, file, slot = (int.from_bytes(part, "little") for part in (place[:4], place[4:6], place[6:8]))
    return f"({file}:{page}:{slot})"


# -- aggregates and ROW_NUMBER; a NUL character in their SQL marks the place of OVER -----------------------------------


def _aggregate(name: str, type_: Callable[[SqlType | None], SqlType | None]) -> Function:
    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        return Fragment(f"{name}({arguments[0].sql})\0", type_(arguments[0].type), nullable=name != "count")

    return Function(1, 1, render)


def _comparable(type_: SqlType | None) -> SqlType | None:
    """MIN, MAX: "numeric, character, uniqueidentifier, or datetime column. MAX cannot be used with bit columns." """
    if type_ is not None and type_.name in ("bit", "uniqueidentifier"):  # whose order SQLite does not know
        raise SqlServerError(8117, type_.name, "max")
    return type_


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
        sql = exact(renderer, sql, type_.scale)
        return Fragment(sql, type_ if type_.name == "money" else SqlType("decimal", precision=38, scale=type_.scale))
    result = INT if type_.name in ("tinyint", "smallint") else type_
    return Fragment(in_range(renderer, sql, result), result)


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


def _row_number(renderer: Renderer, arguments: Arguments) -> Fragment:
    return Fragment("row_number()\0", BIGINT, nullable=False)


FUNCTIONS: Functions = {
    "COALESCE": Function(1, 64, _coalesce),
    "CONCAT": Function(2, 254, _concat),
    "COUNT": _aggregate("count", lambda _: INT),
    "COUNT_BIG": _aggregate("count", lambda _: BIGINT),
    "DATALENGTH": Function(1, 1, _datalength),
    "IIF": Function(3, 3, _iif, takes_condition=True),
    "ISNULL": Function(2, 2, _isnull),
    "LEN": Function(1, 1, _len),
    "MAX": _aggregate("max", _comparable),
    "MIN": _aggregate("min", _comparable),
    "NULLIF": Function(2, 2, _nullif),
    "REPLICATE": Function(2, 2, _replicate),
    "ROW_NUMBER": Function(0, 0, _row_number, only_windowed=True),
    "SUBSTRING": Function(3, 3, _substring),
    "SUM": Function(1, 1, _sum),
    "SYS.FN_PHYSLOCFORMATTER": in_python("physlocformatter", _location, SqlType("varchar", length=128)),
}
