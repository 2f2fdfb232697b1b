"""SELECT, to the client and into variables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.sqltypes import SqlType
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Step, plain
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.text.parser import Parser, Query, Statement
from harness.embedded.tsql.translation import selects
from harness.embedded.tsql.translation.binding import Binding, Plan, Planned, check, select_plan
from harness.embedded.tsql.translation.fragments import Fragment
from harness.embedded.tsql.translation.renderer import Renderer


@dataclass(frozen=True, slots=True)
class Select(Statement):
    query: Query


def parse_select(parser: Parser) -> Statement:
    """`[ WITH cte [, ...] ] SELECT ...`"""
    parser.tokens.position -= 1
    return Select(parser.line, parser.query())


def compile_select(node: Select, scope: Scope) -> Step:
    tree = node.query.tree
    variables = assignments(tree)
    if variables:
        return _assigning(tree, variables, node.line, scope)
    planned = Planned(select_plan(tree, node.line, scope))

    def run(frame: Frame) -> None:
        plan = planned.for_(frame)
        rows = () if frame.session.options.fmtonly else plan.rows(frame)
        frame.send(plan.columns, rows)

    return plain(run)


def assignments(tree: exp.Expr, error: int = 141) -> list[str]:
    """Take the variables of `SELECT @a = ..., @b = ...` out of the tree; a list mixed with results is an error."""
    if not isinstance(tree, exp.Select):
        return []
    variables = []
    for item in tree.expressions:
        if isinstance(item, exp.EQ) and isinstance(item.this, exp.Parameter):
            variables.append("@" + item.this.name.lower())
    if variables and len(variables) != len(tree.expressions):
        raise SqlServerError(error)
    if variables:
        tree.set("expressions", [item.expression for item in tree.expressions])
    return variables


AGGREGATES = ("COUNT", "COUNT_BIG", "SUM", "MIN", "MAX", "AVG")


def _refuse_accumulation(tree: exp.Expr, variables: list[str], line: int) -> None:
    """Refuse `SELECT @a = @a + x FROM t`, which in SQL Server accumulates over the rows in undefined order."""
    if tree.args.get("from_") is None or tree.args.get("limit") is not None:
        return
    for item in tree.expressions:
        if any(str(call.this).upper() in AGGREGATES for call in item.find_all(exp.Anonymous)):
            continue
        if any("@" + parameter.name.lower() in variables for parameter in item.find_all(exp.Parameter)):
            raise UnsupportedSyntax("a SELECT that adds up a variable over rows", line)


def converting(renderer: Renderer, types: list[SqlType]) -> Callable[[int, Fragment], Fragment]:
    """Conversions of a SELECT list to the types of the variables that take it."""

    def convert(place: int, value: Fragment) -> Fragment:
        return renderer.cast(value, types[place]) if place < len(types) else value

    return convert


def _assigning(tree: exp.Expr, variables: list[str], line: int, scope: Scope) -> Step:
    types = [scope.type_of(name, line) for name in variables]
    _refuse_accumulation(tree, variables, line)
    check(tree, line, scope.declares)

    def make(frame: Frame) -> Plan:
        binding = Binding(scope, frame)
        renderer = Renderer(binding, line)
        sql, columns = selects.query(renderer, tree, None, converting(renderer, types))
        return binding.plan(sql, renderer, columns)

    planned = Planned(make)

    def run(frame: Frame) -> None:
        rows = planned.for_(frame).rows(frame)
        frame.session.row_count = len(rows)
        if rows:  # the last row wins; without rows the variables keep their values
            frame.variables.update(zip(variables, rows[-1], strict=True))

    return plain(run)


register("SELECT|WITH", parse_select, Select, compile_select)
