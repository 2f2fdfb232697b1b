"""Expressions and SELECT queries, parsed by sqlglot; its guesses at unknown syntax are errors here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.tsql import TSQL
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.parser import Parser as SqlglotParser
from sqlglot.parsers.tsql import TSQLParser
from sqlglot.tokenizer_core import Token, TokenType

from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.tsql.text.tokens import Tokens

CASTS = ("CAST", "CONVERT", "TRY_CAST", "TRY_CONVERT")


class _QueryParser(TSQLParser):
    """Leaves function calls as written; `translation.functions.table` says what they mean."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {name: TSQLParser.FUNCTION_PARSERS[name] for name in CASTS}


@dataclass(frozen=True, slots=True)
class Expression:
    """A scalar expression or a condition."""

    tree: exp.Expr
    line: int


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT, with its WITH and its UNION, EXCEPT, INTERSECT."""

    tree: exp.Query
    line: int


def expression(tokens: Tokens, taken: list[Token]) -> Expression:
    """Parse an expression's tokens."""
    tree = _parse(lambda parser: parser._parse_disjunction(), taken, tokens.text)
    return Expression(tree, taken[0].line)


def query(tokens: Tokens, taken: list[Token]) -> Query:
    """Parse a query's tokens."""
    tree = _parse(lambda parser: parser._parse_statement(), taken, tokens.text)
    if not isinstance(tree, exp.Query):
        raise UnsupportedSyntax(f"{type(tree).__name__.upper()} as a query", taken[0].line)
    return Query(tree, taken[0].line)


def from_clause(tokens: Tokens, taken: list[Token]) -> Query:
    """Parse `FROM ... WHERE ...` of an UPDATE or DELETE as the query `SELECT * FROM ... WHERE ...`."""
    first = taken[0]
    place = (first.line, first.col, first.start, first.end)
    return query(tokens, [Token(TokenType.SELECT, "SELECT", *place), Token(TokenType.STAR, "*", *place), *taken])


def _parse(method: Callable[[SqlglotParser], exp.Expr | None], taken: list[Token], text: str) -> exp.Expr:
    parser = _QueryParser(dialect=TSQL(), error_level=ErrorLevel.RAISE)
    line = taken[0].line
    try:
        trees = parser._parse(method, taken, text)
    except ParseError as error:
        detail = error.errors[0] if error.errors else {}
        raise SqlServerError(102, detail.get("highlight") or taken[-1].text, line=detail.get("line") or line) from error
    except RecursionError as error:
        raise SqlServerError(191, line=line) from error
    except (SqlglotError, AttributeError, TypeError, ValueError, IndexError, KeyError) as error:
        raise SqlServerError(102, taken[-1].text, line=line) from error
    if len(trees) != 1 or trees[0] is None:
        raise SqlServerError(102, taken[0].text, line=line)
    tree = trees[0]
    if isinstance(tree, exp.Command) or tree.find(exp.Command):
        raise UnsupportedSyntax(taken[0].text.upper(), line)
    return tree


def parentheses(near: Token) -> tuple[Token, Token]:
    place = (near.line, near.col, near.start, near.end)
    return Token(TokenType.L_PAREN, "(", *place), Token(TokenType.R_PAREN, ")", *place)


def select_token(near: Token) -> Token:
    return Token(TokenType.SELECT, "SELECT", near.line, near.col, near.start, near.end)


def string_token(word: Token) -> Token:
    return Token(TokenType.STRING, word.text, word.line, word.col, word.start, word.end)
