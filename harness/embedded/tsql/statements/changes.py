"""Shared by INSERT, UPDATE and DELETE: their target, their plan, and OUTPUT.

UPDATE and DELETE become one statement of SQLite that returns the changed rows. An INSERT into a table becomes a query
for the rows, which are numbered here before they are stored.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlglot import exp

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.sqltypes import Column
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Step, plain, writing
from harness.embedded.tsql.storage.sqlite import quoted
from harness.embedded.tsql.storage.tables import Row, Table
from harness.embedded.tsql.text.parser import Parser, Query, parse_query, select_token
from harness.embedded.tsql.translation.binding import Binding, Plan

TargetName = tuple[str, ...] | str  # an object name, or a table variable with its @


Change = Callable[[Frame, Transaction | None], int]  # returns how many rows it touched


class Target(NamedTuple):
    """The table or table variable that a statement changes."""

    table: Table | None  # None: a table variable
    sql: str
    columns: Sequence[Column]
    defaults: Sequence[str | None]
    name: str


class Prepared(NamedTuple):
    """A change, planned for one version of the catalog."""

    target: Target
    plan: Plan
    before: Plan | None = None  # reads the rows that an UPDATE is about to change
    shape: Callable[[tuple[Any, ...]], Row] = tuple  # makes a Row of an INSERT's rowid, values and None
    into: str = ""  # the columns and marks of an INSERT of a query into a table variable


@dataclass(frozen=True, slots=True)
class Output:
    """`OUTPUT items [ INTO target [ ( columns ) ] ]`; items refer to inserted and deleted."""

    items: Query
    into: TargetName | None
    columns: list[str]


def parse_target(parser: Parser) -> TargetName:
    tokens = parser.tokens
    target: TargetName = tokens.variable() if tokens.at_variable() else tokens.object_name()
    if tokens.accept("WITH"):
        tokens.expect("(")
        while not tokens.accept(")"):
            tokens.advance()
    return target


def parse_output(parser: Parser) -> Output | None:
    """`OUTPUT { inserted. | deleted. } column [, ...] [ INTO target [ ( column [, ...] ) ] ]`"""
    tokens = parser.tokens
    if not tokens.accept("OUTPUT"):
        return None
    taken = tokens.take_until(("INTO", "VALUES", "FROM", "WHERE", "DEFAULT"))
    items = parse_query(tokens, [select_token(taken[0]), *taken])
    if not tokens.accept("INTO"):
        return Output(items, None, [])
    into: TargetName = tokens.variable() if tokens.at_variable() else tokens.object_name()
    return Output(items, into, parse_column_names(parser) if tokens.at("(") else [])


def parse_column_names(parser: Parser) -> list[str]:
    parser.tokens.expect("(")
    names = parser.tokens.comma_separated(parser.tokens.name)
    parser.tokens.expect(")")
    return names


def resolve(binding: Binding, target: TargetName, *permissions: str) -> Target:
    if isinstance(target, str):
        source = binding.table_variable(target, target)
        return Target(None, source.sql, source.columns, binding.scope.defaults[target], target)
    table = binding.user_table(target, *permissions)
    return Target(table, table.sql, table.columns, [d.default for d in table.definitions], table.name)


def step(target: TargetName, change: Change) -> Step:
    """A change of a table variable is part of no transaction."""
    if isinstance(target, str):

        def run(frame: Frame) -> None:
            frame.count(change(frame, None))

        return plain(run)

    def work(frame: Frame, tx: Transaction) -> None:
        frame.count(change(frame, tx))

    return writing(work)


def planned(make: Callable[[Frame], Prepared]) -> Callable[[Frame], Prepared]:
    """Keep what was prepared until the catalog changes."""
    kept: list[Prepared] = []

    def prepared(frame: Frame) -> Prepared:
        if not kept or not kept[0].plan.is_current(frame):
            kept[:] = [make(frame)]
        return kept[0]

    return prepared


def changed(frame: Frame, target: Target, plan: Plan, verb: str) -> list[Row]:
    """Run a plan that ends in RETURNING; report a violated constraint with SQL Server's error."""
    assert target.table is not None
    try:
        return plan.rows(frame)
    except sqlite3.IntegrityError as error:
        raise target.table.violation(error, verb) from error


def run(frame: Frame, target: Target, plan: Plan, verb: str) -> int:
    try:
        return plan.run(frame)
    except sqlite3.IntegrityError as error:
        raise _violation(error, target, verb) from error


def fill(frame: Frame, target: Target, plan: Plan, into: str) -> int:
    """Insert the rows of a query into a table variable; it is read first, because reading may take long."""
    rows = plan.read_all(frame)
    try:
        return frame.sqlite.run_many(f"INSERT INTO temp.{frame.table(target.name)} {into}", rows) if rows else 0
    except sqlite3.IntegrityError as error:
        raise _violation(error, target, "INSERT") from error


def _violation(error: sqlite3.IntegrityError, target: Target, verb: str) -> SqlServerError:
    text = str(error)
    if text.startswith("NOT NULL"):
        return SqlServerError(515, text.rpartition(".")[2], target.name, verb)
    return SqlServerError(2627, "UNIQUE KEY", "UQ", target.name)


def places_of(target: Target, names: list[str]) -> list[int]:
    """The indexes of the columns that get values, in order."""
    table = target.table
    identity = table.identity if table is not None else None
    if not names:
        return [place for place in range(len(target.columns)) if place != identity]
    places = []
    for name in names:
        found = [place for place, column in enumerate(target.columns) if column.name.lower() == name.lower()]
        if not found:
            raise SqlServerError(207, name)
        if found[0] == identity:
            raise SqlServerError(544, target.name)
        if found[0] in places:
            raise SqlServerError(264, name)
        places.append(found[0])
    return places


def send_output(frame: Frame, output: Output | None, target: Target, old: Sequence[Row], new: Sequence[Row]) -> None:
    """Send OUTPUT (rows before: deleted, after: inserted) to the client or into a table variable."""
    if output is None:
        return
    assert target.table is not None
    columns: list[Column] = []
    picks: list[tuple[Sequence[Row], int]] = []
    for item in output.items.tree.expressions:
        name = item.alias if isinstance(item, exp.Alias) else item.name
        column = item.this if isinstance(item, exp.Alias) else item
        if not isinstance(column, exp.Column) or column.table.lower() not in ("inserted", "deleted"):
            raise UnsupportedSyntax("OUTPUT of anything but columns of inserted and deleted", output.items.line)
        rows = new if column.table.lower() == "inserted" else old
        star = isinstance(column.this, exp.Star)
        for place in range(len(target.columns)) if star else [target.table.place(column.name)]:
            columns.append(Column(target.columns[place].name if star else name, target.columns[place].type))
            picks.append((rows, place + 1))
    count = max(len(old), len(new))
    made = [tuple(rows[number][place] for rows, place in picks) for number in range(count)]
    if output.into is None:
        frame.sink.columns(columns)
        frame.sink.rows(made)
        return
    if not isinstance(output.into, str):
        raise UnsupportedSyntax("OUTPUT INTO anything but a table variable", output.items.line)
    marks = ", ".join("?" for _ in columns)
    names = f" ({', '.join(quoted(name) for name in output.columns)})" if output.columns else ""
    frame.sqlite.run_many(f"INSERT INTO temp.{frame.table(output.into)}{names} VALUES ({marks})", made)
