"""Arithmetic: the type of each result, and its range.

SQLite computes with 64 bits and with floats, and goes on beyond both. Each operation here has the type that SQL Server
gives it, and a value beyond that type's range is error 8115 of the operation, not of the whole expression.
https://learn.microsoft.com/sql/t-sql/data-types/precision-scale-and-length-transact-sql has the rules for decimals.
"""

import operator
from collections.abc import Callable
from datetime import date
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

from sqlglot import exp

from harness.embedded.errors import UNSUPPORTED, SqlServerError
from harness.embedded.sqltypes import DATETIME, MAX, SqlType
from harness.embedded.tsql.storage.conversion import (
    FLOATS_MAX,
    INTEGER_RANGES,
    UNICODE,
    as_real,
    family,
    stored_decimal,
)
from harness.embedded.tsql.storage.moments import TICKS_A_DAY, of_type, ticks
from harness.embedded.tsql.text.tokens import DIGITS_MAX, LENGTHS_MAX
from harness.embedded.tsql.translation.fragments import (
    VARBINARY_MAX,
    Fragment,
    Names,
    collation_of,
    common_type,
    literal,
    text_length,
)
from harness.embedded.tsql.translation.renderer import Renderer

SIGNS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
}
# As error messages call the operators
NAMES = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "%": "modulo", "&": "'&'", "|": "'|'", "^": "'^'"}
BITWISE = frozenset("&|^")


class _Row:
    """Operands in a row that one function computes, or that one `||` after another joins: nested calls and parentheses
    would soon be too deep for SQLite's parser."""

    __slots__ = ("operands", "operations", "result")

    def __init__(self, first: Fragment) -> None:
        self.operands = [first.sql]
        self.operations: list[str] = []  # as `_parsed` reads them
        self.result = first

    def goes_on(self, left: Fragment, *, with_text: bool) -> bool:
        """Whether `left` is what this row computes, so that it can have one more operand."""
        return (
            self.result is left
            and len(self.operands) < OPERANDS_MAX
            and (len(self.operands) == 1 or with_text != bool(self.operations))
        )


def chain(renderer: Renderer, node: exp.Expr, names: Names) -> Fragment:
    """Operators in a row, which are nested to the left: rendered without recursion, because there may be thousands."""
    operations: list[exp.Expr] = []
    while type(node) in SIGNS:
        operations.append(node)
        node = node.this
    left = renderer.value(node, names)
    row = _Row(left)
    for operation in reversed(operations):
        right = renderer.value(operation.expression, names)
        left, row = _operation(renderer, SIGNS[type(operation)], left, right, row)
    return left


def _operation(renderer: Renderer, sign: str, left: Fragment, right: Fragment, row: _Row) -> tuple[Fragment, _Row]:
    families = {family(left.type), family(right.type)} - {""}
    if "date" in families:
        return _alone(_moments(renderer, sign, left, right))
    if sign == "+" and families == {"text"}:
        return _joined_text(left, right, row)
    if sign == "+" and families == {"binary"}:
        return _alone(_joined_binary(renderer, left, right))
    common = common_type([left.type, right.type])
    if common is None:
        return _alone(Fragment("NULL", None, None))
    if "uniqueidentifier" in families and len(families) > 1:
        raise SqlServerError(206, _name(left), _name(right))
    kind = family(common)
    is_valid = {
        "integer": sign in BITWISE or common.name != "bit",
        "decimal": sign not in BITWISE and "binary" not in families,
        "float": sign not in BITWISE and sign != "%" and "binary" not in families,
    }
    if not is_valid.get(kind):
        raise SqlServerError(402, _name(left), _name(right), NAMES[sign])
    if (folded := _folded(sign, left, right, common)) is not None:
        return _alone(folded)
    if family(left.type) in ("text", "binary"):
        left, row = _alone(renderer.cast(left, common))
    if family(right.type) in ("text", "binary"):
        right = renderer.cast(right, common)
    if common.name == "real" and left.type is not None and left.type.name != "real":
        left, row = _alone(renderer.cast(left, common))
    if common.name == "real" and right.type is not None and right.type.name != "real":
        right = renderer.cast(right, common)
    return _computed(renderer, sign, left, right, common, row)


