"""Shared by INSERT, UPDATE and DELETE: their target, their plan, and OUTPUT.

Each becomes a query of committed rows: for the new rows of an INSERT, which are numbered here, and for the rows that an
UPDATE or DELETE changes, with their new values. The rows are then changed by their numbers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

from sqlglot import exp

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import INT, ROWVERSION, Column
from harness.embedded.tsql.instance.modules import Trigger
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Scope, Step, plain, writing
from harness.embedded.tsql.statements import rules
from harness.embedded.tsql.statements.triggers import fire, fired_by
from harness.embedded.tsql.statements.triggers import instead as triggers_instead
from harness.embedded.tsql.storage.conversion import Place, converter
from harness.embedded.tsql.storage.result_values import shaped, shown
from harness.embedded.tsql.storage.sqlite import ROWS_A_PIECE, quoted
from harness.embedded.tsql.storage.tables import Row, Table, check_number, key_text, update_sql, violated_columns
from harness.embedded.tsql.text.parser import Expression, Parser, Query, parse_from, parse_query, select_token
from harness.embedded.tsql.text.tokens import Tokens
from harness.embedded.tsql.translation import xml_methods
from harness.embedded.tsql.translation.binding import Binding, Plan, lacks_table, scalar, static_type
from harness.embedded.tsql.translation.selects import check_hint

TargetName = tuple[str, ...] | str  # an object name, or a table variable with its @


Item = TypeVar("Item")
# Makes a change and ends its statement; returns what fires its triggers, if it has any.
Change = Callable[[Frame, Transaction | None], Waiting[None] | None]
# Errors that end a change of rows, without its batch
ENDS_CHANGE = frozenset({220, 232, 512, 515, 517, 535, 536, 537, 547, 2601, 2627, 2628, 8115, 8134, 8152})


class Target(NamedTuple):
    """The table or table variable that a statement changes."""

    table: Table | None  # None: a table variable
    sql: str
    columns: Sequence[Column]
    defaults: Sequence[str | None]
    name: str
    written: Callable[[], str]  # the name as errors show it, which is searched for in the text
    keys: Sequence[str]  # the columns of a table variable's primary key
    identity: int | None  # the place of the IDENTITY column
    seed: int = 1  # of a table variable's

    def place(self, name: str) -> int:
        """The position of a column; 207 if there is none of that name."""
        for place, column in enumerate(self.columns):
            if column.name.lower() == name.lower():
                return place
        raise SqlServerError(207, name)

    def place_at(self, place: int) -> Place:
        column = self.columns[place].name
        return self.table.place_of(column) if self.table is not None else Place(self.written(), column)

    def violation(self, error: sqlite3.IntegrityError, verb: str, values: Sequence[Any]) -> SqlServerError:
        """SQL Server's error for a constraint that a row with these values violates."""
        if self.table is not None:
            return self.table.violation(error, verb, values)
        return variable_violation(error, self.written(), self.keys, verb, self.columns, values)


Taken = tuple[str, int, Callable[[Any], Any]]  # a variable, the place of its value in a row to change, its conversion


class Prepared(NamedTuple):
    """A change, planned for one version of the catalog: the query for its rows."""

    target: Target
    plan: Plan
    places: Sequence[int] = ()  # of the columns that it assigns: all for an INSERT, none for a DELETE
    shape: Callable[[tuple[Any, ...]], Row] = tuple  # makes a Row of an INSERT's rowid, values and None
    triggers: Sequence[Trigger] = ()  # that it fires
    rules: Sequence[rules.Rule] = ()  # that its rows must keep
    variables: Sequence[Taken] = ()  # that an UPDATE assigns

    @property
    def may_be_replaced(self) -> bool:
        """Whether an INSTEAD OF trigger may get the rows."""
        return any(trigger.is_instead for trigger in self.triggers)


def variable_violation(  # noqa: PLR0917
    error: sqlite3.IntegrityError,
    name: str,
    keys: Sequence[str],
    verb: str,
    columns: Sequence[Column],
    values: Sequence[Any],
) -> SqlServerError:
    """SQL Server's error for a constraint of a table variable that a row with these values violates."""
    names = violated_columns(error)
    if str(error).startswith("NOT NULL"):
        return SqlServerError(515, names[0], name, verb)
    is_primary = {column.lower() for column in names} == {key.lower() for key in keys}
    kind, prefix = ("PRIMARY KEY", "PK") if is_primary else ("UNIQUE KEY", "UQ")
    return SqlServerError(2627, kind, f"{prefix}_{name}", f"dbo.{name}", key_text(names, columns, values))


@dataclass(frozen=True, slots=True)
class Output:
    """`OUTPUT items [ INTO target [ ( columns ) ] ]`; items refer to inserted and deleted."""

    items: Query
    into: TargetName | None
    columns: list[str]  # of `into`


