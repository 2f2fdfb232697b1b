"""SELECT, to the client and into variables; cursors: DECLARE CURSOR, OPEN, FETCH, CLOSE, DEALLOCATE.

Every cursor is STATIC: OPEN fetches all rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlglot import exp

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import MAX, Column, SqlType
from harness.embedded.tsql.session.session import Cursor, Frame
from harness.embedded.tsql.session.steps import Scope, Step, plain, waiting
from harness.embedded.tsql.statements import definitions, tables
from harness.embedded.tsql.statements.insert import Insert
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.statements.update import Delete, Update, with_common_tables
from harness.embedded.tsql.storage.conversion import check_assignable, converter
from harness.embedded.tsql.storage.sqlite import ROWS_A_PIECE
from harness.embedded.tsql.storage.tables import ColumnDefinition, TableBody
from harness.embedded.tsql.text.parser import Expression, Parser, Query, Statement, parse_from
from harness.embedded.tsql.text.tokens import Tokens
from harness.embedded.tsql.translation import selects, xml_methods
from harness.embedded.tsql.translation.binding import (
    Binding,
    Plan,
    Planned,
    check,
    lacks_table,
    planned_before,
    scalar,
    select_plan,
)
from harness.embedded.tsql.translation.closures import Evaluate
from harness.embedded.tsql.translation.fragments import AGGREGATES, Fragment
from harness.embedded.tsql.translation.renderer import Renderer

PERMISSION_SEVERITY = 14  # of errors that say that the session may not read something


@dataclass(frozen=True, slots=True)
class Select(Statement):
    describes = True
    query: Query


def parse_select(parser: Parser) -> Statement:
    """`[ WITH [ XMLNAMESPACES ( 'uri' AS prefix | DEFAULT 'uri' [, ...] ) ] [ , ] [ cte [, ...] ] ] SELECT ...`, or a
    query that begins with a parenthesis"""
    tokens = parser.tokens
    tokens.position -= 1
    first = tokens.all[tokens.position]
    if not tokens.accept("WITH", "XMLNAMESPACES", "("):
        return _change_after_with(parser) or Select(parser.line, parser.query())
    namespaces = tuple(tokens.comma_separated(lambda: _namespace(tokens)))
    tokens.expect(")")
    if tokens.at(","):
        tokens.all[tokens.position] = first  # WITH, before the common table expressions
    query = parser.query()
    query.tree.meta["xml_namespaces"] = namespaces
    return Select(parser.line, query)


def _change_after_with(parser: Parser) -> Statement | None:
    """`WITH cte INSERT ... SELECT`, which is `INSERT ... WITH cte SELECT`; `WITH cte { UPDATE | DELETE } ...`."""
    tokens, depth, begins = parser.tokens, 0, []
    for ahead in range(len(tokens.all) - tokens.position):
        word = tokens.word(ahead)
        depth += (word == "(") - (word == ")")
        if depth == 0 and word in ("SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", ";"):
            begins.append((word, tokens.position + ahead))
            if word != "INSERT":
                break
    words, start = [word for word, _ in begins], tokens.position
    if words == ["INSERT", "SELECT"]:
        (_, insert), (_, select) = begins
        tokens.all[start:select] = [*tokens.all[insert:select], *tokens.all[start:insert]]
        return parser.statement()
    if words[:1] in (["INSERT"], ["MERGE"]):
        tokens.unsupported(f"a common table expression before {words[0]}")
    if words not in (["UPDATE"], ["DELETE"]):
        return None
    tokens.position = begins[0][1]
    common_tables = parse_from(tokens, tokens.all[start : tokens.position], before=True)
    change = parser.statement()
    assert isinstance(change, Update | Delete), "UPDATE STATISTICS is refused"
    return with_common_tables(change, common_tables)


XML_URI = "http://www.w3.org/XML/1998/namespace"


def _namespace(tokens: Tokens) -> tuple[str, str]:
    if tokens.accept("DEFAULT"):
        return "", tokens.string()
    uri = tokens.string()
    tokens.expect("AS")
    prefix = tokens.name()
    if (prefix == "xml") != (uri == XML_URI):
        raise SqlServerError(6872, XML_URI, line=tokens.line)
    return prefix, uri


@register("(|SELECT|WITH", parse_select, Select)
def compile_select(node: Select, scope: Scope) -> Step:
    tree = node.query.tree
    if (into := tree.find(exp.Into)) is not None:
        first = tree
        while isinstance(first, exp.SetOperation):
            first = first.left
        if into.parent is not first:
            raise SqlServerError(102, "INTO", line=node.line)
        into.pop()
        if assignments(tree):
            raise SqlServerError(194, line=node.line)
        selects.refuse_format(tree, "SELECT INTO", node.line)
        return _into(selects.with_gaps(into.this), node, scope)
    variables = assignments(tree)
    if variables:
        return _assigning(tree, variables, node.line, scope)
    planned = planned_before(select_plan(tree, node.line, scope), scope, node.line, tree)
    reads = _reads_a_table(tree)

    def run(frame: Frame) -> Waiting[None] | None:
        plan = planned.for_(frame)
        if frame.session.options.fmtonly:
            frame.send(plan.columns, ())
            return None
        if reads:
            frame.session.begin_implicitly()
        try:
            rows = plan.rows(frame)
        except SqlServerError as error:
            if error.severity != PERMISSION_SEVERITY:  # SQL Server sends the columns before it computes the rows
                frame.begin_rows(plan.columns)
            raise
        if len(rows) > ROWS_A_PIECE:
            return frame.send_in_pieces(plan.columns, rows)
        frame.send(plan.columns, rows)
        return None

    return waiting(run)


def _into(table: tuple[str, ...], node: Select, scope: Scope) -> Step:
    """`SELECT ... INTO table`, in two parts as in SQL Server: if the insert fails, the empty table stays. Unlike there,
    no column becomes an IDENTITY column."""
    plan = select_plan(node.query.tree, node.line, scope)

    def work(frame: Frame, tx: Transaction) -> None:
        columns = plan(frame).columns
        if not all(column.name for column in columns):
            raise SqlServerError(1038)
        definitions_ = [ColumnDefinition(c.name, c.type or SqlType("int"), c.nullable) for c in columns]
        tables.new_table(frame, tx, table, TableBody(definitions_))

    create = definitions.definition_step(tables.creating(table), work)
    scope.plans_before(node.line, plan, partial(lacks_table, scope, node.query.tree))
    insert = replace(scope, plans=[]).compile(Insert(node.line, table, [], None, None, node.query))

    def run(frame: Frame) -> Waiting[None]:
        for step in () if frame.session.options.fmtonly else (create, insert):
            yield from step.run(frame) or ()

    return waiting(run)


def _reads_a_table(tree: exp.Expr) -> bool:
    """ "SELECT statements that do not select from a table do not start implicit transactions." """
    common = {expression.alias.lower() for expression in tree.find_all(exp.CTE)}
    return any(table.name.lower() not in common for table in tree.find_all(exp.Table))


def assignments(tree: exp.Expr, error: int = 141) -> list[str]:
    """Take the variables of `SELECT @a = ..., @b = ...` out of the tree; a list mixed with results is an error."""
    if not isinstance(tree, exp.Select):
        return []
    variables = []
    for item in tree.expressions:
        if isinstance(item, exp.EQ) and isinstance(item.this, exp.Parameter):
            variables.append("@" + item.this.name.lower())
    if variables and len(variables) != len(tree.expressions):
        raise SqlServerError(error)
    if variables:
        tree.set("expressions", [item.expression for item in tree.expressions])
    return variables


def _adds_up(tree: exp.Expr, variables: list[str]) -> bool:
    """Whether it is `SELECT @a = @a + x FROM t`, which takes the variable's value from the row before."""
    if tree.args.get("from_") is None or tree.args.get("limit") is not None:
        return False
    return any(
        "@" + parameter.name.lower() in variables
        for item in tree.expressions
        if not any(str(call.this).upper() in AGGREGATES for call in item.find_all(exp.Anonymous))
        for parameter in item.find_all(exp.Parameter)
    )


