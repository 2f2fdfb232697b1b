"""Variables: DECLARE and SET @variable. DECLARE CURSOR is in `queries`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.sqltypes import MAX, ROWVERSION, Column, SqlType
from harness.embedded.tsql.instance.modules import UserType
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Scope, Step, plain
from harness.embedded.tsql.statements.queries import cursor_definition
from harness.embedded.tsql.statements.registry import GRAMMAR, register
from harness.embedded.tsql.statements.tables import variable_body
from harness.embedded.tsql.storage.sqlite import declarations, unique_keys
from harness.embedded.tsql.storage.tables import TableBody, check_columns
from harness.embedded.tsql.text.parser import COMPOUND, Expression, Parser, Statement, parentheses, parse_expression
from harness.embedded.tsql.text.tokens import Tokens
from harness.embedded.tsql.translation import xml_methods
from harness.embedded.tsql.translation.binding import scalar
from harness.embedded.tsql.translation.closures import Evaluate

LONG_VALUE = 1024 * 1024  # characters or bytes


@dataclass(frozen=True, slots=True)
class Declaration:
    written: str  # the variable with its @, as errors show it
    type: SqlType | None
    table: TableBody | None  # of a table variable
    value: Expression | None
    is_cursor: bool = False
    table_type: SqlType | None = None  # of a table variable of a named type

    @property
    def variable(self) -> str:
        return self.written.lower()


@dataclass(frozen=True, slots=True)
class Declare(Statement):
    declarations: list[Declaration]


def parse_declare(parser: Parser) -> Statement:
    """`DECLARE { { @v [AS] type [ = value ] | @c CURSOR } [, ...] | @t [AS] TABLE ( ... ) }`"""
    tokens = parser.tokens
    tokens.position -= 1  # back to the @ of the first variable
    declarations = tokens.comma_separated(lambda: _declaration(parser))
    if len(declarations) > 1 and any(declaration.table and not declaration.table_type for declaration in declarations):
        raise SqlServerError(102, "TABLE", line=parser.line)
    return Declare(parser.line, declarations)


def _declaration(parser: Parser) -> Declaration:
    tokens = parser.tokens
    variable = tokens.written_variable()
    tokens.accept("AS")
    if tokens.accept("TABLE"):
        return Declaration(variable, None, variable_body(parser), None)
    if tokens.accept("CURSOR"):
        return Declaration(variable, None, None, None, is_cursor=True)
    if (named_table := table_of_type(tokens)) is not None:
        return Declaration(variable, None, named_table.body, None, table_type=named_table.type)
    type_ = tokens.data_type()
    value = parser.expression(",") if tokens.accept("=") else None
    return Declaration(variable, type_, None, value)


class NamedTable(NamedTuple):
    body: TableBody
    type: SqlType


def table_of_type(tokens: Tokens) -> NamedTable | None:
    """Take the name of a type of tables, if one stands here."""
    start = tokens.position
    named_type = tokens.user_type() if tokens.find_type is not None else None
    if isinstance(named_type, UserType) and named_type.base is None:
        return NamedTable(
            variable_body(Parser(named_type.text, GRAMMAR, find_type=tokens.find_type)), named_type.of_table
        )
    tokens.position = start
    return None


@register("DECLARE @", parse_declare, Declare)
def compile_declare(node: Declare, scope: Scope) -> Step:
    """Declaring happens here, so that it takes effect also in a branch that does not run; initial values are assigned
    where the DECLARE runs. A table variable is not emptied by its DECLARE in a loop."""
    # "Must declare the scalar variable": none knows another one of its DECLARE.
    actions = [_assignment(declaration, scope) for declaration in node.declarations if declaration.value is not None]
    for declaration in node.declarations:
        _declare(declaration, scope, node.line)

    def run(frame: Frame) -> None:
        for action in actions:
            action(frame)

    return plain(run)


def _declare(declaration: Declaration, scope: Scope, line: int) -> None:
    name = declaration.variable
    if name in scope.types or name in scope.tables or name in scope.cursors:
        raise SqlServerError(134, declaration.written, line=line)
    if declaration.is_cursor:
        scope.cursors.add(name)
    elif declaration.table is not None:
        declare_table(declaration, scope, line)
    else:
        assert declaration.type is not None
        scope.types[name] = declaration.type


def _assignment(declaration: Declaration, scope: Scope) -> Callable[[Frame], None]:
    """The assignment of an initial value. Without one a variable is NULL at first, and DECLARE in a later round of a
    loop keeps its value."""
    assert declaration.value is not None and declaration.type is not None
    name, value = declaration.variable, bounded(scalar(declaration.value, scope, declaration.type), declaration.type)

    def run(frame: Frame) -> None:
        frame.variables[name] = value(frame)
        frame.session.row_count = 1

    return run


def bounded(value: Evaluate, type_: SqlType) -> Evaluate:
    """An assignment to a variable of a (max) type fails where memory is short."""
    if type_.length != MAX:
        return value

    def checked(frame: Frame) -> Any:
        if frame.sqlite.memory_is_full:
            frame.sqlite.refuse_growth("memory_is_full")
        assigned = value(frame)
        if assigned is not None and len(assigned) > LONG_VALUE:
            frame.sqlite.budget.check()  # a batch of them may take much memory
        return assigned

    return checked


def declare_table(declaration: Declaration, scope: Scope, line: int) -> None:
    """Declare a table variable."""
    name = declaration.variable
    body = declaration.table
    assert body is not None
    primary = [name.lower() for name in body.primary_key]
    columns = [
        Column(column.name, column.type, column.nullable and column.name.lower() not in primary)
        for column in body.columns
    ]
    check_columns(declaration.written, body.columns)
    scope.tables[name] = columns
    if declaration.table_type is not None:
        scope.table_types[name] = declaration.table_type
    scope.defaults[name] = [column.default for column in body.columns]
    scope.keys[name] = body.primary_key
    for place, definition in enumerate(body.columns):
        if definition.identity is not None:
            scope.identities[name] = place, definition.identity[0]
    column_names = {column.name.lower() for column in columns}
    if any(column.type == ROWVERSION for column in body.columns):
        raise UnsupportedSyntax("rowversion columns of table variables", line)
    if body.checks:
        raise UnsupportedSyntax("CHECK constraints of table variables", line)
    unique = [*(names for _, names in body.unique), *(index.columns for index in body.indexes if index.is_unique)]
    keys = [names for names in (body.primary_key, *unique) if names]
    for column_name in [name_in_key for names in keys for name_in_key in names]:
        if column_name.lower() not in column_names:
            raise SqlServerError(1911, column_name, line=line)
    scope.declared[name] = declarations(columns, unique_keys(columns, keys))


@dataclass(frozen=True, slots=True)
class SetVariable(Statement):
    variable: str
    value: Expression


def parse_set_variable(parser: Parser) -> Statement:
    """`SET { @v { = | += | -= | *= | /= | %= } expression | @c = CURSOR ... | @x.modify ( change ) }`"""
    tokens = parser.tokens
    tokens.position -= 1  # back to the @
    variable = tokens.variable()
    start = tokens.position
    sign = tokens.word()
    if tokens.at(".", "MODIFY", "("):
        tokens.position -= 2
        return SetVariable(parser.line, variable, xml_methods.mutating(parser.expression()))
    if sign in COMPOUND:
        tokens.advance()
    tokens.expect("=")
    if sign == "=" and tokens.at("CURSOR"):
        return cursor_definition(parser, variable)
    value = parser.expression()
    if sign == "=":
        return SetVariable(parser.line, variable, value)
    # `SET @v += e` is `SET @v = @v + (e)`: the tokens of the variable precede the operator.
    all_, end = tokens.all, tokens.position
    opening, closing = parentheses(all_[start])
    combined = [*all_[start - 2 : start + 1], opening, *all_[start + 2 : end], closing]
    return SetVariable(parser.line, variable, parse_expression(tokens, combined))


@register("SET @", parse_set_variable, SetVariable)
def compile_set_variable(node: SetVariable, scope: Scope) -> Step:
    name = node.variable
    if name in scope.tables:
        raise SqlServerError(137, scope.written(name), line=node.line)
    type_ = scope.type_of(name, node.line)
    value = bounded(scalar(node.value, scope, type_), type_)

    def run(frame: Frame) -> None:
        frame.variables[name] = value(frame)
        frame.session.row_count = 1

    return plain(run)
