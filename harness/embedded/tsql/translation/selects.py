"""SELECT, its FROM clause, UNION and WITH."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import partial

from sqlglot import exp

from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.sqltypes import BIGINT, NAME_LENGTH_MAX, Column, SqlType
from harness.embedded.tsql.storage.conversion import family
from harness.embedded.tsql.storage.sqlite import quoted
from harness.embedded.tsql.storage.variants import VARIANT
from harness.embedded.tsql.translation import applied, for_json, for_xml, user_functions, xml_methods
from harness.embedded.tsql.translation.fragments import (
    MARK,
    NOT_CONSTANT,
    ROWID,
    Arguments,
    Fragment,
    Names,
    Source,
    UserProgram,
    ViewQuery,
    common_type,
    of_column,
)
from harness.embedded.tsql.translation.groups import check_groups, has_aggregate
from harness.embedded.tsql.translation.renderer import Renderer, check_order, collated, grouped, guid_order

Rendered = tuple[str, list[Column]]
Convert = Callable[[int, Fragment], Fragment]

JOINS = {"": "JOIN", "INNER": "JOIN", "LEFT": "LEFT JOIN", "RIGHT": "RIGHT JOIN", "FULL": "FULL JOIN"}


def query(renderer: Renderer, node: exp.Expr, outer: Names | None, convert: Convert | None = None) -> Rendered:
    """Render a query: WITH, then SELECTs and their combinations. `convert` is applied to each column of the result."""
    renderer.xml_namespaces = node.meta.get("xml_namespaces", renderer.xml_namespaces)
    with common_tables(renderer, node) as with_clause:
        sql, columns = _body(renderer, node, outer, convert)
    return with_clause + sql, columns


@contextmanager
def common_tables(renderer: Renderer, node: exp.Expr) -> Iterator[str]:
    """Render the WITH of a query, if it has one; inside the context its tables are known."""
    with_ = node.args.get("with_")
    if with_ is None:
        yield ""
        return
    if with_.args.get("recursive"):
        raise UnsupportedSyntax("recursive common table expressions", renderer.line)
    scope: dict[str, Source] = {}
    renderer.common_tables.append(scope)
    texts = []
    for table in with_.expressions:
        sql, columns = query(renderer, table.this, None)
        names = [column.name for column in table.args["alias"].columns] or [column.name for column in columns]
        columns = _named(names, columns, table.alias)
        hidden = [column for column in columns if column.name == ROWID.name]
        visible = [column for column in columns if column.name != ROWID.name]
        scope[table.alias.lower()] = Source(table.alias, quoted(table.alias), visible, hidden=hidden)
        texts.append(f"{quoted(table.alias)} ({', '.join(quoted(name) for name in names)}) AS ({sql})")
    yield f"WITH {', '.join(texts)} "
    renderer.common_tables.pop()


def _body(renderer: Renderer, node: exp.Expr, outer: Names | None, convert: Convert | None) -> Rendered:
    if isinstance(node, exp.Query) and node.args.get("for_"):
        return _formatted(renderer, node, outer, convert)
    if isinstance(node, exp.Subquery):
        if node.args.get("order") or _limits(node):
            raise UnsupportedSyntax("ORDER BY behind a query in parentheses", renderer.line)
        return query(renderer, node.this, outer, convert)
    if isinstance(node, exp.SetOperation):
        return _set_operation(renderer, node, outer, convert)
    if not isinstance(node, exp.Select):
        raise UnsupportedSyntax(f"the query {node.sql('tsql')[:60]}", renderer.line)
    return _select(renderer, node, outer, convert)


def _named(names: list[str], columns: list[Column], table: str, *, unnamed_error: int = 0) -> list[Column]:
    """The columns with names; `unnamed_error` is that of a view or a function with a column that has none."""
    if len(names) != len(columns):
        raise SqlServerError(8159 if len(names) < len(columns) else 8158, table)
    for number, name in enumerate(names, start=1):
        if not name:
            raise SqlServerError(unnamed_error, number) if unnamed_error else SqlServerError(8155, number, table)
    lower = [name.lower() for name in names]
    if len(set(lower)) < len(lower):
        twice = next(name for name in names if lower.count(name.lower()) > 1)
        raise SqlServerError(4506 if unnamed_error else 8156, twice, table)
    return [Column(name, column.type, column.nullable) for name, column in zip(names, columns, strict=True)]


# -- SELECT ------------------------------------------------------------------------------------------------------------


def _select(
    renderer: Renderer, node: exp.Select, outer: Names | None, convert: Convert | None, names: Names | None = None
) -> Rendered:
    names = names or Names(outer=outer)
    from_ = _from(renderer, node, names)
    items, columns, shown_items = _projection(renderer, node, names, convert)
    check_groups(node, names, columns)
    aliases = {column.name.lower(): column for column in columns if column.name}
    parts = ["SELECT", "DISTINCT" if node.args.get("distinct") else "", ", ".join(items), from_]
    if node.args.get("where"):
        parts.append(f"WHERE {renderer.condition(node.args['where'].this, names)}")
    group = node.args.get("group")
    if group is not None:
        if {key for key, value in group.args.items() if value} - {"expressions"}:
            raise UnsupportedSyntax("GROUP BY ALL", renderer.line)
        parts.append("GROUP BY " + ", ".join(_group_key(renderer, key, names) for key in group.expressions))
    if node.args.get("having"):
        parts.append(f"HAVING {renderer.condition(node.args['having'].this, names)}")
    if node.args.get("order"):
        only = shown_items if node.args.get("distinct") else None
        parts.append(order_by(renderer, node.args["order"], names, aliases, columns, only))
    elif node.args.get("offset"):
        raise SqlServerError(102, "OFFSET")
    parts.append(_limit(renderer, node))
    return " ".join(part for part in parts if part), columns


FORMATS = {"XML": for_xml, "JSON": for_json}  # of FOR


def check_format(clause: exp.ForClause, line: int) -> None:
    kind = str(clause.args.get("kind"))
    if kind not in FORMATS:
        raise UnsupportedSyntax(f"FOR {kind}", line)
    FORMATS[kind].options(clause, line)


def refuse_format(query: exp.Expr, statement: str, line: int) -> None:
    """Raise the error of FOR in a statement that keeps the rows. An assignment has that of FOR XML for both."""
    if (clause := query.args.get("for_")) is not None:
        is_json = clause.args["kind"] == "JSON" and statement != "ASSIGNMENT"
        raise SqlServerError(13602 if is_json else 6819, statement, line=line)


def _formatted(renderer: Renderer, node: exp.Query, outer: Names | None, convert: Convert | None) -> Rendered:
    """`SELECT ... FOR { XML | JSON } ...`"""
    plain = node.copy()
    plain.set("for_", None)
    names = Names(outer=outer)
    if isinstance(plain, exp.Select):
        sql, columns = _select(renderer, plain, outer, None, names)
    else:
        sql, columns = _body(renderer, plain, outer, None)
    sql, column = FORMATS[node.args["for_"].args["kind"]].rendered(renderer, node, sql, columns, names)
    if convert is None:
        return sql, [column]
    converted = convert(0, Fragment("value", column.type))
    return f"SELECT {converted.sql} FROM (WITH _xml (value) AS ({sql}) SELECT value FROM _xml)", [
        Column(column.name, converted.type)  # type: ignore[arg-type]
    ]


def _group_key(renderer: Renderer, key: exp.Expr, names: Names) -> str:
    fragment = renderer.value(key, names)
    if fragment.constant is not NOT_CONSTANT:
        raise SqlServerError(164)
    return grouped(fragment)


def has_one_row(query: exp.Expr) -> bool:
    """Whether a query has at most one row, as its text says."""
    if query.args.get("for_"):
        return True
    if not isinstance(query, exp.Select):
        return False
    if query.args.get("from_") is None or (query.args.get("group") is None and any(map(has_aggregate, query.selects))):
        return True
    limit = query.args.get("limit")
    count = limit and (limit.args.get("expression") or limit.args.get("count"))
    return isinstance(count, exp.Expr) and count.unnest() == exp.Literal.number(1)


def _projection(
    renderer: Renderer, node: exp.Select, names: Names, convert: Convert | None
) -> tuple[list[str], list[Column], set[str]]:
    """The items of the SELECT list, their columns, and their SQL."""
    fragments: list[tuple[str, Fragment]] = []
    for item in node.expressions:
        if isinstance(item, exp.Star):
            fragments += _all_columns(names)
        elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            fragments += _all_columns(names, item.table)
        else:
            fragments.append((_output_name(item), renderer.value(item, names)))
    items, columns = [], []
    is_distinct = node.args.get("distinct") or isinstance(node.parent, exp.SetOperation)
    for number, (name, fragment) in enumerate(fragments):
        converted = convert(number, fragment) if convert is not None else fragment
        sql = collated(converted) if is_distinct else converted.sql
        if is_distinct and _are_compared(node):
            error = SqlServerError(421 if node.args.get("distinct") else 5335, "xml")
            _refuse_incomparable(converted.type, error, renderer.line)
        items.append(f"{sql} AS {quoted(name)}" if name else sql)
        columns.append(Column(name, converted.type, converted.nullable, converted.is_identity))  # type: ignore[arg-type]
    return items, columns, {fragment.sql for _, fragment in fragments}


def _are_compared(node: exp.Select) -> bool:
    """Whether DISTINCT or a set operation compares the rows of a query: UNION ALL compares none."""
    operation, compared = node.parent, bool(node.args.get("distinct"))
    while isinstance(operation, exp.SetOperation):
        compared = compared or not isinstance(operation, exp.Union) or bool(operation.args.get("distinct"))
        operation = operation.parent
    return compared


def _refuse_incomparable(type_: SqlType | None, error: SqlServerError, line: int) -> None:
    """Raise the error where values of type xml are compared; sql_variant, which SQL Server compares, is refused."""
    if family(type_) == "xml":
        raise error
    if type_ == VARIANT:
        raise UnsupportedSyntax("comparisons of sql_variant: CAST it", line)


def _all_columns(names: Names, table: str = "") -> list[tuple[str, Fragment]]:
    """The items that `*` or `table.*` stands for."""
    return [(column.name, of_column(column, sql)) for column, sql in names.star(table)]


def _output_name(item: exp.Expr) -> str:
    if isinstance(item, exp.Alias):
        alias = str(item.alias)
        # An alias in quotation marks is no name for the tokenizer.
        if not alias:
            raise SqlServerError(1038)
        if len(alias) > NAME_LENGTH_MAX:
            raise SqlServerError(103, "identifier", alias[:NAME_LENGTH_MAX], NAME_LENGTH_MAX)
        return alias
    return str(item.name) if isinstance(item, exp.Column) else ""


def order_by(  # noqa: PLR0917
    renderer: Renderer,
    node: exp.Order,
    names: Names,
    aliases: dict[str, Column],
    columns: Sequence[Column] | None = None,
    only: set[str] | None = None,
) -> str:
    """Render ORDER BY. Names in the SELECT list have precedence; `columns` are those of its items, or None where
    positions mean nothing; `only` the SQL of its items, if nothing else may stand here."""
    keys: list[str] = []
    for key in node.expressions:
        term = key.this
        if isinstance(term, exp.Column) and not term.table and term.name.lower() in aliases:
            column = aliases[term.name.lower()]
            fragment = Fragment(quoted(column.name), column.type)
        elif isinstance(term, exp.Literal | exp.National | exp.HexString | exp.Null):
            place = _position(term, len(keys) + 1, columns)
            fragment = Fragment(place, None)
            if columns is not None:
                _refuse_incomparable(columns[int(place) - 1].type, SqlServerError(305), renderer.line)
        else:
            fragment = renderer.value(term, names)
            check_order(renderer, fragment)
            if fragment.constant is not NOT_CONSTANT:  # in SQLite's text it would be a position
                raise SqlServerError(408, len(keys) + 1)
            if columns is not None and isinstance(term.unnest(), exp.Parameter):
                raise SqlServerError(1008, len(keys) + 1)
            if only is not None and fragment.sql not in only:
                raise SqlServerError(145)
        _refuse_incomparable(fragment.type, SqlServerError(305), renderer.line)
        sql = guid_order(fragment.sql) if family(fragment.type) == "uniqueidentifier" else collated(fragment)
        keys.append(f"{sql}{' DESC' if key.args.get('desc') else ''}")
    return "ORDER BY " + ", ".join(keys)


def _position(term: exp.Expr, place: int, columns: Sequence[Column] | None) -> str:
    """A position in the SELECT list; any other constant is an error."""
    text = str(term.this)
    if columns is None or not isinstance(term, exp.Literal) or term.is_string or not text.isdecimal():
        raise SqlServerError(408, place)
    if len(text) > len(str(len(columns))) or not 1 <= int(text) <= len(columns):
        raise SqlServerError(108, text)
    return text


def row_limit(renderer: Renderer, node: exp.Expr, clause: str = "TOP") -> str:
    """The SQL of a number of rows: of TOP, FETCH or OFFSET."""
    value = renderer.value(node, Names())
    if isinstance(value.constant, Decimal) and value.type is not None and not value.type.scale:
        value = renderer.cast(value, BIGINT)
    if value.type is not None and family(value.type) != "integer":
        raise SqlServerError(1060)
    name = f"row_limit_{clause.lower()}"
    renderer.function(name, 1, partial(_row_limit, *LEAST_ROWS[clause]))
    return f"{name}({value.sql})"


# The least number of rows of each clause, and the error for less
LEAST_ROWS = {"TOP": (0, 127), "OFFSET": (0, 10742), "FETCH": (1, 10744)}


def _row_limit(least: int, error: int, count: int | None) -> int:
    if count is None:
        raise SqlServerError(1014)
    if count < least:
        raise SqlServerError(error)
    return count


def _limit(renderer: Renderer, node: exp.Query) -> str:
    limit, offset = node.args.get("limit"), node.args.get("offset")
    count: exp.Expr | None = None
    if limit is not None:
        options = limit.args.get("limit_options")
        if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
            raise UnsupportedSyntax("TOP with PERCENT or WITH TIES", renderer.line)
        count = limit.args.get("expression") or limit.args.get("count")
    if count is None and offset is None:
        return ""
    clause = "FETCH" if isinstance(limit, exp.Fetch) else "TOP"
    sql = f"LIMIT {row_limit(renderer, count, clause)}" if count is not None else "LIMIT -1"
    return sql if offset is None else f"{sql} OFFSET {row_limit(renderer, offset.expression, 'OFFSET')}"


def from_where(renderer: Renderer, node: exp.Select, names: Names, join: str = "") -> str:
    """Render only FROM, with one more join, and WHERE, for UPDATE and DELETE."""
    sql = _from(renderer, node, names) + join
    where = node.args.get("where")
    return f"{sql} WHERE {renderer.condition(where.this, names)}" if where else sql


# -- FROM --------------------------------------------------------------------------------------------------------------


def _from(renderer: Renderer, node: exp.Select, names: Names) -> str:
    from_ = node.args.get("from_")
    if from_ is None:
        return _given(renderer, names)
    sql = "FROM " + source(renderer, from_.this, names)
    for join in node.args.get("joins") or []:
        is_apply = isinstance(join.this, exp.Lateral)
        sql += " " + (_apply(renderer, join.this, names, sql) if is_apply else _join(renderer, join, names))
    return sql


def _apply(renderer: Renderer, node: exp.Lateral, names: Names, from_clause: str) -> str:
    """`{ CROSS | OUTER } APPLY { ( query ) | function ( argument [, ...] ) } [AS] alias`. A function of sys is called
    for each different row of arguments that the FROM clause before it gives, and joined by them; the others are
    SQLite's json_each (`applied`)."""
    if xml_methods.is_nodes(node.this):
        return xml_methods.applied_nodes(renderer, node, names)
    if isinstance(node.this, exp.Subquery):
        return _joined(_applied_query(renderer, node, names), node, names)
    if applied.is_function(node.this):
        return _joined(applied.function(renderer, node.this, node.args.get("alias"), names), node, names)
    if (program := _user_function(renderer, node.this)) is not None:
        call = node.this.expression if isinstance(node.this, exp.Dot) else node.this
        holder, rows = _function_rows(renderer, program, call.expressions, node.args.get("alias"), names)
        return f"CROSS JOIN {holder} {_joined(rows, node, names)}" if holder else _joined(rows, node, names)
    *qualifiers, call = node.this.flatten() if isinstance(node.this, exp.Dot) else (node.this,)
    values = [renderer.value(argument, names).sql for argument in call.expressions]
    sql = f"SELECT DISTINCT {', '.join(values)} {from_clause}"
    arguments = Arguments(sql, renderer.getters(sql), len(values))
    parts = (*(part.name for part in qualifiers), str(call.this))
    called = renderer.environment.table_function(parts, node.alias or parts[-1], arguments)
    assert called.needed is not None
    called.needed.update(column.name for column in called.hidden)
    if not node.args["cross_apply"]:
        _make_nullable([called])
    _add(called, names)
    pairs = zip(called.hidden, values, strict=True)
    on = " AND ".join(f"{quoted(called.alias)}.{quoted(column.name)} IS {value}" for column, value in pairs)
    return f"{'JOIN' if node.args['cross_apply'] else 'LEFT JOIN'} {called.sql} AS {quoted(called.alias)} ON {on}"