def converting(renderer: Renderer, types: list[SqlType]) -> Callable[[int, Fragment], Fragment]:
    """Conversions of a SELECT list to the types of the variables that take it."""

    def convert(place: int, value: Fragment) -> Fragment:
        if place >= len(types):
            return value
        check_assignable(value.type, types[place])
        return renderer.cast(value, types[place])

    return convert


def _assigning(tree: exp.Expr, variables: list[str], line: int, scope: Scope) -> Step:
    types = [scope.type_of(name, line) for name in variables]
    selects.refuse_format(tree, "ASSIGNMENT", line)
    check(tree, line, scope.declares)
    planned, assign = (_row_by_row if _adds_up(tree, variables) else _last_row)(tree, variables, types, line, scope)
    is_bounded = all(type_.length != MAX for type_ in types)
    reads = _reads_a_table(tree)

    def run(frame: Frame) -> None:
        if frame.session.options.fmtonly:
            return
        if frame.sqlite.memory_is_full and not is_bounded:
            frame.sqlite.refuse_growth("memory_is_full")
        plan = planned.for_(frame)
        if reads:
            frame.session.begin_implicitly()
        rows = plan.rows(frame)
        frame.session.row_count = len(rows)
        assign(frame, rows)

    return plain(run)


Assign = Callable[[Frame, Sequence[tuple[Any, ...]]], None]  # gives the variables their values from rows


