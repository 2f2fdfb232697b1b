"""The files of sql/ keep their own rules, and sql/README.md lists exactly them."""

import re
from pathlib import Path

import pytest

SQL = Path(__file__).parents[2] / "sql"
SCRIPTS = sorted(path.relative_to(SQL).as_posix() for path in SQL.rglob("*.sql"))
VARIABLE = re.compile(r"\$\((\w+)\)")
HEAD = re.compile(r"/\*\n(.*?)\n\*/\n", re.DOTALL)
FIELD = re.compile(r"^(\w[\w ]*):\s*(.*?)(?=^\w[\w ]*:|\Z)", re.DOTALL | re.MULTILINE)

each_script = pytest.mark.parametrize("script", SCRIPTS)


def text_of(script: str) -> str:
    return (SQL / script).read_text(encoding="utf-8")


def split(script: str) -> tuple[dict[str, str], str]:
    """The fields of the head comment, and the rest."""
    head = HEAD.match(text_of(script))
    assert head, f"{script} does not begin with a head comment"
    return {name: value.strip() for name, value in FIELD.findall(head[1])}, text_of(script)[head.end() :]


def listed_in_readme() -> dict[str, str]:
    """The files of the README's tables, each with the last cell of its row: the variables."""
    rows = re.findall(r"^\| `(\w+/\w+\.sql)`.*\|([^|]*)\|$", text_of("README.md"), re.MULTILINE)
    assert len(rows) == len({name for name, _ in rows}), "a file stands in two rows"
    return {name: cell.strip() for name, cell in rows}


FOLDERS = {"common", "container", "doctor", "initiator", "link", "observe", "reset", "server", "target"}


def test_scripts_lie_in_the_known_folders():
    assert {script.split("/")[0] for script in SCRIPTS} <= FOLDERS


@each_script
def test_a_script_is_clean_text(script):
    raw = (SQL / script).read_bytes()
    assert not raw.startswith(b"\xef\xbb\xbf"), "byte order mark"
    assert b"\r" not in raw
    assert b"\t" not in raw
    assert raw.endswith(b"\n") and not raw.endswith(b"\n\n")
    assert not re.search(rb" +$", raw, re.MULTILINE), "trailing blanks"
    raw.decode("ascii")


@each_script
def test_a_head_says_purpose_caller_assumptions_and_variables(script):
    fields, _ = split(script)
    expected = ["Purpose", "Called by", "Assumes", "Variables"]
    assert list(fields)[:4] == expected
    assert all(fields[name] for name in expected)


@each_script
def test_a_head_lists_the_variables_in_use_and_no_others(script):
    fields, body = split(script)
    variables = re.sub(r"\([^()]*(?:\([^()]*\)[^()]*)*\)", "", fields["Variables"])
    documented = set() if variables.strip() == "none" else set(re.findall(r"\w+", variables))
    assert documented == set(VARIABLE.findall(body))


@each_script
def test_a_head_holds_no_variable_reference(script):
    """sqlcmd substitutes inside comments too, and would send a password along with the head."""
    fields, _ = split(script)
    assert not any(VARIABLE.search(value) for value in fields.values())


@pytest.mark.parametrize("script", [script for script in SCRIPTS if script.startswith("observe/")])
def test_an_observation_is_one_batch_with_documented_columns(script):
    fields, body = split(script)
    assert fields["Columns"]
    assert not re.search(r"^\s*GO\b", body, re.MULTILINE | re.IGNORECASE)
    assert body.count(";") == 1 and body.endswith(";\n")
    for column in re.findall(r"\bAS (\w+)(?=,|\nFROM)", body.rpartition("\nSELECT")[2]):
        assert re.search(rf"\b{column}\b", fields["Columns"]), column


@pytest.mark.parametrize("script", [script for script in SCRIPTS if not script.startswith("observe/")])
def test_every_batch_ends_with_a_semicolon_and_go(script):
    _, body = split(script)
    assert body.endswith("\nGO\n")
    for batch in re.split(r"^GO\n", body, flags=re.MULTILINE)[:-1]:
        assert batch.rstrip().endswith(";"), batch


@each_script
def test_a_script_that_stops_execution_resumes_it(script):
    _, body = split(script)
    settings = re.findall(r"SET NOEXEC (ON|OFF);", body)
    assert settings == ["ON", "OFF"] * (len(settings) // 2)


def test_no_password_is_written_down():
    for script in SCRIPTS:
        _, body = split(script)
        for value in re.findall(r"PASSWORD = N?'([^']*)'", body):
            assert VARIABLE.fullmatch(value), script


def test_the_readme_lists_the_files_there_are():
    assert sorted(listed_in_readme()) == SCRIPTS


@each_script
def test_the_readme_names_the_variables_of_each_file(script):
    _, body = split(script)
    assert set(re.findall(r"\w+", listed_in_readme()[script])) == set(VARIABLE.findall(body))