def _applied_query(renderer: Renderer, node: exp.Lateral, names: Names) -> Source:
    alias = node.args["alias"]
    if isinstance(node.this.this, exp.Values):
        sql, columns = _value_rows(renderer, node.this.this, alias, names)
    else:
        sql, columns = query(renderer, node.this.this, names)
    given_names = [column.name for column in alias.columns] or [column.name for column in columns]
    return applied.of_query(renderer, sql, _named(given_names, columns, node.alias), node.alias)


def _joined(rows: Source, node: exp.Lateral, names: Names) -> str:
    is_cross = node.args["cross_apply"]
    if not is_cross:
        _make_nullable([rows])
    _add(rows, names)
    return f"{'CROSS' if is_cross else 'LEFT'} JOIN {rows.sql} AS {quoted(rows.alias)}{'' if is_cross else ' ON 1'}"


def _user_function(renderer: Renderer, node: exp.Expr) -> UserProgram | None:
    """The user's function that an item of FROM calls, if it does."""
    parts = tuple(part.name for part in node.flatten()) if isinstance(node, exp.Dot) else (node.name,)
    return renderer.environment.user_function(parts, of_one_value=False)


def _function_rows(
    renderer: Renderer, program: UserProgram, nodes: list[exp.Expr], alias: exp.TableAlias | None, names: Names
) -> tuple[str, Source]:
    """The rows of a user's function, and before them the table of its arguments if these refer to other tables: a
    query has its own meaning of their names."""
    name = alias.name if alias is not None and alias.name else program.name.rpartition(".")[2]
    given_names = [column.name for column in alias.columns] if alias is not None else []
    arguments = user_functions.arguments(renderer, program, nodes, names)
    if program.query is None:
        rows = user_functions.rows(renderer, program, arguments, name)
        columns = _named(given_names or [column.name for column in rows.columns], list(rows.columns), name)
        values = {column.name.lower(): rows.sql_of(old) for column, old in zip(columns, rows.columns, strict=True)}
        return "", Source(name, rows.sql, columns, expressions=values)
    holder = ""
    if any(node.find(exp.Column, exp.Subquery) for node in nodes):
        renderer.holders += 1
        types = [Column(f"_{n}", argument.type) for n, argument in enumerate(arguments)]  # type: ignore[arg-type]
        held = applied.of_values(renderer, arguments, types, f"arguments {renderer.holders} {MARK}")
        holder = f"{held.sql} AS {quoted(held.alias)}"
        arguments = [of_column(column, held.sql_of(column)) for column in types]
    outer, renderer.common_tables = renderer.common_tables, []
    renderer.arguments.append({p.name: value for p, value in zip(program.parameters, arguments, strict=True)})
    if len(renderer.arguments) > user_functions.NESTING_MAX:
        raise SqlServerError(217, user_functions.NESTING_MAX)
    with renderer.environment.chained():
        sql, columns = query(renderer, program.query, None)
    renderer.arguments.pop()
    renderer.common_tables = outer
    columns = _named(given_names or [column.name for column in columns], columns, name, unnamed_error=4514)
    if holder:
        return holder, applied.of_query(renderer, sql, columns, name)
    header = ", ".join(quoted(column.name) for column in columns)
    return "", Source(name, f"(WITH _view ({header}) AS ({sql}) SELECT * FROM _view)", columns)


