"""`make lint` reports a file that breaks a rule."""

import subprocess

import pytest

from tests import source_rules

BAD_SCRIPT = """/*
Purpose: breaks the rules.
Called by: nobody.
Assumes: nothing.
Variables: Other.
*/
SET NOEXEC ON;
CREATE LOGIN x WITH PASSWORD = N'secret';\t
SELECT $(Name)
GO
"""
BAD_MODULE = """import time
now = time.time()
app = Flask(__name__)
is_embedded = lab == "embedded" or lab.kind is EMBEDDED
found = [one for one in app]
"""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    script = tmp_path / "sql" / "link" / "bad.sql"
    module = tmp_path / "harness" / "embedded" / "bad.py"
    stray = tmp_path / "sql" / "workloads" / "stray.sql"
    for path, text in ((script, BAD_SCRIPT), (module, BAD_MODULE), (stray, BAD_SCRIPT)):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    for command in ("init", "add harness"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, capture_output=True, check=True)
    monkeypatch.setattr(source_rules, "ROOT", tmp_path)
    monkeypatch.setattr(source_rules, "SQL", tmp_path / "sql")
    monkeypatch.setattr(source_rules, "SCRIPTS", [script])
    monkeypatch.setattr(source_rules, "MODULES", [module])
    monkeypatch.setattr(source_rules, "LINES_MAX", {"harness": 4})
    monkeypatch.setattr(source_rules, "TOP_LEVEL", {"sql"})


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (source_rules.total_of_lines, ["harness/: 5 lines of Python, more than 4"]),
        (source_rules.top_level, ["harness: git keeps it, and it does not belong at the top"]),
        (source_rules.names_that_are_bare_words, ["40.00 % of names are bare words"]),
        (source_rules.names_that_nothing_uses, ["nothing uses now", "nothing uses is_embedded", "nothing uses found"]),
        (source_rules.real_time_in_the_embedded_broker, ["time: take time"]),
        (source_rules.names_of_labs, ["compares a lab with EMBEDDED", "names the lab embedded"]),
        (source_rules.pages_without_their_guard, ["without harness.load.pages.guard"]),
        (source_rules.text_of_scripts, ["tabs"]),
        (source_rules.heads_of_scripts, ["names the variables"]),
        (source_rules.bodies_of_scripts, ["semicolon", "without OFF", "password"]),
        (source_rules.scripts_of_workloads, ["no workload.toml names it"]),
    ],
)
def test_a_rule_reports_what_breaks_it(rule, said):
    lines = list(rule())
    assert len(lines) == len(said)
    assert all(words in line for words, line in zip(said, lines, strict=True))


def test_every_rule_is_tried_here():
    [mark] = [mark for mark in test_a_rule_reports_what_breaks_it.pytestmark if mark.name == "parametrize"]
    assert [rule for rule, _ in mark.args[1]] == list(source_rules.RULES)
