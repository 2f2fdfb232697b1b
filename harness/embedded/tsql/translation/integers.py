"""Expressions of integers, and conditions on them, evaluated without SQLite: those of loops and counters.

SQLite would give the same values, but with a statement for each. Other types, results beyond 64 bits and divisors that
are not positive raise `NotPlain`; the caller then uses SQLite.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Scope
from harness.embedded.tsql.storage.conversion import INTEGER_RANGES
from harness.embedded.tsql.translation.functions.system_functions import GLOBALS

Number = Callable[[Frame], "int | None"]
Truth = Callable[[Frame], "bool | None"]  # None: unknown, as a comparison with NULL is

_LOW, _HIGH = INTEGER_RANGES["bigint"]


class NotPlain(Exception):
    """SQLite has to evaluate the expression for these values."""


def number(tree: exp.Expr, scope: Scope) -> Number | None:
    """The function that evaluates an expression of integers; None if it is of another kind."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    make = _NUMBERS.get(type(tree))
    return make(tree, scope) if make is not None else None


def truth(tree: exp.Expr, scope: Scope) -> Truth | None:
    """The function that evaluates a condition on integers; None if it is of another kind."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    make = _TRUTHS.get(type(tree))
    return make(tree, scope) if make is not None else None


def _literal(tree: exp.Literal, scope: Scope) -> Number | None:
    if tree.is_string or not str(tree.this).isdecimal():
        return None
    value = int(tree.this)
    return (lambda frame: value) if value <= _HIGH else None


def _variable(tree: exp.Parameter, scope: Scope) -> Number | None:
    if isinstance(tree.this, exp.Parameter):
        return _global(tree.this.name.upper())
    name = "@" + tree.name.lower()
    type_ = scope.types.get(name)
    if type_ is None or type_.name not in INTEGER_RANGES:
        return None

    def value(frame: Frame) -> int | None:
        found: Any = frame.variables[name]
        if type(found) is int or found is None:
            return found
        raise NotPlain

    return value


def _global(name: str) -> Number | None:
    if name not in GLOBALS:
        return None
    type_, get = GLOBALS[name]
    if type_.name not in INTEGER_RANGES:
        return None

    def value(frame: Frame) -> int | None:
        found = get(frame)
        if type(found) is int:
            return found
        raise NotPlain

    return value


def _arithmetic(operate: Callable[[int, int], int]) -> Callable[[exp.Binary, Scope], Number | None]:
    def make(tree: exp.Binary, scope: Scope) -> Number | None:
        left, right = number(tree.this, scope), number(tree.expression, scope)
        if left is None or right is None:
            return None

        def value(frame: Frame) -> int | None:
            a, b = left(frame), right(frame)
            if a is None or b is None:
                return None
            result = operate(a, b)
            if _LOW <= result <= _HIGH:
                return result
            raise NotPlain

        return value

    return make


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
            known = int(tree.expression.this)

            def compares(frame: Frame) -> bool | None:
                a = left(frame)
                return None if a is None else compare(a, known)

            return compares

        def holds(frame: Frame) -> bool | None:
            a, b = left(frame), right(frame)
            return None if a is None or b is None else compare(a, b)

        return holds

    return make


def _and(tree: exp.And, scope: Scope) -> Truth | None:
    left, right = truth(tree.this, scope), truth(tree.expression, scope)
    if left is None or right is None:
        return None

    def holds(frame: Frame) -> bool | None:
        one = left(frame)
        if one is False:
            return False
        other = right(frame)
        return other if one or other is False else None

    return holds


_NUMBERS: dict[type, Callable[[Any, Scope], Number | None]] = {
    exp.Add: _arithmetic(operator.add),
    exp.Literal: _literal,
    exp.Mod: _arithmetic(_remainder),
    exp.Mul: _arithmetic(operator.mul),
    exp.Parameter: _variable,
    exp.Sub: _arithmetic(operator.sub),
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