def _given(renderer: Renderer, names: Names) -> str:
    """The given source of a query without FROM. Subqueries in it get none."""
    received, renderer.given_source = renderer.given_source, None
    if received is None:
        return ""
    names.sources.append(received)
    return f"FROM {received.sql} AS {quoted(received.alias)}"


def _join(renderer: Renderer, join: exp.Join, names: Names) -> str:
    side, kind = (join.side or "").upper(), (join.kind or "").upper()
    before = len(names.sources)
    joined = source(renderer, join.this, names)
    # An outer join gives NULL for the columns of the other side's missing rows.
    if side in ("LEFT", "FULL"):
        _make_nullable(names.sources[before:])
    if side in ("RIGHT", "FULL"):
        _make_nullable(names.sources[:before])
    condition = join.args.get("on")
    if join.args.get("method"):
        raise UnsupportedSyntax("this kind of JOIN", renderer.line)
    if condition is None:
        return f"CROSS JOIN {joined}"
    key = side or kind
    if key not in JOINS:
        raise UnsupportedSyntax(f"{key} JOIN", renderer.line)
    return f"{JOINS[key]} {joined} ON {renderer.condition(condition, names)}"


def _make_nullable(sources: list[Source]) -> None:
    for source in sources:
        source.columns = [Column(column.name, column.type) for column in source.columns]
        source.hidden = [Column(column.name, column.type) for column in source.hidden]


