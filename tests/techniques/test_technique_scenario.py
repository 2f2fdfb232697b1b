"""The scenario file: its steps, and the errors of an invalid file."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.matrix import Cell
from harness.techniques.technique_scenario import DEFAULT, read, turns
from harness.toml_file import TomlError
from harness.whitepaper import MAX_QUEUE_READERS, RECEIVE_TIMEOUT_MS, RECEIVE_TOP, TRICK_DIALOG_RATIO

LADDER = ["dialog_per_message", "reuse", "receive_top_n", "activation_life", "readers_per_core", "trick_150"]
WARNINGS = [
    "baseline",
    "receive_top_1",
    "short_activation_life",
    "few_readers",
    "single_conversation",
    "one_message_per_conversation",
    "cold",
]


def differences(one: dict[str, object], other: dict[str, object]) -> set[str]:
    return {name for name in one if one[name] != other[name]}


def test_the_scenario_has_the_keys_that_name_the_rows_of_tables() -> None:
    scenario = read()
    assert [one.key for one in scenario.techniques if one.kind == "ladder"] == LADDER
    assert [one.key for one in scenario.techniques if one.kind == "warning"] == WARNINGS
    assert all(one.title and one.paper for one in scenario.techniques)


def test_each_step_differs_in_one_setting_from_the_step_it_is_compared_with() -> None:
    techniques = {one.key: one for one in read().techniques}
    changed = {
        one.key: differences(one.arrangement.model_dump(), techniques[one.compared_with].arrangement.model_dump())
        for one in techniques.values()
        if one.compared_with
    }
    assert changed == {
        "reuse": {"conversations"},
        "receive_top_n": {"receive_top"},
        "activation_life": {"receive_timeout_ms"},
        "readers_per_core": {"max_queue_readers"},
        "trick_150": {"dialog_ratio"},
        "receive_top_1": {"receive_top"},
        "short_activation_life": {"receive_timeout_ms"},
        "few_readers": {"max_queue_readers"},
        "single_conversation": {"conversations"},
        "one_message_per_conversation": {"conversations", "dialog_ratio"},  # there are no dialogs to choose from
        "cold": {"warm_up"},
    }
    assert {one.compared_with for one in techniques.values() if one.kind == "warning"} == {None, "baseline"}


def test_the_ladder_ends_with_the_papers_settings() -> None:
    techniques = {one.key: one for one in read().techniques}
    top = techniques["trick_150"].arrangement
    assert top == techniques["baseline"].arrangement
    assert (top.receive_top, top.receive_timeout_ms, top.max_queue_readers) == (
        RECEIVE_TOP,
        RECEIVE_TIMEOUT_MS,
        MAX_QUEUE_READERS,
    )
    assert (top.dialog_ratio, top.conversations, top.warm_up) == (TRICK_DIALOG_RATIO, "one_per_thread", True)


def test_every_technique_runs_once_before_any_runs_twice() -> None:
    scenario = read()
    ran = turns(scenario, version="2008", repeats=2)
    assert [turn.id for turn in ran[:2]] == ["dialog_per_message", "reuse"]
    assert [turn.block for turn in ran] == [1] * 13 + [2] * 13
    assert len({(turn.id, turn.block) for turn in ran}) == len(ran)
    assert ran[5].cell == Cell("2008", 3, 150, 50, 100)


@pytest.mark.parametrize(
    "before, after, complaint",
    [
        ("[load]", "[lode]", "lode: unknown key; nearest: load"),
        ("threads = 50", "threads = 0", "load.threads: 0: input should be greater than or equal to 1"),
        (
            'settle = "80s"',
            'settle = "soon"',
            "times.sqlserver.settle: invalid duration 'soon': write 500ms, 30s, 2m or 1h",
        ),
        (
            "receive_top = 10000",
            "recieve_top = 10000",
            "ladder-3.recieve_top: unknown key; nearest: receive_top",
        ),
        ("max_queue_readers = 16", "max_queue_readers = 0", "ladder-5.max_queue_readers: 0: input should"),
        ('technique = "cold"', 'technique = "reuse"', "technique: two steps are named 'reuse': rename one"),
        ("[load]", "[load", "not valid TOML: expected ']'"),
    ],
)
def test_a_mistake_in_a_file_is_one_line_with_its_place(
    tmp_path: Path, before: str, after: str, complaint: str
) -> None:
    path = tmp_path / "my.toml"
    text = DEFAULT.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))
    with pytest.raises(TomlError) as error:
        read(path)
    assert str(error.value).startswith("my.toml, line ") and complaint in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TomlError, match=r"there is no scenario file .*none\.toml"):
        read(tmp_path / "none.toml")
