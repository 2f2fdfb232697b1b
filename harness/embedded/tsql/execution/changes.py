"""INSERT, UPDATE and DELETE, compiled: each becomes one statement of SQLite whose changed rows come back; an INSERT
into a table one that gives the rows, which are numbered here before they are put into it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from sqlglot import exp

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.sqltypes import Column
from harness.embedded.tsql.execution import results
from harness.embedded.tsql.execution.transactions import writing
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Step, plain
from harness.embedded.tsql.storage.sqlite import quoted
from harness.embedded.tsql.storage.tables import Row, Table
from harness.embedded.tsql.syntax import data as nodes
from harness.embedded.tsql.text import expressions as syntax
from harness.embedded.tsql.text.tokens import Tokens
from harness.embedded.tsql.translation import selects
from harness.embedded.tsql.translation.binding import Binding, Plan
from harness.embedded.tsql.translation.fragments import Fragment, Names, Source
from harness.embedded.tsql.translation.renderer import Renderer

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


def _target(binding: Binding, target: nodes.Target, *permissions: str) -> Target:
    if isinstance(target, str):
        source = binding.table_variable(target, target)
        return Target(None, source.sql, source.columns, binding.scope.defaults[target], target)
    table = binding.user_table(target, *permissions)
    return Target(table, table.sql, table.columns, [d.default for d in table.definitions], table.name)


def _step(target: nodes.Target, change: Change) -> Step:
    """A change of a table variable is part of no transaction."""
    if isinstance(target, str):

        def run(frame: Frame) -> None:
            results.count(frame, change(frame, None))

        return plain(run)

    def work(frame: Frame, tx: Transaction) -> None:
        results.count(frame, change(frame, tx))

    return writing(work)


def _planned(make: Callable[[Frame], Prepared]) -> Callable[[Frame], Prepared]:
    """Keeps what was prepared as long as the catalog stays the same."""
    kept: list[Prepared] = []

    def prepared(frame: Frame) -> Prepared:
        if not kept or not kept[0].plan.is_current(frame):
            kept[:] = [make(frame)]
        return kept[0]

    return prepared


def _changed(frame: Frame, target: Target, plan: Plan, verb: str) -> list[Row]:
    """Runs a plan that ends in RETURNING; broken constraints are SQL Server's errors."""
    assert target.table is not None
    try:
        return plan.rows(frame)
    except sqlite3.IntegrityError as error:
        raise target.table.violation(error, verb) from error


# -- INSERT ------------------------------------------------------------------------------------------------------------


def insert(node: nodes.Insert, scope: Scope) -> Step:
    if node.call is not None:
        raise UnsupportedSyntax("INSERT ... EXECUTE", node.line)
    if node.query is not None:
        scope.check(node.query.tree, node.line)
    for value in [value for row in node.values or [] for value in row]:
        if value is not None:
            scope.check(value.tree, node.line)

    def make(frame: Frame) -> Prepared:
        binding = Binding(scope, frame)
        target = _target(binding, node.target, "INSERT")
        renderer = Renderer(binding, node.line)
        places = [] if node.values == [[]] else _places(target, node.columns)  # DEFAULT VALUES give none
        source = _values(renderer, node, target, places) if node.values is not None else None
        sql = source or _query(renderer, node, target, places)
        given = _all_places(target, places) or [0]
        if target.table is not None:
            order = {place: number for number, place in enumerate(given, start=1)} | {target.table.identity: 0}
            shape = itemgetter(0, *(order.get(place, -1) for place in range(len(target.columns))))
            return Prepared(target, binding.plan(sql, renderer, []), shape=shape)
        columns = ", ".join(quoted(target.columns[place].name) for place in given)
        return Prepared(target, binding.plan(f"INSERT INTO {target.sql} ({columns}) {sql}", renderer, []))

    prepared = _planned(make)

    def change(frame: Frame, tx: Transaction | None) -> int:
        target, plan, _, shape = prepared(frame)
        table = target.table
        if table is None or tx is None:
            return _run(frame, target, plan, "INSERT")
        rows = [shape((rowid, *values, None)) for rowid, values in enumerate(plan.rows(frame), table.last_rowid + 1)]
        if rows:
            try:
                table.insert(frame.sqlite, tx, rows)
            except sqlite3.IntegrityError as error:
                raise table.violation(error, "INSERT") from error
            if table.identity is not None:
                frame.session.identity = table.last_rowid
        _send_output(frame, node.output, target, (), rows)
        return len(rows)

    return _step(node.target, change)


def _run(frame: Frame, target: Target, plan: Plan, verb: str) -> int:
    try:
        return plan.run(frame)
    except sqlite3.IntegrityError as error:
        text = str(error)
        if text.startswith("NOT NULL"):
            raise SqlServerError(515, text.rpartition(".")[2], target.name, verb) from error
        raise SqlServerError(2627, "UNIQUE KEY", "UQ", target.name) from error


