"""T-SQL's functions: one entry in `FUNCTIONS` for each, and the Python functions that SQLite calls for some."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot import exp

from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.sqltypes import BIGINT, FLOAT, INT, MAX, SqlType
from harness.embedded.tsql.storage.conversion import INTEGER_BYTES, family
from harness.embedded.tsql.translation import date_functions
from harness.embedded.tsql.translation.fragments import Fragment, Getter, Names, common_type

if TYPE_CHECKING:
    from harness.embedded.tsql.translation.renderer import Renderer

CONDITION = SqlType("condition")  # what a comparison has instead of a type: T-SQL knows no boolean values
NVARCHAR = SqlType("nvarchar", length=4000)
NVARCHAR_MAX = SqlType("nvarchar", length=MAX)

Arguments = list[Fragment]
Render = Callable[["Renderer", Arguments], Fragment]


class Function(NamedTuple):
    least: int
    most: int
    render: Render
    raw: bool = False  # the first argument is a word (a date part), not an expression
    only_windowed: bool = False


# -- functions SQLite calls --------------------------------------------------------------------------------------------


def never_failing(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """TRY_CAST: NULL where the conversion is an error."""

    def attempt(value: Any) -> Any:
        try:
            return function(value)
        except SqlServerError:
            return None

    return attempt


def divide(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return None
    if b == 0:
        raise SqlServerError(8134)
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return a / b


def modulo(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return None
    if b == 0:
        raise SqlServerError(8134)
    remainder = abs(a) % abs(b)
    return -remainder if a < 0 else remainder


@lru_cache(maxsize=256)
def _pattern(pattern: str, escape: str) -> re.Pattern[str]:
    """LIKE's pattern: % any text, _ any character, [a-f] and [^a-f] sets."""
    parts, place = [], 0
    while place < len(pattern):
        character = pattern[place]
        end = pattern.find("]", place + 2)
        if escape and character == escape and place + 1 < len(pattern):
            place += 1
            parts.append(re.escape(pattern[place]))
        elif character == "[" and end > 0:
            inside = pattern[place + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            parts.append(f"[{inside}]")
            place = end
        else:
            parts.append({"%": ".*", "_": "."}.get(character, re.escape(character)))
        place += 1
    return re.compile("".join(parts), re.IGNORECASE | re.DOTALL)


def like(value: Any, pattern: Any, escape: str) -> int | None:
    if value is None or pattern is None:
        return None
    return int(_pattern(str(pattern), escape).fullmatch(str(value)) is not None)


def formatted_location(place: bytes) -> str:
    """`(file:page:slot)` of a %%physloc%%."""
    page, file, slot = (int.from_bytes(part, "little") for part in (place[:4], place[4:6], place[6:8]))
    return f"({file}:{page}:{slot})"


# -- rendering helpers -------------------------------------------------------------------------------------------------


def _first_type(arguments: Arguments) -> SqlType | None:
    return arguments[0].type


def _simple(name: str, type_: SqlType | Callable[[Arguments], SqlType | None]) -> Render:
    """A function that SQLite has under the same or another name."""

    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        result = type_(arguments) if callable(type_) else type_
        return Fragment(f"{name}({', '.join(argument.sql for argument in arguments)})", result)

    return render


def _python(
    name: str,
    function: Callable[..., Any],
    type_: SqlType | Callable[[Arguments], SqlType | None],
    *,
    least: int,
    most: int | None = None,
) -> Function:
    """A function of our own; NULL in the first argument gives NULL."""

    def guarded(*values: Any) -> Any:
        return None if values[0] is None else function(*values)

    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        own = f"tsql_{name}_{len(arguments)}"
        renderer.function(own, len(arguments), guarded)
        return _simple(own, type_)(renderer, arguments)

    return Function(least, most or least, render)


def of_frame(name: str, type_: SqlType, getter: Getter) -> Function:
    """A function without arguments that the session answers."""

    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        return Fragment(renderer.parameter(name, getter), type_, nullable=False)

    return Function(0, 0, render)


def _text(renderer: Renderer, value: Fragment) -> str:
    return renderer.cast(value, NVARCHAR_MAX).sql if family(value.type) not in ("text", "binary", "") else value.sql


def _text_type(arguments: Arguments) -> SqlType:
    type_ = arguments[0].type
    return type_ if type_ is not None and family(type_) == "text" else NVARCHAR_MAX


def _long_text_type(arguments: Arguments) -> SqlType:
    """REPLICATE, REPLACE: as long as the type can be without being (max)."""
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
    """Characters without trailing spaces; of binary, bytes."""
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
    """Positions before the first count: SUBSTRING(x, 0, 3) is two characters; SQLite's substr differs."""
    value, start, length = arguments
    type_ = value.type
    sql = _text(renderer, value)
    if isinstance(start.constant, int) and isinstance(length.constant, int):
        if length.constant < 0:
            raise SqlServerError(537, "substring")
        first, end = max(1, start.constant), max(0, start.constant + length.constant)
        name = "varbinary" if family(type_) == "binary" else _text_type(arguments).name
        return Fragment(f"substr({sql}, {first}, {max(0, end - first)})", SqlType(name, length=max(1, length.constant)))
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
    """The second argument takes the type of the first."""
    value, other = arguments
    if value.type is not None and other.type is not None:
        other = renderer.cast(other, value.type)
    return Fragment(f"ifnull({value.sql}, {other.sql})", value.type or other.type, nullable=other.nullable)


def _coalesce(renderer: Renderer, arguments: Arguments) -> Fragment:
    common = common_type([argument.type for argument in arguments])
    inner = ", ".join(renderer.to_family(argument, common).sql for argument in arguments)
    return Fragment(f"coalesce({inner})", common)


def _nullif(renderer: Renderer, arguments: Arguments) -> Fragment:
    from harness.embedded.tsql.translation.expressions import comparable  # noqa: PLC0415

    left, right = comparable(renderer, *arguments)
    return Fragment(f"(CASE WHEN {left} = {right} THEN NULL ELSE {arguments[0].sql} END)", arguments[0].type)


def _iif(renderer: Renderer, arguments: Arguments) -> Fragment:
    if arguments[0].type is not CONDITION:
        raise SqlServerError(4145, "IIF")
    return renderer.choose([(arguments[0].sql, arguments[1])], arguments[2])


def _concat(renderer: Renderer, arguments: Arguments) -> Fragment:
    """NULL counts as an empty string."""
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


def _date_function(kind: str) -> Render:
    """DATEDIFF, DATEDIFF_BIG, DATEADD, DATEPART, DATENAME: the first argument names a part."""

    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        part = date_functions.part(arguments[0].sql)
        moments = arguments[2:] if kind == "dateadd" else arguments[1:]
        values = [*arguments[1 : len(arguments) - len(moments)], *(_moment(renderer, moment) for moment in moments)]
        result = {"datediff": INT, "datediff_big": BIGINT, "datepart": INT, "datename": NVARCHAR}.get(kind)
        if result is None:
            result = arguments[2].type if family(arguments[2].type) == "date" else SqlType("datetime")
        assert result is not None
        name = f"{kind}_{part}_{result.name}"
        renderer.function(name, len(values), date_functions.function(kind, part, result))
        return Fragment(f"{name}({', '.join(value.sql for value in values)})", result)

    return render


def _moment(renderer: Renderer, value: Fragment) -> Fragment:
    return value if family(value.type) == "date" else renderer.cast(value, SqlType("datetime2", scale=7))


def _part_of_date(part: str) -> Render:
    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        return _date_function("datepart")(renderer, [Fragment(part, None), *arguments])

    return render


# -- aggregates --------------------------------------------------------------------------------------------------------


def _aggregate(name: str, type_: Callable[[SqlType | None], SqlType | None]) -> Function:
    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        # \0 is where OVER goes if it is a window function.
        return Fragment(f"{name}({arguments[0].sql})\0", type_(arguments[0].type), nullable=name != "count")

    return Function(1, 1, render)


def _sum_type(type_: SqlType | None) -> SqlType | None:
    if type_ is None:
        return None
    if type_.name in ("tinyint", "smallint", "int"):
        return INT
    return SqlType("decimal", precision=38, scale=type_.scale) if family(type_) == "decimal" else type_


def _average(renderer: Renderer, arguments: Arguments) -> Fragment:
    type_ = _sum_type(arguments[0].type)
    if family(type_) == "integer":
        return Fragment(f"CAST(avg({arguments[0].sql})\0 AS INTEGER)", type_)
    if family(type_) == "decimal":
        type_ = SqlType("decimal", precision=38, scale=max(6, type_.scale if type_ else 6))
    return Fragment(f"avg({arguments[0].sql})\0", type_)


def _extreme(name: str) -> Function:
    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        return Fragment(f"{name}({arguments[0].sql})\0", arguments[0].type)

    return Function(1, 1, render)


def _ranking(name: str) -> Function:
    return Function(
        0, 0, lambda renderer, arguments: Fragment(f"{name}()\0", BIGINT, nullable=False), only_windowed=True
    )


def _neighbour(name: str) -> Function:
    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        inner = ", ".join(argument.sql for argument in arguments)
        return Fragment(f"{name}({inner})\0", arguments[0].type)

    return Function(1, 3, render, only_windowed=True)


def _string_agg(renderer: Renderer, arguments: Arguments) -> Fragment:
    return Fragment(f"group_concat({_text(renderer, arguments[0])}, {arguments[1].sql})\0", NVARCHAR_MAX)


# -- calls -------------------------------------------------------------------------------------------------------------


def call(renderer: Renderer, name: str, nodes: list[exp.Expr], names: Names, *, windowed: bool = False) -> Fragment:
    """A function call; 195 for a function that T-SQL does not know either, as far as we know."""
    function = FUNCTIONS.get(name.upper())
    if function is None:
        raise SqlServerError(195, name)
    if not function.least <= len(nodes) <= function.most:
        raise SqlServerError(174, name.lower(), function.least)
    if function.only_windowed and not windowed:
        raise SqlServerError(10753, name)
    arguments = []
    for number, node in enumerate(nodes):
        if function.raw and number == 0:
            arguments.append(Fragment(node.name, None))
        elif isinstance(node, exp.Star):
            arguments.append(Fragment("*", INT))
        elif isinstance(node, exp.Distinct):
            inner = renderer.expression(node.expressions[0], names)
            arguments.append(inner._replace(sql=f"DISTINCT {inner.sql}"))
        else:
            arguments.append(renderer.expression(node, names))
    rendered = function.render(renderer, arguments)
    if windowed:
        if "\0" not in rendered.sql:
            raise UnsupportedSyntax(f"OVER after {name}", renderer.line)
        return rendered
    return rendered._replace(sql=rendered.sql.replace("\0", ""))


def global_variable(renderer: Renderer, name: str) -> Fragment:
    found = GLOBALS.get(name.upper())
    if found is None:
        raise SqlServerError(137, "@@" + name)
    type_, getter = found
    return Fragment(renderer.parameter("@@" + name.upper(), getter), type_, nullable=False)


def in_session(
    name: str, function: Callable[..., Any], type_: SqlType, *, least: int, most: int | None = None
) -> Function:
    """A function whose arguments may be columns and whose answer depends on the session: `function(frame, ...)`."""

    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        if all(isinstance(argument.constant, str | int | bytes) for argument in arguments):
            values = [argument.constant for argument in arguments]
            return Fragment(renderer.parameter(f"{name}{values!r}", lambda frame: function(frame, *values)), type_)
        own = f"session_{name.lower()}_{len(arguments)}"
        renderer.function(own, len(arguments), function, constant=False)
        return Fragment(f"{own}({', '.join(argument.sql for argument in arguments)})", type_)

    return Function(least, most if most is not None else least, render)


FUNCTIONS: dict[str, Function] = {
    "ABS": Function(1, 1, _simple("abs", _first_type)),
    "AVG": Function(1, 1, _average),
    "CEILING": _python("ceiling", lambda value: -((-value) // 1), _first_type, least=1),
    "CHAR": _python("char", lambda value: chr(value) if 0 <= value < 256 else None, SqlType("char", length=1), least=1),
    "CHARINDEX": Function(2, 3, _charindex),
    "COALESCE": Function(1, 64, _coalesce),
    "CONCAT": Function(2, 254, _concat),
    "COUNT": _aggregate("count", lambda _: INT),
    "COUNT_BIG": _aggregate("count", lambda _: BIGINT),
    "DATALENGTH": Function(1, 1, _datalength),
    "DATEADD": Function(3, 3, _date_function("dateadd"), raw=True),
    "DATEDIFF": Function(3, 3, _date_function("datediff"), raw=True),
    "DATEDIFF_BIG": Function(3, 3, _date_function("datediff_big"), raw=True),
    "DATENAME": Function(2, 2, _date_function("datename"), raw=True),
    "DATEPART": Function(2, 2, _date_function("datepart"), raw=True),
    "DAY": Function(1, 1, _part_of_date("day")),
    "DENSE_RANK": _ranking("dense_rank"),
    "FIRST_VALUE": _neighbour("first_value"),
    "FLOOR": _python("floor", lambda value: value // 1, _first_type, least=1),
    "IIF": Function(3, 3, _iif),
    "ISNULL": Function(2, 2, _isnull),
    "LAG": _neighbour("lag"),
    "LAST_VALUE": _neighbour("last_value"),
    "LEAD": _neighbour("lead"),
    "LEFT": _python("left", lambda text, count: text[:count], _text_type, least=2),
    "LEN": Function(1, 1, _len),
    "LOWER": _of_text("lower"),
    "LTRIM": _of_text("ltrim"),
    "MAX": _extreme("max"),
    "MIN": _extreme("min"),
    "MONTH": Function(1, 1, _part_of_date("month")),
    "NULLIF": Function(2, 2, _nullif),
    "POWER": _python("power", lambda base, exponent: base**exponent, _first_type, least=2),
    "QUOTENAME": _python(
        "quotename", lambda text, sign="[": _quotename(text, sign), SqlType("nvarchar", length=258), least=1, most=2
    ),
    "RANK": _ranking("rank"),
    "REPLACE": Function(3, 3, _simple("replace", _long_text_type)),
    "REPLICATE": _python(
        "replicate", lambda text, count: None if count < 0 else text * count, _long_text_type, least=2
    ),
    "REVERSE": _python("reverse", lambda text: text[::-1], _text_type, least=1),
    "RIGHT": _python("right", lambda text, count: text[max(0, len(text) - count) :], _text_type, least=2),
    "ROUND": Function(2, 2, _simple("round", _first_type)),
    "ROW_NUMBER": _ranking("row_number"),
    "RTRIM": _of_text("rtrim"),
    "SIGN": _python("sign", lambda value: (value > 0) - (value < 0), _first_type, least=1),
    "SPACE": _python("space", lambda count: " " * count, NVARCHAR, least=1),
    "SQRT": _python("sqrt", lambda value: float(value) ** 0.5, FLOAT, least=1),
    "STR": _python("str", lambda value: f"{value:10.0f}", SqlType("varchar", length=10), least=1),
    "STRING_AGG": Function(2, 2, _string_agg),
    "SUBSTRING": Function(3, 3, _substring),
    "SUM": _aggregate("sum", _sum_type),
    "UPPER": _of_text("upper"),
    "YEAR": Function(1, 1, _part_of_date("year")),
}
FUNCTIONS["SYS.FN_PHYSLOCFORMATTER"] = _python(
    "physlocformatter", formatted_location, SqlType("varchar", length=128), least=1
)
FUNCTIONS["TRIM"] = _of_text("trim")
FUNCTIONS["UNICODE"] = _python("unicode", lambda text: ord(text[0]) if text else None, INT, least=1)
FUNCTIONS["NCHAR"] = _python("nchar", chr, SqlType("nchar", length=1), least=1)
FUNCTIONS["NTILE"] = Function(
    1, 1, lambda renderer, arguments: Fragment(f"ntile({arguments[0].sql})\0", BIGINT), only_windowed=True
)

# Filled by `session_functions`: what only the session knows.
GLOBALS: dict[str, tuple[SqlType, Getter]] = {}
WITHOUT_PARENTHESES = frozenset({"CURRENT_TIMESTAMP", "CURRENT_USER", "SESSION_USER", "SYSTEM_USER", "USER"})


def _quotename(text: str, sign: str) -> str:
    closing = {"[": "]", "(": ")", "<": ">", "{": "}"}.get(sign, sign)
    return f"{'[' if sign == ']' else sign}{text.replace(closing, closing * 2)}{closing}"