def source(renderer: Renderer, node: exp.Expr, names: Names) -> str:
    """Render one item of a FROM clause and add its columns to the names."""
    if isinstance(node, exp.Table):
        sql = _table(renderer, node, names)
    elif isinstance(node, exp.Subquery):
        sql = _derived(renderer, node, names)
    elif isinstance(node, exp.Values):
        sql = _values(renderer, node, names)
    else:
        raise UnsupportedSyntax(f"{node.sql('tsql')[:60]} in a FROM clause", renderer.line)
    for join in node.args.get("joins") or []:
        sql += " " + _join(renderer, join, names)
    return sql


def _table(renderer: Renderer, node: exp.Table, names: Names) -> str:
    alias = node.alias
    has_columns = isinstance(node.this, exp.Anonymous | exp.OpenJSON)
    hints = set() if has_columns else _hints(node)
    if isinstance(node.this, exp.Parameter):
        variable = renderer.environment.table_variable("@" + node.this.name.lower(), alias or "@" + node.this.name)
    elif isinstance(node.this, exp.Identifier):
        parts = tuple(part.name if part is not None else "" for part in node.parts)
        common = _common_table(renderer, parts)
        if common is not None:
            variable = Source(alias or common.alias, common.sql, common.columns, hidden=common.hidden)
        elif (view := renderer.environment.user_view(with_gaps(node))) is not None:
            with view as definition:
                return _expanded(renderer, definition, alias or parts[-1], names)
        else:
            uncommitted = not UNCOMMITTED.isdisjoint(hints)
            variable = renderer.environment.table(with_gaps(node), alias or parts[-1], uncommitted=uncommitted)
    elif xml_methods.is_nodes(node.this):
        variable = xml_methods.nodes_of_table(renderer, node, names)
    elif applied.is_function(node.this):
        variable = applied.function(renderer, node.this, node.args.get("alias"), Names(outer=names.outer))
    elif (
        isinstance(node.this, exp.Anonymous)
        and (program := renderer.environment.user_function(with_gaps(node), of_one_value=False)) is not None
    ):
        visible = Names(outer=names.outer)
        holder, rows = _function_rows(renderer, program, node.this.expressions, node.args.get("alias"), visible)
        if holder and isinstance(node.parent, exp.Join):
            raise UnsupportedSyntax(
                "JOIN of a function with columns of the query around it: CROSS APPLY it", renderer.line
            )
        _add(rows, names)
        return f"{f'{holder} CROSS JOIN ' if holder else ''}{rows.sql} AS {quoted(rows.alias)}"
    elif isinstance(node.this, exp.Anonymous):
        variable = _table_function(renderer, node, alias or str(node.this.this))
    else:
        raise UnsupportedSyntax(f"{node.sql('tsql')[:60]} in a FROM clause", renderer.line)
    _add(variable, names)
    return f"{variable.sql} AS {quoted(variable.alias)}"


