"""Aggregates and ROW_NUMBER. A NUL character in their SQL marks the place of OVER."""

from __future__ import annotations

from collections.abc import Callable

from harness.embedded.sqltypes import BIGINT, INT, SqlType
from harness.embedded.tsql.storage.conversion import family
from harness.embedded.tsql.translation.fragments import Fragment
from harness.embedded.tsql.translation.functions.kinds import Arguments, Function, Functions
from harness.embedded.tsql.translation.renderer import Renderer


def _aggregate(name: str, type_: Callable[[SqlType | None], SqlType | None]) -> Function:
    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
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


def _row_number(renderer: Renderer, arguments: Arguments) -> Fragment:
    return Fragment("row_number()\0", BIGINT, nullable=False)


FUNCTIONS: Functions = {
    "AVG": Function(1, 1, _average),
    "COUNT": _aggregate("count", lambda _: INT),
    "COUNT_BIG": _aggregate("count", lambda _: BIGINT),
    "MAX": _aggregate("max", lambda type_: type_),
    "MIN": _aggregate("min", lambda type_: type_),
    "ROW_NUMBER": Function(0, 0, _row_number, only_windowed=True),
    "SUM": _aggregate("sum", _sum_type),
}
