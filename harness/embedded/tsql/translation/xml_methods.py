"""The methods of xml: value(), query(), exist(), nodes() and modify(), which `harness.embedded.xml` evaluates.

nodes() in a FROM clause is SQLite's json_each, which a join may give the columns of the tables before it.
"""

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from sqlglot import exp

from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.sqltypes import BIT, Column, SqlType
from harness.embedded.tsql.storage.sqlite import quoted, work_of
from harness.embedded.tsql.text.parser import Expression
from harness.embedded.tsql.text.tokens import Tokens, name_parts
from harness.embedded.tsql.translation.fragments import (
    NVARCHAR_MAX,
    VARBINARY_MAX,
    XML,
    XML_NODE,
    Fragment,
    Names,
    Source,
)
from harness.embedded.tsql.translation.renderer import Renderer
from harness.embedded.xml import changes, paths

_PARSE_NS = 100  # for each character: parsing, and a step through what was parsed
# The method, the number of its arguments, what compiles the first one, and what evaluates it
_METHODS: dict[str, tuple[int, Callable[..., Any], Callable[..., Any]]] = {
    "value": (2, paths.compiled, paths.value),
    "query": (1, paths.compiled, paths.query),
    "exist": (1, paths.compiled, paths.exist),
    "nodes": (1, paths.compiled, paths.nodes),
    "modify": (1, changes.compiled, changes.changed),
}


def mutating(expression: Expression) -> Expression:
    """`x.modify(...)` in SET, where alone it may stand, as the expression of the value after it."""
    if not (isinstance(expression.tree, exp.Dot) and expression.tree.expression.name == "modify"):
        raise SqlServerError(102, "modify", line=expression.line)
    expression.tree.meta["mutates"] = True
    return expression


def is_method(node: exp.Anonymous) -> bool:
    """Whether `x.name(...)` is a call of a method of xml, as its name says."""
    return isinstance(node.parent, exp.Dot | exp.Table) and str(node.this) in _METHODS


def is_call(node: exp.Expr) -> bool:
    """Whether an expression is a call of such a method."""
    return isinstance(node, exp.Dot) and isinstance(node.expression, exp.Anonymous) and is_method(node.expression)


def is_nodes(node: exp.Expr) -> bool:
    """Whether an item of a FROM clause is a call of nodes()."""
    method = node.expression if isinstance(node, exp.Dot) else node
    return isinstance(method, exp.Anonymous) and str(method.this) == "nodes"


def call(renderer: Renderer, node: exp.Dot, names: Names) -> Fragment:
    """`x.method ( path [ , type ] )` as an expression."""
    method = node.expression
    if str(method.this) == "nodes":
        raise UnsupportedSyntax("nodes() outside of FROM and APPLY", renderer.line)
    if str(method.this) == "modify" and not node.meta.get("mutates"):
        raise SqlServerError(8137, "modify")
    type_ = _type_of(method) if str(method.this) == "value" else None
    is_binary = type_ is not None and type_.name in ("binary", "varbinary")
    sql, path = _evaluated(renderer, _instance(node), method, names, is_binary=is_binary)
    if str(method.this) in ("query", "modify"):
        return Fragment(sql, XML)
    if type_ is None:
        return Fragment(sql, BIT)
    if not path.is_single:
        raise SqlServerError(2389, "value", "value()", "xdt:untypedAtomic *")
    return renderer.cast(Fragment(sql, VARBINARY_MAX if is_binary else NVARCHAR_MAX), type_)


def _type_of(method: exp.Anonymous) -> SqlType | None:
    """The type that value() names as its second argument; None without one."""
    if len(method.expressions) != 2:
        return None
    tokens = Tokens(_literal(method, 1))
    type_ = tokens.data_type()
    if not tokens.at_end:
        tokens.fail()
    return type_


def nodes_of_table(renderer: Renderer, node: exp.Table, names: Names) -> Source:
    """`FROM { @x | alias.column | column }.nodes ( path ) AS alias ( column )`"""
    catalog, schema = node.args.get("catalog"), node.args.get("db")
    instance = schema if isinstance(schema, exp.Parameter) else _column(schema, catalog)
    return _source(renderer, instance, node.this, node.args.get("alias"), names)


