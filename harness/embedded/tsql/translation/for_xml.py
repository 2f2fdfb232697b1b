"""FOR XML: a query whose only value is the text of its rows, which `harness.embedded.xml.rows` makes."""

import base64
import json
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any

from sqlglot import exp

from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.sqltypes import Column, SqlType
from harness.embedded.tsql.storage.conversion import DECIMALS, FLOATS, INTEGER_RANGES, TEXT, converter, family
from harness.embedded.tsql.storage.variants import VARIANT, decoded
from harness.embedded.tsql.translation.fragments import NVARCHAR_MAX, XML, Fragment, Names
from harness.embedded.tsql.translation.renderer import Renderer
from harness.embedded.xml import rows

MODES = frozenset({"PATH", "RAW", "AUTO"})
OPTIONS = MODES | {"ROOT", "TYPE", "ELEMENTS", "ELEMENTS XSINIL", "ELEMENTS ABSENT", "BINARY BASE64"}
Words = dict[str, str | None]
NAME = "XML_F52E2B61-18A1-11d1-B105-00805F49916B"  # of the column, unless it is of type xml


def rendered(
    renderer: Renderer, node: exp.Query, sql: str, columns: Sequence[Column], scope: Names
) -> tuple[str, Column]:
    """The expression of the text over the rows of a query, as a query, and its column."""
    shape, is_typed = _shape(renderer, node, columns, scope)
    rows.check(shape, [rows.Column(column.name, column.type == XML) for column in columns])
    names = [f"_{number}" for number in range(len(columns))]
    items = ", ".join(as_text(renderer, name, column.type) for name, column in zip(names, columns, strict=True))
    described = renderer.literal(json.dumps([shape, [(column.name, column.type == XML) for column in columns]]))
    renderer.function("for_xml", 2, _text)  # SQLite keeps every function, so the shape is an argument
    inner = f"WITH _rows ({', '.join(names)}) AS ({sql}) SELECT * FROM _rows"
    text = f"for_xml((SELECT json_group_array(json_array({items})) FROM ({inner})), {described})"
    column = Column("", XML) if is_typed else Column(NAME, NVARCHAR_MAX)
    named = column.name or "value"
    return f'SELECT value AS "{named}" FROM (SELECT {text} AS value) WHERE value IS NOT NULL', column


def _text(text: str, described: str) -> str | None:
    shape, columns = _described(described)
    return rows.text(shape, columns, json.loads(text))


@lru_cache(maxsize=256)
def _described(text: str) -> tuple[rows.Shape, list[rows.Column]]:
    (*shape, namespaces), columns = json.loads(text)
    return rows.Shape._make((*shape, tuple(map(tuple, namespaces)))), [rows.Column(*column) for column in columns]


def options(clause: exp.ForClause, line: int) -> Words:
    return words_of(clause, "XML", MODES, OPTIONS, line)


def words_of(clause: exp.ForClause, kind: str, modes: Collection[str], valid: Collection[str], line: int) -> Words:
    """The words of a FOR clause, the mode first, with what stands in their parentheses."""
    words: Words = {}
    for option in clause.expressions:
        value = option.this.args.get("expression") if isinstance(option.this, exp.XMLKeyValueOption) else None
        word = option.this if isinstance(option.this, exp.Var) else option.this.this
        if word is None or word.name.upper() in words:
            raise SqlServerError(102, kind, line=line)
        words[word.name.upper()] = None if value is None else value.name
    mode = next(iter(words), "")
    if mode not in modes:
        raise UnsupportedSyntax(f"FOR {kind} {mode}", line)
    if others := words.keys() - {*valid}:
        raise UnsupportedSyntax(f"FOR {kind} with {min(others)}", line)
    return words


def _shape(renderer: Renderer, node: exp.Query, columns: Sequence[Column], names: Names) -> tuple[rows.Shape, bool]:
    """What the clause says, and whether the result is of type xml."""
    words = options(node.args["for_"], renderer.line)
    mode = next(iter(words))
    levels = _levels(node, columns, names) if mode == "AUTO" else []
    binary = [column.name for column in columns if column.type is not None and family(column.type) == "binary"]
    if binary and mode != "PATH" and "BINARY BASE64" not in words:
        raise SqlServerError(6829 if mode == "RAW" else 6830, binary[0])
    if words.get("ROOT") == "":
        raise SqlServerError(6861)
    row = words[mode] if words[mode] is not None else levels[0][0] if levels else "row"
    has_elements = any(word.startswith("ELEMENTS") for word in words)
    root = (words["ROOT"] or "root") if "ROOT" in words else ""
    several = levels if len(levels) > 1 else []
    shows_null = "ELEMENTS XSINIL" in words
    shape = rows.Shape(mode, row or "", root, has_elements, shows_null, several, renderer.xml_namespaces)
    return shape, "TYPE" in words


