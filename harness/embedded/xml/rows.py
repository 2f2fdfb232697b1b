"""FOR XML: rows as a text of XML, in the modes PATH, RAW and AUTO:
https://learn.microsoft.com/sql/relational-databases/xml/for-xml-sql-server
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from harness.embedded.errors import SqlServerError
from harness.embedded.xml.values import escaped, escaped_attribute

XSI = "http://www.w3.org/2001/XMLSchema-instance"
_FIRST = re.compile(r"[^\W\d]")  # the first character of a name
_NAME = re.compile(r"[^\W\d][\w.·-]*")
_NO_NAME = re.compile(r"_(?=x)|[^\w.·:-]")  # what RAW and AUTO write in another way
# What a column of PATH may be called at its end
_NODES = frozenset({"", "*", "text()", "node()", "data()", "comment()"})


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
        inner = ""
        for before, child in pairwise((None, *self.children)):
            inner += f"{' ' if isinstance(before, _Data) and isinstance(child, _Data) else ''}{child}"
        if not self.name:
            return inner
        begin = f"<{self.name}{''.join(self.attributes)}"
        return f"{begin}>{inner}</{self.name}>" if self.children else f"{begin}/>"


class _Data(str):
    """A value that is called data(): there is a blank between two of them."""

    __slots__ = ()


def check(shape: Shape, columns: Sequence[Column]) -> None:
    """Raise the error for names that are none in XML, and for what no row can be; `text` is for what passes."""
    for kind, name in (("Row", shape.row if shape.mode != "AUTO" else ""), ("ROOT", shape.root)):
        if name:
            _check_name(shape, kind, name, name)
    if shape.mode == "RAW" and not shape.row and not shape.has_elements:
        raise SqlServerError(6864)
    for column in columns if shape.mode == "PATH" else ():
        *steps, last = column.name.split("/")
        if "" in (*steps, last) and column.name:
            raise SqlServerError(6849, column.name)
        if last.startswith("@") and column.is_xml:
            raise SqlServerError(6851, column.name)
        for step in (*steps, *(() if last in _NODES else (last.removeprefix("@"),))):
            _check_name(shape, "Column", step, column.name)
    text(shape, columns, [["x"] * len(columns)])


def _check_name(shape: Shape, kind: str, name: str, written: str) -> None:
    prefix, colon, local = name.rpartition(":")
    if "xmlns" in (prefix, name):
        raise SqlServerError(6867)
    if prefix and prefix != "xml" and prefix not in dict(shape.namespaces):
        raise SqlServerError(6846, prefix, kind if kind == "ROOT" else kind.lower(), written)
    checked = name if colon and not prefix else local
    match = _NAME.match(checked)
    end = match.end() if match is not None else 0
    if end < max(len(checked), 1):
        fault = (checked or written)[end]
        raise SqlServerError(6850, kind, written, fault, f"{ord(fault):04X}")


def text(shape: Shape, columns: Sequence[Column], rows: Iterable[Sequence[str | None]]) -> str | None:
    """The rows as XML; None without a row."""
    namespaces = [(prefix, uri) for prefix, uri in reversed(shape.namespaces) if prefix != "xml"]
    declared = [f' xmlns{prefix and ":"}{prefix}="{escaped_attribute(uri)}"' for prefix, uri in namespaces]
    if shape.shows_null:
        declared.insert(0, f' xmlns:xsi="{XSI}"')
    elements = _nested(shape, columns, rows) if shape.levels else [_row(shape, columns, row) for row in rows]
    if not elements:
        return None
    whole = _Element(shape.root)
    whole.children = [node for element in elements for node in ([element] if element.name else element.children)]
    for element in [whole] if shape.root else [node for node in whole.children if isinstance(node, _Element)]:
        element.attributes[:0] = declared
    return str(whole)


def _nested(shape: Shape, columns: Sequence[Column], rows: Iterable[Sequence[str | None]]) -> list[_Element]:
    """AUTO of several tables: rows beside each other share the elements of the tables in which they are alike, but for
    the last, and for one with a column of type xml, which nothing is alike to."""
    elements: list[_Element] = []
    path: list[tuple[list[str | None], _Element]] = []  # from the first table on: values, and their element
    has_xml = [any(columns[place].is_xml for place in places) for _, places in shape.levels]
    for row in rows:
        values = [[row[place] for place in places] for _, places in shape.levels]
        depth = 0
        last = min(len(path), len(values) - 1)
        while depth < last and path[depth][0] == values[depth] and not has_xml[depth]:
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
    element = _Element(_coded(shape.row) if shape.mode == "AUTO" else shape.row)
    names = []
    for column, value in zip(columns, row, strict=True):
        if shape.mode == "PATH":
            _add(shape, element, column, value)
        elif not column.name:
            raise SqlServerError(6809)
        elif shape.has_elements or column.is_xml:
            _add(shape, element, Column(_coded(column.name), column.is_xml), value)
        elif column.name in names:
            raise SqlServerError(6810, column.name)
        elif value is not None:
            names.append(column.name)
            element.attributes.append(f' {_coded(column.name)}="{escaped_attribute(value)}"')
    return element


def _add(shape: Shape, element: _Element, column: Column, value: str | None) -> None:
    """Add a column of PATH, whose name is a path from the row's element."""
    *steps, last = column.name.split("/")
    is_attribute = last.startswith("@")
    if value is None and (is_attribute or not shape.shows_null or not column.name):
        return
    for step in steps:
        element = element.child(step)
    content = "" if value is None else value if column.is_xml else escaped(value)
    if is_attribute:
        if not element.name:
            raise SqlServerError(6864)
        if element.children:
            raise SqlServerError(6852, column.name)
        element.attributes.append(f' {last[1:]}="{escaped_attribute(value or "")}"')
    elif last in ("", "*", "text()", "node()"):
        element.children.append(content)
    elif last == "data()":
        element.children.append(_Data(content))
    elif last == "comment()":
        element.children.append(f"<!--{value}-->")
    elif value is None:
        null = _Element(last)
        null.attributes.append(' xsi:nil="true"')
        element.children.append(null)
    else:
        element.child(last).children.append(content)


def _coded(name: str) -> str:
    """A name of RAW or AUTO: characters that may not stand in one as `_x0020_`."""
    first = name[:1] if name[:1] and not _FIRST.match(name) else ""
    rest = _NO_NAME.sub(lambda match: _code(match[0]), name[len(first) :])
    return (_code(first) if first else "") + rest


def _code(character: str) -> str:
    return f"_x{ord(character):0{4 if ord(character) < 0x10000 else 6}X}_"