def parse_target(parser: Parser) -> TargetName:
    tokens = parser.tokens
    target: TargetName = tokens.variable() if tokens.at_variable() else tokens.object_name()
    if tokens.accept("WITH"):
        tokens.expect("(")
        for hint in tokens.comma_separated(tokens.name):
            check_hint(hint)
        tokens.expect(")")
    return target


def parse_output(parser: Parser) -> Output | None:
    """`OUTPUT { { inserted. | deleted. } column | expression } [, ...] [ INTO target [ ( column [, ...] ) ] ]`"""
    tokens = parser.tokens
    if not tokens.accept("OUTPUT"):
        return None
    expression_tokens = tokens.take_until(("INTO", "VALUES", "FROM", "WHERE", "DEFAULT"))
    items = parse_query(tokens, [select_token(expression_tokens[0]), *expression_tokens])
    if not tokens.accept("INTO"):
        return Output(items, None, [])
    target: TargetName = tokens.variable() if tokens.at_variable() else tokens.object_name()
    return Output(items, target, parse_column_names(parser) if tokens.at("(") else [])


def parse_column_names(parser: Parser) -> list[str]:
    parser.tokens.expect("(")
    names = parser.tokens.comma_separated(parser.tokens.name)
    parser.tokens.expect(")")
    return names


def resolve(binding: Binding, target: TargetName, *permissions: str) -> Target:
    if isinstance(target, str):
        source = binding.table_variable(target, target)
        scope = binding.scope
        if target in scope.readonly:
            raise SqlServerError(10700, scope.written(target))
        identity, seed = scope.identities.get(target, (None, 1))
        keys = scope.keys[target]
        defaults, written = scope.defaults[target], partial(scope.written, target)
        return Target(None, source.sql, source.columns, defaults, target, written, keys, identity, seed)
    table = binding.user_table(target, *permissions)
    defaults = [definition.default for definition in table.definitions]
    return Target(table, table.sql, table.columns, defaults, table.name, lambda: table.name, (), table.identity)


def reserve(frame: Frame, target: Target, count: int) -> int:
    """The first of so many numbers for new rows; 8115 if an IDENTITY column has no such numbers."""
    if target.table is not None:
        return target.table.reserve(count)
    if target.identity is None:
        return 1
    first = frame.numbers.get(target.name, target.seed)
    check_number(target.columns[target.identity].type, first + count - 1)
    frame.numbers[target.name] = first + count
    return first


def step(target: TargetName, change: Change, output: Output | None) -> Step:
    """A change of a table variable is part of no transaction, unless its OUTPUT fills a table."""

    def marking(frame: Frame, tx: Transaction | None) -> Waiting[None] | None:
        try:
            return change(frame, tx)
        except SqlServerError as error:
            error.ends_change = error.number in ENDS_CHANGE
            raise

    if isinstance(target, str) and (output is None or isinstance(output.into, str | None)):

        def run(frame: Frame) -> None:
            marking(frame, None)

        return plain(run)
    return writing(marking)


def triggers_of(frame: Frame, target: Target, event: str, name: TargetName, output: Output | None) -> Sequence[Trigger]:
    """The triggers that a change of a target fires; 334 if it has any and its OUTPUT goes to the client."""
    triggers = fired_by(frame, target.table, event) if target.table is not None else ()
    if triggers and output is not None and output.into is None:
        raise SqlServerError(334, ".".join(name))
    return triggers


def end(
    frame: Frame, tx: Transaction | None, prepared: Prepared, old: Sequence[Row], new: Sequence[Row]
) -> Waiting[None] | None:
    """End a statement: count its rows, or return what fires its triggers before that."""
    table = prepared.target.table
    if prepared.rules and tx is not None:
        verb = "INSERT" if not old else "UPDATE" if new else "DELETE"
        for rule in prepared.rules:
            rule(frame, tx, verb, old, new)
    if table is not None and tx is not None and (after := [t for t in prepared.triggers if not t.is_instead]):
        return fire(frame, tx, table, after, old, new, prepared.places)
    frame.count(max(len(old), len(new)))
    return None


def instead(
    frame: Frame, tx: Transaction | None, prepared: Prepared, old: Sequence[Row], new: Sequence[Row]
) -> Waiting[None] | None:
    """What fires an INSTEAD OF trigger in place of the change; None if there is none."""
    table = prepared.target.table
    if not prepared.triggers or table is None or tx is None:
        return None
    triggers = triggers_instead(frame, prepared.triggers)
    return fire(frame, tx, table, triggers, old, new, prepared.places) if triggers else None


def skip_hints(tokens: Tokens) -> None:
    """`OPTION ( hint [ , ... ] )`, without effect"""
    if tokens.at("OPTION"):
        parse_from(tokens, tokens.take_until(()))


