"""What a batch is to a server, whatever its names and texts say; and values that want to be more than one of these."""

from functools import lru_cache

from hypothesis import strategies as st
from sqlglot.tokenizer_core import TokenType

from harness.embedded.tsql.text.tokens import QUOTED, TEXT, Tokens

_NAMES = (TokenType.IDENTIFIER, TokenType.VAR, TokenType.NUMBER)
_SIGNS = ("'", "''", "]", "[", '"', "{", "}", ";", "(", ")", ",", "=", ".", "--", "/*", "*/", "$(", "$(Database)")
_OTHERS = ("\n", "\r", "\nGO\n", "; DROP TABLE t;", " ", "a", "é")
HOSTILE = st.lists(st.sampled_from(_SIGNS + _OTHERS), min_size=1, max_size=8).map("".join)


@lru_cache(maxsize=10_000)
def structure(text: str) -> list[object]:
    """The kinds of a batch's tokens, with the words of those that are no names, numbers or texts.

    A string that EXECUTE runs is what it is to a server. A name of several parts counts as one, and so does a number.
    """
    found: list[object] = []
    is_executed = False
    before = ""
    for token in Tokens(text).all:
        word = "" if token.token_type in QUOTED else token.text.upper()
        begins = word == "SP_EXECUTESQL" or (word == "(" and before in ("EXEC", "EXECUTE"))
        is_executed = begins or (is_executed and word not in (")", ",", ";"))
        before = word
        if token.token_type in _NAMES:
            found[-2:] = ["name"] if found[-2:] == ["name", "."] else [*found[-2:], "name"]
        elif token.token_type in TEXT and is_executed:
            found.append(structure(token.text))
        else:
            found.append(word or "value")
    return found
