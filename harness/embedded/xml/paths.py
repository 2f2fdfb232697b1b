"""Paths into values of type xml: the part of XQuery that is XPath, evaluated by lxml.

A path may have a prolog (`declare namespace p="uri";`, `declare default element namespace "uri";`), steps, predicates,
comparisons (`=`, `eq` ...), functions of XPath, `data()`, `*:name`, and `sql:variable("@v")` and `sql:column("t.c")`,
whose values are arguments. Everything else (FLWOR, constructors, `if`, types) is refused by its text:
https://learn.microsoft.com/sql/xquery/xquery-language-reference-sql-server

SQL Server knows by the text of an expression alone whether it can be more than one item, and refuses it where one is
needed: `contains(text(), "x")`. XPath 1.0, which lxml evaluates, orders texts as numbers, and finds a text that is no
number unlike every number; where that would show, a comparison is written in another way (`_compared`).

A value is a document or a fragment, so a path begins at `$doc`, an element around it. A node of `nodes()` is a text
that names it, for the statement in which it was made alone; the latest `NODES_MAX` lists of nodes are kept.
"""

import base64
import binascii
import json
import operator
import re
import secrets
import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from lxml import etree

from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.xml import values

NODES_MAX, NODES_CHARACTERS_MAX = 256, 16 * 1024 * 1024  # lists of nodes that are kept, and of their values
_MARK = "\1"  # before the name of a node; no text of XML has this character
_PROLOG = re.compile(
    r"""\s*declare\s+(?:namespace\s+([\w.-]+)\s*=|default\s+element\s+namespace)\s*(["'])(.*?)\2\s*;""", re.DOTALL
)
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"[^"]*"|'[^']*')|(?P<number>\d+(?:\.\d*)?)|sql:(?P<sql>variable|column)\s*\(\s*(?P<quote>["'])(?P<name>.*?)(?P=quote)\s*\)
    |(?P<any>\*:)(?P<local>[\w.-]+)|(?P<word>[A-Za-z_][\w.-]*(?::[A-Za-z_][\w.-]*)?)|(?P<sign>//|::|!=|<=|>=|\.\.|[/@.*()\[\],=<>|+$-]))""",
    re.VERBOSE,
)
_COMPARISONS = {"eq": "=", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_OPERATORS = frozenset({"and", "or", "div", "mod", *_COMPARISONS})
_PREFIX = "own-functions"  # of the functions below that XPath has not
_BINARY = secrets.token_hex(8)  # before bytes in a text: nobody can guess it and write it into a document
# How many arguments functions take: least, most
_COUNTS = {
    name: (least, most)
    for least, most, names in (
        (0, 0, "false last position true"),
        (0, 1, "local-name namespace-uri number string string-length"),
        (1, 1, "ceiling count data empty floor lower-case not round sum upper-case xs:base64Binary xs:hexBinary"),
        (2, 2, "contains"),
        (2, 3, "substring"),
        (2, sys.maxsize, "concat"),
    )
    for name in names.split()
}
_NODE_TESTS = frozenset({"text", "node", "comment", "processing-instruction"})
# Functions and tests of nodes, and what they are in XPath
_FUNCTIONS = {
    **{name: name for name in (*_COUNTS, *_NODE_TESTS)},
    "empty": "not",
    **{name: f"{_PREFIX}:{name}" for name in ("data", "lower-case", "upper-case")},
    **{f"xs:{name}": f"{_PREFIX}:{name}" for name in ("base64Binary", "hexBinary")},
}
# Functions of SQL Server that are left out: https://learn.microsoft.com/sql/xquery/xquery-functions-against-the-xml-data-type
_OTHER_FUNCTIONS = frozenset(
    """
    avg distinct-values expanded-QName id local-name-from-QName max min namespace-uri-from-QName
    """.split()  # noqa: SIM905
)
# Functions whose arguments are at most one item each: a value, or a node
_OF_VALUES = frozenset(
    """
    ceiling concat contains floor lower-case number round string-length substring upper-case
    xs:base64Binary xs:hexBinary
    """.split()  # noqa: SIM905
)
_OF_NODES = frozenset({"local-name", "namespace-uri", "string"})
_GENERAL = frozenset({"=", "!=", "<", "<=", ">", ">="})
_AXES = frozenset(
    """
    ancestor ancestor-or-self attribute child descendant descendant-or-self parent self
    """.split()  # noqa: SIM905
)
_DEFAULT = "default-element"  # the prefix that stands for the default namespace
_BEFORE_OPERAND = frozenset({"", "(", "[", ",", "=", "!=", "<", "<=", ">", ">=", "|", "+", "-", *_OPERATORS})


class _Prolog(NamedTuple):
    namespaces: dict[str, str]
    arguments: list[tuple[str, str]]  # that were met so far
    method: str  # of xml, for errors


class Path(NamedTuple):
    """A compiled path. `arguments` are its sql:variable and sql:column, each with its name."""

    xpath: str
    namespaces: Mapping[str, str]
    arguments: Sequence[tuple[str, str]]
    is_single: bool  # at most one item, as its text says: what value() needs

    def items(self, value: str, arguments: Sequence[Any]) -> list[Any]:
        """The items that the path finds in a value: nodes, texts, or one number or truth."""
        return self.items_from(*_opened(value), arguments)

    def items_from(self, document: Any, context: Any, arguments: Sequence[Any]) -> list[Any]:
        """The same in a document that was parsed, from one of its nodes."""
        variables = {
            f"a{number}": _binary("base64Binary", argument) if isinstance(argument, bytes) else argument
            for number, argument in enumerate(arguments)
        }
        try:
            result = context.xpath(self.xpath, namespaces=self.namespaces, doc=document, **variables)
        except etree.XPathError as error:
            raise UnsupportedSyntax(f"the path {self.xpath}: {error}", 0) from None
        return result if isinstance(result, list) else [result]


def without_prolog(text: str) -> tuple[str, str]:
    """A prolog, and what follows it."""
    end = 0
    while (declaration := _PROLOG.match(text, end)) is not None:
        end = declaration.end()
    return text[:end], text[end:]


@lru_cache(maxsize=1024)
def compiled(text: str, namespaces: tuple[tuple[str, str], ...] = (), method: str = "query") -> Path:
    """Compile a path of a method; `namespaces` are those of WITH XMLNAMESPACES, "" for the default one."""
    prolog = _Prolog({prefix or _DEFAULT: uri for prefix, uri in namespaces}, [], method)
    if not text.strip():
        raise SqlServerError(6306)
    declarations, rest = without_prolog(text)
    prolog.namespaces.update({prefix or _DEFAULT: uri for prefix, _, uri in _PROLOG.findall(declarations)})
    prolog.namespaces[_PREFIX] = _PREFIX
    parts: list[str] = []
    words: list[str] = []  # as they are written, an operator with a blank behind it
    place, before = 0, ""
    while rest[place:].strip():
        token = _TOKEN.match(rest, place)
        if token is None:
            raise UnsupportedSyntax(f"the path {text}", 0)
        place = token.end()
        part, before = _translated(token, before, prolog)
        parts.append(part)
        words.append(f"{before} " if before in _OPERATORS and token["word"] else token[0].strip())
    for at, word in enumerate(words):
        if word in _GENERAL or (word.strip() in _COMPARISONS and word.endswith(" ")):
            _compared(words, parts, at, method)
        elif (name := word.removeprefix("fn:")) in _COUNTS and words[at + 1 : at + 2] == ["("]:
            _check_count(words, at, method)
            if name in _OF_VALUES | _OF_NODES:
                _refuse_many(words, at, method)
    return Path("".join(parts).strip() or ".", prolog.namespaces, tuple(prolog.arguments), _is_single(rest.strip()))


def _translated(token: re.Match[str], before: str, prolog: _Prolog) -> tuple[str, str]:
    """A token in XPath, and what it is for the next one."""
    if token["sql"]:
        prolog.arguments.append((token["sql"], token["name"]))
        return f"$a{len(prolog.arguments) - 1}", ")"
    if token["any"]:
        return f"*[local-name() = '{token['local']}']", ")"
    if token["word"]:
        return _word(token, before, prolog)
    sign = token["sign"]
    if sign == "-":
        return " - ", sign  # part of a name without the blanks
    if sign in ("/", "//") and before in _BEFORE_OPERAND:
        return f"$doc{sign}" if _goes_on(token) else "$doc", sign
    return token[0].strip(), sign if sign and sign not in ("..", ".", "]") else ")"


def _word(token: re.Match[str], before: str, prolog: _Prolog) -> tuple[str, str]:
    """An operator, a function, an axis or a name."""
    word = token["word"]
    if before not in _BEFORE_OPERAND and before not in ("/", "//", "@", "::") and word in _OPERATORS:
        return f" {_COMPARISONS.get(word, word)} ", word
    after = re.match(r"\s*(\(|::)", token.string[token.end() :])
    name = word.removeprefix("fn:")
    if after is None and before != ")":
        prefix = word.rpartition(":")[0]
        if prefix and prefix not in prolog.namespaces:
            raise SqlServerError(2229, prolog.method, prefix)
        is_default = not prefix and before != "@" and _DEFAULT in prolog.namespaces
        return f"{_DEFAULT}:{word}" if is_default else word, ")"
    if after is not None and before != ")":
        if after[1] == "::" and word in _AXES:
            return word, word
        if after[1] == "(" and name in _FUNCTIONS:
            return _FUNCTIONS[name], name
        if after[1] == "(" and ":" not in name and name not in _OTHER_FUNCTIONS | {"element", "attribute", "if"}:
            raise SqlServerError(2395, prolog.method, name)
    raise UnsupportedSyntax(f"{word} in the path {token.string}", 0)


def type_of(text: str) -> str:
    """The type of a path to many nodes, as errors call it."""
    step = text.strip().rpartition("/")[2].strip()
    name = re.match(r"@?[\w:.*-]+", step)
    if step.startswith("text") or name is None:
        return "text *"
    if step.startswith("@"):
        return f"attribute({name[0][1:]},xdt:untypedAtomic) *"
    return f"element({name[0]},xdt:untyped) *"


def _goes_on(token: re.Match[str]) -> bool:
    return re.match(r"\s*[\w@*.]", token.string[token.end() :]) is not None


def _is_single(text: str) -> bool:
    """Whether each step of a path has one item: `(...)[1]`, `a[1]/b[1]/@c`, `.`, or a function."""
    if (atomized := re.fullmatch(r"(?:fn:)?data\s*\((.*)\)", text, re.DOTALL)) is not None:
        return _is_single(atomized[1].strip())
    if re.fullmatch(r"\(.*\)\s*\[\s*\d+\s*\](\s*/\s*@[\w:.-]+)?", text, re.DOTALL):
        return True
    if re.match(r"(?:fn:|xs:|sql:)?(?!text|node|comment|processing-instruction)[\w-]+\s*\(", text) or not re.search(
        r"[\w*@.]", text
    ):
        return True
    bare = re.sub(r"\[[^\[\]]*[^\d\s\[\]][^\[\]]*\]", "", text)
    steps = [step.strip() for step in bare.strip().lstrip("/").split("/")]
    if "//" in text:
        return False
    return all(re.fullmatch(r"@[\w:.-]+|\.\.?|.*\[\s*\d+\s*\]", step) for step in steps)


# -- one item or many, and comparisons ---------------------------------------------------------------------------------


def _end_of_operand(words: Sequence[str], at: int, step: int) -> int:
    """The place behind an operand, or before it for a step of -1: a comma, `and`, `or`, a comparison or a bracket."""
    opening, closing = ("([", ")]") if step > 0 else (")]", "([")
    depth = 0
    while 0 <= at < len(words):
        word = words[at]
        is_end = word in _GENERAL or word == "," or (word.endswith(" ") and word.strip() not in ("div", "mod"))
        if depth == 0 and (is_end or word in closing):
            break
        depth += (word in opening) - (word in closing)
        at += step
    return at


def _is_path(operand: Sequence[str]) -> bool:
    """Whether an operand is a path, and no literal, no function, no argument and no arithmetic."""
    first = operand[0] if operand else ""
    is_call = operand[1:2] == ["("] and first.removeprefix("fn:") not in _NODE_TESTS
    is_value = first[:1] in "\"'0123456789" or first.startswith("sql:")
    return bool(first) and not (is_call or is_value or {"+", "-", "*", "div ", "mod "}.intersection(operand[1:]))


def _is_literal(operand: Sequence[str], marks: str) -> bool:
    return len(operand) == 1 and operand[0][0] in marks


def _check_count(words: Sequence[str], at: int, method: str) -> None:
    """Raise 2236 or 2238 for a call with too few or too many arguments."""
    name = words[at].removeprefix("fn:")
    depth = 0
    count = int(words[at + 2 : at + 3] != [")"])
    for word in words[at + 1 :]:
        depth += (word in {"(", "["}) - (word in {")", "]"})
        if depth == 0:
            break
        count += depth == 1 and word == ","
    else:
        raise UnsupportedSyntax(f"the path {''.join(words)}", 0)
    least, most = _COUNTS[name]
    if not least <= count <= most:
        raise SqlServerError(2236 if count < least else 2238, method, f"{name}()")


def _refuse_many(words: Sequence[str], at: int, method: str) -> None:
    """Raise 2389 for a call with a path to more than one item, as its text says, in place of one."""
    name, begin = words[at].removeprefix("fn:"), at + 2
    while begin < len(words):
        end = _end_of_operand(words, begin, 1)
        operand = words[begin:end]
        if _is_path(operand) and not _is_single("".join(operand)):
            of_node = f"element({operand[-1]},xdt:untyped)" if name in _OF_NODES else "xdt:untypedAtomic"
            raise SqlServerError(2389, method, f"{name}()", f"{of_node} *")
        if words[end : end + 1] != [","]:
            break
        begin = end + 1


def _compared(words: Sequence[str], parts: list[str], at: int, method: str) -> None:
    """Check and rewrite a comparison. "The untyped value is compared as a number with a number", and as text otherwise;
    if it is no number it is neither equal nor unequal to one."""
    sign = _COMPARISONS.get(words[at].strip(), words[at])
    first, end = _end_of_operand(words, at - 1, -1) + 1, _end_of_operand(words, at + 1, 1)
    operands = words[first:at], words[at + 1 : end]
    if words[at].endswith(" "):
        for operand in operands:
            if _is_path(operand) and not _is_single("".join(operand)):
                raise SqlServerError(2389, method, words[at].strip(), "xdt:untypedAtomic *")
    if sign not in ("=", "!=") and all(_is_path(operand) or _is_literal(operand, "\"'") for operand in operands):
        parts[first] = f"{_PREFIX}:compare({parts[first]}"
        parts[at], parts[end - 1] = f", '{sign}', ", f"{parts[end - 1]})"
    elif sign == "!=" and any(_is_literal(operand, "0123456789") for operand in operands):
        for operand, begin, last in ((operands[0], first, at - 1), (operands[1], at + 1, end - 1)):
            if _is_path(operand):
                parts[begin] = f"({parts[begin]}"
                parts[last] += ")[number(.) = number(.)]"


def _strings(operand: Any) -> list[str]:
    return [_text(item) for item in operand] if isinstance(operand, list) else [_text(operand)]


_ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_own_functions = etree.FunctionNamespace(_PREFIX)
_own_functions["compare"] = lambda context, left, order, right: any(
    _ORDERS[order](text, bound) for text in _strings(left) for bound in _strings(right)
)
_own_functions["data"] = lambda context, operand: _strings(operand)
_own_functions["upper-case"] = lambda context, operand: "".join(_strings(operand)).upper()
_own_functions["lower-case"] = lambda context, operand: "".join(_strings(operand)).lower()
for _kind in ("base64Binary", "hexBinary"):
    _own_functions[_kind] = lambda context, operand, kind=_kind: _converted(kind, operand)


def _binary(kind: str, data: bytes) -> str:
    """Bytes as a text, as XPath has no type for them."""
    return f"{_BINARY}:{kind}:{data.hex()}"


def _bytes(item: Any) -> bytes | None:
    """The bytes of such a text; None of any other item."""
    is_binary = isinstance(item, str) and item.startswith(_BINARY)
    return bytes.fromhex(str(item).rpartition(":")[2]) if is_binary else None


def _converted(kind: str, operand: Any) -> Any:
    """xs:base64Binary() or xs:hexBinary(): nothing for a text that is none."""
    data = _bytes(operand)
    if data is None and (texts := _strings(operand)):
        data = _decoded(kind, texts[0])
    return [] if data is None else _binary(kind, data)


def _decoded(kind: str, text: str) -> bytes | None:
    text = "".join(text.split())
    try:
        return bytes.fromhex(text) if kind == "hexBinary" else base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return None


# -- documents and nodes -----------------------------------------------------------------------------------------------

_nodes: OrderedDict[int, tuple[Any, list[Any], int]] = OrderedDict()  # document, nodes, characters of the value
_serial = 0


@lru_cache(maxsize=16)
def parsed(value: str) -> Any:
    """A value inside an element; nobody may change it."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True, remove_blank_text=False)
    return etree.fromstring(f"<doc>{value}</doc>", parser)


def _opened(value: str) -> tuple[Any, Any]:
    """The document of a value, or of a node of `nodes()`, and the node at which its paths begin."""
    if not value.startswith(_MARK):
        document = parsed(value)
        return document, document
    serial, place = value[1:].split(_MARK)
    if int(serial) not in _nodes:
        raise UnsupportedSyntax(f"more than {NODES_MAX} values with nodes() at a time", 0)
    document, items, _ = _nodes[int(serial)]
    return document, items[int(place)]


def nodes(path: Path, value: str, arguments: Sequence[Any]) -> str:
    """The names of the nodes that a path finds, as a JSON array."""
    global _serial  # noqa: PLW0603
    document, _ = _opened(value)
    results = path.items(value, arguments)
    if not all(is_node(item) for item in results):
        raise UnsupportedSyntax("nodes() of what are no nodes", 0)
    items = [item if isinstance(item, etree._Element) else _Leaf(item) for item in results]
    _serial += 1
    _nodes[_serial] = document, items, len(value)
    while len(_nodes) > 1 and (len(_nodes) > NODES_MAX or _characters() > NODES_CHARACTERS_MAX):
        _nodes.popitem(last=False)
    return json.dumps([f"{_MARK}{_serial}{_MARK}{place}" for place in range(len(items))])


def _characters() -> int:
    return sum(characters for _, _, characters in _nodes.values())


class _Leaf:
    """An attribute or a text as a node of `nodes()`, at which only `.` and its parent can be asked for."""

    def __init__(self, text: Any) -> None:
        self._text = text

    def xpath(self, xpath: str, **options: Any) -> Any:
        if xpath in (".", "(.)[1]", "string(.)"):
            return [self._text]
        if re.fullmatch(r"\(?(\./)?text\(\)\)?(\[1\])?", xpath):
            return []
        if xpath.startswith("../"):
            return self._text.getparent().xpath("./" + xpath[3:], **options)
        raise UnsupportedSyntax(f"the path {xpath} of an attribute or a text", 0)


# -- results -----------------------------------------------------------------------------------------------------------


def value(path: Path, document: str, arguments: Sequence[Any]) -> str | None:
    """value(): the text of the item; None without one."""
    items = path.items(document, arguments)
    return _text(items[0]) if items else None


def binary(path: Path, document: str, arguments: Sequence[Any]) -> bytes | None:
    """value() of a binary type: a text is read as base 64, and None if it is none."""
    items = path.items(document, arguments)
    if not items:
        return None
    data = _bytes(items[0])
    return _decoded("base64Binary", _text(items[0])) if data is None else data


def exist(path: Path, document: str, arguments: Sequence[Any]) -> int:
    """exist(): 1 if there is an item, be it false()."""
    return int(bool(path.items(document, arguments)))


def query(path: Path, document: str, arguments: Sequence[Any]) -> str:
    """query(): the items as a value of type xml."""
    items = path.items(document, arguments)
    between = " " if path.xpath.startswith(f"{_PREFIX}:data(") else ""  # of values, which are no nodes
    return values.from_text(between.join(map(_serialized, items)), is_unicode=True, keeps_space=True)


def inner(document: Any) -> str:
    """A document without the element around it."""
    children = "".join(_serialized(child) + values.escaped(child.tail or "") for child in document)
    return values.escaped(document.text or "") + children


def is_node(item: Any) -> bool:
    """Whether an item is an element, an attribute or a text of a document, and no value that was computed."""
    return isinstance(item, etree._Element) or getattr(item, "getparent", lambda: None)() is not None


def _text(item: Any) -> str:
    if isinstance(item, bool):
        return "true" if item else "false"
    if (data := _bytes(item)) is not None:
        is_hex = str(item).startswith(f"{_BINARY}:hex")
        return data.hex().upper() if is_hex else base64.b64encode(data).decode()
    if isinstance(item, float):
        return str(int(item)) if item.is_integer() else repr(item)
    return str(item) if isinstance(item, str) else str(item.xpath("string()"))


def _serialized(item: Any) -> str:
    if isinstance(item, etree._Element):
        if item.getparent() is None:
            return inner(item)
        return str(etree.tostring(item, encoding="unicode", with_tail=False))
    if getattr(item, "is_attribute", False):
        raise SqlServerError(2396)
    return values.escaped(_text(item))
