"""Values of type xml: their text as SQL Server serializes it, which is all that is kept of what was parsed.

A value is a document or a fragment: any number of elements, with text between them. The declaration, text of white
space alone and the quotation marks of attributes are not kept, and an empty element is `<a/>`:
https://learn.microsoft.com/sql/relational-databases/xml/create-instances-of-xml-data and
https://learn.microsoft.com/sql/relational-databases/xml/define-the-serialization-of-xml-data.
`xml:space="preserve"` and CONVERT's style 1 keep white space. A prefix that is not declared is an error.

Not as in SQL Server: white space written as `&#x20;` is no more than white space, mistakes for which `_NUMBERS` has no
number are 9420, and an error may name another character of the same tag.
"""

import re
from xml.parsers import expat

from harness.embedded.errors import SqlServerError

_DECLARATION = re.compile(r"""\s*<\?xml\s[^>]*?(?:encoding\s*=\s*["']([^"'>]*)["'][^>]*?)?\?>""")
_DECLARATION_START = re.compile(r"\s*<\?xml\s")
DECLARATION_MAX = 1000  # characters; a longer one is not well-formed here
DEPTH_MAX = 128  # elements in each other
_WRAPPER = "<x>", "</x>"  # around a fragment, which expat does not parse
_WITHIN_WRAPPER = 2  # entries of `_Reader._keeps_space`
_WIDE_ENCODINGS = frozenset({"utf-16", "ucs-2"})
_ENCODINGS = frozenset({"utf-8", "us-ascii", "iso-8859-1", "windows-1252"})  # that bytes may declare here
_ENTITIES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord("\r"): "&#x0D;"}
_ENTITIES_OF_ATTRIBUTES = _ENTITIES | {ord('"'): "&quot;", ord("\t"): "&#x09;", ord("\n"): "&#x0A;"}
_ERRORS = expat.errors.codes
_NUMBERS = {
    _ERRORS[expat.errors.XML_ERROR_UNCLOSED_TOKEN]: 9400,
    _ERRORS[expat.errors.XML_ERROR_NO_ELEMENTS]: 9400,
    _ERRORS[expat.errors.XML_ERROR_TAG_MISMATCH]: 9436,
    _ERRORS[expat.errors.XML_ERROR_DUPLICATE_ATTRIBUTE]: 9437,
    _ERRORS[expat.errors.XML_ERROR_UNDEFINED_ENTITY]: 9448,
    _ERRORS[expat.errors.XML_ERROR_UNBOUND_PREFIX]: 9459,
}


def from_text(text: str, *, is_unicode: bool, keeps_space: bool = False) -> str:
    """The value of a text, or SQL Server's error 94xx; nvarchar must not declare another encoding than UTF-16, and
    varchar must not declare that."""
    text = text.removeprefix("\ufeff")
    declaration = _declaration(text)
    if declaration is not None and declaration[1] and (declaration[1].lower() in _WIDE_ENCODINGS) != is_unicode:
        raise SqlServerError(9402, 1, declaration.end())
    return _Reader(keeps_space).read(text)


def from_binary(data: bytes, *, keeps_space: bool = False) -> str:
    """The value of bytes, whose encoding is that of their byte order mark or declaration, or of their first
    character, as nvarchar in the body of a message is; else UTF-8."""
    if data[:2] == b"\xff\xfe" or data[1:2] == b"\0":
        return _Reader(keeps_space).read(_decoded(data, "utf-16-le").removeprefix("\ufeff"))
    data = data.removeprefix(b"\xef\xbb\xbf")
    declaration = _declaration(data[:DECLARATION_MAX].decode("latin-1"))
    declared = (declaration and declaration[1]) or "utf-8"
    if declared.lower() not in _ENCODINGS:
        raise SqlServerError(9402, 1, len(declaration[0]) if declaration else 1)
    return _Reader(keeps_space).read(_decoded(data, declared))


def as_binary(text: str) -> bytes:
    """ "If the SQL target type is VARBINARY, the result is serialized in UTF-16 with a UTF-16-byte order mark" """
    return b"\xff\xfe" + text.encode("utf-16-le", "surrogatepass")


