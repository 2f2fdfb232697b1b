"""ABS and ROUND."""

from __future__ import annotations

from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any

from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import FLOAT, INT, SqlType
from harness.embedded.tsql.storage.conversion import INTEGER_RANGES, family
from harness.embedded.tsql.translation.fragments import Fragment
from harness.embedded.tsql.translation.functions.kinds import Arguments, Function, Functions
from harness.embedded.tsql.translation.renderer import Renderer

PLACES_MAX = 60  # more digits than any number has on either side of its point
EXACT = Context(prec=400)


def _round(renderer: Renderer, arguments: Arguments) -> Fragment:
    """`ROUND ( number , length [ , function ] )`: to so many decimal places, or whole ones if the length is negative;
    truncated if the function is not 0. "ROUND(748.58, -3) results in an arithmetic overflow", because decimal(5,2)
    cannot hold 1000.00."""
    value, length = arguments[:2]
    type_ = _type(value.type, "round")
    if family(value.type) == "text":
        value = renderer.cast(value, FLOAT)
    name = f"round_{type_.name}_{type_.precision}_{type_.scale}"
    renderer.function(name, 3, _rounded(type_))
    how = arguments[2].sql if len(arguments) == 3 else "0"
    return Fragment(f"{name}({value.sql}, {length.sql}, {how})", type_)


def _type(type_: SqlType | None, function: str) -> SqlType:
    """ "Expression: tinyint, smallint, int: int; bigint; decimal and numeric; money; float, real: float" """
    kind = family(type_)
    if type_ is None or kind == "text":
        return FLOAT
    if kind not in ("integer", "decimal", "float") or type_.name == "bit":
        raise SqlServerError(8116, type_.name, function)
    if kind == "integer":
        return type_ if type_.name == "bigint" else INT
    return FLOAT if kind == "float" else type_


def _rounded(type_: SqlType) -> Any:
    kind = family(type_)
    if kind == "integer":
        bound = Decimal(INTEGER_RANGES[type_.name][1])
    else:
        bound = EXACT.subtract(Decimal(10) ** (type_.precision - type_.scale), Decimal(1).scaleb(-type_.scale))

    def rounded(value: Any, length: Any, how: Any) -> Any:
        if value is None or length is None or how is None:
            return None
        exact = Decimal(repr(value))
        quantum = Decimal(1).scaleb(-max(-PLACES_MAX, min(PLACES_MAX, int(length))))
        if exact.is_finite() and exact.adjusted() < PLACES_MAX:
            exact = exact.quantize(quantum, ROUND_DOWN if how else ROUND_HALF_UP, EXACT)
        if kind != "float" and abs(exact) > bound:
            raise SqlServerError(8115, "numeric" if kind == "decimal" else type_.name)
        return int(exact) if kind == "integer" else float(exact)

    return rounded


def _abs(renderer: Renderer, arguments: Arguments) -> Fragment:
    """`ABS ( number )`; "ABS(-2147483648)" is an overflow of int."""
    [value] = arguments
    type_ = _type(value.type, "abs")
    if family(value.type) == "text":
        value = renderer.cast(value, FLOAT)
    highest = INTEGER_RANGES[type_.name][1] if family(type_) == "integer" else None

    def absolute(number: Any) -> Any:
        if number is None:
            return None
        if highest is not None and abs(number) > highest:
            raise SqlServerError(8115, type_.name)
        return abs(number)

    renderer.function(f"abs_{type_.name}", 1, absolute)
    return Fragment(f"abs_{type_.name}({value.sql})", type_)


FUNCTIONS: Functions = {"ABS": Function(1, 1, _abs), "ROUND": Function(2, 3, _round)}