def _expanded(renderer: Renderer, view: ViewQuery, alias: str, names: Names) -> str:
    """Render a view as the query that it stands for, which sees no common table of the query around it."""
    outer, renderer.common_tables = renderer.common_tables, []
    sql, columns = query(renderer, view.tree, None)
    renderer.common_tables = outer
    column_names = view.columns or [column.name for column in columns]
    _add(Source(alias, "", _named(list(column_names), columns, view.name, unnamed_error=4511)), names)
    header = ", ".join(quoted(name) for name in column_names)
    return f"(WITH _view ({header}) AS ({sql}) SELECT * FROM _view) AS {quoted(alias)}"


def _add(table: Source, names: Names) -> None:
    if any(other.alias.lower() == table.alias.lower() for other in names.sources):
        raise SqlServerError(1013, table.alias)
    names.sources.append(table)


UNCOMMITTED = frozenset({"NOLOCK", "READUNCOMMITTED"})
# The others have no effect.
HINTS = UNCOMMITTED | frozenset(
    """
    FORCESCAN FORCESEEK HOLDLOCK NOWAIT PAGLOCK READCOMMITTED READCOMMITTEDLOCK READPAST REPEATABLEREAD ROWLOCK
    SERIALIZABLE TABLOCK TABLOCKX UPDLOCK XLOCK
    """.split()  # noqa: SIM905
)


