"""RECEIVE and GET CONVERSATION GROUP, alone or in WAITFOR."""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from sqlglot import exp

from harness.embedded.broker.database import Database
from harness.embedded.broker.queues import Queue, QueueRow
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import BIGINT, INT, UNIQUEIDENTIFIER, Column, SqlType
from harness.embedded.tsql.catalog.broker_views import ENQUEUED_COLUMN, RECEIVED_COLUMNS
from harness.embedded.tsql.instance.instance import catalog_key
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Scope, Step, waiting_work
from harness.embedded.tsql.statements.changes import variable_violation
from harness.embedded.tsql.statements.conversations import optional
from harness.embedded.tsql.statements.queries import assignments, converting
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.storage.conversion import check_assignable, converter, fits
from harness.embedded.tsql.storage.sqlite import quoted
from harness.embedded.tsql.text.parser import Expression, Parser, Query, Statement, parse_query, select_token
from harness.embedded.tsql.translation import selects
from harness.embedded.tsql.translation.binding import Binding, Plan, check, planned_before
from harness.embedded.tsql.translation.fragments import Source
from harness.embedded.tsql.translation.renderer import Renderer


def _milliseconds(timeout: int | None) -> int | None:
    """The timeout of a WAITFOR; None if it is omitted or -1: no limit."""
    if timeout is not None and timeout < -1:
        raise SqlServerError(1080, timeout)
    return None if timeout == -1 else timeout


def _at_most(count: int | None) -> int:
    """The number of rows of TOP."""
    if count is None:
        raise SqlServerError(1014)
    if count < 0:
        raise SqlServerError(127)
    return count


def _queue(frame: Frame, parts: tuple[str, ...]) -> tuple[Database, Queue]:
    database = (
        frame.database if len(parts) < 3 else frame.instance.located(parts, frame.database, frame.session.guard)[0]
    )
    queue = database.catalog.queues.get(catalog_key(parts))
    if queue is None:
        raise SqlServerError(208, ".".join(parts))
    guard = frame.session.guard
    if guard is not None and not guard.is_dbo and not guard.is_chained(frame, database, queue.object_id):
        guard.receive(database, queue)
    return database, queue


@dataclass(frozen=True, slots=True)
class Receive(Statement):
    """`items` is the column list as a SELECT; `wait`: inside WAITFOR."""

    describes = True
    items: Query
    top: Expression | None
    queue: tuple[str, ...]
    into: str
    where_column: str
    where_value: Expression | None
    wait: bool = False
    timeout: Expression | None = None


def parse_receive(parser: Parser) -> Receive:
    """
    RECEIVE [ TOP ( n ) ] { * | column | expression [ [ AS ] alias ] | @variable = expression } [ , ... ]
        FROM queue [ INTO @table ] [ WHERE { conversation_handle = h | conversation_group_id = g } ]
    """
    tokens, line = parser.tokens, parser.line
    top: Expression | None = None
    if tokens.accept("TOP"):
        top = parser.parenthesised()
    if tokens.word() in ("DISTINCT", "ALL"):
        tokens.fail()
    list_tokens = tokens.take_until(("FROM",))
    items = parse_query(tokens, [select_token(list_tokens[0]), *list_tokens])
    tokens.expect("FROM")
    queue = tokens.object_name()
    target = tokens.variable() if tokens.accept("INTO") else ""
    column, value = "", None
    if tokens.accept("WHERE"):
        column = tokens.choose("CONVERSATION_HANDLE", "CONVERSATION_GROUP_ID").lower()
        tokens.expect("=")
        value = parser.expression()
    return Receive(line, items, top, queue, target, column, value)


Deliver = Callable[[Frame, "list[QueueRow]"], None]

Conversions = list[tuple[int, Callable[[Any], Any]]]  # by index of column


