"""GROUP BY and aggregates: which columns a query with groups may name. SQLite would take any of their values."""

from collections.abc import Callable, Iterator

from sqlglot import exp

from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import Column
from harness.embedded.tsql.translation.fragments import AGGREGATES, Names


def _own_parts(node: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes of an expression, but for what is inside a subquery or a windowed function."""
    return node.walk(prune=lambda part: isinstance(part, (exp.Query, exp.Window)))


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an expression has an aggregate of its own query, without OVER."""
    return any(map(_is_aggregate, _own_parts(node)))


def _is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() in AGGREGATES


def _ordered(node: exp.Select) -> list[exp.Ordered]:
    return node.args["order"].expressions if node.args.get("order") is not None else []


def check_place(node: exp.Expr, line: int) -> None:
    """Raise the error of an aggregate or a windowed function that stands where none may."""
    around = node.find_ancestor(exp.Select, exp.Where, exp.Group, exp.Having, exp.Join)
    if isinstance(node, exp.Window):
        if not isinstance(around, exp.Select):
            raise SqlServerError(4108, line=line)
    elif _is_aggregate(node) and not isinstance(node.parent, exp.Window):
        # Inside a query of another one it may be an aggregate of that.
        query = node.find_ancestor(exp.Select)
        if isinstance(around, exp.Where) and query is not None and query.find_ancestor(exp.Select) is None:
            raise SqlServerError(147, line=line)
        inner = (part for value in node.expressions for part in _own_parts(value))
        if any(isinstance(part, exp.Query) or _is_aggregate(part) for part in inner):
            raise SqlServerError(130, line=line)


def check_groups(node: exp.Select, names: Names, columns: list[Column]) -> None:
    """Raise 8120, 8121 or 8127 for a column that is neither in an aggregate nor in GROUP BY."""
    group, having = node.args.get("group"), node.args.get("having")
    if group is None and having is None and not any(has_aggregate(item) for item in (*node.selects, *_ordered(node))):
        return
    keys = group.expressions if group is not None else []
    known_texts = {_text(key, names) for key in keys}
    kinds = {type(key.unnest()) for key in keys}

    def is_known(expression: exp.Expr) -> bool:
        return type(expression) in kinds and _text(expression, names) in known_texts

    for number, part in _parts(node, columns):
        if (ungrouped := _ungrouped(part, is_known, names)) is not None:
            raise SqlServerError(number, ungrouped)


def _parts(node: exp.Select, columns: list[Column]) -> Iterator[tuple[int, exp.Expr]]:
    """The expressions that are evaluated for a group, each with its error."""
    around = node.parent.parent if isinstance(node.parent, exp.Subquery) else node.parent
    if not isinstance(around, exp.Exists):
        yield from ((8120, item) for item in node.selects)
    if node.args.get("having") is not None:
        yield 8121, node.args["having"].this
    shown_names = {column.name.lower() for column in columns}
    for key in _ordered(node):
        if not (isinstance(key.this, exp.Column) and not key.this.table and key.this.name.lower() in shown_names):
            yield 8127, key.this


def _text(node: exp.Expr, names: Names) -> str:
    """The text of an expression, the same however its columns are written."""

    def qualified(expression: exp.Expr) -> exp.Expr:
        own_column = names.own(expression.table, expression.name) if isinstance(expression, exp.Column) else None
        return exp.Identifier(this=own_column) if own_column is not None else expression

    return node.unnest().transform(qualified).sql("tsql").lower()


def _ungrouped(node: exp.Expr, is_known: Callable[[exp.Expr], bool], names: Names) -> str | None:
    """The first column of this query in an expression that is neither in an aggregate nor part of a key."""

    def is_settled(expression: exp.Expr) -> bool:
        return (
            isinstance(expression, exp.Query | exp.Column | exp.Star)
            or _is_aggregate(expression)
            or is_known(expression)
        )

    for part in node.walk(prune=is_settled):
        if isinstance(part, exp.Star) or (isinstance(part, exp.Column) and isinstance(part.this, exp.Star)):
            columns = names.star(part.table if isinstance(part, exp.Column) else "")
            return next((column.name for column, _ in columns), None)
        if isinstance(part, exp.Column) and not is_known(part) and (own_column := names.own(part.table, part.name)):
            return own_column
    return None
