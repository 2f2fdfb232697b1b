"""Calls of functions that CREATE FUNCTION made (`statements.functions`, which compiles and runs them).

A function of one value, and one whose statements fill a table, runs inside the statement that calls it: SQLite calls
it for each row. The query of RETURNS TABLE stands in the place of its call (`selects`).
"""

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.instance.modules import UserFunction
from harness.embedded.tsql.translation import applied
from harness.embedded.tsql.translation.fragments import Fragment, Names, Source, UserProgram
from harness.embedded.tsql.translation.renderer import Renderer

NESTING_MAX = 32
_compilers: list[Callable[[UserFunction], UserProgram]] = []


def compile_with(compile_: Callable[[UserFunction], UserProgram]) -> None:
    """Set what compiles a function: the layer above, which knows statements, has it."""
    _compilers[:] = [compile_]


def compiled(function: UserFunction) -> UserProgram:
    return _compilers[0](function)


def arguments(renderer: Renderer, program: UserProgram, nodes: Sequence[exp.Expr], names: Names) -> list[Fragment]:
    """The arguments of a call, converted to the types of the parameters; DEFAULT stands for that of the parameter."""
    if len(nodes) != len(program.parameters):
        raise SqlServerError(313 if len(nodes) < len(program.parameters) else 8144, program.name)
    fragments = []
    for node, parameter in zip(nodes, program.parameters, strict=True):
        if isinstance(node, exp.Column) and not node.this.quoted and node.name.upper() == "DEFAULT":
            if parameter.default is None:
                raise SqlServerError(313, program.name)
            value = renderer.value(parameter.default, Names())
        else:
            value = renderer.value(node, names)
        fragments.append(renderer.cast(value, parameter.type))
    return fragments


def _call(renderer: Renderer, name: str, program: UserProgram, values: Sequence[Fragment]) -> str:
    """The SQL of a call. SQLite keeps every function, so the one that is meant is an argument."""
    renderer.function("user_function", -1, _value, constant=False)
    renderer.function("user_table_function", -1, _rows, constant=False)
    database_id, key = program.key
    return f"{name}({', '.join((str(database_id), renderer.literal(key), *(value.sql for value in values)))})"


def value(renderer: Renderer, program: UserProgram, nodes: Sequence[exp.Expr], names: Names) -> Fragment:
    """`schema.function ( argument [ , ... ] )`"""
    values = arguments(renderer, program, nodes, names)
    return Fragment(_call(renderer, "user_function", program, values), program.returns)


def rows(renderer: Renderer, program: UserProgram, values: Sequence[Fragment], alias: str) -> Source:
    """The table that a function's statements fill."""
    return applied.of_text(renderer, _call(renderer, "user_table_function", program, values), program.columns, alias)


def _value(frame: Any, database_id: int, key: str, *values: Any) -> Any:
    try:
        return compiled(frame.instance.functions[database_id, key]).run(frame, values)
    finally:
        frame.sqlite.calls.frame = frame  # the statements inside had another one


def _rows(frame: Any, database_id: int, key: str, *values: Any) -> str:
    return applied.rows_text(_value(frame, database_id, key, *values))
