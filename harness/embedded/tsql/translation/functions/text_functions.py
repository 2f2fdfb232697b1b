"""Functions of text. Without a collation they find text as `=` compares it: without regard to case."""

import gzip
import hashlib
import re
import zlib
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from typing import Any

from harness.embedded import utf16
from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.sqltypes import BIGINT, FLOAT, INT, MAX, SqlType
from harness.embedded.tsql.storage.conversion import family
from harness.embedded.tsql.storage.sqlite import VALUE_BYTES_MAX, WorkNs, work_of
from harness.embedded.tsql.translation.fragments import (
    NVARCHAR,
    NVARCHAR_MAX,
    VARBINARY_MAX,
    Fragment,
    collation_of,
    text_length,
)
from harness.embedded.tsql.translation.functions.kinds import Arguments, Function, Functions, in_python
from harness.embedded.tsql.translation.renderer import Renderer, is_by_code

QUOTED_LENGTH_MAX = 128
COMPILE_NS = 1_500  # for each character of what is searched
REPLACE_NS = 100  # for each character, if each is replaced
EACH_NS = 100  # for each character of LOWER and UPPER, where one has no other of its length
CLOSING = {"[": "]", "]": "]", "(": ")", ")": ")", "<": ">", ">": ">", "{": "}", "}": "}", "'": "'", '"': '"', "`": "`"}


def as_text(renderer: Renderer, value: Fragment) -> str:
    """The SQL of an argument, converted to text if it is neither text nor binary."""
    return renderer.cast(value, NVARCHAR_MAX).sql if family(value.type) not in ("text", "binary", "") else value.sql


def text_type(arguments: Arguments) -> SqlType:
    """The type of the first argument as text: varchar if it is of another kind."""
    type_ = arguments[0].type
    if type_ is None:
        return NVARCHAR_MAX
    return type_ if family(type_) == "text" else SqlType("varchar", length=text_length(type_))


def varying(type_: SqlType) -> SqlType:
    return type_._replace(name={"nchar": "nvarchar", "char": "varchar"}.get(type_.name, type_.name))


def long_text_type(arguments: Arguments) -> SqlType:
    """REPLICATE, REPLACE: the longest type that is not (max)."""
    type_ = varying(text_type(arguments))
    if type_.length == MAX:
        return type_
    return NVARCHAR if type_.name == "nvarchar" else SqlType("varchar", length=8000)


def _of_text(
    name: str, kinds: str, function: Callable[..., Any], *, long: bool = False, work_ns: WorkNs | None = None
) -> Function:
    """A function whose result is text: NULL if an argument is. `kinds` has a letter for each argument: t for text, n
    for a number. A long one is cut at 8,000 bytes where its text is not of a (max) type."""

    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        result = long_text_type(arguments) if long else varying(text_type(arguments))
        longest = result.length if long else MAX

        def cut(*values: Any) -> Any:
            if None in values:
                return None
            text = function(*values)
            return text if longest == MAX else utf16.cut(text, 0, longest)

        function_name = f"text_{name}" if longest == MAX else f"text_{name}_{longest}"
        renderer.function(function_name, len(kinds), cut, work_ns=work_ns)
        sql = [
            as_text(renderer, argument) if kind == "t" else renderer.cast(argument, BIGINT).sql
            for kind, argument in zip(kinds, arguments, strict=True)
        ]
        return Fragment(f"{function_name}({', '.join(sql)})", result, collation=collation_of(*arguments))

    return Function(len(kinds), len(kinds), render)


def _trimmed(name: str) -> Function:
    """LTRIM, RTRIM: as in SQLite, of spaces only."""
    return Function(1, 1, lambda renderer, arguments: _trim(renderer, name, arguments))


def _trim(renderer: Renderer, name: str, arguments: Arguments) -> Fragment:
    [value] = arguments
    return Fragment(f"{name}({as_text(renderer, value)})", varying(text_type(arguments)), collation=value.collation)


def _each(change: Callable[[str], str]) -> Callable[[str], str]:
    """A change of every character that leaves those alone whose change is not one character: the sharp s."""

    def changed(text: str) -> str:
        changed_text = change(text)
        if len(changed_text) == len(text):
            return changed_text
        return "".join([character if len(change(character)) != 1 else change(character) for character in text])

    return changed


def _left(text: Any, count: int) -> Any:
    if count < 0:
        raise SqlServerError(536, "left")
    return utf16.cut(text, 0, count) if isinstance(text, str) else text[:count]


def _right(text: Any, count: int) -> Any:
    if count < 0:
        raise SqlServerError(536, "right")
    if not isinstance(text, str):
        return text[max(0, len(text) - count) :]
    units = utf16.length(text)
    return utf16.cut(text, max(0, units - count), units)


def _by_collation(as_default: Function, by_code: Function) -> Function:
    """A function that finds text: by its codes where a COLLATE has regard to case."""

    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        return (by_code if is_by_code(renderer, *arguments) else as_default).render(renderer, arguments)

    return as_default._replace(render=render)


