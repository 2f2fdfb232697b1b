"""FOR XML: rows as a text of XML, in the modes PATH, RAW and AUTO:
https://learn.microsoft.com/sql/relational-databases/xml/for-xml-sql-server
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from harness.embedded.errors import SqlServerError
from harness.embedded.xml.values import escaped, escaped_attribute

XSI = "http://www.w3.org/2001/XMLSchema-instance"
_NO_NAME = re.compile(r"[^\w.-]", re.ASCII)


class Column(NamedTuple):
    name: str  # "" for none; in PATH with its path
    is_xml: bool


class Shape(NamedTuple):
    """What FOR XML says."""

    mode: str  # PATH, RAW or AUTO
    row: str  # the name of a row's element; "" for none
    root: str  # likewise of the root
    has_elements: bool  # ELEMENTS in RAW and AUTO
    shows_null: bool  # ELEMENTS XSINIL
    levels: Sequence[tuple[str, Sequence[int]]]  # of AUTO: the tables' names, and the places of their columns
    namespaces: tuple[tuple[str, str], ...]  # of WITH XMLNAMESPACES, by prefix


class _Element:
    def __init__(self, name: str) -> None:
        self.name = name
        self.attributes: list[str] = []
        self.children: list[_Element | str] = []

    def child(self, name: str) -> _Element:
        """The last child if it has that name, else a new one: columns beside each other share their elements."""
        last = self.children[-1] if self.children else None
        if isinstance(last, _Element) and last.name == name:
            return last
        element = _Element(name)
        self.children.append(element)
        return element

    def __str__(self) -> str:
        inner = "".join(map(str, self.children))
        if not self.name:
            return inner
        begin = f"<{self.name}{''.join(self.attributes)}"
        return f"{begin}>{inner}</{self.name}>" if self.children else f"{begin}/>"


def text(shape: Shape, columns: Sequence[Column], rows: Iterable[Sequence[str | None]]) -> str | None:
    """The rows as XML; None without a row."""
    declared = [f' xmlns{prefix and ":"}{prefix}="{escaped_attribute(uri)}"' for prefix, uri in shape.namespaces]
    if shape.shows_null:
        declared.append(f' xmlns:xsi="{XSI}"')
    elements = _nested(shape, columns, rows) if shape.levels else [_row(shape, columns, row) for row in rows]
    if not elements:
        return None
    if not shape.root:
        for element in elements:
            element.attributes[:0] = declared
        return "".join(map(str, elements))
    root = _Element(_name(shape.root))
    root.attributes, root.children = declared, list(elements)
    return str(root)


def _nested(shape: Shape, columns: Sequence[Column], rows: Iterable[Sequence[str | None]]) -> list[_Element]:
    """AUTO of several tables: rows beside each other share the elements of the tables in which they are alike, but for
    the last."""
    elements: list[_Element] = []
    path: list[tuple[list[str | None], _Element]] = []  # from the first table on: values, and their element
    for row in rows:
        values = [[row[place] for place in places] for _, places in shape.levels]
        depth = 0
        while depth < min(len(path), len(values) - 1) and path[depth][0] == values[depth]:
            depth += 1
        del path[depth:]
        for (name, places), inner in list(zip(shape.levels, values, strict=True))[depth:]:
            element = _row(shape._replace(row=name), [columns[place] for place in places], inner)
            if path:
                path[-1][1].children.append(element)
            else:
                elements.append(element)
            path.append((inner, element))
    return elements


def _row(shape: Shape, columns: Sequence[Column], row: Sequence[str | None]) -> _Element:
    element = _Element(_name(shape.row))
    for column, value in zip(columns, row, strict=True):
        if shape.mode == "PATH":
            _add(shape, element, column, value)
        elif not column.name:
            raise SqlServerError(6809)
        elif shape.has_elements or column.is_xml:
            _add(shape, element, Column(_name(column.name), column.is_xml), value)
        elif value is not None:
            element.attributes.append(f' {_name(column.name)}="{escaped_attribute(value)}"')
    return element


def _add(shape: Shape, element: _Element, column: Column, value: str | None) -> None:
    """Add a column of PATH, whose name is a path from the row's element."""
    *steps, last = column.name.split("/")
    is_attribute = last.startswith("@")
    if value is None and (is_attribute or not shape.shows_null or not column.name):
        return
    for step in steps:
        element = element.child(_name(step))
    content = "" if value is None else value if column.is_xml else escaped(value)
    if is_attribute:
        if not element.name:
            raise SqlServerError(6864)
        if element.children:
            raise SqlServerError(6852, column.name)
        element.attributes.append(f' {_name(last[1:])}="{escaped_attribute(value or "")}"')
    elif last in ("", "*", "text()", "node()"):
        element.children.append(content)
    elif last == "data()":
        element.children.append(f" {content}" if element.children else content)
    elif last == "comment()":
        element.children.append(f"<!--{value}-->")
    elif value is None:
        null = _Element(_name(last))
        null.attributes.append(' xsi:nil="true"')
        element.children.append(null)
    else:
        element.child(_name(last)).children.append(content)


def _name(name: str) -> str:
    """A name of XML: characters that may not stand in one as `_x0020_`."""
    prefix, colon, local = name.rpartition(":")
    coded = _NO_NAME.sub(lambda match: f"_x{ord(match[0]):04X}_", local)
    if coded[:1].isdigit():
        coded = f"_x{ord(coded[0]):04X}_{coded[1:]}"
    return f"{prefix}{colon}{coded}"
