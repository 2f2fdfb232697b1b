"""Expressions and conditions as closures: constants, variables, and operations and comparisons of integers.

A loop and its counter need no statement of SQLite's for these, and each is evaluated in one place of this package: here
where it needs neither a table nor another type, else by SQLite. A value that is no integer, or is beyond the range of
its type, raises `NotPlain`; the caller then asks SQLite, which has the errors.
"""

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from sqlglot import exp

from harness.embedded.sqltypes import SqlType
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Scope
from harness.embedded.tsql.storage.conversion import INTEGER_RANGES
from harness.embedded.tsql.text.tokens import DIGITS_MAX
from harness.embedded.tsql.translation.arithmetic import COMPUTE, SIGNS
from harness.embedded.tsql.translation.fragments import NOT_CONSTANT, is_int
from harness.embedded.tsql.translation.functions.system_functions import GLOBALS
from harness.embedded.tsql.translation.renderer import RENDERERS, Renderer

Evaluate = Callable[[Frame], Any]
Truth = Callable[[Frame], "bool | None"]  # None: unknown, as a comparison with NULL is

_WIDTHS = list(INTEGER_RANGES)  # from the narrowest to the widest
DEPTH_MAX = 50  # of operations that are evaluated here


class NotPlain(Exception):
    """SQLite has to evaluate the expression for these values."""


class Closure(NamedTuple):
    """A function that evaluates an expression, and the type of its value: None is that of NULL."""

    evaluate: Evaluate
    type: SqlType | None
    constant: Any = NOT_CONSTANT
    is_computed: bool = False  # and so may raise NotPlain


def value(tree: exp.Expr, scope: Scope, line: int = 0) -> Closure | None:
    """Return the closure of an expression, None if it is of another kind; raise 137 for an unknown variable."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.Literal | exp.National | exp.HexString | exp.Null):
        return _constant(tree)
    if isinstance(tree, exp.Parameter) and not isinstance(tree.this, exp.Parameter):
        return _variable(tree, scope.type_of("@" + tree.name.lower(), line))
    return _integer(tree, scope, 0)


def _constant(tree: exp.Expr) -> Closure:
    fragment = RENDERERS[type(tree)](Renderer(None, 0), tree, None)  # type: ignore[arg-type]
    constant = fragment.constant
    return Closure(lambda frame: constant, fragment.type, constant)


def _variable(tree: exp.Parameter, type_: SqlType) -> Closure:
    name = "@" + tree.name.lower()
    return Closure(lambda frame: frame.variables[name], type_)


def _integer(tree: exp.Expr, scope: Scope, depth: int) -> Closure | None:
    """Return the closure of an expression of integers, None if it is of another kind or its error is not raised yet."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    closure = None
    if type(tree) in SIGNS and depth < DEPTH_MAX:
        return _operation(tree, scope, depth)
    if isinstance(tree, exp.Literal):
        text = str(tree.this)
        if not tree.is_string and text.isdecimal() and len(text) <= DIGITS_MAX and is_int(int(text)):
            closure = _constant(tree)
    elif isinstance(tree, exp.Parameter):
        if not isinstance(tree.this, exp.Parameter):
            type_ = scope.types.get("@" + tree.name.lower())
            closure = _variable(tree, type_) if type_ is not None else None
        elif (name := tree.this.name.upper()) in GLOBALS:
            type_, get = GLOBALS[name]
            closure = Closure(get, type_)
    is_integer = closure is not None and closure.type is not None and closure.type.name in INTEGER_RANGES
    return closure if is_integer else None


def _operation(tree: exp.Expr, scope: Scope, depth: int) -> Closure | None:
    first, other = (_integer(side, scope, depth + 1) for side in (tree.this, tree.expression))
    if first is None or other is None or first.type is None or other.type is None:
        return None
    type_ = max(first.type, other.type, key=lambda each: _WIDTHS.index(each.name))  # the wider of both sides
    if type_.name == "bit":
        return None
    compute, left, right = COMPUTE[SIGNS[type(tree)]], first.evaluate, other.evaluate
    low, high = INTEGER_RANGES[type_.name]

    def evaluate(frame: Frame) -> int | None:
        a, b = left(frame), right(frame)
        if a is None or b is None:
            return None
        if type(a) is int and type(b) is int and low <= (result := compute(a, b)) <= high:
            return int(result)
        raise NotPlain

    return Closure(evaluate, type_, is_computed=True)


def truth(tree: exp.Expr, scope: Scope) -> Truth | None:
    """Return the function that evaluates a condition on integers, None if it is of another kind."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.And):
        return _and(tree, scope)
    compare = _COMPARISONS.get(type(tree))
    return _comparison(tree, compare, scope) if compare is not None else None


def _comparison(tree: exp.Expr, compare: Callable[[int, int], bool], scope: Scope) -> Truth | None:
    first, other = _integer(tree.this, scope, 0), _integer(tree.expression, scope, 0)
    if first is None or other is None:
        return None
    left, right = first.evaluate, other.evaluate

    def holds(frame: Frame) -> bool | None:
        a, b = left(frame), right(frame)
        if a is None or b is None:
            return None
        if type(a) is int and type(b) is int:
            return compare(a, b)
        raise NotPlain

    return holds


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


_COMPARISONS: dict[type[exp.Expr], Callable[[int, int], bool]] = {
    exp.EQ: operator.eq,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.NEQ: operator.ne,
}