@lru_cache(maxsize=256)
def _finder(pattern: str, flags: int) -> re.Pattern[str]:
    return re.compile(re.escape(pattern), flags)


def search_work(text: Any, pattern: Any, *rest: Any) -> int:
    """Each character of one may be compared with each of the other; and what is wanted is compiled."""
    return 0 if text is None or pattern is None else (len(str(text)) + COMPILE_NS) * len(str(pattern))


def _replace_work(text: Any, pattern: Any, replacement: Any) -> int:
    return 0 if text is None else search_work(text, pattern) + REPLACE_NS * len(text)


def _replace(text: str, pattern: str, replacement: str, flags: int = re.IGNORECASE) -> str:
    if not pattern:
        return text
    finder = _finder(pattern, flags)
    if len(replacement) > len(pattern):
        count = sum(1 for _ in finder.finditer(text))
        if len(text) + count * (len(replacement) - len(pattern)) > VALUE_BYTES_MAX:
            raise SqlServerError(701, "default")
    return finder.sub(replacement.replace("\\", r"\\"), text)


def _replace_by_code(text: str, pattern: str, replacement: str) -> str:
    return _replace(text, pattern, replacement, 0)


def _charindex(pattern: Any, text: Any, start: int = 1) -> int:
    return _place(pattern, text, start, re.IGNORECASE)


def _charindex_by_code(pattern: Any, text: Any, start: int = 1) -> int:
    return _place(pattern, text, start, 0)


def _place(pattern: Any, text: Any, start: int, flags: int) -> int:
    place = max(0, start - 1)
    if not pattern:
        return 0
    if isinstance(text, bytes) or isinstance(pattern, bytes):
        return int(text.find(pattern, place)) + 1
    words = str(text)
    match = _finder(str(pattern), flags).search(words, len(utf16.cut(words, 0, place)))
    return 0 if match is None else utf16.length(words[: match.start()]) + 1


def _space(count: int) -> str | None:
    return None if count < 0 else " " * min(count, 8000)


def _str(renderer: Renderer, arguments: Arguments) -> Fragment:
    """STR ( float [ , length [ , decimals ] ] )"""
    function = in_python("str", _right_aligned, SqlType("varchar", length=8000))
    return function.render(renderer, [renderer.cast(arguments[0], FLOAT), *arguments[1:]])


def _right_aligned(value: float, length: int = 10, decimals: int = 0) -> str | None:
    """A number with as many of its decimals as there is room for, or asterisks."""
    if not 0 < length <= 8000 or decimals < 0:
        return None
    for places in range(min(decimals, 16), -1, -1):
        number = Decimal(value).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, Context(prec=400))
        if len(text := f"{number:f}") <= length:
            return text.rjust(length)
    return "*" * length


def _char(code: int) -> str | None:
    """A character of code page 1252; the five codes without a character are control characters."""
    if not 0 <= code < 256:
        return None
    return bytes((code,)).decode("cp1252", "replace").replace("\ufffd", chr(code))


def _nchar(code: int) -> str | None:
    if 0xD800 <= code < 0xE000:
        raise UnsupportedSyntax("half of a surrogate pair", 0)
    return chr(code) if 0 <= code < 0x10000 else None


def _ascii(text: Any) -> int | None:
    data = text if isinstance(text, bytes) else str(text)[:1].encode("cp1252", utf16.QUESTION_MARKS)
    return data[0] if data else None


def _unicode(text: Any) -> int | None:
    """The first UTF-16 unit, as without a collation of _SC."""
    return int.from_bytes(str(text)[:1].encode("utf-16-le")[:2], "little") if text else None


def _quotename(text: str, sign: str = "[") -> str | None:
    closing = CLOSING.get(sign[:1])
    if closing is None or len(text) > QUOTED_LENGTH_MAX:
        return None
    opening = next(opener for opener, other in CLOSING.items() if other == closing)
    return f"{opening}{text.replace(closing, closing * 2)}{closing}"


def _stuffed(text: Any, start: int | None, length: int | None, inserted: Any) -> Any:
    """STUFF: without the characters from `start` on, and `put` in their place. NULL there removes them only."""
    if text is None or start is None or length is None:
        return None
    units = utf16.length(text) if isinstance(text, str) else len(text)
    if not 1 <= start <= units or length < 0:
        return None
    if not isinstance(text, str):
        return text[: start - 1] + (inserted or b"") + text[start - 1 + length :]
    return utf16.cut(text, 0, start - 1) + (inserted or "") + utf16.cut(text, start - 1 + length, units)