def _places(target: Target, names: list[str]) -> list[int]:
    """The columns that are given values, in order."""
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


def _defaulted(target: Target, places: list[int]) -> list[int]:
    """The columns that are left out and have a default."""
    return [place for place, default in enumerate(target.defaults) if default is not None and place not in places]


def _all_places(target: Target, places: list[int]) -> list[int]:
    return [*places, *_defaulted(target, places)]


def _default(renderer: Renderer, target: Target, place: int) -> Fragment:
    default = target.defaults[place]
    if default is None:
        return Fragment("NULL", None, None)
    tokens = Tokens(default)
    value = renderer.value(syntax.expression(tokens, tokens.all).tree, Names())
    return renderer.assigned(value, target.columns[place].type)


def _values(renderer: Renderer, node: nodes.Insert, target: Target, places: list[int]) -> str:
    assert node.values is not None
    if node.values == [[]]:  # DEFAULT VALUES
        places = []
    rows = []
    for row in node.values:
        if len(row) != len(places):
            raise SqlServerError(213 if not node.columns else 110 if len(row) > len(places) else 109)
        fragments = [
            _default(renderer, target, place)
            if value is None
            else renderer.assigned(renderer.value(value.tree, Names()), target.columns[place].type)
            for place, value in zip(places, row, strict=True)
        ]
        fragments += [_default(renderer, target, place) for place in _defaulted(target, places)]
        rows.append("(" + ", ".join(fragment.sql for fragment in fragments) + ")")
    return "VALUES (NULL)" if rows == ["()"] else "VALUES " + ", ".join(rows)


def _query(renderer: Renderer, node: nodes.Insert, target: Target, places: list[int]) -> str:
    assert node.query is not None

    def convert(number: int, value: Fragment) -> Fragment:
        if number >= len(places):
            return value
        return renderer.assigned(value, target.columns[places[number]].type)

    sql, columns = selects.query(renderer, node.query.tree, None, convert)
    if len(columns) != len(places):
        raise SqlServerError(213 if not node.columns else 121 if len(columns) > len(places) else 120)
    defaults = [_default(renderer, target, place).sql for place in _defaulted(target, places)]
    if defaults:
        return f"SELECT _given.*, {', '.join(defaults)} FROM ({sql}) AS _given"
    return sql


# -- UPDATE and DELETE -------------------------------------------------------------------------------------------------


def _check(node: nodes.Update | nodes.Delete, scope: Scope) -> None:
    values = [value for _, value in node.assignments] if isinstance(node, nodes.Update) else []
    for expression in (*values, node.top):
        if expression is not None:
            scope.check(expression.tree, node.line)
    if node.source is not None:
        scope.check(node.source.tree, node.line)


def _rows_of(renderer: Renderer, target: Target, node: nodes.Update | nodes.Delete, names: Names) -> tuple[str, str]:
    """FROM and WHERE of the rows to change, and the alias under which the target stands there."""
    tree = node.source.tree if node.source is not None else None
    if tree is not None and tree.args.get("from_") is not None:
        assert isinstance(tree, exp.Select)
        alias = _alias_in(tree, node.target)
        if alias is not None:
            return selects.from_where(renderer, tree, names), alias
        # A target that its FROM clause does not name is joined with it, row by row.
        alias = _name_of(node.target)
        names.sources.append(Source(alias, target.sql, target.columns))
        sql = selects.from_where(renderer, tree, names).removeprefix("FROM ")
        return f"FROM {target.sql} AS {quoted(alias)} CROSS JOIN {sql}", alias
    alias = _name_of(node.target)
    names.sources.append(Source(alias, target.sql, target.columns))
    where = tree.args.get("where") if tree is not None else None
    sql = f"FROM {target.sql} AS {quoted(alias)}"
    return (f"{sql} WHERE {renderer.condition(where.this, names)}" if where else sql), alias


def _from_tables(tree: exp.Select) -> list[exp.Table]:
    tables = [tree.args["from_"].this, *(join.this for join in tree.args.get("joins") or [])]
    return [table for table in tables if isinstance(table, exp.Table)]


def _table_name(table: exp.Table) -> str:
    return "@" + table.this.name if isinstance(table.this, exp.Parameter) else str(table.name)


def _name_of(target: nodes.Target) -> str:
    return target if isinstance(target, str) else target[-1]


def _alias_in(tree: exp.Select, target: nodes.Target) -> str | None:
    """The alias of the target in its FROM clause: it is named by it, or by the name of its table."""
    name = _name_of(target).lower()
    for table in _from_tables(tree):
        if name in (table.alias.lower(), _table_name(table).lower()):
            return str(table.alias or _table_name(table))
    return None


