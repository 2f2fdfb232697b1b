"""Checks a query when it is compiled, so that a procedure that could never run is not created."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.tsql.translation.expression_renderers import function_name
from harness.embedded.tsql.translation.functions.all_functions import FUNCTIONS
from harness.embedded.tsql.translation.functions.system_functions import GLOBALS
from harness.embedded.tsql.translation.renderer import RENDERERS
from harness.embedded.tsql.translation.selects import CLAUSES

# Nodes that are parts of others. `RENDERERS` has those that are expressions.
PARTS = frozenset(
    {
        exp.CTE,
        exp.DataType,
        exp.DataTypeParam,
        exp.Distinct,
        exp.Except,
        exp.Fetch,
        exp.From,
        exp.Group,
        exp.Having,
        exp.Identifier,
        exp.If,
        exp.Intersect,
        exp.Join,
        exp.Limit,
        exp.LimitOptions,
        exp.Offset,
        exp.Order,
        exp.Ordered,
        exp.QueryOption,
        exp.Select,
        exp.Star,
        exp.Table,
        exp.TableAlias,
        exp.Tuple,
        exp.Union,
        exp.Values,
        exp.Var,
        exp.Where,
        exp.WindowSpec,
        exp.With,
        exp.WithTableHint,
    }
)


def check(tree: exp.Expr, line: int, declared: Callable[[str], bool]) -> None:
    """Raise the error for an unknown node, clause, function or variable."""
    for node in tree.walk():
        kind = type(node)
        if kind not in PARTS and kind not in RENDERERS:
            raise UnsupportedSyntax(f"the expression {node.sql('tsql')[:60]}", line)
        if isinstance(node, exp.Select):
            if not node.expressions:
                raise SqlServerError(102, "SELECT", line=line)
            for clause, value in node.args.items():
                if value and clause not in CLAUSES:
                    raise UnsupportedSyntax(f"{clause.strip('_').upper()} in a SELECT", line)
        elif isinstance(node, exp.Anonymous):
            # A function in a FROM clause is looked up like a table, when the query first runs.
            if not isinstance(node.parent, exp.Table) and function_name(node) not in FUNCTIONS:
                raise SqlServerError(195, node.this, line=line)
        elif isinstance(node, exp.Parameter):
            _check_variable(node, line, declared)


def _check_variable(node: exp.Parameter, line: int, declared: Callable[[str], bool]) -> None:
    if isinstance(node.this, exp.Parameter):
        if node.this.name.upper() not in GLOBALS:
            raise SqlServerError(137, f"@@{node.this.name}", line=line)
    elif not isinstance(node.parent, exp.Parameter) and not declared("@" + node.name.lower()):
        number = 1087 if isinstance(node.parent, exp.Table) else 137
        raise SqlServerError(number, f"@{node.name}", line=line)