def _levels(node: exp.Query, columns: Sequence[Column], names: Names) -> list[tuple[str, list[int]]]:
    """AUTO: the tables in the order in which columns name them first, which is how their elements nest, with the places
    of their columns. What is computed belongs to the table of the column before it. All rows of a UNION are of the
    first table of its first query."""
    first: exp.Expr = node
    while isinstance(first, exp.SetOperation | exp.Subquery):
        first = first.this
    from_ = first.args.get("from_")
    if from_ is None:
        raise SqlServerError(6800)
    tables = [from_.this, *(join.this for join in first.args.get("joins") or ())]
    written = {table.name.lower(): table for table in tables if isinstance(table, exp.Table) and not table.alias}

    def element(alias: str) -> str:
        table = written.get(alias.lower())
        return alias if table is None else ".".join(part.name for part in table.parts)

    if first is not node:
        return [(element(from_.this.alias_or_name), list(range(len(columns))))]
    levels: dict[str, list[int]] = {}
    for place, table in enumerate(_tables(first, names)):
        levels.setdefault(table or next(reversed(levels), names.sources[0].alias), []).append(place)
    return [(element(alias), places) for alias, places in levels.items()]


def _tables(node: exp.Expr, names: Names) -> Iterator[str]:
    """The alias of each column's table, "" for what is computed."""
    for item in node.expressions:
        column = item.this if isinstance(item, exp.Alias) else item
        for source in names.sources:
            is_of_it = isinstance(column, exp.Column) and column.table.lower() in ("", source.alias.lower())
            if isinstance(column, exp.Star) or (is_of_it and isinstance(column.this, exp.Star)):
                yield from (source.alias for _ in source.columns)
            elif is_of_it and column.name.lower() in [member.name.lower() for member in source.columns]:
                yield source.alias
        if not isinstance(column, exp.Column | exp.Star):
            yield ""


def as_text(renderer: Renderer, name: str, type_: SqlType | None) -> str:
    """A column as its text in XML, and in JSON."""
    if type_ is None or type_.name == "xml" or type_.name in TEXT:
        return name
    if family(type_) == "binary":
        renderer.function("as_base64", 1, _as_base64)
        return f"as_base64({name})"
    if type_.name in FLOATS:
        renderer.function("as_xml_float", 2, _as_float)
        return f"as_xml_float({name}, {_decimals(type_)})"
    if type_ == VARIANT:
        renderer.function("variant_as_xml", 1, _variant_as_xml)
        return f"variant_as_xml({name})"
    style = _style(type_)
    is_plain = (
        type_.name in INTEGER_RANGES or type_.name in DECIMALS or style or type_.name in ("bit", "uniqueidentifier")
    )
    if not is_plain:
        raise UnsupportedSyntax(f"FOR XML of a column of type {type_.name}", renderer.line)
    return renderer.cast(Fragment(name, type_), SqlType("nvarchar", length=100), style=style).sql


def _style(type_: SqlType) -> int:
    return 126 if family(type_) in ("date", "datetimeoffset") else 2 if type_.name == "money" else 0


def _decimals(type_: SqlType) -> int:
    return 7 if type_.name == "real" else 15


def _variant_as_xml(variant: str | None) -> str | None:
    if variant is None:
        return None
    type_, value = decoded(variant)
    if family(type_) == "binary":
        return _as_base64(value)
    if type_.name in FLOATS:
        return _as_float(value, _decimals(type_))
    return str(converter(type_, NVARCHAR_MAX, style=_style(type_))(value))


def _as_base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _as_float(value: Any, decimals: int) -> str | None:
    if value is None:
        return None
    digits, exponent = f"{value:.{decimals}e}".split("e")
    return f"{digits}e{exponent[0]}{int(exponent[1:]):03}"
