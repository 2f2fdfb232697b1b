"""EXECUTE of a procedure or a string."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import Parameter, SqlType
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Scope, Step, waiting
from harness.embedded.tsql.statements import batches
from harness.embedded.tsql.statements.procedures import DEFAULT, CompiledProcedure, Shape, call, compiled
from harness.embedded.tsql.statements.registry import call_system, register
from harness.embedded.tsql.storage.conversion import converter
from harness.embedded.tsql.text.parser import (
    Expression,
    Parser,
    Statement,
    at_statement_end,
    parse_expression,
    string_token,
)
from harness.embedded.tsql.translation.binding import scalar, static_type
from harness.embedded.tsql.translation.fragments import NVARCHAR_MAX


@dataclass(frozen=True, slots=True)
class Argument:
    name: str  # "" by position
    value: Expression | None  # None: DEFAULT
    output: bool


@dataclass(frozen=True, slots=True)
class Execute(Statement):
    procedure: tuple[str, ...] | str  # a name, or a variable that holds it
    arguments: list[Argument]
    status: str  # the variable that takes the return status


def parse_execute(parser: Parser) -> Statement:
    """`EXEC[UTE] [ @status = ] name [ [ @parameter = ] { value [ OUTPUT ] | DEFAULT } [, ...] ]`"""
    tokens, line = parser.tokens, parser.line
    if tokens.at("AS"):
        tokens.unsupported("EXECUTE AS")
    status = ""
    if tokens.at_variable() and tokens.word(2) == "=":
        status = tokens.variable()
        tokens.expect("=")
    procedure: tuple[str, ...] | str = tokens.variable() if tokens.at_variable() else tokens.object_name()
    if tokens.accept(";") and not tokens.at_end and tokens.word().isdigit():
        tokens.unsupported("numbered procedures")
    arguments: list[Argument] = []
    if _at_argument(parser):
        arguments = tokens.comma_separated(lambda: _argument(parser))
    return Execute(line, procedure, arguments, status)


def _at_argument(parser: Parser) -> bool:
    return not (at_statement_end(parser) or parser.tokens.all[parser.tokens.position - 1].text == ";")


def _argument(parser: Parser) -> Argument:
    tokens = parser.tokens
    name = ""
    if tokens.at_variable() and tokens.word(2) == "=":
        name = tokens.variable()
        tokens.expect("=")
    if tokens.accept("DEFAULT"):
        return Argument(name, None, False)
    value = _argument_value(parser)
    output = tokens.accept("OUTPUT") or tokens.accept("OUT")
    return Argument(name, value, output)


def _argument_value(parser: Parser) -> Expression:
    """A constant, a variable, or, as `EXEC p name` allows, a bare word, which is a string."""
    tokens = parser.tokens
    token = tokens.peek()
    if token is not None and tokens.word().isidentifier() and tokens.word() not in ("NULL", "N"):
        tokens.advance()
        return parse_expression(tokens, [string_token(token)])
    return parser.expression(",", "OUTPUT", "OUT", "WITH")


@register("EXEC|EXECUTE", parse_execute, Execute)
def compile_execute(node: Execute, scope: Scope) -> Step:
    arguments = [_argument_of(argument, scope, node.line) for argument in node.arguments]
    names = tuple(argument.name for argument in node.arguments)
    if node.status:
        scope.type_of(node.status, node.line)
    known: list[Shape] = []  # set by the first call, when the types are known

    def shape(frame: Frame) -> Shape:
        if not known:
            known.append((names, tuple([type_of(frame) for type_of, _ in arguments])))
        return known[0]

    def run(frame: Frame) -> Waiting[None]:
        session = frame.session
        parts = node.procedure
        if isinstance(parts, str):
            parts = tuple(str(frame.variables[parts]).split("."))
        values = [value(frame) for _, value in arguments]
        procedure = frame.instance.procedure(parts, frame.database)
        if procedure is None:
            return system(frame, parts, values)
        guard = session.guard
        if guard is not None and not (frame.procedure and procedure.database_id == frame.database.database_id):
            guard.execute(procedure, frame.instance.owner(procedure))
        program = compiled(procedure)

        def returned(called: Frame) -> None:
            _take_variables(frame, node, scope, program, called.variables)
            if node.status:
                frame.variables[node.status] = called.return_value

        return call(session, procedure, shape(frame), values, frame.sink, frame.depth + 1, returned)

    def system(frame: Frame, parts: tuple[str, ...], values: list[Any]) -> Waiting[None]:
        parameters = [
            Parameter(argument.name, NVARCHAR_MAX if type_ in (None, DEFAULT) else type_, value, argument.output)
            for type_, value, argument in zip(shape(frame)[1], values, node.arguments, strict=True)
        ]
        status, outputs = yield from call_system(frame.session, parts, parameters, frame.sink, frame.depth + 1)
        _take_outputs(frame, node, scope, outputs)
        if node.status:
            frame.variables[node.status] = status

    return waiting(run)


def _argument_of(argument: Argument, scope: Scope, line: int) -> Any:
    """The functions for an argument's type, known at the first call, and for its value."""
    if argument.value is None:
        return (lambda frame: DEFAULT), (lambda frame: None)
    expression = argument.value
    if argument.output and not isinstance(expression.tree, exp.Parameter):
        raise SqlServerError(179, line=line)
    value = scalar(expression, scope)
    return (lambda frame: static_type(expression, scope, frame)), value


def _take_variables(
    frame: Frame, node: Execute, scope: Scope, program: CompiledProcedure, variables: dict[str, Any]
) -> None:
    outputs: dict[int, tuple[SqlType, Any]] = {}
    for place, argument in enumerate(node.arguments):
        if argument.output:
            name = argument.name or program.names[place]
            if name not in program.outputs:
                raise SqlServerError(8162, name)
            outputs[place] = program.types[program.names.index(name)], variables[name]
    _take_outputs(frame, node, scope, outputs)


def _take_outputs(frame: Frame, node: Execute, scope: Scope, outputs: dict[int, tuple[SqlType, Any]]) -> None:
    for place, (type_, value) in outputs.items():
        expression = node.arguments[place].value
        assert expression is not None
        target = "@" + expression.tree.name.lower()
        frame.variables[target] = converter(type_, scope.types[target])(value)


@dataclass(frozen=True, slots=True)
class ExecuteString(Statement):
    text: Expression


def parse_execute_string(parser: Parser) -> Statement:
    """`EXEC[UTE] ( string )`"""
    tokens, line = parser.tokens, parser.line
    text = parser.expression(")")
    tokens.expect(")")
    return ExecuteString(line, text)


@register("EXEC (|EXECUTE (", parse_execute_string, ExecuteString)
def compile_execute_string(node: ExecuteString, scope: Scope) -> Step:
    text = scalar(node.text, scope, NVARCHAR_MAX)

    def run(frame: Frame) -> Waiting[None]:
        session = frame.session
        given = text(frame)
        if given is None:
            return
        options, database = session.options, session.database
        try:
            yield from batches.run(session, batches.compiled(session, given), frame.sink, depth=frame.depth + 1)
        finally:
            session.options, session.database = options, database

    return waiting(run)
