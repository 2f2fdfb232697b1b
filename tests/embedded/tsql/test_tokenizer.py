"""Tokens: whatever stands between them, and of texts of any length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot.dialects.tsql import TSQL
from sqlglot.tokenizer_core import TokenType

from harness.embedded.errors import UNSUPPORTED, SqlServerError
from harness.embedded.tsql.statements.batches import compile_batch
from harness.embedded.tsql.text import tokenizer
from harness.embedded.tsql.text.tokenizer import tokenize

WHOLE = {
    "SELECT": (TokenType.SELECT, "SELECT"),
    "Text": (TokenType.TEXT, "Text"),
    "_n#$": (TokenType.VAR, "_n#$"),
    "%%physloc%%": (TokenType.VAR, "%%physloc%%"),
    "[b]]c]": (TokenType.IDENTIFIER, "b]c"),
    '"d ""e"': (TokenType.IDENTIFIER, 'd "e'),
    "[/*]": (TokenType.IDENTIFIER, "/*"),
    "'it''s'": (TokenType.STRING, "it's"),
    "''": (TokenType.STRING, ""),
    "'a--b\n'": (TokenType.STRING, "a--b\n"),
    "N'['": (TokenType.NATIONAL_STRING, "["),
    "0xAf": (TokenType.HEX_STRING, "Af"),
    "0x": (TokenType.HEX_STRING, ""),
    "1.5e-3": (TokenType.NUMBER, "1.5e-3"),
    "<>": (TokenType.NEQ, "<>"),
    "! <": (TokenType.GTE, "! <"),
    "%": (TokenType.MOD, "%"),
    "(": (TokenType.L_PAREN, "("),
    ";": (TokenType.SEMICOLON, ";"),
}
BETWEEN = [" ", "\n", "\t", "-- it's\n", "/* a /* b */ ' c */", "/**/"]


@given(st.lists(st.tuples(st.sampled_from(sorted(WHOLE)), st.sampled_from(BETWEEN)), max_size=40))
def test_blanks_and_comments_part_tokens_and_are_none(parts):
    text = "".join(part + between for part, between in parts)
    tokens = tokenize(text)
    assert [(token.token_type, token.text) for token in tokens] == [WHOLE[part] for part, _ in parts]
    assert [text[token.start : token.end + 1] for token in tokens] == [part for part, _ in parts]
    assert [token.line for token in tokens] == [text.count("\n", 0, token.start) + 1 for token in tokens]


def test_a_variable_is_its_sign_and_any_name():
    texts = [token.text for token in tokenize("@a, @select=@1+@ +@@error")]
    assert texts == ["@", "a", ",", "@", "select", "=", "@", "1", "+", "@", "", "+", "@", "@", "error"]


def test_two_words_are_one_token_for_sqlglot_but_for_names():
    text = "group /* x */\n by [order] by @order by"
    assert [token.text for token in tokenize(text)] == ["GROUP by".upper(), "order", "by", "@", "order", "by"]


def test_words_of_other_dialects_are_names(side):
    words = {word for word in TSQL.Tokenizer.KEYWORDS if word.isalpha()} - tokenizer.RESERVED - tokenizer.CONTEXTUAL
    for word in words:
        query = (
            f"SELECT {word} + 1, {word}.{word} {word} FROM (SELECT 1 {word}) {word} WHERE {word} = 1 ORDER BY {word}"
        )
        assert side.rows(query) == [(2, 1)]
    assert len(words) > 100


def error(text: str) -> tuple[int, int]:
    with pytest.raises(SqlServerError) as caught:
        compile_batch(text)
    return caught.value.number, caught.value.line


def test_what_is_not_closed_is_an_error_at_its_line():
    assert error("SELECT 1 /* a /* b */") == (113, 1)
    for text in ("SELECT '\n", "SELECT N'it''s\n", 'SELECT "a""', "SELECT [a]]"):
        assert error("SELECT 1;\n" * 1000 + text) == (105, 1001)
    assert error("SELECT 1;\n" * 1000 + "SELECT 1 /*\n") == (113, 1001)


def test_parentheses_in_parentheses_without_end_are_refused_before_they_are_all_read():
    assert error("SELECT " + "(" * 10_000_000)[0] == 191


def test_an_expression_of_any_length_is_refused_or_compiled():
    assert error("SELECT 1 WHERE 1 IN (" + "1," * 40_000 + "1)")[0] == 8632


def test_a_batch_of_too_many_tokens_is_refused(monkeypatch):
    monkeypatch.setattr(tokenizer, "TOKENS_MAX", 10_000)
    assert error("SELECT 1;" * 5_000)[0] == 701


def test_a_constant_of_any_length_is_one_token():
    text, digits = "it''s " * 200_000, "0123456789abCDEF" * 100_000
    tokens = tokenize(f"N'{text}', '{text}', 0x{digits}")
    assert [token.text for token in tokens[::2]] == ["it's " * 200_000] * 2 + [digits]


def test_what_is_too_long_for_a_name_is_refused():
    assert error("SELECT 0x" + "A" * 1_000_000 + "G" * 129)[0] == 103


def test_comments_in_each_other_are_counted_to_a_limit_and_no_further():
    most = tokenizer.COMMENTS_MAX
    assert len(tokenize("SELECT 1 " + "/* " * most + " */" * most)) == 2
    assert error("SELECT 1\n" + "/*" * 1_000_000) == (UNSUPPORTED, 2)