@register("RECEIVE", parse_receive, Receive)
def compile_receive(node: Receive, scope: Scope) -> Step:
    top = optional(node.top, scope, BIGINT)
    timeout = optional(node.timeout, scope, INT)
    wanted_handle = optional(node.where_value, scope, UNIQUEIDENTIFIER)
    deliver = _delivery(node, scope)
    by_handle = node.where_column == "conversation_handle"

    def work(frame: Frame, tx: Transaction) -> Waiting[list[QueueRow]] | None:
        def take(rows: list[QueueRow]) -> None:
            deliver(frame, rows)
            frame.session.row_count = len(rows)

        database, queue = _queue(frame, node.queue)
        if frame.session.options.fmtonly:
            take([])
            return None
        value = wanted_handle(frame)
        if value is None and node.where_column:
            raise SqlServerError(8418 if by_handle else 8420)
        return frame.instance.engine.receiving.receive(
            tx,
            database,
            queue,
            top=None if node.top is None else _at_most(top(frame)),
            conversation_handle=value if by_handle else None,
            conversation_group_id=None if by_handle else value,
            wait=node.wait,
            timeout_ms=_milliseconds(timeout(frame)),
            deliver=take,
        )

    return waiting_work(work)


def _delivery(node: Receive, scope: Scope) -> Deliver:
    """The function that delivers the rows: into a table variable, into variables, or to the client."""
    tree = node.items.tree
    variables = assignments(tree, error=8447)
    if variables and node.into:
        raise SqlServerError(8450, line=node.line)
    check(tree, node.line, scope.declares)
    read = _reader(tree, node.line, scope, [scope.type_of(name, node.line) for name in variables])
    if node.into:
        return _into(node.into, scope, read)
    if variables:

        def assign(frame: Frame, rows: list[QueueRow]) -> None:
            if rows:  # without a row the variables keep their values
                _, values = read(frame, rows[-1:])
                frame.variables.update(zip(variables, values[-1], strict=True))

        return assign

    def to_client(frame: Frame, rows: list[QueueRow]) -> None:
        columns, values = read(frame, rows)
        frame.send(columns, values)

    return to_client


Read = Callable[[Frame, "Sequence[QueueRow]"], tuple[Sequence[Column], list[tuple[Any, ...]]]]


def _reader(tree: exp.Expr, line: int, scope: Scope, types: list[SqlType]) -> Read:
    """The function from queue rows to the listed columns: plain columns directly, expressions through SQLite."""
    places = {column.name: column for column in RECEIVED_COLUMNS}
    names: list[tuple[str, str]] = []
    for item in tree.expressions:
        column = item.this if isinstance(item, exp.Alias) else item
        if isinstance(column, exp.Star):
            names += [(name, name) for name in places]
        elif isinstance(column, exp.Column) and column.name.lower() in places and not types:
            names.append((column.name.lower(), item.alias if isinstance(item, exp.Alias) else column.name))
        else:
            return _computed(tree, line, scope, types)
    columns = [Column(column_name, places[name].type, places[name].nullable) for name, column_name in names]
    get = attrgetter(*(places[name].attribute for name, _ in names))
    if len(names) == 1:
        return lambda frame, rows: (columns, [(get(row),) for row in rows])
    return lambda frame, rows: (columns, list(map(get, rows)))


RECEIVED = '"received"'  # the temporary table for computed columns


def _computed(tree: exp.Expr, line: int, scope: Scope, types: list[SqlType]) -> Read:
    all_columns = [Column(column.name, column.type, column.nullable) for column in RECEIVED_COLUMNS]
    hidden = Column(ENQUEUED_COLUMN.name, ENQUEUED_COLUMN.type)
    get = attrgetter(*(column.attribute for column in RECEIVED_COLUMNS))

    def make(frame: Frame) -> Plan:
        binding = Binding(scope, frame)
        renderer = Renderer(binding, line)
        source = Source("received", f"temp.{RECEIVED}", all_columns, hidden=[hidden])
        renderer.given_source = source
        sql, columns = selects.query(renderer, tree, None, converting(renderer, types) if types else None)
        return binding.plan(sql, renderer, columns)

    planned = planned_before(make, scope, line, tree)

    def read(frame: Frame, rows: Sequence[QueueRow]) -> tuple[Sequence[Column], list[tuple[Any, ...]]]:
        sqlite = frame.sqlite
        names = ", ".join(quoted(column.name) for column in (*all_columns, hidden))
        sqlite.run(f"CREATE TEMP TABLE IF NOT EXISTS {RECEIVED} ({names})")
        sqlite.run(f"DELETE FROM temp.{RECEIVED}")
        marks = ", ".join("?" for _ in (*all_columns, hidden))
        values = [(*get(row), ENQUEUED_COLUMN.value(row)) for row in rows]
        sqlite.run_many(f"INSERT INTO temp.{RECEIVED} VALUES ({marks})", values)
        plan = planned.for_(frame)
        return plan.columns, plan.rows(frame)

    return read


