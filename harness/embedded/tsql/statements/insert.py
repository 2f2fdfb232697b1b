"""INSERT."""

from dataclasses import dataclass
from operator import itemgetter

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import SqlType
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Scope, Step
from harness.embedded.tsql.statements import changes
from harness.embedded.tsql.statements.changes import Changing, Output, Prepared, Target, TargetName
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.storage.conversion import Place
from harness.embedded.tsql.storage.tables import Row
from harness.embedded.tsql.text.parser import Expression, Parser, Query, Statement, parse_expression
from harness.embedded.tsql.text.tokens import Tokens
from harness.embedded.tsql.translation import selects
from harness.embedded.tsql.translation.binding import Binding, check
from harness.embedded.tsql.translation.fragments import Fragment, Names
from harness.embedded.tsql.translation.functions.system_functions import sequential_id
from harness.embedded.tsql.translation.renderer import Renderer

ROWS_MAX = 1000  # of VALUES


@dataclass(frozen=True, slots=True)
class Insert(Statement):
    target: TargetName
    columns: list[str]
    output: Output | None
    values: list[list[Expression | None]] | None  # None in a row: DEFAULT
    query: Query | None
    fires: bool = True  # triggers


@dataclass(frozen=True, slots=True)
class InsertExecute(Statement):
    target: TargetName
    columns: list[str]
    execute: Statement


def parse_insert(parser: Parser) -> Statement:
    """`INSERT [ INTO ] target [ ( columns ) ] [ OUTPUT ... ] { VALUES ... | select | execute | DEFAULT VALUES }`"""
    tokens, line = parser.tokens, parser.line
    tokens.accept("INTO")
    target = changes.parse_target(parser)
    columns = changes.parse_column_names(parser) if tokens.at("(") and tokens.word(1) != "SELECT" else []
    output = changes.parse_output(parser)
    if tokens.accept("DEFAULT", "VALUES") or tokens.accept("VALUES"):
        is_default = tokens.word(-2) == "DEFAULT"
        values = [[]] if is_default else tokens.comma_separated(lambda: _row(parser))
        changes.skip_hints(tokens)
        return Insert(line, target, [] if is_default else columns, output, values, None)
    if tokens.at("EXEC") or tokens.at("EXECUTE"):
        if output is not None:
            raise SqlServerError(483, line=line)
        return InsertExecute(line, target, columns, parser.statement())
    return Insert(line, target, columns, output, None, parser.query())


def _row(parser: Parser) -> list[Expression | None]:
    tokens = parser.tokens
    tokens.expect("(")
    values = tokens.comma_separated(lambda: None if tokens.accept("DEFAULT") else parser.expression(","))
    tokens.expect(")")
    return values


@register("INSERT", parse_insert, Insert)
def compile_insert(node: Insert, scope: Scope) -> Step:
    if node.query is not None:
        check(node.query.tree, node.line, scope.declares)
        selects.refuse_format(node.query.tree, "INSERT", node.line)
    if len(node.values or ()) > ROWS_MAX:
        raise SqlServerError(10738, ROWS_MAX, line=node.line)
    for value in [value for row in node.values or [] for value in row]:
        if value is not None:
            check(value.tree, node.line, scope.declares)

    def make(frame: Frame) -> Prepared:
        binding = Binding(scope, frame)
        target = changes.resolve(binding, node.target, "INSERT")
        renderer = Renderer(binding, node.line)
        places = [] if node.values == [[]] else changes.places_of(target, node.columns)
        source = _values(renderer, node, target, places) if node.values is not None else None
        sql = source or _query(renderer, node, target, places)
        places_given = [*places, *_defaulted(target, places)] or [0]
        order = {place: number for number, place in enumerate(places_given, start=1)} | {target.identity: 0}
        shape = itemgetter(0, *(order.get(place, -1) for place in range(len(target.columns))))
        triggers = changes.triggers_of(frame, target, "INSERT", node.target, node.output) if node.fires else ()
        every = range(len(target.columns))
        return Prepared(target, binding.plan(sql, renderer, []), every, shape, triggers)

    prepared = changes.planned(make, scope, node.line, node.query)

    def apply(frame: Frame, tx: Transaction | None) -> Waiting[None] | None:
        planned = prepared(frame)
        target, plan, shape = planned.target, planned.plan, planned.shape
        table = target.table
        if table is not None and tx is not None:
            table.use(tx)
        new_rows = plan.rows(frame)
        if planned.may_be_replaced:
            rows_instead = [shape((0, *values, None)) for values in new_rows]
            if (firing := changes.instead(frame, tx, planned, (), rows_instead)) is not None:
                changes.send_output(frame, tx, scope, node.output, target, (), rows_instead)
                return firing
        first = changes.reserve(frame, target, len(new_rows))
        rows: list[Row] = []
        with Changing(frame, tx, target) as change:
            for piece in changes.pieces(frame, new_rows):
                new = [shape((rowid, *values, None)) for rowid, values in enumerate(piece, first + len(rows))]
                new = changes.versioned(frame, target, new, is_new=True)
                change.insert(new)
                rows += new
        if rows or target.identity is None:
            frame.identified(rows[-1][0] if target.identity is not None else None)
        changes.send_output(frame, tx, scope, node.output, target, (), rows)
        return changes.end(frame, tx, planned, (), rows)

    return changes.step(node.target, apply, node.output)


def _defaulted(target: Target, places: list[int]) -> list[int]:
    """The indexes of the columns that are left out and have a default."""
    return [place for place, default in enumerate(target.defaults) if default is not None and place not in places]


def _default(renderer: Renderer, target: Target, place: int) -> Fragment:
    return default_value(renderer, target.defaults[place], target.columns[place].type, target.place_at(place))


def default_value(renderer: Renderer, default: str | None, type_: SqlType, destination: Place) -> Fragment:
    """The value of a column's default in SQLite; NULL if it has none."""
    if default is None:
        return Fragment("NULL", None)
    tokens = Tokens(default)
    tree = parse_expression(tokens, tokens.all).tree
    if tree.unnest().name.upper() == "NEWSEQUENTIALID":
        return sequential_id(renderer)
    return renderer.assigned(renderer.value(tree, Names()), type_, destination)


def _values(renderer: Renderer, node: Insert, target: Target, places: list[int]) -> str:
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
            else renderer.assigned(
                renderer.value(value.tree, Names()), target.columns[place].type, target.place_at(place)
            )
            for place, value in zip(places, row, strict=True)
        ]
        fragments += [_default(renderer, target, place) for place in _defaulted(target, places)]
        rows.append("(" + ", ".join(fragment.sql for fragment in fragments) + ")")
    return "VALUES (NULL)" if rows == ["()"] else "VALUES " + ", ".join(rows)


def _query(renderer: Renderer, node: Insert, target: Target, places: list[int]) -> str:
    assert node.query is not None

    def convert(number: int, value: Fragment) -> Fragment:
        if number >= len(places):
            return value
        place = places[number]
        return renderer.assigned(value, target.columns[place].type, target.place_at(place))

    sql, columns = selects.query(renderer, node.query.tree, None, convert)
    if len(columns) != len(places):
        raise SqlServerError(213 if not node.columns else 121 if len(columns) > len(places) else 120)
    defaults = [_default(renderer, target, place).sql for place in _defaulted(target, places)]
    if defaults:
        return f"SELECT _given.*, {', '.join(defaults)} FROM ({sql}) AS _given"
    return sql
