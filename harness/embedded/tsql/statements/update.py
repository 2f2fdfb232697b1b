"""UPDATE and DELETE."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn, TypeVar

from sqlglot import exp

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Scope, Step, plain
from harness.embedded.tsql.statements import changes
from harness.embedded.tsql.statements.changes import Changing, Output, Prepared, Taken, Target, TargetName
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.storage.conversion import check_assignable, converter
from harness.embedded.tsql.storage.sqlite import quoted
from harness.embedded.tsql.storage.tables import Row
from harness.embedded.tsql.text.parser import (
    COMPOUND,
    Expression,
    Parser,
    Query,
    Statement,
    parentheses,
    parse_expression,
    parse_from,
)
from harness.embedded.tsql.text.tokens import Tokens
from harness.embedded.tsql.translation import selects, xml_methods
from harness.embedded.tsql.translation.binding import Binding, Plan, check
from harness.embedded.tsql.translation.fragments import MARK, ROWID, Names, Source
from harness.embedded.tsql.translation.groups import has_aggregate
from harness.embedded.tsql.translation.renderer import Renderer

_ENDS = (",", "FROM", "WHERE", "OUTPUT", "OPTION")  # of an assignment


def _parse_top(parser: Parser) -> Expression | None:
    if not parser.tokens.accept("TOP"):
        return None
    return parser.parenthesised()


def _from_where(parser: Parser) -> Query | None:
    tokens = parser.tokens
    if tokens.word() not in ("FROM", "WHERE", "OPTION"):
        return None
    return parse_from(tokens, tokens.take_until(()))


class Assignment(NamedTuple):
    """`column = value`, `@variable = value` or `@variable = column = value`; "" for what is left out."""

    variable: str
    column: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Update(Statement):
    target: TargetName
    top: Expression | None
    assignments: list[Assignment]
    output: Output | None
    source: Query | None  # `SELECT * FROM ... WHERE ...`


def parse_update(parser: Parser) -> Statement:
    """
    UPDATE [ TOP ( n ) ] target SET { [ @variable = ] column { = | += | ... } value | @variable = value } [, ...]
        [ OUTPUT ] [ FROM ] [ WHERE ]
    """
    tokens, line = parser.tokens, parser.line
    if tokens.at("STATISTICS"):
        tokens.unsupported("UPDATE STATISTICS")
    top = _parse_top(parser)
    target = changes.parse_target(parser)
    tokens.expect("SET")
    assignments = tokens.comma_separated(lambda: _assignment(parser))
    output = changes.parse_output(parser)
    source = _from_where(parser)
    return Update(line, target, top, assignments, output, source)


def _at_column(tokens: Tokens) -> bool:
    """At `column =` or `column +=`"""
    ahead = 1
    while tokens.word(ahead) == ".":
        ahead += 2
    return tokens.word(ahead) == "=" or (tokens.word(ahead) in COMPOUND and tokens.word(ahead + 1) == "=")


def _assignment(parser: Parser) -> Assignment:
    tokens = parser.tokens
    variable = ""
    if tokens.at_variable():
        variable = tokens.variable()
        if tokens.word() in COMPOUND:
            _refuse_running(parser.line)
        tokens.expect("=")
        if not _at_column(tokens):
            return Assignment(variable, "", parse_expression(tokens, tokens.take_until(_ENDS)))
    first = tokens.position
    *parts, name = tokens.object_name()
    place = tokens.position
    if parts and name == "modify" and tokens.at("("):
        change = [*tokens.all[first:place], *tokens.take_until(_ENDS)]
        return Assignment(variable, parts[-1], xml_methods.mutating(parse_expression(tokens, change)))
    compound = tokens.word() in COMPOUND
    if compound:
        tokens.advance()
    tokens.expect("=")
    value_tokens = tokens.take_until(_ENDS)
    if compound:
        opening, closing = parentheses(value_tokens[0])
        value_tokens = [*tokens.all[first : place + 1], opening, *value_tokens, closing]
    return Assignment(variable, name, parse_expression(tokens, value_tokens))


def _refuse_running(line: int) -> NoReturn:
    raise UnsupportedSyntax("an UPDATE with a variable that runs from row to row", line)


@register("UPDATE", parse_update, Update)
def compile_update(node: Update, scope: Scope) -> Step:
    _check(node, scope)
    node, actual, common = _resolved(node)

    def make(frame: Frame) -> Prepared:
        binding = Binding(scope, frame)
        target = _target(binding, actual, "UPDATE", node)
        renderer = Renderer(binding, node.line)
        names = Names()
        with _common_tables(renderer, node) as with_clause:
            rows, alias = _rows_of(renderer, target, node, names, common)
            places, values, variables = _values(renderer, node, scope, target, common, names)
        items = ", ".join([*_all_columns(target, alias), *values])
        sql = f"{with_clause}SELECT {items} {rows}{_top(renderer, node)}"
        triggers = changes.triggers_of(frame, target, "UPDATE", actual, node.output)
        return Prepared(target, binding.plan(sql, renderer, []), places, triggers=triggers, variables=variables)

    prepared = changes.planned(make, scope, node.line, node.source)

    def apply(frame: Frame, tx: Transaction | None) -> Waiting[None] | None:
        planned = prepared(frame)
        target, plan, places = planned.target, planned.plan, planned.places
        width = len(target.columns) + 1
        old: list[Row] = []
        new: list[Row] = []
        rows = _rows(plan, frame)
        if rows:
            frame.variables.update({variable: convert(rows[-1][at]) for variable, at, convert in planned.variables})
        if planned.may_be_replaced:
            before = [row[:width] for row in rows]
            after = [_assigned(row, width, places) for row in rows]
            if (firing := changes.instead(frame, tx, planned, before, after)) is not None:
                changes.send_output(frame, tx, scope, node.output, target, before, after)
                return firing
        with Changing(frame, tx, target) as change:
            for piece in changes.pieces(frame, rows):
                before = [row[:width] for row in piece]
                after = [_assigned(row, width, places) for row in piece]
                after = changes.versioned(frame, target, after, is_new=False)
                change.update(before, after)
                old += before
                new += after
        changes.send_output(frame, tx, scope, node.output, target, old, new)
        return changes.end(frame, tx, planned, old, new)

    return changes.step(actual, apply, node.output)


def _target(binding: Binding, name: TargetName, permission: str, node: Update | Delete) -> Target:
    """The target, whose committed rows the statement reads."""
    target = changes.resolve(binding, name, permission, *_reading(node))
    if target.table is not None:
        binding.reads.append(target.table)
    return target


def _values(  # noqa: PLR0917
    renderer: Renderer, node: Update, scope: Scope, target: Target, common: exp.CTE | None, names: Names
) -> tuple[list[int], list[str], list[Taken]]:
    """The places of the columns that it assigns, the SQL of their values and then of those for variables alone, and
    what becomes of variables."""
    places: list[int] = []
    values: list[str] = []
    alone: dict[str, str] = {}
    variables: list[Taken] = []
    for variable, name, expression in node.assignments:
        if not name:
            value = renderer.value(expression.tree, names)
            check_assignable(value.type, scope.types[variable])
            alone[variable] = renderer.cast(value, scope.types[variable]).sql
            continue
        places.append(changes.place_to_update(target, _base_column(common, target, name)))
        if places[-1] in places[:-1]:
            raise SqlServerError(264, name)
        type_ = target.columns[places[-1]].type
        destination = target.place_at(places[-1])
        values.append(renderer.assigned(renderer.value(expression.tree, names), type_, destination).sql)
        if variable:
            check_assignable(type_, scope.types[variable])
            convert = converter(type_, scope.types[variable])
            variables.append((variable, len(target.columns) + len(values), convert))
    for at, variable in enumerate(alone, len(target.columns) + len(values) + 1):
        variables.append((variable, at, lambda value: value))
    return places, [*values, *alone.values()], variables


def _all_columns(target: Target, alias: str) -> list[str]:
    return [f"{quoted(alias)}.{quoted(name)}" for name in ("_rowid_", *(column.name for column in target.columns))]


def _assigned(row: Row, width: int, places: Sequence[int]) -> Row:
    """A row with its new values, which follow the columns."""
    after = list(row[:width])
    for place, value in zip(places, row[width:], strict=False):  # behind them are those of variables
        after[place + 1] = value
    return tuple(after)


def _rows(plan: Plan, frame: Frame) -> list[Row]:
    """The rows to change, without those that a join repeats, and without those that an outer join adds."""
    rows: dict[Any, Row] = {}
    for row in plan.rows(frame):
        rows.setdefault(row[0], row)
    rows.pop(None, None)
    return list(rows.values())


@dataclass(frozen=True, slots=True)
class Delete(Statement):
    target: TargetName
    top: Expression | None
    output: Output | None
    source: Query | None


def parse_delete(parser: Parser) -> Statement:
    """`DELETE [ TOP ( n ) ] [ FROM ] target [ OUTPUT ... ] [ FROM ... ] [ WHERE ... ]`"""
    tokens, line = parser.tokens, parser.line
    top = _parse_top(parser)
    tokens.accept("FROM")
    target = changes.parse_target(parser)
    output = changes.parse_output(parser)
    return Delete(line, target, top, output, _from_where(parser))


@register("DELETE", parse_delete, Delete)
def compile_delete(node: Delete, scope: Scope) -> Step:
    node, actual, common = _resolved(node)
    if isinstance(actual, str) and actual not in scope.tables:
        raise SqlServerError(1087, scope.written(actual), line=node.line)
    if actual in scope.readonly:
        raise SqlServerError(10700, scope.written(str(actual)), line=node.line)
    if isinstance(actual, str) and node.source is None and node.top is None and node.output is None:
        return plain(lambda frame: frame.count(frame.empty_table(actual)))
    _check(node, scope)

    def make(frame: Frame) -> Prepared:
        binding = Binding(scope, frame)
        target = _target(binding, actual, "DELETE", node)
        renderer = Renderer(binding, node.line)
        with _common_tables(renderer, node) as with_clause:
            rows, alias = _rows_of(renderer, target, node, Names(), common)
        sql = f"{with_clause}SELECT {', '.join(_all_columns(target, alias))} {rows}{_top(renderer, node)}"
        triggers = changes.triggers_of(frame, target, "DELETE", actual, node.output)
        return Prepared(target, binding.plan(sql, renderer, []), triggers=triggers)

    prepared = changes.planned(make, scope, node.line, node.source)

    def apply(frame: Frame, tx: Transaction | None) -> Waiting[None] | None:
        planned = prepared(frame)
        target, plan = planned.target, planned.plan
        rows = _rows(plan, frame)
        if (firing := changes.instead(frame, tx, planned, rows, ())) is not None:
            changes.send_output(frame, tx, scope, node.output, target, rows, ())
            return firing
        with Changing(frame, tx, target) as change:
            for piece in changes.pieces(frame, rows):
                change.delete(piece)
        changes.send_output(frame, tx, scope, node.output, target, rows, ())
        return changes.end(frame, tx, planned, rows, ())

    return changes.step(actual, apply, node.output)


def _check(node: Update | Delete, scope: Scope) -> None:
    values = []
    if isinstance(node, Update):
        values = [one.value for one in node.assignments]
        assigned = [one.variable for one in node.assignments if one.variable]
        for variable in assigned:
            scope.type_of(variable, node.line)
        for read in (*values, node.source):
            if read is not None and any("@" + p.name.lower() in assigned for p in read.tree.find_all(exp.Parameter)):
                _refuse_running(node.line)
    for expression in (*values, node.top):
        if expression is not None:
            check(expression.tree, node.line, scope.declares)
    if any(has_aggregate(value.tree) for value in values):
        raise SqlServerError(157, line=node.line)
    if node.source is not None:
        check(node.source.tree, node.line, scope.declares)


def _rows_of(
    renderer: Renderer, target: Target, node: Update | Delete, names: Names, common: exp.CTE | None
) -> tuple[str, str]:
    """FROM and WHERE for the rows to change, and the alias of the target in them."""
    tree = node.source.tree if node.source is not None else None
    if common is not None:
        assert isinstance(tree, exp.Select)
        base, common_alias = quoted(BASE), quoted(_alias_in(tree, node.target) or common.alias)
        join = f" JOIN {target.sql} AS {base} ON {base}._rowid_ = {common_alias}.{quoted(ROWID.name)}"
        return selects.from_where(renderer, tree, names, join), BASE
    if tree is not None and tree.args.get("from_") is not None:
        assert isinstance(tree, exp.Select)
        alias = _alias_in(tree, node.target)
        if alias is not None:
            return selects.from_where(renderer, tree, names), alias
        # A target that the FROM clause does not name is cross joined with it.
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


def _name_of(target: TargetName) -> str:
    return target if isinstance(target, str) else target[-1]


def _alias_in(tree: exp.Select, target: TargetName) -> str | None:
    """The alias of the target in its FROM clause, which names it by alias or by table."""
    name = _name_of(target).lower()
    for table in _from_tables(tree):
        if name in (table.alias.lower(), _table_name(table).lower()):
            return str(table.alias or _table_name(table))
    return None


def _actual_target(node: Update | Delete) -> TargetName:
    """The target; an alias of the FROM clause is replaced by its table."""
    tree = node.source.tree if node.source is not None else None
    if isinstance(tree, exp.Select) and tree.args.get("from_") is not None and not isinstance(node.target, str):
        for table in _from_tables(tree):
            if len(node.target) == 1 and table.alias.lower() == node.target[0].lower():
                return _named(table)
    return node.target


# -- common table expressions: one that is changed shows the numbers of its table's rows ------------------------------

BASE = f"base {MARK}"  # the alias of the table under a common table that is changed


Change = TypeVar("Change", bound="Update | Delete")


def with_common_tables(node: Change, common_tables: Query) -> Change:
    """The change, after `WITH ...`."""
    if node.source is None:
        return replace(node, source=common_tables)
    node.source.tree.set("with_", common_tables.tree.args["with_"])
    return node


def _common_tables(renderer: Renderer, node: Update | Delete) -> contextlib.AbstractContextManager[str]:
    tree = node.source.tree if node.source is not None else exp.Select()
    return selects.common_tables(renderer, tree)


def _resolved(node: Change) -> tuple[Change, TargetName, exp.CTE | None]:
    """The change, the table that it changes, and the common table expression through which it does."""
    actual = _actual_target(node)
    with_ = node.source.tree.args.get("with_") if node.source is not None else None
    names = [cte.alias.lower() for cte in with_.expressions] if with_ is not None else []
    if node.source is None or isinstance(actual, str) or len(actual) > 1 or actual[0].lower() not in names:
        return node, actual, None
    tree = node.source.tree.copy()
    common = tree.args["with_"].expressions[names.index(actual[0].lower())]
    if tree.args.get("from_") is None:
        tree.set("from_", exp.From(this=exp.Table(this=exp.to_identifier(common.alias, quoted=True))))
    table = _table_under(common)
    if table.name.lower() in names:
        raise UnsupportedSyntax("a change through two common table expressions", node.line)
    alias = exp.to_identifier(table.alias or _table_name(table), quoted=True)
    common.this.append("expressions", exp.Column(this=exp.to_identifier(ROWID.name, quoted=True), table=alias))
    if common.args["alias"].columns:
        common.args["alias"].append("columns", exp.to_identifier(ROWID.name, quoted=True))
    return replace(node, source=Query(tree, node.source.line)), _named(table), common


def _table_under(common: exp.CTE) -> exp.Table:
    """The only table from which a common table expression selects; 4403 or 4405 if it has rows of more."""
    clauses: dict[str, Any] = common.this.args if isinstance(common.this, exp.Select) else {"group": True}
    if any(map(clauses.get, ("group", "distinct", "having"))) or any(map(has_aggregate, clauses["expressions"])):
        raise SqlServerError(4403, common.alias)
    from_ = clauses.get("from_")
    if from_ is None or clauses.get("joins") or not isinstance(from_.this, exp.Table):
        raise SqlServerError(4405, common.alias)
    table: exp.Table = from_.this
    return table


def _base_column(common: exp.CTE | None, target: Target, name: str) -> str:
    """The column of the table that a column of a common table expression is; 4406 if it is computed."""
    if common is None:
        return name
    columns: list[tuple[str, str | None]] = []
    for item in common.this.expressions[:-1]:
        column = item.this if isinstance(item, exp.Alias) else item
        if column.is_star:
            columns += [(column_.name, column_.name) for column_ in target.columns]
        else:
            columns.append((item.alias_or_name, column.name if isinstance(column, exp.Column) else None))
    given_names = [column.name for column in common.args["alias"].columns] or [name_ for name_, _ in columns]
    by_name = {given_name.lower(): base for given_name, (_, base) in zip(given_names, columns, strict=False)}
    if name.lower() not in by_name:
        raise SqlServerError(207, name)
    base = by_name[name.lower()]
    if base is None:
        raise SqlServerError(4406, common.alias)
    return base


def _named(table: exp.Table) -> TargetName:
    if isinstance(table.this, exp.Parameter):
        return "@" + str(table.this.name).lower()
    return tuple(str(part.name) for part in table.parts)


def _top(renderer: Renderer, node: Update | Delete) -> str:
    return f" LIMIT {selects.row_limit(renderer, node.top.tree)}" if node.top is not None else ""


def _reading(node: Update | Delete) -> tuple[str, ...]:
    """ "SELECT permissions are also required if the statement contains a WHERE clause." """
    return ("SELECT",) if node.source is not None else ()