def _hints(node: exp.Table) -> set[str]:
    """The table hints. In `t AS a (NOLOCK)` they look like names of columns, which a table cannot get there."""
    alias = node.args.get("alias")
    written = [expression.name for hint in node.args.get("hints") or () for expression in hint.expressions]
    written += [column.name for column in alias.columns] if alias is not None else []
    for name in written:
        check_hint(name)
    return {name.upper() for name in written}


def check_hint(name: str) -> None:
    if name.upper() not in HINTS:
        raise SqlServerError(321, name)


def _table_function(renderer: Renderer, node: exp.Table, alias: str) -> Source:
    """`[database.]sys.function ( argument [, ...] )`. Only APPLY takes columns of other tables as arguments."""
    inner = type(renderer)(renderer.environment, renderer.line)
    values = [inner.value(argument, Names()).sql for argument in node.this.expressions]
    sql = f"SELECT {', '.join(values)}" if values else ""
    arguments = Arguments(sql, inner.getters(sql), len(values))
    return renderer.environment.table_function(with_gaps(node), alias, arguments)


def with_gaps(node: exp.Table) -> tuple[str, ...]:
    """The parts of a name, "" for an omitted one: `msdb..t`."""
    catalog, schema = node.args.get("catalog"), node.args.get("db")
    parts = [part.name if isinstance(part, exp.Expr) else "" for part in (catalog, schema, node.this)]
    while len(parts) > 1 and not parts[0]:
        parts.pop(0)
    return tuple(parts)