def _alone(result: Fragment) -> tuple[Fragment, _Row]:
    return result, _Row(result)


def _name(side: Fragment) -> str:
    return side.type.name if side.type is not None else "NULL"


def _joined_binary(renderer: Renderer, left: Fragment, right: Fragment) -> Fragment:
    renderer.function("binary_concat", 2, lambda a, b: None if a is None or b is None else a + b)
    sql = f"binary_concat({left.sql}, {right.sql})"
    lengths = [side.type.length for side in (left, right) if side.type is not None]
    length, longest = MAX if MAX in lengths else sum(lengths), LENGTHS_MAX["varbinary"]
    if length > longest:
        return renderer.cast(Fragment(sql, VARBINARY_MAX), SqlType("varbinary", length=longest))
    return Fragment(sql, SqlType("varbinary", length=length))


def _joined_text(left: Fragment, right: Fragment, row: _Row) -> tuple[Fragment, _Row]:
    lengths = [text_length(side.type) for side in (left, right) if side.type is not None]
    common = common_type([left.type, right.type])
    assert common is not None
    longest = 4000 if common.name in UNICODE else 8000
    length = MAX if MAX in lengths else min(sum(lengths), longest)
    type_ = SqlType({"nchar": "nvarchar", "char": "varchar"}.get(common.name, common.name), length=length)
    first, other = left.constant, right.constant
    if isinstance(first, str) and isinstance(other, str) and len(first) + len(other) <= longest:
        return _alone(Fragment(literal(first + other), type_, first + other, nullable=False))
    if not row.goes_on(left, with_text=True):
        row = _Row(left)
    row.operands.append(right.sql)
    sql = f"({' || '.join(row.operands)})"
    if length != MAX and sum(lengths) > length:  # beyond 8,000 bytes it is truncated
        return _alone(Fragment(f"substr({sql}, 1, {length})", type_, collation=collation_of(left, right)))
    row.result = Fragment(sql, type_, collation=collation_of(left, right))
    return row.result, row


# -- numbers -----------------------------------------------------------------------------------------------------------


def _quotient(a: Any, b: Any) -> Any:
    if b == 0:
        raise SqlServerError(8134)
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return a / b


def _divided(a: Any, b: Any) -> float:
    if b == 0:
        raise SqlServerError(8134)
    return float(a) / float(b)


def _remainder(a: Any, b: Any) -> Any:
    if b == 0:
        raise SqlServerError(8134)
    remainder = abs(a) % abs(b)
    return -remainder if a < 0 else remainder


Compute = Callable[[Any, Any], Any]
COMPUTE: dict[str, Compute] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _quotient,
    "%": _remainder,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
OPERANDS_MAX = 100  # of one function; SQLite's limit is 127
_BOUNDS = INTEGER_RANGES | {name: (-bound, bound) for name, bound in FLOATS_MAX.items()}
_BOUNDS["decimal"] = _BOUNDS["float"]


def _folded(sign: str, left: Fragment, right: Fragment, common: SqlType) -> Fragment | None:
    """The operation on two integers that are constants, unless it is an error, which belongs to the run."""
    a, b = left.constant, right.constant
    if not (isinstance(a, int) and isinstance(b, int)) or (sign in "/%" and b == 0):
        return None
    low, high = INTEGER_RANGES[common.name]
    value = COMPUTE[sign](a, b)
    return Fragment(literal(value), common, value, nullable=False) if low <= value <= high else None


def _computed(  # noqa: PLR0917
    renderer: Renderer, sign: str, left: Fragment, right: Fragment, common: SqlType, row: _Row
) -> tuple[Fragment, _Row]:
    result = common
    if family(common) == "decimal" and common.name != "money":
        result = _decimal_type(sign, _operand_type(left, common), _operand_type(right, common))
    if not row.goes_on(left, with_text=False):
        row = _Row(left)
    row.operands.append(right.sql)
    row.operations.append(f"{sign}:{common.name if common.name in _BOUNDS else 'decimal'}:{result.scale}")
    renderer.function("compute", -1, _compute)
    row.result = Fragment(f"compute('{' '.join(row.operations)}', {', '.join(row.operands)})", result)
    return row.result, row


