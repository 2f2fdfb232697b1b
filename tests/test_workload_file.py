"""Workload files: the package's, and the mistakes of a user's own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import workload_file
from harness.failures import UsageFailure
from harness.workload_file import PAPER, PRESETS

GOOD = """\
[client]
procedure = "dbo.Send"
parameters = ["handle", "body"]

[initiator]
scripts = ["send.sql"]

[target]
scripts = ["receive.sql"]
activation_procedure = "dbo.Receive"

[variables]
WorkMs = 5
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "orders"
    folder.mkdir()
    for name in ("send.sql", "receive.sql"):
        (folder / name).write_text("SELECT 1;\n")
    (folder / "workload.toml").write_text(GOOD)
    return folder


@pytest.mark.parametrize("name", PRESETS)
def test_a_workload_of_the_package_names_what_it_is_for(name: str) -> None:
    found = workload_file.read(name)
    assert found.name == name
    assert found.about.endswith(".")
    assert not found.folder.is_absolute(), "a manifest is the same on every machine"


def test_the_papers_numbers_are_the_default() -> None:
    target = workload_file.read(PAPER).target
    assert (target.receive_top, target.receive_timeout_ms, target.max_queue_readers) == (10_000, 3000, 16)


def test_a_folder_and_its_file_are_the_same_workload(folder: Path) -> None:
    found = workload_file.read(str(folder))
    assert found == workload_file.read(str(folder / "workload.toml"))
    assert found.name == "orders"
    assert found.client.call == "{CALL dbo.Send (?, ?)}"
    assert found.initiator_scripts == [str(folder / "send.sql")]


def test_a_changed_script_makes_another_workload(folder: Path) -> None:
    before = workload_file.read(str(folder))
    (folder / "receive.sql").write_text("SELECT 2;\n")
    assert workload_file.read(str(folder)) != before


MISTAKES = [
    ('procedure = "dbo.Send"', 'procedur = "dbo.Send"', "line 2: client.procedur: unknown key; nearest: procedure"),
    (
        'procedure = "dbo.Send"',
        'procedure = "Send"',
        "line 2: client.procedure: not a procedure with its schema",
    ),
    ('["handle", "body"]', '["handle"]', "line 3: client.parameters: .*name body among the parameters"),
    ('["handle", "body"]', '["body"]', "line 3: client.parameters: .*name handle, or broker_instance"),
    ('["handle", "body"]', '["handle", "body", "body"]', "line 3: client.parameters: .*a parameter is named twice"),
    ('["handle", "body"]', '["handle", "bodi"]', "line 3: client.parameters-2: 'bodi' is not valid; nearest: body"),
    ('["send.sql"]', '["sent.sql"]', "line 6: initiator.scripts-1: sent.sql: No such file or directory"),
    ('scripts = ["receive.sql"]', "scripts = []", "line 9: target.scripts: "),
    ('activation_procedure = "dbo.Receive"', "", "target.activation_procedure: missing"),
    ("WorkMs = 5", "ReceiveTop = 5", "line 12: variables: the variable ReceiveTop belongs to the lab"),
    ("WorkMs = 5", 'WorkMs = "it\'s"', "line 13: variables.WorkMs.*: .*no apostrophe"),
]


@pytest.mark.parametrize("old, new, words", MISTAKES)
def test_a_mistake_is_one_line_with_file_and_line(folder: Path, old: str, new: str, words: str) -> None:
    file = folder / "workload.toml"
    assert old in GOOD
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(UsageFailure) as raised:
        workload_file.read(str(folder))
    assert re.search(f"^workload.toml, {words}" if words.startswith("line") else words, str(raised.value)), raised.value
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "name, words",
    [
        ("papr", "nearest: paper"),
        ("nowhere/at/all", "unknown workload"),
        ("mine.toml", "name the folder of a workload.toml"),
    ],
)
def test_an_unknown_name_names_the_nearest(name: str, words: str) -> None:
    with pytest.raises(UsageFailure, match=words):
        workload_file.read(name)


def test_a_folder_without_a_workload_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageFailure, match="there is no workload file"):
        workload_file.read(str(tmp_path))
