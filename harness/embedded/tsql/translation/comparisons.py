"""Rules for values of different types in a comparison or a CASE, and the order of uniqueidentifiers."""

from __future__ import annotations

from harness.embedded.sqltypes import MAX, SqlType
from harness.embedded.tsql.storage.conversion import family
from harness.embedded.tsql.translation.fragments import PRECEDENCE, Fragment, common_type
from harness.embedded.tsql.translation.renderer import Renderer


def comparable(renderer: Renderer, left: Fragment, right: Fragment) -> tuple[str, str]:
    """Both sides, converted to one type, as SQL that SQLite compares as SQL Server does: text without case."""
    one, other = family(left.type), family(right.type)
    if not one or not other:
        collated = "text" in (one, other)
        return left.sql, right.sql + (" COLLATE NOCASE" if collated else "")
    if one != other:
        left_type, right_type = left.type, right.type
        assert left_type is not None and right_type is not None
        if PRECEDENCE.index(left_type.name) <= PRECEDENCE.index(right_type.name):
            right = _converted(renderer, right, left_type)
        else:
            left = _converted(renderer, left, right_type)
    elif one == "date" and left.type != right.type:
        target = SqlType("datetime2", scale=7)
        left, right = renderer.cast(left, target), renderer.cast(right, target)
    collated = family(left.type) in ("text", "uniqueidentifier")
    return left.sql, right.sql + (" COLLATE NOCASE" if collated else "")


def _converted(renderer: Renderer, side: Fragment, target: SqlType) -> Fragment:
    if family(side.type) in ("text", "binary"):
        if family(target) == "text" or family(target) == "binary":
            target = SqlType(target.name, length=MAX)
        return renderer.cast(side, target)
    return side


def guid_order(sql: str) -> str:
    """SQL to order uniqueidentifiers as SQL Server does: the last six bytes are the most significant."""
    places = ((25, 12), (20, 4), (17, 2), (15, 2), (12, 2), (10, 2), (7, 2), (5, 2), (3, 2), (1, 2))
    return "(" + " || ".join(f"substr({sql}, {start}, {length})" for start, length in places) + ")"


def case(renderer: Renderer, branches: list[tuple[str, Fragment]], otherwise: Fragment) -> Fragment:
    common = common_type([value.type for _, value in branches] + [otherwise.type])
    parts = [f"WHEN {test} THEN {renderer.to_family(value, common).sql}" for test, value in branches]
    return Fragment(f"(CASE {' '.join(parts)} ELSE {renderer.to_family(otherwise, common).sql} END)", common)
