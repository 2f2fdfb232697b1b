"""Files for sqlcmd: where they are split, and that a value in them ends nothing that it stands in."""

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.files import script_text
from harness.files.script_text import Batch, ScriptError, ScriptRefused
from harness.machine.places import SQL_ROOT
from tests.examples import share
from tests.token_structure import HOSTILE, structure

SPLIT_CASES = [
    ("", []),
    ("GO\n\nGO", []),
    ("SELECT 1;", [Batch("SELECT 1;", 1)]),
    ("SELECT 1;\nGO\nSELECT 2;\ngo\n", [Batch("SELECT 1;", 1), Batch("SELECT 2;", 3)]),
    ("EXEC p;\nGO 3", [Batch("EXEC p;", 1, 3)]),
    ("EXEC p;\nGO 0", []),
    ("EXEC p;\n  GO  -- the end", [Batch("EXEC p;", 1)]),
    ("SELECT 'a\nGO\nb';", [Batch("SELECT 'a\nGO\nb';", 1)]),
    ("SELECT 'it''s\nGO\n';", [Batch("SELECT 'it''s\nGO\n';", 1)]),
    ("/* x\nGO\n/* nested */\nGO\n*/ SELECT 1;", [Batch("/* x\nGO\n/* nested */\nGO\n*/ SELECT 1;", 1)]),
    ("-- don't\nGO\nSELECT 1;", [Batch("-- don't", 1), Batch("SELECT 1;", 3)]),
    ("SELECT [a'b];\nGO\nSELECT 2;", [Batch("SELECT [a'b];", 1), Batch("SELECT 2;", 3)]),
    ("SELECT 1 AS GOAL;\nGOTO x;\nGO", [Batch("SELECT 1 AS GOAL;\nGOTO x;", 1)]),
]


@pytest.mark.parametrize("text, expected", SPLIT_CASES)
def test_a_script_is_split_where_sqlcmd_splits_it(text: str, expected: list[Batch]) -> None:
    assert script_text.split(text) == expected


@given(st.lists(st.from_regex(r"[A-Za-z0-9 ;=]{1,20}", fullmatch=True).filter(str.strip), max_size=6))
def test_batches_joined_by_go_are_split_into_the_same_batches(statements: list[str]) -> None:
    statements = [text for text in statements if script_text.split(text) == [Batch(text, 1)]]
    assert [batch.text for batch in script_text.split("\nGO\n".join(statements))] == statements


@given(st.text(alphabet="'\"[]-/*GO \n$()aA1", max_size=60))
def test_the_splitter_loses_nothing_but_the_lines_with_go(text: str) -> None:
    lines = text.splitlines()
    for batch in script_text.split(text):
        kept = batch.text.split("\n")
        assert kept == lines[batch.line - 1 : batch.line - 1 + len(kept)]


def test_variables_are_substituted_without_regard_to_case() -> None:
    assert script_text.substitute("USE [$(DATABASE)];", {"Database": "SSBTarget"}) == "USE [SSBTarget];"


def test_a_variable_without_a_value_is_named_with_its_line() -> None:
    with pytest.raises(ScriptError, match=r"link/route\.sql, line 2: the variable \$\(Host\) has no value"):
        script_text.substitute("a\n$(Host)", {}, origin="link/route.sql")


# A text, the value of $(X) in it, and what is sent; None: the value is refused.
PLACES = [
    ("SELECT N'$(X)';", "it's", "SELECT N'it''s';"),
    ('SELECT [$(X)], "$(X)";', 'a]b"c', 'SELECT [a]]b"c], "a]b""c";'),
    ("EXEC (N'USE [$(X)]; SELECT N''$(X)'';');", "a'b]", "EXEC (N'USE [a''b]]]; SELECT N''a''''b]'';');"),
    ("EXEC (@a + N'DROP TABLE $(X)') SELECT '$(X)';", "[it's]", "EXEC (@a + N'DROP TABLE [it''s]') SELECT '[it''s]';"),
    ("EXEC [$(Y)].sys.sp_executesql N'SELECT $(X);', N'@a int';", "x y", None),
    ("EXECUTE (N'ALTER QUEUE q WITH RETENTION = $(X)');", "ON); DROP TABLE t --", None),
    ("WAITFOR DELAY $(X);", "'00:00:01'", None),
    ("SELECT 1 -$(X);", "-5", "SELECT 1 - -5;"),
    (
        "/* $(X) $(None) /* */ $(X) */ -- $(X)\nSELECT $(X);",
        "1.5",
        "/* $(X) $(None) /* */ $(X) */ -- $(X)\nSELECT 1.5;",
    ),
    ("CREATE QUEUE $(X);", "dbo.[//Orders/]] Queue]", "CREATE QUEUE dbo.[//Orders/]] Queue];"),
    ("CREATE QUEUE $(X);", "", None),
    ("SELECT N'$(X)', N'$(Y)';", "$(Y)", "SELECT N'$(Y)', N'y';"),
]


@pytest.mark.parametrize("text, value, sent", PLACES)
def test_a_value_ends_nothing_that_it_stands_in(text: str, value: str, sent: str | None) -> None:
    values = {"X": value, "Y": "y"}
    if sent is not None:
        assert script_text.substitute(text, values) == sent
        return
    with pytest.raises(ScriptRefused, match=r"^script, line \d: \$\(X\) is .*: write a number or a name, or "):
        script_text.substitute(text, values)


USES = sorted(
    {
        (path.relative_to(SQL_ROOT).as_posix(), name)
        for path in SQL_ROOT.rglob("*.sql")
        for batch in script_text.split(path.read_text(encoding="utf-8"))
        for name in script_text.VARIABLE.findall(batch.text)
    }
)


@cache
def honest(path: str) -> list[object]:
    return sent(path, {})


def sent(path: str, given: dict[str, str]) -> list[object]:
    """The tokens of each batch of a script, in which all values but those given are x."""
    values = {name: "x" for script, name in USES if script == path} | given
    batches = script_text.split(Path(SQL_ROOT, path).read_text(encoding="utf-8"))
    return [structure(script_text.substitute(batch.text, values)) for batch in batches]


@settings(max_examples=share(300))
@given(st.sampled_from(USES), HOSTILE)
def test_no_value_changes_the_tokens_of_a_script_or_it_is_refused(use: tuple[str, str], value: str) -> None:
    path, name = use
    try:
        batches = sent(path, {name: value})
    except ScriptRefused as error:
        assert "\n" not in str(error)
    else:
        assert batches == honest(path)


HONEST = {
    "BrokerAddress": "TCP://10.0.0.1:4022",
    "CertificateBinary": "0x30820122",
    "Class": "REMOTE SERVICE BINDING",
    "ConversationIds": "'6F9619FF-8B86-D011-B42D-00C04FC964FF', '6F9619FF-8B86-D011-B42D-00C04FC964FE'",
    "EndpointEncryption": "REQUIRED ALGORITHM AES",
    "ListenerIp": "(127.0.0.1)",
    "Prefix": "",
    "Queue": "dbo.[//Orders/Queue]",
    "ReceiveTop": "10000",
    "Service": "//Orders/Service",
}


def test_of_honest_values_each_script_makes_the_text_that_sqlcmd_makes() -> None:
    values = {name: "x" for _, name in USES} | HONEST
    for path in {path for path, _ in USES}:
        text = Path(SQL_ROOT, path).read_text(encoding="utf-8")
        assert script_text.substitute(text, values) == script_text.VARIABLE.sub(lambda name: values[name[1]], text)
