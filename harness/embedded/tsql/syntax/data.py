"""SELECT, INSERT, UPDATE, DELETE, TRUNCATE: nodes and grammars. Their SELECTs and expressions are sqlglot's."""

from __future__ import annotations

from dataclasses import dataclass

from harness.embedded.tsql.syntax.procedures import Execute, parse_execute
from harness.embedded.tsql.text import expressions as queries
from harness.embedded.tsql.text.expressions import Expression, Query
from harness.embedded.tsql.text.parser import Parser, Statement

Target = tuple[str, ...] | str  # an object name, or a table variable with its @


@dataclass(frozen=True, slots=True)
class Select(Statement):
    query: Query


@dataclass(frozen=True, slots=True)
class Output:
    """`OUTPUT items [ INTO target [ ( columns ) ] ]`; items refer to inserted and deleted."""

    items: Query
    into: Target | None
    columns: list[str]


@dataclass(frozen=True, slots=True)
class Insert(Statement):
    target: Target
    columns: list[str]
    output: Output | None
    values: list[list[Expression | None]] | None  # None in a row: DEFAULT
    query: Query | None
    call: Execute | None


@dataclass(frozen=True, slots=True)
class Update(Statement):
    target: Target
    top: Expression | None
    assignments: list[tuple[str, Expression]]
    output: Output | None
    source: Query | None  # `SELECT * FROM ... WHERE ...`


@dataclass(frozen=True, slots=True)
class Delete(Statement):
    target: Target
    top: Expression | None
    output: Output | None
    source: Query | None
    has_from: bool


@dataclass(frozen=True, slots=True)
class Truncate(Statement):
    table: tuple[str, ...]


def parse_select(parser: Parser) -> Statement:
    """`[ WITH cte [, ...] ] SELECT ...`"""
    parser.tokens.position -= 1
    return Select(parser.line, parser.query())


def parse_with(parser: Parser) -> Statement:
    """`WITH cte [, ...] SELECT ...`; before INSERT, UPDATE and DELETE a WITH is not supported."""
    return parse_select(parser)


def _target(parser: Parser) -> Target:
    tokens = parser.tokens
    target: Target = tokens.variable() if tokens.at_variable() else tokens.object_name()
    if tokens.accept("WITH"):
        tokens.expect("(")
        while not tokens.accept(")"):
            tokens.advance()
    return target


def _top(parser: Parser) -> Expression | None:
    if not parser.tokens.accept("TOP"):
        return None
    return parser.parenthesised()


def _output(parser: Parser) -> Output | None:
    """`OUTPUT { inserted. | deleted. } column [, ...] [ INTO target [ ( column [, ...] ) ] ]`"""
    tokens = parser.tokens
    if not tokens.accept("OUTPUT"):
        return None
    taken = tokens.take_until(("INTO", "VALUES", "FROM", "WHERE", "DEFAULT"))
    items = queries.query(tokens, [queries.select_token(taken[0]), *taken])
    if not tokens.accept("INTO"):
        return Output(items, None, [])
    into: Target = tokens.variable() if tokens.at_variable() else tokens.object_name()
    return Output(items, into, _column_names(parser) if tokens.at("(") else [])


def _column_names(parser: Parser) -> list[str]:
    parser.tokens.expect("(")
    names = parser.tokens.comma_separated(parser.tokens.name)
    parser.tokens.expect(")")
    return names


def parse_insert(parser: Parser) -> Statement:
    """`INSERT [ INTO ] target [ ( columns ) ] [ OUTPUT ... ] { VALUES ... | select | EXEC ... | DEFAULT VALUES }`"""
    tokens, line = parser.tokens, parser.line
    tokens.accept("INTO")
    target = _target(parser)
    columns = _column_names(parser) if tokens.at("(") and tokens.word(1) != "SELECT" else []
    output = _output(parser)
    if tokens.accept("DEFAULT", "VALUES"):
        return Insert(line, target, [], output, [[]], None, None)
    if tokens.accept("VALUES"):
        return Insert(line, target, columns, output, tokens.comma_separated(lambda: _row(parser)), None, None)
    if tokens.accept("EXEC") or tokens.accept("EXECUTE"):
        call = parse_execute(parser)
        assert isinstance(call, Execute)
        return Insert(line, target, columns, output, None, None, call)
    return Insert(line, target, columns, output, None, parser.query(), None)


def _row(parser: Parser) -> list[Expression | None]:
    tokens = parser.tokens
    tokens.expect("(")
    values = tokens.comma_separated(lambda: None if tokens.accept("DEFAULT") else parser.expression(","))
    tokens.expect(")")
    return values


def parse_update(parser: Parser) -> Statement:
    """`UPDATE [ TOP ( n ) ] target SET column { = | += | ... } value [, ...] [ OUTPUT ] [ FROM ] [ WHERE ]`"""
    tokens, line = parser.tokens, parser.line
    if tokens.at("STATISTICS"):
        tokens.unsupported("UPDATE STATISTICS")
    top = _top(parser)
    target = _target(parser)
    tokens.expect("SET")
    assignments = tokens.comma_separated(lambda: _assignment(parser))
    output = _output(parser)
    source = _from_where(parser)
    return Update(line, target, top, assignments, output, source)


def _assignment(parser: Parser) -> tuple[str, Expression]:
    tokens = parser.tokens
    if tokens.at_variable():
        tokens.unsupported("UPDATE ... SET @variable")
    first = tokens.position
    name = tokens.object_name()[-1]
    place = tokens.position
    compound = tokens.word() in ("+", "-", "*", "/", "%")
    if compound:
        tokens.advance()
    tokens.expect("=")
    taken = tokens.take_until((",", "FROM", "WHERE", "OUTPUT", "OPTION"))
    if compound:
        opening, closing = queries.parentheses(taken[0])
        taken = [*tokens.all[first : place + 1], opening, *taken, closing]
    return name, queries.expression(tokens, taken)


def _from_where(parser: Parser) -> Query | None:
    tokens = parser.tokens
    if not (tokens.at("FROM") or tokens.at("WHERE")):
        return None
    taken = tokens.take_until(("OPTION",))
    if tokens.accept("OPTION"):
        parser.parenthesised()
    return queries.from_clause(tokens, taken)


def parse_delete(parser: Parser) -> Statement:
    """`DELETE [ TOP ( n ) ] [ FROM ] target [ OUTPUT ... ] [ FROM ... ] [ WHERE ... ]`"""
    tokens, line = parser.tokens, parser.line
    top = _top(parser)
    tokens.accept("FROM")
    target = _target(parser)
    output = _output(parser)
    has_from = tokens.at("FROM")
    return Delete(line, target, top, output, _from_where(parser), has_from)


def parse_truncate(parser: Parser) -> Statement:
    """`TRUNCATE TABLE name`"""
    parser.tokens.expect("TABLE")
    return Truncate(parser.line, parser.tokens.object_name())