def _common_table(renderer: Renderer, parts: tuple[str, ...]) -> Source | None:
    if len(parts) == 1:
        for scope in reversed(renderer.common_tables):
            if parts[0].lower() in scope:
                return scope[parts[0].lower()]
    return None


def _derived(renderer: Renderer, node: exp.Subquery, names: Names) -> str:
    sql, columns = query(renderer, node.this, None)
    alias = node.args["alias"]
    names_given = [column.name for column in alias.columns] or [column.name for column in columns]
    named_columns = _named(names_given, columns, node.alias)
    if alias.columns:
        inner = ", ".join(quoted(name) for name in names_given)
        sql = f"WITH _derived ({inner}) AS ({sql}) SELECT * FROM _derived"
    names.sources.append(Source(node.alias, "", named_columns))
    return f"({sql}) AS {quoted(node.alias)}"


def _values(renderer: Renderer, node: exp.Values, names: Names) -> str:
    """`( VALUES (...), ... ) AS alias ( columns )`"""
    text, columns = _value_rows(renderer, node, node.args.get("alias"), names)
    header = ", ".join(quoted(column.name) for column in columns)
    names.sources.append(Source(node.alias, "", columns))
    return f"(WITH _rows ({header}) AS ({text}) SELECT * FROM _rows) AS {quoted(node.alias)}"


