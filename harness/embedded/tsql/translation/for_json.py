"""FOR JSON: a query whose only value is the text of its rows, in the modes PATH and AUTO (of one table):
https://learn.microsoft.com/sql/relational-databases/json/format-query-results-as-json-with-for-json-sql-server
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlglot import exp

from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.sqltypes import Column, SqlType
from harness.embedded.tsql.storage.conversion import DECIMALS, FLOATS, INTEGER_RANGES
from harness.embedded.tsql.storage.variants import VARIANT
from harness.embedded.tsql.translation import for_xml
from harness.embedded.tsql.translation.fragments import NVARCHAR_MAX, Names
from harness.embedded.tsql.translation.renderer import Renderer

MODES = frozenset({"PATH", "AUTO"})
OPTIONS = MODES | {"ROOT", "INCLUDE_NULL_VALUES", "WITHOUT_ARRAY_WRAPPER"}
NAME = "JSON_F52E2B61-18A1-11d1-B105-00805F49916B"  # of the column
_NUMBERS = frozenset({*INTEGER_RANGES, *DECIMALS, *FLOATS}) - {"bit"}


def options(clause: exp.ForClause, line: int) -> for_xml.Words:
    return for_xml.words_of(clause, "JSON", MODES, OPTIONS, line)


def rendered(
    renderer: Renderer, node: exp.Query, sql: str, columns: Sequence[Column], scope: Names
) -> tuple[str, Column]:
    """The expression of the text over the rows of a query, as a query, and its column."""
    words = options(node.args["for_"], renderer.line)
    if "AUTO" in words and isinstance(node, exp.Select) and node.args.get("from_") is None:
        raise SqlServerError(13600)
    if "AUTO" in words and len(scope.sources) > 1:
        raise UnsupportedSyntax("FOR JSON AUTO of several tables", renderer.line)
    if "ROOT" in words and "WITHOUT_ARRAY_WRAPPER" in words:
        raise SqlServerError(13620)
    if not all(column.name for column in columns):
        raise SqlServerError(13605)
    if VARIANT in [column.type for column in columns]:
        raise UnsupportedSyntax("FOR JSON of sql_variant: CAST it", renderer.line)
    places = [column.name.split(".") if "PATH" in words else [column.name] for column in columns]
    for number, place in enumerate(places):
        if any(place[: len(other)] == other or other[: len(place)] == place for other in places[:number]):
            raise SqlServerError(13601, columns[number].name)
    items = node.expressions if len(node.expressions) == len(columns) else [None] * len(columns)
    kinds = [_kind(column.type, item) for column, item in zip(columns, items, strict=True)]
    names = [f"_{number}" for number in range(len(columns))]
    texts = ", ".join(for_xml.as_text(renderer, name, column.type) for name, column in zip(names, columns, strict=True))
    root = (words["ROOT"] or "root") if "ROOT" in words else None
    shape = [root, "INCLUDE_NULL_VALUES" in words, "WITHOUT_ARRAY_WRAPPER" not in words, places, kinds]
    renderer.function("for_json", 2, _text)  # SQLite keeps every function, so the shape is an argument
    inner = f"WITH _rows ({', '.join(names)}) AS ({sql}) SELECT * FROM _rows"
    aggregated = f"(SELECT json_group_array(json_array({texts})) FROM ({inner}))"
    text = f"for_json({aggregated}, {renderer.literal(json.dumps(shape))})"
    return f'SELECT value AS "{NAME}" FROM (SELECT {text} AS value) WHERE value IS NOT NULL', Column(NAME, NVARCHAR_MAX)


def _kind(type_: SqlType | None, item: exp.Expr | None) -> str:
    """How a column is written: as a number, true or false, JSON as it is, or text."""
    value = item.this if isinstance(item, exp.Alias) else item
    query = value.this if isinstance(value, exp.Subquery) else None
    clause = query.args.get("for_") if isinstance(query, exp.Select) else None
    if clause is not None and clause.args.get("kind") == "JSON":
        return "json"
    if isinstance(value, exp.Anonymous) and str(value.this).upper() == "JSON_QUERY":
        return "json"
    if type_ is not None and type_.name == "bit":
        return "bit"
    return "number" if type_ is not None and type_.name in _NUMBERS else "text"


@lru_cache(maxsize=256)
def _described(text: str) -> Any:
    return json.loads(text)


def _text(rows: str, described: str) -> str | None:
    """The rows as JSON; None without a row."""
    root, shows_null, is_array, places, kinds = _described(described)
    objects = [_object(shows_null, places, kinds, row) for row in json.loads(rows)]
    if not objects:
        return None
    text = ",".join(objects)
    if is_array:
        text = f"[{text}]"
    return text if root is None else f"{{{_quoted(root)}:{text}}}"


def _object(shows_null: bool, places: list[list[str]], kinds: list[str], row: list[str | None]) -> str:
    tree: dict[str, Any] = {}
    for place, kind, value in zip(places, kinds, row, strict=True):
        if value is not None or shows_null:
            inner = tree
            for step in place[:-1]:
                inner = inner.setdefault(step, {})
            inner[place[-1]] = _written(kind, value)
    return _joined(tree)


def _joined(tree: dict[str, Any]) -> str:
    members = (
        f"{_quoted(name)}:{_joined(value) if isinstance(value, dict) else value}" for name, value in tree.items()
    )
    return f"{{{','.join(members)}}}"


def _written(kind: str, value: Any) -> str:
    if value is None:
        return "null"
    if kind == "bit":
        return "true" if str(value) == "1" else "false"
    return _quoted(str(value)) if kind == "text" else str(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("/", "\\/")
