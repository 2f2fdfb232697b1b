"""Long batches: read in pieces as in one, and bounded."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlglot.tokenizer_core import TokenType

from harness.embedded.errors import UNSUPPORTED, SqlServerError
from harness.embedded.tsql.statements.batches import compile_batch
from harness.embedded.tsql.text import pieces, tokens
from harness.embedded.tsql.text.tokens import Tokens, _tokenized, _tokenized_long

PARTS = st.sampled_from(
    [
        *(
            "SELECT",
            "1",
            ";",
            ",",
            "(",
            ")",
            "a",
            "[b]]c]",
            '"d e"',
            "'it''s'",
            "N'x'",
            "N''",
            "''",
            "ORDER",
            "BY",
            "GROUP",
        ),
        *(
            "/* a /* b */ c */",
            "/*",
            "*/",
            "@v",
            "0xAF",
            "1.5e3",
            "<>",
            "%",
            "%%physloc%%",
            "_n",
            "N'['",
            "0x" + "aF" * 40,
            "x0xAF",
            "0xAG",
            "0x",
            "'a--b'",
            '"/*"',
        ),
        *(
            "[/*]",
            "FETCH",
            "NEXT",
            "'",
            "' '",
            "']'",
            "FOR",
            "UNION",
            "ALL",
            "NOT",
            "NULL",
            "\n",
            "  ",
            "ORDER BY",
            "--",
        ),
        *("ORDER   BY", "-- it's\n", "/* ' */", "'" + "x" * 50 + "''y'", "N'" + "z" * 60 + "'"),
    ]
)


@example(["%", "%", "SELECT", "%%physloc%%"], 1, 1)
@given(st.lists(PARTS, max_size=60), st.integers(1, 40), st.integers(1, 80))
def test_a_batch_has_the_same_tokens_in_pieces_as_in_one(parts, size, literal):
    text = " ".join(parts)
    before = pieces.PIECE, pieces.LITERAL
    pieces.PIECE, pieces.LITERAL = size, literal
    try:
        try:
            found = _tokenized_long(text)
        except SqlServerError as error:
            assert error.number in (105, 113)
            return
    finally:
        pieces.PIECE, pieces.LITERAL = before
    expected = _tokenized(text)
    assert [(one.token_type, one.text, one.line, one.end) for one in found] == [
        (one.token_type, one.text, one.line, one.end) for one in expected
    ]


def error(text: str) -> tuple[int, int]:
    with pytest.raises(SqlServerError) as caught:
        compile_batch(text)
    return caught.value.number, caught.value.line


def test_what_is_not_closed_is_an_error_at_its_line():
    assert error("SELECT 1 /* a /* b */") == (113, 1)
    assert error("SELECT 1;\n" * 1000 + "SELECT '") == (105, 1001)
    assert error("SELECT 1;\n" * 1000 + "SELECT 1 /*") == (113, 1001)


def test_parentheses_in_parentheses_without_end_are_refused_before_they_are_all_read():
    assert error("SELECT " + "(" * 10_000_000)[0] == 191


def test_an_expression_of_any_length_is_refused_or_compiled():
    assert error("SELECT 1 WHERE 1 IN (" + "1," * 40_000 + "1)")[0] == 8632


def test_a_batch_of_too_many_tokens_is_refused(monkeypatch):
    monkeypatch.setattr(tokens, "BATCH_TOKENS_MAX", 10_000)
    assert error("SELECT 1;" * 5_000)[0] == 701


def test_a_long_string_is_one_token_whose_quotes_are_halved():
    text = "it''s " * 2_000
    national, plain = Tokens(f"SELECT N'{text}', '{text}', 7", is_batch=True).all[1:4:2]
    assert national.text == plain.text == "it's " * 2_000
    assert national.token_type is not plain.token_type


def test_a_long_binary_constant_is_one_token():
    digits = "0123456789abCDEF" * 100_000
    select, token, comma, *_ = Tokens(f"SELECT 0x{digits}, 7", is_batch=True).all
    assert (token.token_type, token.text) == (TokenType.HEX_STRING, digits)
    assert (token.start, token.end) == (select.end + 2, comma.start - 1)


def test_what_has_no_place_to_end_is_refused():
    assert error("SELECT " + "1" * 1_000_000)[0] == 103
    assert error("SELECT 0x" + "A" * 1_000_000 + "G")[0] == 103


def test_comments_in_each_other_are_counted_to_a_limit_and_no_further():
    most = pieces.COMMENTS_MAX
    assert len(Tokens("SELECT 1 " + "/* " * most + " */" * most, is_batch=True).all) == 2
    assert error("SELECT 1\n" + "/*" * 1_000_000) == (UNSUPPORTED, 2)


def test_a_long_comment_is_not_read_by_the_tokenizer(monkeypatch):
    longest = []
    monkeypatch.setattr(tokens, "_tokenized", lambda text: longest.append(len(text)) or _tokenized(text))
    comment = "-- " + "x" * 100_000 + "\n"
    nested = "/*" + "y\n/* z */" * 20_000 + "*/"
    found = Tokens(f"SELECT 1 {comment} + {nested} 2\n, 3", is_batch=True).all
    assert [token.text for token in found] == ["SELECT", "1", "+", "2", ",", "3"]
    assert found[-1].line == 20_003
    assert max(longest) < 100