def _value_rows(renderer: Renderer, node: exp.Values, alias: exp.TableAlias | None, names: Names) -> Rendered:
    rows = [[renderer.value(item, names) for item in row.expressions] for row in node.expressions]
    if any(len(row) != len(rows[0]) for row in rows):
        raise SqlServerError(10709)
    if alias is None or len(alias.columns) != len(rows[0]):
        raise SqlServerError(8155, 1, alias.name if alias is not None else "VALUES")
    types = [common_type([row[place].type for row in rows]) for place in range(len(rows[0]))]
    columns = [Column(name.name, type_) for name, type_ in zip(alias.columns, types, strict=True)]  # type: ignore[arg-type]
    converted = [[renderer.to_family(item, types[place]).sql for place, item in enumerate(row)] for row in rows]
    text = ", ".join(f"({', '.join(row)})" for row in converted)
    return f"VALUES {text}", columns


# -- UNION, EXCEPT, INTERSECT ------------------------------------------------------------------------------------------

OPERATIONS_MAX = 400  # in a row; SQLite's limit is 500
OPERATIONS = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}


def _set_operation(
    renderer: Renderer, node: exp.SetOperation, outer: Names | None, convert: Convert | None
) -> Rendered:
    """Operations in a row are nested to the left. They are rendered without recursion; of so many that SQLite refuses
    them, the first ones become a subquery."""
    operations: list[exp.SetOperation] = []
    first: exp.Expr = node
    while isinstance(first, exp.SetOperation) and (first is node or not (first.args.get("order") or _limits(first))):
        operations.append(first)
        first = first.this
    operands = [
        _operand(renderer, operand, outer, convert) for operand in (first, *(o.expression for o in operations[::-1]))
    ]
    if len({len(each) for _, each in operands}) > 1:
        raise SqlServerError(205)
    columns = [
        Column(same[0].name, common_type([one.type for one in same]), any(one.nullable for one in same))  # type: ignore[arg-type]
        for same in zip(*(each for _, each in operands), strict=True)
    ]
    sql, *rest = (_of_types(renderer, text, operand_columns, columns) for text, operand_columns in operands)
    for number, (operation, right_sql) in enumerate(zip(reversed(operations), rest, strict=True), start=1):
        word = OPERATIONS[type(operation)] + ("" if operation.args.get("distinct") else " ALL")
        if number % OPERATIONS_MAX == 0:
            sql = f"SELECT * FROM ({sql})"
        sql += f" {word} {right_sql}"
    order = node.args.get("order")
    if order is not None:
        aliases = {column.name.lower(): column for column in columns}
        for key in order.find_all(exp.Column):  # it may be written with its table in the first query
            key.set("table", None)
        sql += " " + order_by(renderer, order, Names(), aliases, columns)
    return f"{sql} {_limit(renderer, node)}".rstrip(), columns


def _of_types(renderer: Renderer, sql: str, columns: list[Column], targets: list[Column]) -> str:
    """A query whose columns are converted to the types of a UNION's result."""
    names = [f"_{number}" for number in range(len(columns))]
    items = [
        renderer.to_family(Fragment(name, column.type), result.type).sql
        for name, column, result in zip(names, columns, targets, strict=True)
    ]
    if items == names:
        return sql
    shown = [
        f"{item} AS {quoted(column.name)}" if column.name else item for item, column in zip(items, columns, strict=True)
    ]
    return f"SELECT * FROM (WITH _operand ({', '.join(names)}) AS ({sql}) SELECT {', '.join(shown)} FROM _operand)"


def _limits(node: exp.Expr) -> bool:
    return bool(node.args.get("limit") or node.args.get("offset"))


def _operand(renderer: Renderer, node: exp.Expr, outer: Names | None, convert: Convert | None) -> Rendered:
    sql, columns = query(renderer, node, outer, convert)
    inner = node.this if isinstance(node, exp.Subquery) else node
    nested = isinstance(node, exp.Subquery) or inner.args.get("limit") or inner.args.get("order")
    return (f"SELECT * FROM ({sql})" if nested else sql), columns