def applied_nodes(renderer: Renderer, node: exp.Lateral, names: Names) -> str:
    """`{ CROSS | OUTER } APPLY x.nodes ( path ) AS alias ( column )`"""
    table = _source(renderer, _instance(node.this), node.this.expression, node.args.get("alias"), names)
    names.sources.append(table)
    joined = f"{table.sql} AS {quoted(table.alias)}"
    return f"CROSS JOIN {joined}" if node.args["cross_apply"] else f"LEFT JOIN {joined} ON 1"


def _source(
    renderer: Renderer, instance: exp.Expr, method: exp.Anonymous, alias: exp.TableAlias | None, names: Names
) -> Source:
    if alias is None or len(alias.columns) != 1:
        raise SqlServerError(102, ")")
    sql, _ = _evaluated(renderer, instance, method, names)
    name = alias.columns[0].name
    node = {name.lower(): f"{quoted(alias.name)}.value"}
    return Source(alias.name, f"json_each({sql})", [Column(name, XML_NODE)], expressions=node)


def _instance(node: exp.Dot) -> exp.Expr:
    """The expression whose method is called, as `node.this`. sqlglot makes identifiers of all columns in it."""
    node.set("this", node.this.transform(_as_column))
    instance: exp.Expr = node.this
    return instance


_NAMED = (exp.Alias, exp.Column, exp.CTE, exp.Table, exp.TableAlias)  # whose identifiers are names


def _as_column(node: exp.Expr) -> exp.Expr:
    if (
        isinstance(node, exp.Dot)
        and isinstance(node.this, exp.Identifier)
        and isinstance(node.expression, exp.Identifier)
    ):
        return _column(node.expression, node.this)
    is_name = isinstance(node.parent, _NAMED) and (node.arg_key == "alias" or not isinstance(node.parent, exp.Alias))
    return node if is_name or not isinstance(node, exp.Identifier) else _column(node, None)


def _column(name: exp.Expr | None, table: exp.Expr | None) -> exp.Expr:
    return exp.Column(this=name, table=table)


def _literal(method: exp.Anonymous, place: int) -> str:
    argument = method.expressions[place]
    if not (
        isinstance(argument, exp.Literal | exp.National) and (isinstance(argument, exp.National) or argument.is_string)
    ):
        raise SqlServerError(8172, place + 1, method.this)
    return str(argument.this)


def _evaluated(
    renderer: Renderer, instance: exp.Expr, method: exp.Anonymous, names: Names, *, is_binary: bool = False
) -> tuple[str, Any]:
    """The call as SQL, and its compiled path or change. `is_binary`: value() of a binary type."""
    name = str(method.this)
    count, compiled, function = _METHODS[name]
    function = paths.binary if is_binary else function
    sql_name = f"xml_{'binary' if is_binary else name}"
    if len(method.expressions) != count:
        raise SqlServerError(174, name, count)
    value = renderer.value(instance, names)
    if value.type is None or value.type.name != "xml":
        raise SqlServerError(258, value.type.name if value.type is not None else "NULL")
    text = _literal(method, 0)
    path = compiled(text, renderer.xml_namespaces, name)
    arguments = [_argument(renderer, kind, written, names) for kind, written in path.arguments]
    if name == "modify" and path.takes_xml and (arguments[-1].type is None or arguments[-1].type.name != "xml"):
        raise UnsupportedSyntax("insert of a variable or a column that is not xml", renderer.line)

    # SQLite keeps every function, so the path is an argument.
    def evaluate(document: str | None, written: str, namespaces: str, *values: Any) -> Any:
        if document is None and name == "modify":
            raise SqlServerError(5302)
        return (
            None if document is None else function(compiled(written, _namespaces(namespaces), name), document, values)
        )

    renderer.function(sql_name, 3 + len(arguments), evaluate, work_ns=work_of(_PARSE_NS))
    path_sql = renderer.literal(text), renderer.literal(json.dumps(renderer.xml_namespaces))
    return f"{sql_name}({', '.join((value.sql, *path_sql, *(argument.sql for argument in arguments)))})", path


@lru_cache(maxsize=256)
def _namespaces(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((prefix, uri) for prefix, uri in json.loads(text))


def _argument(renderer: Renderer, kind: str, written: str, names: Names) -> Fragment:
    """The value of `sql:variable("@v")` or `sql:column("t.c")`."""
    if kind == "variable":
        return renderer.value(exp.Parameter(this=exp.Var(this=written.removeprefix("@"))), names)
    *_, table, column = "", "", *name_parts(written)
    return names.column(table, column)
