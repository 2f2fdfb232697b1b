"""XML DML, what modify() takes: `delete`, `replace value of` and `insert`:
https://learn.microsoft.com/sql/t-sql/xml/xml-data-modification-language-xml-dml
"""

import copy
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from lxml import etree

from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.xml import paths, values

_CHANGE = re.compile(
    r"""
    delete\s+(?:nodes\s+)?(?P<deleted>.+)
    | replace\s+value\s+of\s+(?P<replaced>.+?)\s+with\s+(?P<with>.+)
    | insert\s+(?P<inserted><.+>|sql:\w+\s*\(.*?\)|text\s*\{.*?\}|attribute\s+\S+\s*\{.*?\})
      \s+(?:as\s+(?P<end>first|last)\s+)?(?P<where>into|after|before)\s+(?P<place>.+)
    """,
    re.VERBOSE | re.DOTALL,
)
_CONSTRUCTOR = re.compile(r"(?:text|attribute\s+(?P<name>[\w.-]+))\s*\{(?P<value>.*)\}", re.DOTALL)
_INTO = ("into", "first", "last")


class Change(NamedTuple):
    """A compiled change. `arguments` are the sql:variable and sql:column of its paths, in order."""

    kind: str  # delete, replace or insert
    path: paths.Path
    where: str = ""  # of an insert: into, first, last, after or before
    value: paths.Path | None = None  # what is put there, but for `literal`
    literal: str = ""  # XML that is inserted
    attribute: str = ""  # the name of the attribute that is inserted
    is_text: bool = False  # text { ... } is inserted

    @property
    def takes_xml(self) -> bool:
        """Whether it inserts a variable or a column, which must be of type xml."""
        return self.kind == "insert" and self.value is not None and not (self.is_text or self.attribute)

    @property
    def arguments(self) -> Sequence[tuple[str, str]]:
        return (*self.path.arguments, *(self.value.arguments if self.value is not None else ()))


@lru_cache(maxsize=256)
def compiled(text: str, namespaces: tuple[tuple[str, str], ...] = (), method: str = "modify") -> Change:
    """Compile a change; raise 50001 for one of another form. What is replaced, and where something is inserted, must be
    one node, as the text of its path says."""
    prolog, rest = paths.without_prolog(text)
    match = _CHANGE.fullmatch(rest.strip())
    if match is None and not re.match(r"delete|insert|replace|$", rest.strip()):
        raise SqlServerError(6305)
    if match is None:
        raise UnsupportedSyntax(f"the change {text}", 0)

    def path(written: str) -> paths.Path:
        return paths.compiled(prolog + written, namespaces, method)

    def single(written: str, error: int) -> paths.Path:
        compiled_path = path(written)
        if not compiled_path.is_single:
            raise SqlServerError(error, paths.type_of(written))
        return compiled_path

    if match["deleted"]:
        return Change("delete", path(match["deleted"]))
    if match["replaced"]:
        return Change("replace", single(match["replaced"], 2337), value=path(match["with"]))
    content = match["inserted"]
    insert = Change("insert", single(match["place"], 2226), match["end"] or match["where"])
    if content.startswith("<"):
        if not _is_element(content):
            raise UnsupportedSyntax(f"what {text} puts there", 0)
        return insert._replace(literal=content)
    constructor = _CONSTRUCTOR.fullmatch(content)
    if constructor is None:  # sql:variable or sql:column
        return insert._replace(value=path(content))
    name = constructor["name"] or ""
    return insert._replace(value=path(constructor["value"]), attribute=name, is_text=not name)


def _is_element(text: str) -> bool:
    """Whether a text is one element without expressions."""
    try:
        document = paths.parsed(text)
    except etree.XMLSyntaxError:
        return False
    return "{" not in text and len(document) == 1 and not (document.text or document[0].tail)


def changed(change: Change, document: str, arguments: Sequence[Any]) -> str:
    """The value after a change."""
    count = len(change.path.arguments)
    value = "" if change.value is None else paths.value(change.value, document, arguments[count:]) or ""
    root = copy.deepcopy(paths.parsed(document))
    for item in change.path.items_from(root, root, arguments[:count])[: None if change.kind == "delete" else 1]:
        is_whole = isinstance(item, etree._Element) and item.getparent() is None
        if not paths.is_node(item) or (is_whole and change.where not in _INTO):
            raise UnsupportedSyntax("a change of what is no node in the value", 0)
        _CHANGES[change.kind](change, item, value)
    return values.from_text(paths.inner(root), is_unicode=True, keeps_space=True)


def _delete(change: Change, item: Any, value: str) -> None:
    if isinstance(item, etree._Element):
        _join(item, item.tail or "")
        item.getparent().remove(item)
    else:
        _set(item, None)


def _replace(change: Change, item: Any, value: str) -> None:
    if isinstance(item, etree._Element):
        raise UnsupportedSyntax("replace value of an element: name its text()", 0)
    _set(item, value)


def _set(item: Any, text: str | None) -> None:
    """Change an attribute or a text; None deletes it."""
    parent = item.getparent()
    if item.is_attribute and text is None:
        del parent.attrib[item.attrname]
    elif item.is_attribute:
        parent.set(item.attrname, text)
    elif item.is_tail:
        parent.tail = text
    else:
        parent.text = text


def _insert(change: Change, item: Any, value: str) -> None:
    is_element = isinstance(item, etree._Element) and isinstance(item.tag, str)
    if not is_element and (change.where in _INTO or not isinstance(item, etree._Element)):
        raise UnsupportedSyntax("insert into what is no element", 0)
    if change.attribute:
        item.set(change.attribute, value)
        return
    added = paths.parsed(values.escaped(value) if change.is_text else change.literal or value)
    nodes = [copy.deepcopy(node) for node in added]
    target, at = item, len(item)
    if change.where == "first":
        at = 0
    elif change.where in ("after", "before"):
        target = item.getparent()
        at = target.index(item) + (change.where == "after")
    # Text that stands at the place goes behind what is put there, unless that goes to the end.
    moved = ""
    if change.where == "first":
        moved, target.text = target.text or "", None
    elif change.where == "after":
        moved, item.tail = item.tail or "", None
    _put_text(target, at, added.text or "")
    target[at:at] = nodes
    _put_text(target, at + len(nodes), moved)


def _put_text(target: Any, at: int, text: str) -> None:
    """Put a text behind what stands before the child at a place."""
    if at == 0:
        target.text = (target.text or "") + text
    else:
        target[at - 1].tail = (target[at - 1].tail or "") + text


def _join(item: Any, text: str) -> None:
    """Give the text behind an element to what stands before it."""
    parent, item.tail = item.getparent(), None
    _put_text(parent, parent.index(item), text)


_CHANGES = {"delete": _delete, "replace": _replace, "insert": _insert}
