"""Hints in the text of a procedure: what is slow in its RECEIVE, in code alone, for its queue alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.lab.procedure_text import hides_errors, hints

LOOP = "CREATE PROCEDURE dbo.p AS WHILE 1 = 1 BEGIN {} IF @@ROWCOUNT = 0 BREAK; END"


@pytest.mark.parametrize(
    ("receive", "words"),
    [
        ("RECEIVE TOP (1) @h = conversation_handle FROM dbo.q;", ["TOP (1)"]),
        ("waitfor (receive top(1) * from [dbo].[q]), timeout 5000;", ["TOP (1)"]),
        ("RECEIVE * FROM q INTO @t WHERE conversation_group_id = @g;", ["WHERE"]),
        ("WAITFOR (RECEIVE TOP (100) * FROM dbo.q INTO @t), TIMEOUT 0;", ["0 ms"]),
        (
            "WAITFOR (RECEIVE TOP (1) CAST(message_body AS xml) FROM q WHERE conversation_handle = @h), TIMEOUT 50;",
            ["TOP (1)", "WHERE", "50 ms"],
        ),
        ("RECEIVE TOP (10000) * FROM dbo.q INTO @t SELECT n FROM dbo.t WHERE n = 1;", []),
        ("RECEIVE TOP (1) * FROM dbo.other;", []),
        ("-- RECEIVE TOP (1) * FROM dbo.q\n /* RECEIVE TOP (1) * FROM q */ PRINT N'RECEIVE TOP (1) * FROM q';", []),
    ],
)
def test_what_is_slow_is_told(receive: str, words: list[str]) -> None:
    told = hints(LOOP.format(receive), "q")
    assert len(told) == len(words) and all(word in hint for word, hint in zip(words, told, strict=True))


@pytest.mark.parametrize(
    ("catch", "hides"),
    [
        ("ROLLBACK;", True),
        ("IF XACT_STATE() <> 0 rollback transaction; /* THROW */", True),
        ("ROLLBACK; THROW;", False),
        ("ROLLBACK; INSERT dbo.errors SELECT ERROR_MESSAGE();", False),
        ("ROLLBACK; EXECUTE dbo.LogError;", False),
        ("SET @failed = 1;", False),
    ],
)
def test_a_catch_that_says_nothing_hides_errors(catch: str, hides: bool) -> None:
    body = f"BEGIN TRY RECEIVE * FROM dbo.q; END TRY BEGIN CATCH {catch} END CATCH"
    assert hides_errors(LOOP.format(body)) == hides and not hides_errors("CREATE PROCEDURE p AS ROLLBACK;")


@given(st.text(alphabet="RECEIVE TOP(1)FROMqWHERE;'\"[]-/*\n", max_size=80))
def test_any_text_is_read(text: str) -> None:
    assert isinstance(hints(text, "q"), list)
