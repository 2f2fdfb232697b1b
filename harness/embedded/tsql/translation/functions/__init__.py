"""The functions of T-SQL.

Each family is one module; `kinds` has the usual ways to make a function. `FUNCTIONS` has all by name, `call` renders a
call.
"""

from sqlglot import exp

from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.sqltypes import INT
from harness.embedded.tsql.translation.fragments import AGGREGATES, Fragment, Names
from harness.embedded.tsql.translation.functions import (
    date_functions,
    date_parts,
    json_functions,
    metadata_functions,
    scalar_functions,
    system_functions,
    text_functions,
)
from harness.embedded.tsql.translation.functions.kinds import Functions
from harness.embedded.tsql.translation.renderer import Renderer, grouped

FAMILIES = (
    *(date_functions, date_parts, json_functions, metadata_functions, scalar_functions, system_functions),
    text_functions,
)
FUNCTIONS: Functions = {name: function for family in FAMILIES for name, function in family.FUNCTIONS.items()}
WITHOUT_PARENTHESES = frozenset({"CURRENT_TIMESTAMP", "CURRENT_USER", "SESSION_USER", "SYSTEM_USER", "USER"})


def call(renderer: Renderer, name: str, nodes: list[exp.Expr], names: Names, over: str = "") -> Fragment:
    """Render a function call, with SQLite's OVER clause if there is one; 195 for an unknown function."""
    function = FUNCTIONS.get(name.upper())
    if function is None:
        raise SqlServerError(195, name)
    if not function.least <= len(nodes) <= function.most:
        raise SqlServerError(174, name.lower(), function.least)
    if function.only_windowed and not over:
        raise SqlServerError(10753, name)
    arguments = []
    for number, node in enumerate(nodes):
        if function.takes_word and number == 0:
            arguments.append(Fragment(node.name, None))
        elif isinstance(node, exp.Star):
            arguments.append(Fragment("*", INT))
        elif isinstance(node, exp.Distinct):
            if over:
                raise SqlServerError(10759)
            arguments.append(_distinct(renderer, name, node, names))
        elif function.takes_condition and number == 0:
            arguments.append(renderer.expression(node, names))
        else:
            arguments.append(renderer.value(node, names))
    if not over:
        return function.render(renderer, arguments)
    if function.render_over is None:
        raise UnsupportedSyntax(f"OVER after {name}", renderer.line)
    return function.render_over(renderer, arguments, over)


def _distinct(renderer: Renderer, name: str, node: exp.Distinct, names: Names) -> Fragment:
    """`DISTINCT expression`, of an aggregate"""
    if len(node.expressions) != 1:
        raise SqlServerError(102, "," if node.expressions else ")")
    if name.upper() not in AGGREGATES:
        raise SqlServerError(156, "DISTINCT")
    inner = renderer.value(node.expressions[0], names)
    return inner._replace(sql=f"DISTINCT {grouped(inner)}")
