"""Expressions of integers, and conditions on them, evaluated without SQLite: those of loops and counters.

SQLite would give the same values, but with a statement for each. Other types, results beyond the range of their type
and divisors that are not positive raise `NotPlain`; the caller then uses SQLite.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Scope
from harness.embedded.tsql.storage.conversion import INTEGER_RANGES
from harness.embedded.tsql.text.tokens import DIGITS_MAX
from harness.embedded.tsql.translation.fragments import is_int
from harness.embedded.tsql.translation.functions.system_functions import GLOBALS

Number = Callable[[Frame], "int | None"]
Truth = Callable[[Frame], "bool | None"]  # None: unknown, as a comparison with NULL is

_WIDTHS = list(INTEGER_RANGES)  # from the narrowest to the widest
DEPTH_MAX = 50  # of operations that are evaluated here


class NotPlain(Exception):
    """SQLite has to evaluate the expression for these values."""


def number(tree: exp.Expr, scope: Scope) -> Number | None:
    """The function that evaluates an expression of integers; None if it is of another kind."""
    typed = _typed(tree, scope, 0)
    return typed[0] if typed is not None else None


# A function, and the type of its result. An operation has the wider type of its two sides.
Typed = tuple[Number, str]


def _typed(tree: exp.Expr, scope: Scope, depth: int) -> Typed | None:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    operate = _OPERATORS.get(type(tree))
    if operate is not None and depth < DEPTH_MAX:
        assert isinstance(tree, exp.Binary)
        left, right = _typed(tree.this, scope, depth + 1), _typed(tree.expression, scope, depth + 1)
        return _operation(operate, left, right) if left is not None and right is not None else None
    make = _NUMBERS.get(type(tree))
    return make(tree, scope) if make is not None else None


def truth(tree: exp.Expr, scope: Scope) -> Truth | None:
    """The function that evaluates a condition on integers; None if it is of another kind."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    make = _TRUTHS.get(type(tree))
    return make(tree, scope) if make is not None else None


def _literal(tree: exp.Literal, scope: Scope) -> Typed | None:
    if tree.is_string or not str(tree.this).isdecimal() or len(str(tree.this)) > DIGITS_MAX:
        return None
    value = int(tree.this)
    return ((lambda frame: value), "int") if is_int(value) else None


def _variable(tree: exp.Parameter, scope: Scope) -> Typed | None:
    if isinstance(tree.this, exp.Parameter):
        return _global(tree.this.name.upper())
    name = "@" + tree.name.lower()
    type_ = scope.types.get(name)
    if type_ is None or type_.name not in INTEGER_RANGES:
        return None

    def value(frame: Frame) -> int | None:
        current: Any = frame.variables[name]
        if type(current) is int or current is None:
            return current
        raise NotPlain

    return value, type_.name


def _global(name: str) -> Typed | None:
    if name not in GLOBALS:
        return None
    type_, get = GLOBALS[name]
    if type_.name not in INTEGER_RANGES:
        return None

    def value(frame: Frame) -> int | None:
        current = get(frame)
        if type(current) is int:
            return current
        raise NotPlain

    return value, type_.name


def _operation(operate: Callable[[int, int], int], first: Typed, other: Typed) -> Typed | None:
    (left, left_type), (right, right_type) = first, other
    type_ = max(left_type, right_type, key=_WIDTHS.index)
    if type_ == "bit":
        return None
    low, high = INTEGER_RANGES[type_]

    def value(frame: Frame) -> int | None:
        a, b = left(frame), right(frame)
        if a is None or b is None:
            return None
        result = operate(a, b)
        if low <= result <= high:
            return result
        raise NotPlain

    return value, type_


def _remainder(a: int, b: int) -> int:
    if a < 0 or b <= 0:
        raise NotPlain
    return a % b


def _comparison(compare: Callable[[int, int], bool]) -> Callable[[exp.Binary, Scope], Truth | None]:
    def make(tree: exp.Binary, scope: Scope) -> Truth | None:
        left, right = number(tree.this, scope), number(tree.expression, scope)
        if left is None or right is None:
            return None

        if isinstance(tree.expression, exp.Literal):
            constant = int(tree.expression.this)

            def compares(frame: Frame) -> bool | None:
                a = left(frame)
                return None if a is None else compare(a, constant)

            return compares

        def holds(frame: Frame) -> bool | None:
            a, b = left(frame), right(frame)
            return None if a is None or b is None else compare(a, b)

        return holds

    return make


def _and(tree: exp.And, scope: Scope) -> Truth | None:
    operands: list[exp.Expr] = []
    rest: exp.Expr = tree
    while isinstance(rest, exp.And):
        operands.append(rest.expression)
        rest = rest.this
    tests: list[Truth] = []
    for operand in (rest, *reversed(operands)):
        test = truth(operand, scope)
        if test is None:
            return None
        tests.append(test)

    def holds(frame: Frame) -> bool | None:
        result: bool | None = True
        for test in tests:
            one = test(frame)
            if one is False:
                return False
            if one is None:
                result = None
        return result

    return holds


_NUMBERS: dict[type, Callable[[Any, Scope], Typed | None]] = {
    exp.Literal: _literal,
    exp.Parameter: _variable,
}
_OPERATORS: dict[type, Callable[[int, int], int]] = {
    exp.Add: operator.add,
    exp.Mod: _remainder,
    exp.Mul: operator.mul,
    exp.Sub: operator.sub,
}
_TRUTHS: dict[type, Callable[[Any, Scope], Truth | None]] = {
    exp.And: _and,
    exp.EQ: _comparison(operator.eq),
    exp.GT: _comparison(operator.gt),
    exp.GTE: _comparison(operator.ge),
    exp.LT: _comparison(operator.lt),
    exp.LTE: _comparison(operator.le),
    exp.NEQ: _comparison(operator.ne),
}
