"""A cursor over the tokens of a batch, or of a part of one."""

import re
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import NoReturn, Protocol, TypeVar

from sqlglot.tokenizer_core import Token, TokenType

from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.sqltypes import MAX, NAME_LENGTH_MAX, SqlType
from harness.embedded.tsql.text.tokenizer import RESERVED, STATEMENT_WORDS, tokenize

Item = TypeVar("Item")


QUERY_TOKENS_MAX = 32_768  # our limit on one expression or query
_VARIABLE = re.compile(r"@[\w@#$]*")
TEXT = (TokenType.STRING, TokenType.NATIONAL_STRING)
_NAMES = (TokenType.IDENTIFIER, TokenType.VAR)
QUOTED = (*TEXT, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.HEX_STRING)

# Words that are not reserved and begin a statement behind a whole expression; no function has their names.
UNRESERVED = frozenset({"SEND", "RECEIVE", "GET", "MOVE", "THROW", "ENABLE", "DISABLE"})

_OPERATORS = frozenset("AND OR NOT LIKE IN BETWEEN IS ESCAPE COLLATE".split())  # noqa: SIM905

FIXED_PRECISION = {"decimal": (18, 0), "numeric": (18, 0), "float": (53, 0), "real": (24, 0), "money": (19, 4)}
FIXED_PRECISION_MAX = {"decimal": 38, "numeric": 38, "float": 53}
SYNONYMS = {
    "sysname": ("nvarchar", 128),
    "integer": ("int", 0),
    "dec": ("decimal", 0),
    "double precision": ("float", 0),
    "nchar": ("nchar", 1),
    "char": ("char", 1),
    "character": ("char", 1),
    "varchar": ("varchar", 1),
    "char varying": ("varchar", 1),
    "character varying": ("varchar", 1),
    "nvarchar": ("nvarchar", 1),
    "binary": ("binary", 1),
    "varbinary": ("varbinary", 1),
    "text": ("varchar", MAX),
    "ntext": ("nvarchar", MAX),
    "image": ("varbinary", MAX),
    "rowversion": ("binary", 8),
    "timestamp": ("binary", 8),
}
TYPE_NAMES = frozenset(
    """
    bit tinyint smallint int bigint float real decimal numeric money uniqueidentifier date time datetime
    smalldatetime datetime2 datetimeoffset char varchar nchar nvarchar binary varbinary xml sql_variant
    """.split()  # noqa: SIM905
)
SCALED = frozenset({"time", "datetime2", "datetimeoffset"})


DIGITS_MAX = 38  # of a decimal
LENGTHS_MAX = {"char": 8000, "varchar": 8000, "binary": 8000, "varbinary": 8000, "nchar": 4000, "nvarchar": 4000}


def incorrect_syntax(text: str, line: int = 0) -> SqlServerError:
    """102 near a text, or 156 near a keyword."""
    word = text.partition(" ")[0]
    return SqlServerError(156 if word.upper() in RESERVED else 102, word, line=line)


def data_type(name: str, numbers: list[int], line: int) -> SqlType:
    """The type of that name with the numbers in its parentheses; an error if there is none."""
    type_name, length = SYNONYMS.get(name.lower(), (name.lower(), 0))
    if type_name not in TYPE_NAMES:
        raise UnsupportedSyntax(f"the data type {name}", line)
    most = 2 if type_name in ("decimal", "numeric") else 1
    is_sized = type_name in LENGTHS_MAX or type_name in SCALED or type_name in ("decimal", "numeric", "float")
    is_fixed = name.lower() in ("sysname", "double precision", "rowversion", "timestamp")
    if numbers and (not is_sized or length == MAX or is_fixed):
        raise SqlServerError(2716, 1, name, line=line)
    if len(numbers) > most:
        raise SqlServerError(102, ",", line=line)
    if type_name in LENGTHS_MAX:
        return SqlType(type_name, length=_length(type_name, numbers[0], line) if numbers else length)
    if type_name in SCALED:
        if numbers and not 0 <= numbers[0] <= 7:
            raise SqlServerError(1002, line, numbers[0], line=line)
        return SqlType(type_name, scale=numbers[0] if numbers else 7)
    precision, scale = FIXED_PRECISION.get(type_name, (0, 0))
    if numbers:
        precision, scale = numbers[0], numbers[1] if len(numbers) > 1 else 0
        if precision > FIXED_PRECISION_MAX[type_name]:
            raise SqlServerError(2750, 1, precision, FIXED_PRECISION_MAX[type_name], line=line)
        if precision < 1 or scale < 0:
            raise SqlServerError(1001, line, precision, line=line)
        if scale > precision:
            raise SqlServerError(192, line=line)
    if type_name == "float":  # "SQL Server treats n as one of two possible values": 24 or 53
        type_name, precision = ("real", 24) if precision <= 24 else ("float", 53)
    return SqlType(type_name, precision=precision, scale=scale)


