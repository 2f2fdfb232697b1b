"""The order of texts in the collation of this server: without regard to case and width and to blanks at their end, with
regard to accents.

Letters that differ by their accents stand beside each other, as in a dictionary: `Arger, Ärger, Azur`. Not as in SQL
Server: signs sort by their codes, `{` to `~` behind the letters; hiragana and katakana differ.
"""

import unicodedata
from functools import lru_cache

NAME, WITHOUT_ACCENTS, BY_CODE = "text_ci_as", "text_ci_ai", "RTRIM"  # in SQLite, which has the last one
KEPT_LENGTH = 200  # of texts whose keys are kept


def compare(left: str, right: str) -> int:
    """Compare two texts: negative, zero or positive."""
    if left == right:
        return 0
    if left.isascii() and right.isascii():
        left, right = left.rstrip(" ").lower(), right.rstrip(" ").lower()
        return (left > right) - (left < right)
    first, second = _keys(left, right)
    return (first > second) - (first < second)


def compare_without_accents(left: str, right: str) -> int:
    """Compare two texts in a collation of a COLLATE clause."""
    (first, _), (second, _) = _keys(left, right)
    return (first > second) - (first < second)


def _keys(*texts: str) -> list[tuple[str, str]]:
    return list(map(_key if max(map(len, texts)) > KEPT_LENGTH else _kept_key, texts))


def _key(text: str) -> tuple[str, str]:
    """The letters without accents, then with them. The byte order mark of xml in a message weighs nothing."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text.rstrip(" ")).casefold())
    folded = folded.replace("\ufeff", "")
    return "".join(character for character in folded if not unicodedata.combining(character)), folded


_kept_key = lru_cache(maxsize=4096)(_key)