def _compute(operations: str, result: Any, *operands: Any) -> Any:
    """The operations from left to right, each within the range of its type; NULL if an operand is."""
    for (compute, low, high, name), operand in zip(_parsed(operations), operands, strict=True):
        if result is None or operand is None:
            return None
        result = compute(result, operand)
        if not low <= result <= high:
            raise SqlServerError(8115, name)
    return stored_decimal(result) if isinstance(result, Decimal) else result


@lru_cache(maxsize=1024)
def _parsed(operations: str) -> list[tuple[Compute, Any, Any, str]]:
    """Read operations such as `+:int:0 *:decimal:4`: the sign, the type of the result and its scale."""
    parsed = []
    for operation in operations.split():
        sign, name, scale = operation.split(":")
        low, high = _BOUNDS[name]
        compute = COMPUTE[sign] if sign != "/" or name in INTEGER_RANGES else _divided
        if name == "decimal":
            compute = _exactly(sign, int(scale))
        elif name == "real":
            compute = _in_32_bits(compute)
        parsed.append((compute, low, high, name))
    return parsed


def _in_32_bits(compute: Compute) -> Compute:
    def computed(a: Any, b: Any) -> float:
        result = compute(a, b)
        return as_real(result) if abs(result) <= FLOATS_MAX["real"] else result

    return computed


_EXACT = Context(prec=100)


def _exactly(sign: str, scale: int) -> Compute:
    """An operation on decimals: exact, and then rounded to the scale of its result; a quotient is cut."""
    compute = _EXACT.divide if sign == "/" else COMPUTE[sign]
    quantum, rounding = Decimal(1).scaleb(-scale), ROUND_DOWN if sign == "/" else ROUND_HALF_UP

    def exactly(a: Any, b: Any) -> Decimal:
        if sign == "/" and b == 0:
            raise SqlServerError(8134)
        return compute(_as_decimal(a), _as_decimal(b)).quantize(quantum, rounding, _EXACT)

    return exactly


def _as_decimal(value: Any) -> Decimal:
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def exact(renderer: Renderer, sql: str, scale: int) -> str:
    """The SQL of a sum of decimals without the error of the floats in it; refused beyond 15 digits."""

    def rounded(value: Any) -> Any:
        if value is None:
            return None
        if abs(value) * 10.0**scale >= 1e15:
            raise SqlServerError(UNSUPPORTED, f"decimals of more than 15 digits ({value})")
        return round(float(value), scale)

    name = f"exact_{scale}"
    renderer.function(name, 1, rounded)
    return f"{name}({sql})"


def quotient(renderer: Renderer, total: str, count: str, scale: int) -> str:
    """The SQL of a decimal divided by a number that is 0 only where the decimal is NULL."""
    divide = _exactly("/", scale)
    name = f"quotient_{scale}"
    renderer.function(name, 2, lambda a, b: None if a is None else stored_decimal(divide(a, b)))
    return f"{name}({total}, {count})"


def in_range(renderer: Renderer, sql: str, type_: SqlType) -> str:
    """The SQL of a number, with error 8115 if its value is beyond the range of its type."""
    low, high = _BOUNDS[type_.name]

    def check(value: Any) -> Any:
        # SQLite's result is a float where 64 bits are too few.
        if value is None or (low <= value <= high and (type(value) is int) == (type_.name in INTEGER_RANGES)):
            return value
        raise SqlServerError(8115, type_.name)

    name = f"in_range_{type_.name}"
    renderer.function(name, 1, check)
    return f"{name}({sql})"


