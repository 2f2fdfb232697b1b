"""Text counted in UTF-16 units, as nvarchar and the functions of text count it.

A collation without _SC, as that of this server, takes a surrogate pair for two characters:
https://learn.microsoft.com/sql/relational-databases/collations/collation-and-unicode-support. A cut through a pair
leaves U+FFFD here: neither a str that can be stored nor UTF-8 has half a character.
"""

import codecs

QUESTION_MARKS = "question_marks"  # an error handler: one for each unit that a code page does not have


def length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def cut(text: str, start: int, end: int) -> str:
    """The units from `start` up to `end`, which count from 0."""
    if text.isascii():
        return text[start:end]
    return text.encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le", "replace")


def padded(text: str, units: int) -> str:
    """The text with spaces up to that many units."""
    return text.ljust(units) if text.isascii() else text + " " * (units - length(text))


def _question_marks(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "?" * length(error.object[error.start : error.end]), error.end


codecs.register_error(QUESTION_MARKS, _question_marks)
