"""Cursors: DECLARE CURSOR, OPEN, FETCH, CLOSE, DEALLOCATE. Every cursor is STATIC: OPEN fetches all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import Column
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.session import Cursor
from harness.embedded.tsql.session.steps import Scope, Step, plain
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.storage.conversion import converter
from harness.embedded.tsql.text.parser import ParseFunction, Parser, Query, Statement
from harness.embedded.tsql.translation.binding import Planned, select_plan

# Accepted because every cursor is STATIC.
CURSOR_OPTIONS = ("LOCAL", "GLOBAL", "FORWARD_ONLY", "STATIC", "FAST_FORWARD", "READ_ONLY")


@dataclass(frozen=True, slots=True)
class DeclareCursor(Statement):
    name: str
    query: Query
    local: bool


def parse_declare_cursor(parser: Parser) -> Statement:
    """`DECLARE name CURSOR [ LOCAL | FAST_FORWARD | ... ] FOR select [ FOR READ ONLY ]`"""
    tokens = parser.tokens
    name = tokens.name().lower()
    tokens.expect("CURSOR")
    options = set()
    while tokens.word() in CURSOR_OPTIONS:
        options.add(tokens.advance().text.upper())
    tokens.expect("FOR")
    query = parser.query(("FOR",))
    if tokens.accept("FOR"):
        tokens.expect("READ", "ONLY")
    return DeclareCursor(parser.line, name, query, "LOCAL" in options)


def compile_declare_cursor(node: DeclareCursor, scope: Scope) -> Step:
    """A LOCAL cursor ends with its batch or procedure, a global one with the session; DEALLOCATE ends either."""
    planned = Planned(select_plan(node.query.tree, node.line, scope))

    def fetch(frame: Frame) -> tuple[Sequence[Column], list[tuple[Any, ...]]]:
        plan = planned.for_(frame)
        return plan.columns, plan.rows(frame)

    def run(frame: Frame) -> None:
        cursors = frame.cursors if node.local else frame.session.cursors
        if node.name in cursors:
            raise SqlServerError(16915, node.name)
        cursors[node.name] = Cursor(fetch)

    return plain(run)


register("DECLARE", parse_declare_cursor, DeclareCursor, compile_declare_cursor)


@dataclass(frozen=True, slots=True)
class CursorOperation(Statement):
    """OPEN, CLOSE, DEALLOCATE."""

    operation: str
    name: str


def parse_cursor_operation(operation: str) -> ParseFunction:
    """`OPEN | CLOSE | DEALLOCATE [ GLOBAL ] name`"""

    def parse(parser: Parser) -> Statement:
        parser.tokens.accept("GLOBAL")
        return CursorOperation(parser.line, operation, parser.tokens.name().lower())

    return parse


def _find(frame: Frame, name: str) -> Cursor:
    cursor = frame.cursors.get(name) or frame.session.cursors.get(name)
    if cursor is None:
        raise SqlServerError(16916, name)
    return cursor


def _open(frame: Frame, name: str) -> None:
    cursor = _find(frame, name)
    if cursor.is_open:
        raise SqlServerError(16905)
    cursor.columns, cursor.rows = cursor.fetch(frame)
    cursor.position = 0
    cursor.is_open = True


def _close(frame: Frame, name: str) -> None:
    cursor = _find(frame, name)
    if not cursor.is_open:
        raise SqlServerError(16917)
    cursor.is_open = False
    cursor.rows = []
    frame.session.row_count = 0


def _deallocate(frame: Frame, name: str) -> None:
    _find(frame, name)
    if frame.cursors.pop(name, None) is None:
        del frame.session.cursors[name]
    frame.session.row_count = 0


OPERATIONS = {"OPEN": _open, "CLOSE": _close, "DEALLOCATE": _deallocate}


def compile_cursor_operation(node: CursorOperation, scope: Scope) -> Step:
    operate = OPERATIONS[node.operation]
    return plain(lambda frame: operate(frame, node.name))


for _operation in OPERATIONS:
    register(_operation, parse_cursor_operation(_operation), CursorOperation, compile_cursor_operation)


@dataclass(frozen=True, slots=True)
class Fetch(Statement):
    name: str
    into: list[str]


def parse_fetch(parser: Parser) -> Statement:
    """`FETCH [ [ NEXT ] FROM ] [ GLOBAL ] name [ INTO @v [, ...] ]`"""
    tokens = parser.tokens
    if tokens.word() in ("PRIOR", "FIRST", "LAST", "ABSOLUTE", "RELATIVE"):
        tokens.unsupported(f"FETCH {tokens.word()}")
    tokens.accept("NEXT")
    tokens.accept("FROM")
    tokens.accept("GLOBAL")
    name = tokens.name().lower()
    into = tokens.comma_separated(tokens.variable) if tokens.accept("INTO") else []
    return Fetch(parser.line, name, into)


def compile_fetch(node: Fetch, scope: Scope) -> Step:
    types = [scope.type_of(name, node.line) for name in node.into]

    def run(frame: Frame) -> None:
        session = frame.session
        cursor = _find(frame, node.name)
        if not cursor.is_open:
            raise SqlServerError(16917)
        if cursor.position >= len(cursor.rows):
            session.fetch_status, session.row_count = -1, 0
            if not node.into:
                frame.send(cursor.columns, ())
            return
        row = cursor.rows[cursor.position]
        cursor.position += 1
        session.fetch_status, session.row_count = 0, 1
        if not node.into:
            frame.send(cursor.columns, [row])
            return
        if len(row) != len(types):
            raise SqlServerError(16924)
        for name, value, column, type_ in zip(node.into, row, cursor.columns, types, strict=True):
            frame.variables[name] = converter(column.type, type_)(value)

    return plain(run)


register("FETCH", parse_fetch, Fetch, compile_fetch)