DIGITS = {"bit": 1, "tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}


def _operand_type(side: Fragment, common: SqlType) -> SqlType:
    """The type of an operand; a constant that is an integer has as many digits as are written."""
    if isinstance(side.constant, int):
        return SqlType("decimal", precision=len(str(abs(side.constant))))
    return side.type or common


def _decimal_type(sign: str, left: SqlType, right: SqlType) -> SqlType:
    (p1, s1), (p2, s2) = _digits(left), _digits(right)
    whole_digits = max(p1 - s1, p2 - s2) + 1
    scale = max(s1, s2)
    if sign == "*":
        whole_digits, scale = p1 - s1 + p2 - s2 + 1, s1 + s2
    elif sign == "/":
        whole_digits, scale = p1 - s1 + s2, max(6, s1 + p2 + 1)
    elif sign == "%":
        whole_digits = min(p1 - s1, p2 - s2)
    if whole_digits + scale > DIGITS_MAX:
        scale = max(DIGITS_MAX - whole_digits, min(scale, 6) if sign in "*/" else 0)
    return SqlType("decimal", precision=min(DIGITS_MAX, whole_digits + scale), scale=scale)


def _digits(type_: SqlType) -> tuple[int, int]:
    return DIGITS.get(type_.name, type_.precision or 18), type_.scale


# -- moments: datetime and smalldatetime are numbers of days since 1900 ------------------------------------------------

_START = date(1900, 1, 1).toordinal() * TICKS_A_DAY
_RANGES = {"datetime": (date(1753, 1, 1), date.max), "smalldatetime": (date(1900, 1, 1), date(2079, 6, 6))}


def _moments(renderer: Renderer, sign: str, left: Fragment, right: Fragment) -> Fragment:
    moments = [side.type for side in (left, right) if side.type is not None and family(side.type) == "date"]
    intervals = [side for side in (left, right) if family(side.type) != "date" and side.type is not None]
    newer = next((type_ for type_ in moments if type_.name not in _RANGES), None)
    if newer is not None and intervals:
        raise SqlServerError(206, newer.name, _name(intervals[0]))
    if newer is not None or sign not in ("+", "-"):
        raise SqlServerError(8117, (newer or moments[0]).name, NAMES[sign])
    if intervals and family(intervals[0].type) in ("uniqueidentifier", "binary"):
        raise SqlServerError(206, moments[0].name, _name(intervals[0]))
    result = DATETIME if DATETIME in moments else moments[0]
    left, right = (renderer.cast(s, result) if family(s.type) == "text" else s for s in (left, right))
    name = f"{result.name}_{NAMES[sign]}"
    renderer.function(name, 2, partial(_shifted, COMPUTE[sign], result))
    return Fragment(f"{name}({left.sql}, {right.sql})", result)


def _shifted(compute: Compute, result: SqlType, a: Any, b: Any) -> str | None:
    if a is None or b is None:
        return None
    low, high = _RANGES[result.name]
    try:
        total = _START + compute(_since_1900(a), _since_1900(b))
    except (OverflowError, ValueError):  # an infinite number of days
        raise SqlServerError(8115, result.name) from None
    if not low.toordinal() <= total // TICKS_A_DAY <= high.toordinal():
        raise SqlServerError(8115, result.name)
    return of_type(total, result)


def _since_1900(value: Any) -> int:
    """Ticks since 1900 of a moment or a number of days."""
    if isinstance(value, str):
        return ticks(value) - _START
    return round(Fraction(value) * TICKS_A_DAY)


# -- operators with one side -------------------------------------------------------------------------------------------


def negative(renderer: Renderer, node: exp.Neg, names: Names) -> Fragment:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:  # the least bigint has a sign
        return renderer.value(exp.Literal(this=f"-{node.this.this}", is_string=False), names)
    inner = renderer.value(node.this, names)
    value, type_ = inner.constant, inner.type
    if type_ is None:
        return Fragment(f"(-{inner.sql})", None)
    if family(type_) not in ("integer", "float", "decimal") or type_.name == "bit":
        raise SqlServerError(8117, type_.name, "minus")
    result = SqlType("smallint") if type_.name == "tinyint" else type_
    low, high = _BOUNDS.get(result.name, _BOUNDS["decimal"])
    if isinstance(value, int | float | Decimal) and low <= -value <= high:
        return Fragment(literal(-value), result, -value, nullable=False)
    sql = f"(- {inner.sql})"  # two signs in a row would begin a comment
    return Fragment(in_range(renderer, sql, result) if family(type_) == "integer" else sql, result)


def bitwise_not(renderer: Renderer, node: exp.BitwiseNot, names: Names) -> Fragment:
    inner = renderer.value(node.this, names)
    type_ = inner.type
    if type_ is not None and family(type_) != "integer":
        raise SqlServerError(8117, type_.name, "'~'")
    unsigned = {"bit": 1, "tinyint": 255}.get(type_.name if type_ is not None else "")
    sql = f"(~{inner.sql})" if unsigned is None else f"({unsigned} - {inner.sql})"
    return Fragment(sql, type_)