def _length(name: str, length: int, line: int) -> int:
    if length == MAX and name in ("varchar", "nvarchar", "varbinary"):
        return length
    if length < 1:
        raise SqlServerError(1001, line, length, line=line)
    if length > LENGTHS_MAX[name]:
        raise SqlServerError(131, length, name, LENGTHS_MAX[name], line=line)
    return length


def word_of(token: Token) -> str:
    """A token as an upper-case word or sign; "" for quoted names, strings and numbers."""
    return "" if token.token_type in QUOTED else token.text.upper()


class NamedType(Protocol):
    """A type that CREATE TYPE made."""

    base: SqlType | None


FindType = Callable[[tuple[str, ...]], NamedType | None]  # in the database in which a text runs


class Tokens:
    """The tokens of one batch, or of a part of one, and a position in them."""

    def __init__(self, text: str, *, find_type: FindType | None = None) -> None:
        self.text = text
        self.find_type = find_type
        self.all = tokenize(text)
        if "\0" in text:
            self._refuse_zeros()
        if len(text) > NAME_LENGTH_MAX:
            self._refuse_long_names()
        self.position = 0
        self.is_procedure = False  # its text is compiled with QUOTED_IDENTIFIER ON, whatever SET says inside

    def quote_identifiers(self, is_on: bool) -> None:
        """SET QUOTED_IDENTIFIER: from here on, text in double quotes is an identifier if it is ON, else a string."""
        if not self.is_procedure:
            for token in self.all[self.position :]:
                if token.token_type in (TokenType.IDENTIFIER, TokenType.STRING) and self._in_double_quotes(token):
                    token.token_type = TokenType.IDENTIFIER if is_on else TokenType.STRING

    @property
    def has_double_quoted_string(self) -> bool:
        return any(token.token_type is TokenType.STRING and self._in_double_quotes(token) for token in self.all)

    def _in_double_quotes(self, token: Token) -> bool:
        return self.text.startswith('"', token.start)

    def _refuse_zeros(self) -> None:
        """No name has the character U+0000."""
        for token in self.all:
            if "\0" in token.text and token.token_type not in TEXT:
                raise SqlServerError(102, token.text.partition("\0")[0], line=token.line)

    def _refuse_long_names(self) -> None:
        for token in self.all:
            if len(token.text) > NAME_LENGTH_MAX and token.token_type in _NAMES:
                raise SqlServerError(103, "identifier", token.text[:NAME_LENGTH_MAX], NAME_LENGTH_MAX, line=token.line)

    # -- looking ---------------------------------------------------------------------------------------------------

    def peek(self) -> Token | None:
        return self.all[self.position] if self.position < len(self.all) else None

    @property
    def at_end(self) -> bool:
        return self.position >= len(self.all)

    @property
    def line(self) -> int:
        token = self.peek() or (self.all[-1] if self.all else None)
        return token.line if token else 1

    def word(self, ahead: int = 0) -> str:
        """The token as `word_of` gives it; "" at the end."""
        index = self.position + ahead  # not `peek`: a batch asks this for each beginning that a statement may have
        return word_of(self.all[index]) if index < len(self.all) else ""

    def at(self, *words: str) -> bool:
        for ahead, word in enumerate(words):  # noqa: SIM110
            if self.word(ahead) != word:
                return False
        return True

    def at_variable(self) -> bool:
        return self.word() == "@" and self.word(1) != "@"

    # -- taking ----------------------------------------------------------------------------------------------------

    def advance(self) -> Token:
        token = self.peek()
        if token is None:
            self.fail()
        self.position += 1
        return token

    def accept(self, *words: str) -> bool:
        if not self.at(*words):
            return False
        self.position += len(words)
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.accept(word):
                self.fail()

    def choose(self, *words: str) -> str:
        """Take one of the words and return it."""
        for word in words:
            if self.accept(word):
                return word
        self.fail()

    def fail(self, token: Token | None = None) -> NoReturn:
        """Raise the error of incorrect syntax near a token, without one near the current token."""
        token = token or self.peek()
        if token is None:
            raise SqlServerError(102, self.all[-1].text if self.all else "", line=self.line)
        if token.text == "@":
            raise SqlServerError(102, _VARIABLE.search(self.text, token.start)[0], line=token.line)  # type: ignore[index]
        if token.token_type in QUOTED:
            raise SqlServerError(102, token.text, line=token.line)
        raise incorrect_syntax(token.text, token.line)

    def require_first(self, words: str) -> None:
        """Raise 111 if a statement that these words begin is not the first of its batch, 156 if it is in a module."""
        if self.is_procedure:
            self.fail(self.all[self.position - 1])
        if any(token.text != ";" for token in self.all[: self.position - len(words.split())]):
            name = words.replace("CREATE OR ALTER", "CREATE")
            raise SqlServerError(111, re.sub(r"\w+ PROCEDURE", "CREATE/ALTER PROCEDURE", name), line=self.line)

    def unsupported(self, syntax: str) -> NoReturn:
        raise UnsupportedSyntax(syntax, self.line)

    def name(self) -> str:
        """One identifier, quoted or not."""
        token = self.peek()
        if token is None or token.token_type in (*TEXT, TokenType.NUMBER, TokenType.HEX_STRING):
            self.fail()
        prefix = ""
        while self.accept("#"):
            prefix += "#"
        token = self.advance()
        if token.token_type != TokenType.IDENTIFIER and (
            not (token.text[0].isalpha() or token.text[0] in "_#")
            or (not prefix and token.text.upper().partition(" ")[0] in RESERVED)
        ):
            self.position -= 1
            self.fail()
        if not token.text:
            raise SqlServerError(1038, line=token.line)
        return prefix + str(token.text)

    def object_name(self) -> tuple[str, ...]:
        """`[[database.][schema].]name`; an omitted part is "", also before a first dot."""
        parts: list[str] = []
        while self.accept("."):
            parts.append("")
        parts.append(self.name())
        while self.accept("."):
            parts.append("" if self.at(".") else self.name())
        if len(parts) > 4:
            self.fail()
        return tuple(parts)

    def variable(self) -> str:
        """A variable, with its @, in lower case."""
        return self.written_variable().lower()

    def written_variable(self) -> str:
        """A variable, with its @, as it is written."""
        if not self.at_variable():
            self.fail()
        self.advance()
        return "@" + str(self.advance().text)

    def string(self) -> str:
        token = self.peek()
        if token is None or token.token_type not in TEXT:
            self.fail()
        self.position += 1
        return str(token.text)

    def at_quoted_name(self) -> bool:
        token = self.peek()
        return token is not None and token.token_type == TokenType.IDENTIFIER

    def at_string(self) -> bool:
        token = self.peek()
        return token is not None and token.token_type in TEXT

    def at_number(self) -> bool:
        token = self.peek()
        return token is not None and token.token_type == TokenType.NUMBER

    def integer(self) -> int:
        sign = -1 if self.accept("-") else 1
        token = self.peek()
        if token is None or token.token_type != TokenType.NUMBER or not token.text.isdecimal():
            self.fail()
        if len(token.text) > DIGITS_MAX:
            raise SqlServerError(1007, token.text, line=token.line)
        self.position += 1
        return sign * int(token.text)

    def integer_between(self, least: int, most: int) -> int:
        """An integer in a range that the manual gives; error 1080 for others."""
        line, number = self.line, self.integer()
        if not least <= number <= most:
            raise SqlServerError(1080, number, line=line)
        return number

    def binary(self) -> bytes:
        token = self.peek()
        if token is None or token.token_type != TokenType.HEX_STRING:
            self.fail()
        self.position += 1
        return bytes.fromhex(("0" if len(token.text) % 2 else "") + token.text)

    def on_off(self) -> bool:
        return self.choose("ON", "OFF") == "ON"

    def comma_separated(self, read: Callable[[], Item]) -> list[Item]:
        items = [read()]
        while self.accept(","):
            items.append(read())
        return items

    def user_type(self) -> NamedType | None:
        """Take the name of a type that CREATE TYPE made, if one stands here."""
        start = self.position
        parts = self.object_name()
        named_type = self.find_type(parts) if self.find_type is not None else None
        if named_type is None:
            self.position = start
        return named_type

    def data_type(self) -> SqlType:
        if self.find_type is not None and (named_type := self.user_type()) is not None and named_type.base is not None:
            return named_type.base
        line, (*schema, name) = self.line, self.object_name()
        if schema and [part.lower() for part in schema] != ["sys"]:
            raise SqlServerError(2715, 1, ".".join((*schema, name)), line=line)
        numbers: list[int] = []
        if name.lower() == "xml" and self.at("("):
            self.unsupported("xml with a schema collection")
        if self.accept("("):
            numbers = self.comma_separated(lambda: MAX if self.accept("MAX") else self._size())
            self.expect(")")
        return data_type(name, numbers, line)

    def _size(self) -> int:
        size = self.integer()
        if size < 0:
            self.fail()
        return size

    def take_until(self, ends: Collection[str], *, allow: Collection[str] = (), is_scalar: bool = False) -> list[Token]:
        """Take the tokens of an expression or query: up to a semicolon, the end, or, outside parentheses and CASE, one
        of `ends`, a comma among them if it is named, or a word that begins a statement.

        `allow` names statement words that belong to the query, each as often as it is listed. In a query an UNRESERVED
        word may be an alias; a scalar expression, once whole, ends before it.
        """
        allowed = list(allow)
        start, depth, cases = self.position, 0, 0
        while (token := self.peek()) is not None:
            word = self.word()
            if word == ";":
                break
            if depth == 0 and word == ")":
                break
            is_name = self.position > start and self.word(-1) == "@"  # of a variable
            if depth == 0 and cases == 0 and not is_name:
                if word in ends or (is_scalar and word in UNRESERVED and self._is_whole(start)):
                    break
                if word in STATEMENT_WORDS and not self._continues(word, start):
                    if word not in allowed:
                        break
                    allowed.remove(word)
            if self.position - start > QUERY_TOKENS_MAX:
                raise SqlServerError(8632, line=self.line)
            depth += (word == "(") - (word == ")")
            if word == "CASE" and not is_name:
                cases += 1
            elif word == "END" and cases and not is_name:
                cases -= 1
            self.position += 1
        if token is not None and self.position == start:
            self.fail()
        tokens = self.all[start : self.position]
        if not tokens:
            self.fail()
        return tokens

    def _is_whole(self, start: int) -> bool:
        """Whether an expression that began at `start` could end here."""
        if self.position == start:
            return False
        before = self.word(-1)  # empty behind a name in brackets, a text and a number
        is_name = self.position - 1 > start and self.word(-2) == "@"
        return is_name or before in ("", ")") or (before[0].isalpha() and before not in _OPERATORS)

    def _continues(self, word: str, start: int) -> bool:
        """Whether a statement word belongs to the query before it."""
        before = self.word(-1) if self.position > start else ""
        if word == "SELECT":
            return before in ("UNION", "ALL", "EXCEPT", "INTERSECT")
        if word == "FETCH":
            return before in ("ROW", "ROWS")
        if word == "WITH":
            return self.word(1) == "("  # a table hint
        return word == "UPDATE" and self.word(1) == "("  # the function of triggers


MAX_PARTS = 4  # server.database.schema.name
# A part of a name in a string: in brackets, in quotation marks, or anything without a dot. It need not be a regular
# identifier: SqlDependency asks for queues whose names end with a GUID.
_PART = re.compile(r'\s*(?:\[((?:[^\]]|\]\])*)\]|"((?:[^"]|"")*)"|([^.\["][^.]*|))\s*(\.|$)')


@lru_cache(maxsize=1024)
def name_parts(name: str) -> tuple[str, ...]:
    """The parts of a name as PARSENAME takes them; () if it is none."""
    parts: list[str] = []
    end, dot = 0, "."
    while dot and (part := _PART.match(name, end)) is not None:
        bracketed, quoted, plain, dot = part.groups()
        in_brackets, in_marks = (bracketed or "").replace("]]", "]"), (quoted or "").replace('""', '"')
        parts.append(in_brackets or in_marks or (plain or "").rstrip())
        end = part.end()
    return () if dot or len(parts) > MAX_PARTS or not parts[-1] else tuple(parts)
