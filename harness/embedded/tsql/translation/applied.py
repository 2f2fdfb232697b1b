"""Rows that depend on those of the tables before them in a FROM clause: APPLY of a query, OPENJSON and STRING_SPLIT.

SQLite has no such join, but its json_each takes columns of the tables before it. So the rows are one text, an array of
arrays of values, and each column takes its value out of that. Everything but numbers is hexadecimal in it, because
SQLite ends a text from JSON at a NUL; a number that is not whole is a text, because JSON's would lose digits.
"""

import json
from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import BIGINT, INT, Column, SqlType
from harness.embedded.tsql.storage.conversion import family
from harness.embedded.tsql.storage.sqlite import quoted, work_of
from harness.embedded.tsql.text.tokens import Tokens
from harness.embedded.tsql.translation.fragments import NVARCHAR, NVARCHAR_MAX, Fragment, Names, Source
from harness.embedded.tsql.translation.functions import json_functions
from harness.embedded.tsql.translation.renderer import Renderer

_PARSE_NS = 40  # for each character of a text that is taken apart
_PLAIN = ("integer", "float", "decimal", "")


def of_query(renderer: Renderer, sql: str, columns: Sequence[Column], alias: str) -> Source:
    """The rows of a query that may refer to the tables before it."""
    cells = [f"_{number}" for number in range(len(columns))]
    values = ", ".join(_written(cell, column.type) for cell, column in zip(cells, columns, strict=True))
    rows = f"WITH _rows ({', '.join(cells)}) AS ({sql}) SELECT * FROM _rows"
    return of_text(renderer, f"(SELECT json_group_array(json_array({values})) FROM ({rows}))", columns, alias)


def of_values(renderer: Renderer, values: Sequence[Fragment], columns: Sequence[Column], alias: str) -> Source:
    """One row."""
    written = ", ".join(_written(value.sql, value.type) for value in values)
    return of_text(renderer, f"json_array(json_array({written}))", columns, alias)


def of_text(renderer: Renderer, text: str, columns: Sequence[Column], alias: str) -> Source:
    """The rows that the SQL of a text gives."""
    renderer.function("text_of_real", 1, repr)  # SQLite's own conversions lose the last digit
    renderer.function("real_of_text", 1, float)
    renderer.function("text_of_hex", 1, lambda value: None if value is None else bytes.fromhex(value).decode())
    renderer.function("binary_of_hex", 1, lambda value: None if value is None else bytes.fromhex(value))
    expressions = {
        column.name.lower(): _read(f"json_extract({quoted(alias)}.value, '$[{place}]')", column.type)
        for place, column in enumerate(columns)
    }
    return Source(alias, f"json_each({text})", columns, expressions=expressions)


def _written(cell: str, type_: SqlType | None) -> str:
    kind = family(type_)
    if kind not in _PLAIN:
        return f"iif({cell} IS NULL, NULL, hex({cell}))"
    if kind in ("float", "decimal"):
        return f"iif(typeof({cell}) = 'real', text_of_real({cell}), {cell})"
    return cell


def _read(value: str, type_: SqlType | None) -> str:
    kind = family(type_)
    if kind not in _PLAIN:
        return f"{'binary' if kind == 'binary' else 'text'}_of_hex({value})"
    if kind in ("float", "decimal"):
        return f"iif(typeof({value}) = 'text', real_of_text({value}), {value})"
    return value


# -- functions ---------------------------------------------------------------------------------------------------------


def is_function(node: exp.Expr) -> bool:
    return isinstance(node, exp.OpenJSON) or (
        isinstance(node, exp.Anonymous) and str(node.this).upper() == "STRING_SPLIT"
    )


def function(renderer: Renderer, node: exp.Expr, alias: exp.TableAlias | None, names: Names) -> Source:
    """The rows of OPENJSON or STRING_SPLIT, whose arguments may be columns of the tables in `names`."""
    name = alias.name if alias is not None else ""
    if isinstance(node, exp.OpenJSON):
        source = _open_json(renderer, node, name or "OPENJSON", names)
    else:
        source = _string_split(renderer, node.expressions, name or "STRING_SPLIT", names)
    given_names = [column.name for column in alias.columns] if alias is not None else []
    if not given_names:
        return source
    if len(given_names) != len(source.columns):
        raise SqlServerError(8159 if len(given_names) < len(source.columns) else 8158, source.alias)
    pairs = list(zip(given_names, source.columns, strict=True))
    source.expressions = {name.lower(): source.sql_of(column) for name, column in pairs}
    source.columns = [Column(name, column.type, column.nullable) for name, column in pairs]
    return source