def escaped(text: str) -> str:
    """A text as it stands between tags."""
    return text.translate(_ENTITIES)


def escaped_attribute(text: str) -> str:
    """A text as it stands in quotation marks."""
    return text.translate(_ENTITIES_OF_ATTRIBUTES)


def _declaration(text: str) -> re.Match[str] | None:
    return _DECLARATION.match(text[:DECLARATION_MAX])


def _decoded(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise SqlServerError(9420, 1, error.start + 1) from None


class _Reader:
    """Collects the serialized parts of one value while expat parses it."""

    def __init__(self, keeps_space: bool) -> None:
        self._parts: list[str] = []
        self._keeps_space = [keeps_space]  # of the wrapper and each open element
        self._is_open = False  # the last part is a start tag without its >
        self._is_complete = False  # all of the text was parsed, and each of its elements has ended
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.ordered_attributes = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.CommentHandler = lambda text: self._add(f"<!--{text}-->")
        self._parser.ProcessingInstructionHandler = lambda name, text: self._add(f"<?{name}{text and ' ' + text}?>")

    def read(self, text: str) -> str:
        if (declaration := _declaration(text)) is not None:
            # Blanks in its place, so that errors name the right line and character.
            text = re.sub(r"[^\n]", " ", declaration[0]) + text[declaration.end() :]
        elif _DECLARATION_START.match(text):
            raise SqlServerError(9400, 1, len(text))
        opened, closed = _WRAPPER
        is_whole = False
        try:
            self._parser.Parse(opened, False)
            self._parser.Parse(text, False)
            self._is_complete = len(self._keeps_space) == _WITHIN_WRAPPER
            is_whole = True  # what is wrong from here on was not wrong before the end
            self._parser.Parse(closed, True)
            is_whole = False
            of_names = expat.ParserCreate(namespace_separator=" ")
            of_names.Parse(opened, False)
            of_names.Parse(text, False)
            of_names.Parse(closed, True)
        except expat.ExpatError as error:
            if "<!DOCTYPE" in text:
                raise SqlServerError(6359) from None
            if is_whole:
                raise SqlServerError(9400, text.count("\n") + 1, len(text) - text.rfind("\n") - 1) from None
            raise self._error(_NUMBERS.get(error.code, 9420), error.lineno, error.offset) from None
        except UnicodeEncodeError as error:  # half of a pair of surrogates
            raise SqlServerError(9420, 1, text.index(error.object[error.start]) + 1) from None
        return "".join(self._parts)

    @staticmethod
    def _error(number: int, line: int, column: int) -> SqlServerError:
        return SqlServerError(number, line, column + 1 - (len(_WRAPPER[0]) if line == 1 else 0))

    def _start(self, name: str, attributes: list[str]) -> None:
        keeps = self._keeps_space[-1]
        if len(self._keeps_space) >= _WITHIN_WRAPPER + DEPTH_MAX:
            raise SqlServerError(6335, DEPTH_MAX)
        if len(self._keeps_space) >= _WITHIN_WRAPPER:
            pairs = list(zip(attributes[::2], attributes[1::2], strict=True))
            values = (f' {key}="{value.translate(_ENTITIES_OF_ATTRIBUTES)}"' for key, value in pairs)
            self._add(f"<{name}{''.join(values)}")
            self._is_open = True
            keeps = {"preserve": True, "default": False}.get(dict(pairs).get("xml:space", ""), keeps)
        self._keeps_space.append(keeps)

    def _end(self, name: str) -> None:
        self._keeps_space.pop()
        if len(self._keeps_space) < _WITHIN_WRAPPER:
            if not self._is_complete:  # an end tag that has the wrapper's name
                raise self._error(9436, self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber)
        elif self._is_open:
            self._parts.append("/>")
            self._is_open = False
        else:
            self._parts.append(f"</{name}>")

    def _text(self, text: str) -> None:
        if self._keeps_space[-1] or text.strip(" \t\r\n"):
            self._add(text.translate(_ENTITIES))

    def _add(self, part: str) -> None:
        if self._is_open:
            self._parts.append(">")
            self._is_open = False
        self._parts.append(part)