def _stuff(renderer: Renderer, arguments: Arguments) -> Fragment:
    """ "An error is raised if the resulting value is larger than the maximum supported by the return type." """
    text, start, length, put = arguments
    if family(text.type) == "binary":
        type_ = SqlType("varbinary", length=MAX)
        value, inserted = text.sql, renderer.cast(put, type_).sql
    else:
        types = [varying(text_type([argument])) for argument in (text, put) if argument.type is not None]
        name = "nvarchar" if any(type_.name == "nvarchar" for type_ in types) else "varchar"
        is_long = any(type_.length == MAX for type_ in types)
        type_ = SqlType(name, length=MAX if is_long else 4000 if name == "nvarchar" else 8000)
        value, inserted = as_text(renderer, text), as_text(renderer, put)

    def stuff(*values: Any) -> Any:
        stuffed = _stuffed(*values)
        if type_.length != MAX and stuffed is not None and utf16.length(stuffed) > type_.length:
            raise SqlServerError(8152)
        return stuffed

    function_name = f"text_stuff_{type_.length if type_.length != MAX else 'max'}"
    renderer.function(function_name, 4, stuff)
    numbers = ", ".join(renderer.cast(number, BIGINT).sql for number in (start, length))
    return Fragment(f"{function_name}({value}, {numbers}, {inserted})", type_, collation=collation_of(text, put))


# For each byte
COMPRESS_NS, DECOMPRESS_NS = 100, 5000  # it may become a thousand


def _decompressed(data: bytes) -> bytes:
    """DECOMPRESS ( binary ): what COMPRESS or any gzip made, up to the longest value"""
    stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        text = stream.decompress(data, VALUE_BYTES_MAX)
    except zlib.error:
        text = b""
    if not stream.eof:
        raise UnsupportedSyntax("DECOMPRESS of what is no gzip, whose error is not known here", 0)
    return text


HASH_NS = 10
_HASHES = {"MD5": "md5", "SHA": "sha1", "SHA1": "sha1", "SHA2_256": "sha256", "SHA2_512": "sha512"}


def _hashed(algorithm: str, data: bytes) -> bytes | None:
    name = algorithm.upper()
    if name in ("MD2", "MD4"):
        raise UnsupportedSyntax(f"HASHBYTES by {name}", 0)
    return hashlib.new(_HASHES[name], data, usedforsecurity=False).digest() if name in _HASHES else None


def _hashbytes(renderer: Renderer, arguments: Arguments) -> Fragment:
    """`HASHBYTES ( 'algorithm' , value )` of text or bytes; NULL for an algorithm that there is not"""
    algorithm, value = arguments
    if value.type is not None and family(value.type) not in ("text", "binary"):
        raise SqlServerError(8116, value.type.name, "hashbytes")
    hashed = in_python(
        "hashbytes", _hashed, SqlType("varbinary", length=8000), lambda name, data: HASH_NS * len(data or b"")
    )
    return hashed.render(renderer, [algorithm, renderer.cast(value, VARBINARY_MAX)])


def _on_bytes(name: str, function: Callable[[bytes], bytes], step_ns: int) -> Function:
    """A function of the bytes of a value."""

    def render(renderer: Renderer, arguments: Arguments) -> Fragment:
        value = renderer.cast(arguments[0], VARBINARY_MAX)
        return in_python(name, function, VARBINARY_MAX, work_of(step_ns)).render(renderer, [value])

    return Function(1, 1, render)


FUNCTIONS: Functions = {
    "COMPRESS": _on_bytes("compress", lambda data: gzip.compress(data, mtime=0), COMPRESS_NS),
    "DECOMPRESS": _on_bytes("decompress", _decompressed, DECOMPRESS_NS),
    "ASCII": in_python("ascii", _ascii, INT),
    "CHAR": in_python("char", _char, SqlType("char", length=1)),
    "CHARINDEX": _by_collation(
        in_python("charindex", _charindex, INT, search_work),
        in_python("charindex_by_code", _charindex_by_code, INT, search_work),
    ),
    "HASHBYTES": Function(2, 2, _hashbytes),
    "LEFT": _of_text("left", "tn", _left),
    "LOWER": _of_text("lower", "t", _each(str.lower), work_ns=work_of(EACH_NS)),
    "LTRIM": _trimmed("ltrim"),
    "NCHAR": in_python("nchar", _nchar, SqlType("nchar", length=1)),
    "QUOTENAME": in_python("quotename", _quotename, SqlType("nvarchar", length=258)),
    "REPLACE": _by_collation(
        _of_text("replace", "ttt", _replace, long=True, work_ns=_replace_work),
        _of_text("replace_by_code", "ttt", _replace_by_code, long=True, work_ns=_replace_work),
    ),
    "REVERSE": _of_text("reverse", "t", lambda text: text[::-1]),
    "RIGHT": _of_text("right", "tn", _right),
    "RTRIM": _trimmed("rtrim"),
    "SPACE": in_python("space", _space, SqlType("varchar", length=8000)),
    "STR": Function(1, 3, _str),
    "STUFF": Function(4, 4, _stuff),
    "TRIM": _trimmed("trim"),
    "UNICODE": in_python("unicode", _unicode, INT),
    "UPPER": _of_text("upper", "t", _each(str.upper), work_ns=work_of(EACH_NS)),
}