def _into(name: str, scope: Scope, read: Read) -> Deliver:
    columns = scope.tables.get(name)
    if columns is None:
        raise SqlServerError(1087, scope.written(name))
    if name in scope.identities:
        raise UnsupportedSyntax("RECEIVE INTO a table variable with IDENTITY", 0)
    marks = ", ".join("?" for _ in columns)
    last_columns: Sequence[Column] | None = None
    conversions: Conversions = []

    def insert(frame: Frame, rows: list[QueueRow]) -> None:
        nonlocal last_columns, conversions
        sources, values = read(frame, rows)
        if sources is not last_columns:
            last_columns, conversions = sources, _conversions(sources, columns)
        if values:
            converted = _fitted(values, conversions) if conversions else values
            try:
                frame.fill_table(name, marks, converted)
            except sqlite3.IntegrityError as error:
                sql = f"INSERT INTO temp.{frame.table(name)} VALUES ({marks})"
                refused = frame.sqlite.first_refused(sql, converted)
                keys = scope.keys[name]
                raise variable_violation(error, scope.written(name), keys, "RECEIVE", columns, refused) from error

    return insert


def _conversions(sources: Sequence[Column], targets: Sequence[Column]) -> Conversions:
    """Conversions of the columns whose types do not fit; error 213 if the numbers of columns differ."""
    if len(sources) != len(targets):
        raise SqlServerError(213)
    for source, target in zip(sources, targets, strict=True):
        check_assignable(source.type, target.type)
    return [
        (place, converter(source.type, target.type, strict=True))
        for place, (source, target) in enumerate(zip(sources, targets, strict=True))
        if not fits(source.type, target.type)
    ]


def _fitted(rows: list[tuple[Any, ...]], conversions: Conversions) -> list[tuple[Any, ...]]:
    turned: list[Any] = list(zip(*rows, strict=True))
    for place, convert in conversions:
        # Few values are distinct: names of message types, for example.
        converted = {value: convert(value) for value in set(turned[place])}
        turned[place] = [converted[value] for value in turned[place]]
    return list(zip(*turned, strict=True))


@dataclass(frozen=True, slots=True)
class GetConversationGroup(Statement):
    variable: str
    queue: tuple[str, ...]
    wait: bool = False
    timeout: Expression | None = None


def parse_get_conversation_group(parser: Parser) -> GetConversationGroup:
    """`GET CONVERSATION GROUP @variable FROM queue`"""
    tokens, line = parser.tokens, parser.line
    variable = tokens.variable()
    tokens.expect("FROM")
    return GetConversationGroup(line, variable, tokens.object_name())


@register("GET CONVERSATION GROUP", parse_get_conversation_group, GetConversationGroup)
def compile_get_conversation_group(node: GetConversationGroup, scope: Scope) -> Step:
    convert = converter(UNIQUEIDENTIFIER, scope.type_of(node.variable, node.line))
    timeout = optional(node.timeout, scope, INT)

    def work(frame: Frame, tx: Transaction) -> Waiting[str | None]:
        database, queue = _queue(frame, node.queue)
        return frame.instance.engine.receiving.get_conversation_group(
            tx, database, queue, wait=node.wait, timeout_ms=_milliseconds(timeout(frame))
        )

    def take(frame: Frame, group: str | None) -> None:
        frame.variables[node.variable] = convert(group)
        frame.session.row_count = int(group is not None)

    return waiting_work(work, take)


def parse_waitfor(parser: Parser) -> Statement:
    """`WAITFOR ( { RECEIVE ... | GET CONVERSATION GROUP ... } ) [ , TIMEOUT ms ]`"""
    tokens = parser.tokens
    inner: Receive | GetConversationGroup
    while tokens.accept(";"):
        pass
    if tokens.accept("RECEIVE"):
        inner = parse_receive(parser)
    elif tokens.accept("GET", "CONVERSATION", "GROUP"):
        inner = parse_get_conversation_group(parser)
    else:
        tokens.unsupported("WAITFOR with another statement than RECEIVE or GET CONVERSATION GROUP")
    tokens.expect(")")
    timeout: Expression | None = None
    if tokens.accept(","):
        tokens.expect("TIMEOUT")
        timeout = parser.expression()
    return replace(inner, wait=True, timeout=timeout)


register("WAITFOR (", parse_waitfor, Receive)(compile_receive)