def _cell(value: Any) -> Any:
    """A value as `_written` has it."""
    if isinstance(value, str | bytes):
        return (value.encode() if isinstance(value, str) else value).hex()
    return repr(value) if isinstance(value, float) else value


def rows_text(rows: Sequence[Sequence[Any]]) -> str:
    return json.dumps([[_cell(value) for value in row] for row in rows])


def _text(renderer: Renderer, node: exp.Expr, names: Names) -> str:
    return renderer.cast(renderer.value(node, names), NVARCHAR_MAX).sql


def _open_json(renderer: Renderer, node: exp.OpenJSON, name: str, names: Names) -> Source:
    """`OPENJSON ( text [ , path ] ) [ WITH ( column type [ path ] [ AS JSON ] [ , ... ] ) ]`

    https://learn.microsoft.com/sql/t-sql/functions/openjson-transact-sql
    """
    path = node.args.get("path")
    place = _text(renderer, path, names) if path is not None else renderer.literal("$")
    arguments = f"{_text(renderer, node.this, names)}, {place}"
    if not node.expressions:
        columns = [Column("key", NVARCHAR, nullable=False), Column("value", NVARCHAR_MAX), Column("type", INT)]
        renderer.function("open_json", 2, _opened, work_ns=work_of(_PARSE_NS))
        return of_text(renderer, f"open_json({arguments})", columns, name)
    columns, places = [], []
    for definition in node.expressions:
        column = definition.this.name
        tokens = Tokens(definition.args["kind"].meta["text"])
        type_, as_json = tokens.data_type(), bool(definition.args.get("as_json"))
        if as_json and type_ != NVARCHAR_MAX:
            raise SqlServerError(13618)
        written = definition.args.get("path")
        places.append((written.name if written is not None else f'$."{column}"', as_json))
        columns.append(Column(column, type_))
    renderer.function("open_json_with", 3, _opened_with, work_ns=work_of(_PARSE_NS))
    text = f"open_json_with({arguments}, {renderer.literal(json.dumps(places))})"
    source = of_text(renderer, text, [Column(column.name, NVARCHAR_MAX) for column in columns], name)
    source.expressions = {
        column.name.lower(): renderer.cast(Fragment(source.sql_of(column), NVARCHAR_MAX), column.type).sql
        for column in columns
    }
    source.columns = columns
    return source


def _opened(text: str | None, path: str) -> str:
    return "[]" if text is None else rows_text(json_functions.opened(text, path))


def _opened_with(text: str | None, path: str, places: str) -> str:
    return "[]" if text is None else rows_text(json_functions.opened_with(text, path, json.loads(places)))


def _string_split(renderer: Renderer, arguments: Sequence[exp.Expr], name: str, names: Names) -> Source:
    """`STRING_SPLIT ( text , separator [ , enable_ordinal ] )`

    https://learn.microsoft.com/sql/t-sql/functions/string-split-transact-sql
    """
    if len(arguments) not in (2, 3):
        raise SqlServerError(189, "string_split", "2 to 3")
    text, separator, *ordinal = (renderer.value(argument, names) for argument in arguments)
    type_ = text.type if text.type is not None and family(text.type) == "text" else NVARCHAR_MAX
    columns = [Column("value", type_, nullable=False)]
    if ordinal and ordinal[0].constant:
        columns.append(Column("ordinal", BIGINT))
    renderer.function("string_split", 2, _split, work_ns=work_of(_PARSE_NS))
    texts = f"{renderer.cast(text, NVARCHAR_MAX).sql}, {renderer.cast(separator, NVARCHAR_MAX).sql}"
    return of_text(renderer, f"string_split({texts})", columns, name)


def _split(text: str | None, separator: str | None) -> str:
    if separator is None or len(separator) != 1:
        raise SqlServerError(214, "separator", "nchar(1)/nvarchar(1)")
    return rows_text([] if text is None else [*zip(text.split(separator), range(1, len(text) + 2), strict=False)])