def _actual_target(node: nodes.Update | nodes.Delete) -> nodes.Target:
    """What the target is: where it is an alias of the FROM clause, the table that bears it."""
    tree = node.source.tree if node.source is not None else None
    if isinstance(tree, exp.Select) and tree.args.get("from_") is not None and not isinstance(node.target, str):
        for table in _from_tables(tree):
            if len(node.target) == 1 and table.alias.lower() == node.target[0].lower():
                if isinstance(table.this, exp.Parameter):
                    return "@" + str(table.this.name).lower()
                return tuple(str(part.name) for part in table.parts)
    return node.target


def _top(renderer: Renderer, node: nodes.Update | nodes.Delete) -> str:
    return f" LIMIT {renderer.value(node.top.tree, Names()).sql}" if node.top is not None else ""


def _reading(node: nodes.Update | nodes.Delete) -> tuple[str, ...]:
    """ "SELECT permissions are also required if the statement contains a WHERE clause." """
    return ("SELECT",) if node.source is not None else ()


def update(node: nodes.Update, scope: Scope) -> Step:
    actual = _actual_target(node)
    _check(node, scope)

    def make(frame: Frame) -> Prepared:
        binding = Binding(scope, frame)
        target = _target(binding, actual, "UPDATE", *_reading(node))
        renderer = Renderer(binding, node.line)
        names = Names()
        rows, alias = _rows_of(renderer, target, node, names)
        sets: list[str] = []
        values: list[str] = []
        for name, expression in node.assignments:
            place = _places(target, [name])[0]
            value = renderer.assigned(renderer.value(expression.tree, names), target.columns[place].type)
            values.append(f"{value.sql} AS _value{len(values)}")
            sets.append(f"{quoted(target.columns[place].name)} = _new._value{len(sets)}")
        top = _top(renderer, node)
        chosen = f"SELECT {quoted(alias)}.rowid AS _row, {', '.join(values)} {rows}{top}"
        returning = f" RETURNING {target.table.all_columns}" if target.table is not None else ""
        sql = f"UPDATE {target.sql} AS _old SET {', '.join(sets)} FROM ({chosen}) AS _new WHERE _old.rowid = _new._row"
        plan = binding.plan(sql + returning, renderer, [])
        return Prepared(target, plan, _before(scope, frame, node, target) if target.table is not None else None)

    prepared = _planned(make)

    def change(frame: Frame, tx: Transaction | None) -> int:
        target, plan, before, _ = prepared(frame)
        if target.table is None or tx is None or before is None:
            return _run(frame, target, plan, "UPDATE")
        old = before.rows(frame)
        if not old:
            return 0
        target.table.claim(tx, [row[0] for row in old])
        new = _changed(frame, target, plan, "UPDATE")
        target.table.updated(frame.sqlite, tx, old, new)
        _send_output(frame, node.output, target, old, new)
        return len(new)

    return _step(actual, change)


def _before(scope: Scope, frame: Frame, node: nodes.Update, target: Target) -> Plan:
    assert target.table is not None
    binding = Binding(scope, frame)
    renderer = Renderer(binding, node.line)
    rows, alias = _rows_of(renderer, target, node, Names())
    chosen = f"SELECT {quoted(alias)}.rowid {rows}{_top(renderer, node)}"
    return binding.plan(f"SELECT {target.table.all_columns} FROM {target.sql} WHERE rowid IN ({chosen})", renderer, [])


def delete(node: nodes.Delete, scope: Scope) -> Step:
    actual = _actual_target(node)
    if isinstance(actual, str) and node.source is None and node.top is None and node.output is None:
        return plain(lambda frame: results.count(frame, frame.empty_table(actual)))
    _check(node, scope)

    def make(frame: Frame) -> Prepared:
        binding = Binding(scope, frame)
        target = _target(binding, actual, "DELETE", *_reading(node))
        renderer = Renderer(binding, node.line)
        returning = f" RETURNING {target.table.all_columns}" if target.table is not None else ""
        where = ""
        if node.source is not None or node.top is not None:
            rows, alias = _rows_of(renderer, target, node, Names())
            where = f" WHERE rowid IN (SELECT {quoted(alias)}.rowid {rows}{_top(renderer, node)})"
        return Prepared(target, binding.plan(f"DELETE FROM {target.sql}{where}{returning}", renderer, []), None)

    prepared = _planned(make)

    def change(frame: Frame, tx: Transaction | None) -> int:
        target, plan, _, _ = prepared(frame)
        if target.table is None or tx is None:
            return _run(frame, target, plan, "DELETE")
        rows = _changed(frame, target, plan, "DELETE")
        if rows:
            target.table.deleted(frame.sqlite, tx, rows)
        _send_output(frame, node.output, target, rows, ())
        return len(rows)

    return _step(actual, change)


# -- OUTPUT ------------------------------------------------------------------------------------------------------------


def _send_output(
    frame: Frame, output: nodes.Output | None, target: Target, old: Sequence[Row], new: Sequence[Row]
) -> None:
    """OUTPUT: columns of the rows before (deleted) and after (inserted), to the client or into a table variable."""
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
