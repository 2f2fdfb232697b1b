"""CREATE PROCEDURE and EXECUTE: nodes and grammars."""

from __future__ import annotations

from dataclasses import dataclass

from harness.embedded.sqltypes import SqlType
from harness.embedded.tsql.syntax.schema import DropObject
from harness.embedded.tsql.text import expressions as queries
from harness.embedded.tsql.text.expressions import Expression
from harness.embedded.tsql.text.parser import ParseFunction, Parser, Statement, at_statement_end


@dataclass(frozen=True, slots=True)
class ProcedureParameter:
    name: str
    type: SqlType
    default: Expression | None
    output: bool


@dataclass(frozen=True, slots=True)
class CreateProcedure(Statement):
    name: tuple[str, ...]
    parameters: list[ProcedureParameter]
    body: list[Statement]
    text: str  # of the whole batch: stored, and compiled again after a restart
    verb: str  # CREATE, ALTER or CREATE OR ALTER
    execute_as: str


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


@dataclass(frozen=True, slots=True)
class ExecuteString(Statement):
    text: Expression


def parse_create_procedure(verb: str) -> ParseFunction:
    """`CREATE [ OR ALTER ] PROC[EDURE] name [ @p type [ = default ] [ OUT[PUT] ] [, ...] ] [ WITH ... ] AS ...`"""

    def parse(parser: Parser) -> Statement:
        tokens, line = parser.tokens, parser.line
        if any(token.text != ";" for token in tokens.all[: tokens.position - len(verb.split()) - 1]):
            tokens.unsupported(f"{verb} PROCEDURE that is not the first statement of its batch")
        name = tokens.object_name()
        parameters = _parameters(parser)
        execute_as = _procedure_options(parser)
        tokens.expect("AS")
        body: list[Statement] = []
        while tokens.accept(";"):
            pass
        while not tokens.at_end:
            body.append(parser.statement())
        return CreateProcedure(line, name, parameters, body, tokens.text, verb, execute_as)

    return parse


def _parameters(parser: Parser) -> list[ProcedureParameter]:
    tokens = parser.tokens
    bracketed = tokens.accept("(")
    parameters = tokens.comma_separated(lambda: _parameter(parser)) if tokens.at_variable() else []
    if bracketed:
        tokens.expect(")")
    return parameters


def _parameter(parser: Parser) -> ProcedureParameter:
    tokens = parser.tokens
    name = tokens.variable()
    tokens.accept("AS")
    type_ = tokens.data_type()
    default = None
    if tokens.accept("="):
        default = parser.expression(",", "OUTPUT", "OUT", "READONLY", "AS", "WITH", ")")
    output = tokens.accept("OUTPUT") or tokens.accept("OUT")
    return ProcedureParameter(name, type_, default, output)


def parse_parameter_list(parser: Parser) -> list[ProcedureParameter]:
    """The declarations that sp_executesql and sp_prepexec take: `@a int, @b nvarchar(10) OUTPUT`."""
    parameters = _parameters(parser)
    if not parser.tokens.at_end:
        parser.tokens.fail()
    return parameters


def _procedure_options(parser: Parser) -> str:
    """`WITH { RECOMPILE | ENCRYPTION | EXECUTE AS { CALLER | SELF | OWNER | 'user' } } [, ...]`"""
    tokens = parser.tokens
    execute_as = ""
    if not tokens.accept("WITH"):
        return execute_as
    while True:
        if tokens.accept("EXECUTE", "AS") or tokens.accept("EXEC", "AS"):
            execute_as = tokens.string() if tokens.at_string() else tokens.choose("CALLER", "SELF", "OWNER")
        else:
            tokens.choose("RECOMPILE", "ENCRYPTION")
        if not tokens.accept(","):
            return execute_as


def parse_drop_procedure(parser: Parser) -> Statement:
    """`DROP PROC[EDURE] [ IF EXISTS ] name [, ...]`"""
    if_exists = parser.tokens.accept("IF", "EXISTS")
    names = parser.tokens.comma_separated(parser.tokens.object_name)
    return DropObject(parser.line, "PROCEDURE", names, if_exists)


def parse_execute(parser: Parser) -> Statement:
    """`EXEC[UTE] [ @status = ] name [ [ @parameter = ] value [ OUTPUT ] [, ...] ]` or `EXEC[UTE] ( string )`"""
    tokens, line = parser.tokens, parser.line
    if tokens.at("("):
        return ExecuteString(line, parser.parenthesised())
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
    if tokens.accept("WITH"):
        tokens.expect("RECOMPILE")
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
    """A constant, a variable, or, as `EXEC p name` allows, a bare word that stands for a string."""
    tokens = parser.tokens
    token = tokens.peek()
    if token is not None and tokens.word().isidentifier() and tokens.word() not in ("NULL", "N"):
        tokens.advance()
        return queries.expression(tokens, [queries.string_token(token)])
    return parser.expression(",", "OUTPUT", "OUT", "WITH")