def _last_row(
    tree: exp.Expr, variables: list[str], types: list[SqlType], line: int, scope: Scope
) -> tuple[Planned, Assign]:
    """The last row wins; without rows the variables keep their values."""

    def make(frame: Frame) -> Plan:
        binding = Binding(scope, frame)
        renderer = Renderer(binding, line)
        sql, columns = selects.query(renderer, tree, None, converting(renderer, types))
        return binding.plan(sql, renderer, columns)

    def assign(frame: Frame, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            frame.variables.update(zip(variables, rows[-1], strict=True))

    return planned_before(make, scope, line, tree), assign


def _row_by_row(
    tree: exp.Expr, variables: list[str], types: list[SqlType], line: int, scope: Scope
) -> tuple[Planned, Assign]:
    """Evaluate the items for each row, with variables in place of the columns and of the methods of xml in them. The
    manual leaves it open in which order SQL Server takes the rows; here it is that of ORDER BY."""
    if tree.args.get("distinct") is not None or any(item.find(exp.Query) for item in tree.expressions):
        raise UnsupportedSyntax("DISTINCT or a subquery in a SELECT that adds up a variable over rows", line)
    columns: list[exp.Expr] = []

    def as_variable(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) and not xml_methods.is_call(node):
            return node
        columns.append(node)
        return exp.Parameter(this=exp.Var(this=f"column {len(columns)}"))

    items = [item.transform(as_variable) for item in tree.expressions]
    names = [f"@column {number}" for number in range(1, len(columns) + 1)]
    tree.set("expressions", columns or [exp.Literal.number(1)])
    values: list[Evaluate] = []

    def make(frame: Frame) -> Plan:
        binding = Binding(scope, frame)
        renderer = Renderer(binding, line)
        sql, columns = selects.query(renderer, tree, None)
        scope.types.update({name: column.type for name, column in zip(names, columns, strict=False)})
        values[:] = [scalar(Expression(item, line), scope, type_) for item, type_ in zip(items, types, strict=True)]
        return binding.plan(sql, renderer, columns)

    def assign(frame: Frame, rows: Sequence[tuple[Any, ...]]) -> None:
        for row in rows:
            frame.sqlite.budget.look()
            frame.variables.update(zip(names, row, strict=False))
            for name, value in zip(variables, values, strict=True):
                frame.variables[name] = value(frame)

    return planned_before(make, scope, line, tree), assign


# -- cursors ---------------------------------------------------------------------------------------------------------

# Accepted because every cursor is STATIC.
CURSOR_OPTIONS = ("LOCAL", "GLOBAL", "FORWARD_ONLY", "SCROLL", "STATIC", "FAST_FORWARD", "READ_ONLY")
CONFLICTS = (("LOCAL", "GLOBAL"), ("SCROLL", "FORWARD_ONLY"), ("SCROLL", "FAST_FORWARD"), ("STATIC", "FAST_FORWARD"))
OTHER_OPTIONS = ("INSENSITIVE", "KEYSET", "DYNAMIC", "OPTIMISTIC", "SCROLL_LOCKS", "TYPE_WARNING")


@dataclass(frozen=True, slots=True)
class DeclareCursor(Statement):
    name: str  # as it is written, with its @ if it is a variable
    query: Query
    local: bool


def parse_declare_cursor(parser: Parser) -> Statement:
    """`DECLARE name [ SCROLL ] CURSOR [ LOCAL | FAST_FORWARD | ... ] FOR select [ FOR READ ONLY ]`"""
    return cursor_definition(parser, parser.tokens.name())


def cursor_definition(parser: Parser, name: str) -> Statement:
    tokens = parser.tokens
    tokens.accept("SCROLL")
    tokens.expect("CURSOR")
    options = set()
    while tokens.word() in CURSOR_OPTIONS:
        options.add(tokens.advance().text.upper())
    if tokens.word() in OTHER_OPTIONS:
        tokens.unsupported(f"a cursor that is {tokens.word()}")
    for pair in CONFLICTS:
        if options.issuperset(pair):
            raise SqlServerError(1048, *pair, line=parser.line)
    tokens.expect("FOR")
    query = parser.query(("FOR",))
    if tokens.accept("FOR"):
        if tokens.at("UPDATE"):
            tokens.unsupported("a cursor FOR UPDATE")
        tokens.expect("READ", "ONLY")
    return DeclareCursor(parser.line, name, query, "LOCAL" in options or name.startswith("@"))


@register("DECLARE", parse_declare_cursor, DeclareCursor)
def compile_declare_cursor(node: DeclareCursor, scope: Scope) -> Step:
    """A LOCAL cursor ends with its batch or procedure, a global one with the session; DEALLOCATE ends either. SET gives
    a variable one that is LOCAL, in place of the one that it has."""
    is_variable = _is_variable(node.name, scope, node.line)
    planned = planned_before(select_plan(node.query.tree, node.line, scope), scope, node.line, node.query.tree)

    def fetch(
        variables: dict[str, Any], declared: Mapping[str, str], frame: Frame
    ) -> tuple[Sequence[Column], list[tuple[Any, ...]]]:
        own_variables = frame.variables, frame.declared
        frame.variables, frame.declared = variables, declared
        try:
            plan = planned.for_(frame)
            return plan.columns, plan.rows(frame)
        finally:
            frame.variables, frame.declared = own_variables

    def run(frame: Frame) -> None:
        cursors = frame.cursors if node.local else frame.session.cursors
        if node.name.lower() in cursors and not is_variable:
            raise SqlServerError(16915, node.name)
        # "Cursor variable values don't change after a cursor is declared." Another batch may open it.
        cursors[node.name.lower()] = Cursor(partial(fetch, frame.variables.copy(), frame.declared))

    return plain(run)


@dataclass(frozen=True, slots=True)
class CursorOperation(Statement):
    """OPEN, CLOSE, DEALLOCATE."""

    operation: str
    name: str


def parse_cursor_operation(parser: Parser) -> Statement:
    """`OPEN | CLOSE | DEALLOCATE { [ GLOBAL ] name | @variable }`"""
    operation = parser.tokens.word(-1)
    return CursorOperation(parser.line, operation, _cursor_name(parser.tokens))


def _cursor_name(tokens: Tokens) -> str:
    tokens.accept("GLOBAL")
    return tokens.written_variable() if tokens.at_variable() else tokens.name()


def _is_variable(name: str, scope: Scope, line: int) -> bool:
    """Whether a name is that of a cursor variable; 137 if it is not declared."""
    if name.startswith("@") and name.lower() not in scope.cursors:
        raise SqlServerError(137, name, line=line)
    return name.startswith("@")


def _find(frame: Frame, name: str) -> Cursor:
    key = name.lower()
    cursor = frame.cursors.get(key) or frame.session.cursors.get(key)
    if cursor is None:
        raise SqlServerError(16950 if name.startswith("@") else 16916, name)
    return cursor


def _open(frame: Frame, name: str) -> None:
    cursor = _find(frame, name)
    if cursor.is_open:
        raise SqlServerError(16905)
    frame.session.begin_implicitly()
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
    if frame.cursors.pop(name.lower(), None) is None:
        del frame.session.cursors[name.lower()]
    frame.session.row_count = 0


OPERATIONS = {"OPEN": _open, "CLOSE": _close, "DEALLOCATE": _deallocate}


@register("OPEN|CLOSE|DEALLOCATE", parse_cursor_operation, CursorOperation)
def compile_cursor_operation(node: CursorOperation, scope: Scope) -> Step:
    operate = OPERATIONS[node.operation]
    _is_variable(node.name, scope, node.line)
    return plain(lambda frame: operate(frame, node.name))


@dataclass(frozen=True, slots=True)
class Fetch(Statement):
    name: str
    into: list[str]


def parse_fetch(parser: Parser) -> Statement:
    """`FETCH [ [ NEXT ] FROM ] { [ GLOBAL ] name | @variable } [ INTO @v [, ...] ]`"""
    tokens = parser.tokens
    if tokens.word() in ("PRIOR", "FIRST", "LAST", "ABSOLUTE", "RELATIVE"):
        tokens.unsupported(f"FETCH {tokens.word()}")
    tokens.accept("NEXT")
    tokens.accept("FROM")
    name = _cursor_name(tokens)
    variables = tokens.comma_separated(tokens.variable) if tokens.accept("INTO") else []
    return Fetch(parser.line, name, variables)


@register("FETCH", parse_fetch, Fetch)
def compile_fetch(node: Fetch, scope: Scope) -> Step:
    types = [scope.type_of(name, node.line) for name in node.into]
    _is_variable(node.name, scope, node.line)

    def run(frame: Frame) -> None:
        session = frame.session
        session.fetch_status = -1  # also where it fails
        cursor = _find(frame, node.name)
        if not cursor.is_open:
            raise SqlServerError(16917, state=2)
        if session.options.cursor_close_on_commit:  # pymssql sets it for every connection
            raise UnsupportedSyntax("FETCH with CURSOR_CLOSE_ON_COMMIT ON: set it OFF before", node.line)
        session.begin_implicitly()
        if cursor.position >= len(cursor.rows):
            session.row_count = 0
            if not node.into:
                frame.send(cursor.columns, ())
            return
        row = cursor.rows[cursor.position]
        cursor.position += 1
        if node.into and len(row) != len(types):
            raise SqlServerError(16924)
        session.fetch_status, session.row_count = 0, 1
        if not node.into:
            frame.send(cursor.columns, [row])
            return
        for name, value, column, type_ in zip(node.into, row, cursor.columns, types, strict=True):
            check_assignable(column.type, type_)
            frame.variables[name] = converter(column.type, type_)(value)

    return plain(run)