def planned(
    make: Callable[[Frame], Prepared], scope: Scope, line: int, query: Query | None
) -> Callable[[Frame], Prepared]:
    """Prepare a change before its batch or module runs, and again when the catalog has changed."""
    prepared_steps: list[Prepared] = []

    def prepared(frame: Frame) -> Prepared:
        if not prepared_steps or not prepared_steps[0].plan.is_current(frame):
            change = make(frame)
            table = change.target.table
            prepared_steps[:] = [change._replace(rules=rules.of_table(frame, table)) if table is not None else change]
        return prepared_steps[0]

    scope.plans_before(line, prepared, partial(lacks_table, scope, query.tree if query is not None else None))
    return prepared


def pieces(frame: Frame, rows: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """The rows in pieces, between which the statement looks at its budget."""
    for at in range(0, len(rows), ROWS_A_PIECE):
        if at:
            frame.sqlite.budget.look()
        yield rows[at : at + ROWS_A_PIECE]


class Changing:
    """Changes of one statement, a piece of its rows at a time. If one fails, those of a table are undone by its
    transaction, and those of a table variable here."""

    def __init__(self, frame: Frame, tx: Transaction | None, target: Target) -> None:
        self._frame = frame
        self._sqlite = frame.sqlite
        self._tx = tx
        self._target = target
        self._table = target.table
        self._verb = ""
        self._rows: Sequence[Row] = ()  # of the last piece
        self._undo: list[Callable[[], object]] = []  # for a table variable

    def __enter__(self) -> Changing:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        values = self._refused() if isinstance(error, sqlite3.IntegrityError) else ()
        for undo in reversed(self._undo):
            undo()
        if isinstance(error, sqlite3.IntegrityError):
            raise self._target.violation(error, self._verb, values) from error

    def insert(self, rows: Sequence[Row]) -> None:
        self._verb = "INSERT"
        self._refuse_growth()
        if self._table is not None and self._tx is not None:
            self._rows = rows
            self._table.insert(self._sqlite, self._tx, rows)
            return
        rowids: list[tuple[int | None]] = []
        self._undo.append(lambda: self._delete(rowids))
        sql = f"INSERT INTO {self._variable} VALUES ({', '.join('?' for _ in self._target.columns)})"
        for row in rows:
            self._rows = (row,)
            rowids.append((self._sqlite.insert(sql, row[1:]),))

    def update(self, old: Sequence[Row], new: Sequence[Row]) -> None:
        self._verb = "UPDATE"
        self._refuse_growth()
        self._rows = new
        if self._table is not None and self._tx is not None:
            self._table.update(self._sqlite, self._tx, old, new)
            return
        self._update(new)
        self._undo.append(lambda: self._update(old))

    def _refused(self) -> Sequence[Any]:
        """The values of the row that violates a constraint, before anything is undone."""
        table, sql = self._table, ""
        if self._verb == "UPDATE":
            sql = update_sql(self._variable if table is None else table.sql, self._target.columns)
        elif table is not None:
            sql = table.put_sql
        return self._sqlite.first_refused(sql, self._rows)[1:]

    def _refuse_growth(self) -> None:
        share = "tables_are_full" if self._table is not None else "table_variables_are_full"
        if getattr(self._sqlite, share):
            self._sqlite.refuse_growth(share)

    def delete(self, rows: Sequence[Row]) -> None:
        self._verb = "DELETE"
        if self._table is not None and self._tx is not None:
            self._table.delete(self._sqlite, self._tx, rows)
            return
        self._delete([row[:1] for row in rows])
        self._undo.append(lambda: self._put_back(rows))

    # -- of a table variable

    @property
    def _variable(self) -> str:
        return f"temp.{self._frame.table(self._target.name)}"

    def _update(self, rows: Sequence[Row]) -> None:
        self._sqlite.run_many(update_sql(self._variable, self._target.columns), rows)

    def _delete(self, rowids: Sequence[Row]) -> None:
        self._sqlite.run_each(f"DELETE FROM {self._variable} WHERE _rowid_ = ?", rowids)

    def _put_back(self, rows: Sequence[Row]) -> None:
        names = ["_rowid_", *(quoted(column.name) for column in self._target.columns)]
        sql = f"INSERT INTO {self._variable} ({', '.join(names)}) VALUES ({', '.join('?' for _ in names)})"
        self._sqlite.run_each(sql, rows)


def versioned(frame: Frame, target: Target, rows: list[Row], *, is_new: bool) -> list[Row]:
    """The rows with the next values in their rowversion column; 273 for a new row that has one."""
    table = target.table
    if table is None or table.rowversion is None:
        return rows
    at = table.rowversion + 1
    if is_new and any(row[at] is not None for row in rows):
        raise SqlServerError(273)
    instance, database_id = frame.instance, table.database_id
    return [(*row[:at], instance.next_row_version(database_id), *row[at + 1 :]) for row in rows]


def place_to_update(target: Target, name: str) -> int:
    """The position of a column that UPDATE assigns; 8102 for that of IDENTITY."""
    place = target.place(name)
    if place == target.identity:
        raise SqlServerError(8102, target.columns[place].name)
    if target.columns[place].type == ROWVERSION:
        raise SqlServerError(272)
    return place


def places_of(target: Target, names: list[str]) -> list[int]:
    """The indexes of the columns that get values, in order."""
    identity = target.identity
    if not names:
        return [place for place in range(len(target.columns)) if place != identity]
    places = []
    for name in names:
        matches = [place for place, column in enumerate(target.columns) if column.name.lower() == name.lower()]
        if not matches:
            raise SqlServerError(207, name)
        if matches[0] == identity:
            raise SqlServerError(544, target.written())
        if matches[0] in places:
            raise SqlServerError(264, name)
        places.append(matches[0])
    return places


def send_output(  # noqa: PLR0917
    frame: Frame,
    tx: Transaction | None,
    scope: Scope,
    output: Output | None,
    target: Target,
    old: Sequence[Row],
    new: Sequence[Row],
) -> None:
    """Send OUTPUT (rows before: deleted, after: inserted) to the client or into a table."""
    if output is None:
        return
    count = max(len(old), len(new))
    columns: list[Column] = []
    picks: list[tuple[Sequence[Row], int]] = []
    for item in output.items.tree.expressions:
        name = item.alias if isinstance(item, exp.Alias) else item.name
        column = item.this if isinstance(item, exp.Alias) else item
        calls = [node for node in column.find_all(exp.Dot) if not isinstance(node.this, exp.Parameter)]
        if column.find(exp.Column) is None and not any(map(xml_methods.is_call, calls)):
            expression = Expression(column, output.items.line)
            evaluate = scalar(expression, scope)
            columns.append(Column(name, static_type(expression, scope, frame) or INT))
            picks.append(([(evaluate(frame),) for _ in range(count)], 0))  # NEWID() is another one in each row
            continue
        if not isinstance(column, exp.Column) or column.table.lower() not in ("inserted", "deleted"):
            raise UnsupportedSyntax("OUTPUT of expressions with columns", output.items.line)
        rows = new if column.table.lower() == "inserted" else old
        star = isinstance(column.this, exp.Star)
        for place in range(len(target.columns)) if star else [target.place(column.name)]:
            columns.append(Column(target.columns[place].name if star else name, target.columns[place].type))
            picks.append((rows, place + 1))
    output_rows = [tuple(rows[number][place] for rows, place in picks) for number in range(count)]
    if output.into is None:
        frame.sink.columns(shown(columns))
        frame.sink.rows(shaped(columns, output_rows, frame.session.options.text_size_bytes))
        return
    _put_output(frame, tx, scope, output, columns, output_rows)


def _put_output(  # noqa: PLR0917
    frame: Frame, tx: Transaction | None, scope: Scope, output: Output, columns: list[Column], rows: list[Row]
) -> None:
    """Insert the rows of OUTPUT INTO into their table or table variable."""
    assert output.into is not None
    target = resolve(Binding(scope, frame), output.into, "INSERT")
    places = places_of(target, output.columns)
    if len(places) != len(columns):
        raise SqlServerError(213 if not output.columns else 121 if len(columns) > len(places) else 120)
    if any(default is not None and place not in places for place, default in enumerate(target.defaults)):
        raise UnsupportedSyntax("OUTPUT INTO a table with a default for a column that is left out", output.items.line)
    if target.table is not None:
        _refuse_rules(frame, target.table)
    taken = [
        (place, converter(column.type, target.columns[place].type, strict=True))
        for column, place in zip(columns, places, strict=True)
    ]
    new: list[Row] = []
    for rowid, row in enumerate(rows, reserve(frame, target, len(rows))):
        values: list[Any] = [None] * len(target.columns)
        for (place, convert), value in zip(taken, row, strict=True):
            values[place] = None if value is None else convert(value)
        if target.identity is not None:
            values[target.identity] = rowid
        new.append((rowid, *values))
    with Changing(frame, tx, target) as change:
        for piece in pieces(frame, versioned(frame, target, new, is_new=True)):
            change.insert(piece)


def _refuse_rules(frame: Frame, table: Table) -> None:
    """The target of OUTPUT INTO has no triggers, foreign keys or CHECK constraints."""
    if fired_by(frame, table, "INSERT"):
        raise SqlServerError(331, table.name)
    if table.references:
        raise SqlServerError(332, table.name, table.references[0].name)
    if table.checks:
        raise SqlServerError(333, table.name, table.checks[0].name)
