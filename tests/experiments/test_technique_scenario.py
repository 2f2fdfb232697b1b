"""The scenario file: its steps, and the errors of an invalid file."""

import itertools
from pathlib import Path

import pytest

from harness.definitions.matrix import Cell
from harness.definitions.whitepaper import MAX_QUEUE_READERS, RECEIVE_TIMEOUT_MS, RECEIVE_TOP, TRICK_DIALOG_RATIO
from harness.experiments.technique_scenario import DEFAULT, VARIANTS, ScenarioError, Technique, read, turns
from harness.files import workload_file
from harness.files.toml_file import TomlError

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


def settings(technique: Technique) -> dict[str, object]:
    """All that a step can change, with a key for each table of its workload and for each key of its target."""
    arrangement = technique.arrangement.model_dump()
    workload = arrangement.pop("workload")
    target = {f"target.{key}": value for key, value in workload.pop("target").items()}
    return arrangement | workload | target


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
        one.key: differences(settings(one), settings(techniques[one.compared_with]))
        for one in techniques.values()
        if one.compared_with
    }
    assert changed == {
        "reuse": {"client"},
        "receive_top_n": {"target.receive_top"},
        "activation_life": {"target.receive_timeout_ms"},
        "readers_per_core": {"target.max_queue_readers"},
        "trick_150": {"dialog_ratio"},
        "receive_top_1": {"target.receive_top"},
        "short_activation_life": {"target.receive_timeout_ms"},
        "few_readers": {"target.max_queue_readers"},
        "single_conversation": {"conversations"},
        "one_message_per_conversation": {"client", "dialog_ratio"},  # there are no dialogs to choose from
        "cold": {"warm_up"},
    }
    assert {one.compared_with for one in techniques.values() if one.kind == "warning"} == {None, "baseline"}


def test_the_ladder_ends_with_the_papers_settings() -> None:
    techniques = {one.key: one for one in read().techniques}
    top = techniques["trick_150"].arrangement
    assert top == techniques["baseline"].arrangement
    assert top.workload == workload_file.paper()
    target = top.workload.target
    assert (target.receive_top, target.receive_timeout_ms, target.max_queue_readers) == (
        RECEIVE_TOP,
        RECEIVE_TIMEOUT_MS,
        MAX_QUEUE_READERS,
    )
    assert (top.dialog_ratio, top.conversations, top.warm_up) == (TRICK_DIALOG_RATIO, "one_per_thread", True)


def test_each_variant_differs_in_one_setting_from_the_papers_set_up() -> None:
    scenario = read(Path("variants"))
    baseline, *variants = scenario.techniques
    assert {one.kind for one in scenario.techniques} == {"variant"}
    assert [baseline.compared_with, *{one.compared_with for one in variants}] == [None, baseline.key]
    assert {one.key: differences(settings(one), settings(baseline)) for one in variants} == {
        "heaps": {"target.tables"},
        "unordered": {"target.store_in_order"},
        "as_caller": {"client"},
        "direct_rpc": {"client"},
        "retention": {"queue"},
        "batch": {"batch"},
        "outside_readers": {"outside_readers"},
    }
    of_paper = {one.key: settings(one) for one in read().techniques}["baseline"]
    assert differences(settings(baseline), of_paper) == {
        "name",
        "folder",
        "about",
        "digests",
        "initiator",
        "target.scripts",
    }


def test_every_technique_runs_once_before_any_runs_twice() -> None:
    scenario = read()
    ran = turns(scenario, version="2008", repeats=2, seed=1)
    assert [turn.block for turn in ran] == [1] * 13 + [2] * 13
    assert len({(turn.id, turn.block) for turn in ran}) == len(ran)
    assert {turn.id: turn.cell for turn in ran}["trick_150"] == Cell("2008", 3, 150, 50, 100)
    orders = [[turn.id for turn in ran[:13]], [turn.id for turn in ran[13:]]]
    assert orders[0] != orders[1] != [technique.key for technique in scenario.techniques]
    assert (
        ran == turns(scenario, version="2008", repeats=2, seed=1) != turns(scenario, version="2008", repeats=2, seed=2)
    )


def test_steps_on_the_same_dialogs_follow_one_another() -> None:
    for scenario in (read(), read(VARIANTS)):
        ran = turns(scenario, version="2008", repeats=1, seed=1)
        built = [
            pool
            for before, turn in itertools.pairwise([None, *ran])
            for pool in [turn.arrangement.pool(turn.cell)]
            if before is None or before.arrangement.spends_its_dialogs or before.arrangement.pool(before.cell) != pool
        ]
        spent = sum(turn.arrangement.spends_its_dialogs for turn in ran)
        assert len(built) <= len(set(built)) + spent


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
            "target.receive_top = 10000",
            "target.recieve_top = 10000",
            "ladder-3.target.recieve_top: unknown key; nearest: receive_top",
        ),
        ("dialog_ratio = 150", "dialog_ration = 150", "ladder-6.dialog_ration: unknown key"),
        ("max_queue_readers = 16", "max_queue_readers = 0", "ladder-5.target.max_queue_readers: 0: input should"),
        ('workload = "paper"', 'workload = "papr"', "workload: unknown workload 'papr'; nearest: paper"),
        ("warm_up = false", 'workload = "fan-out"', "warnings-7.workload: unknown workload 'fan-out'"),
        ("warm_up = false", "dialogs.priority = 7", "warnings-7.dialogs: belongs to the lab: all steps must have"),
        ("warm_up = false", 'target.scripts = ["x.sql"]', "warnings-7: other scripts or files are another workload"),
        ("warm_up = false", 'body.template = "x.json"', "warnings-7: other scripts or files are another workload"),
        (
            "warm_up = false",
            'conversations = "two"',
            "warnings-7.conversations: 'two' is not valid; valid: one, one_per_thread",
        ),
        ('technique = "cold"', 'technique = "reuse"', "technique: two steps are named 'reuse': rename one"),
        ("[[ladder]]", "[[rungs]]", "rungs: unknown key"),
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


def test_a_step_may_name_another_workload_and_change_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(DEFAULT.read_text().replace("warm_up = false", 'workload = "fan-in"\nvariables.WorkMs = 7'))
    [*_, before, last] = [one.arrangement.workload for one in read(path).techniques]
    fan_in = workload_file.read("fan-in")
    assert (last.name, last.variables, last.client, last.target) == (
        "fan-in",
        {"WorkMs": 7},
        fan_in.client,
        fan_in.target,
    )
    assert before.name == "paper"


def test_a_misspelt_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ScenarioError, match="unknown scenario 'variant'; nearest: variants; or name a TOML file"):
        read(Path("variant"))


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TomlError, match=r"there is no scenario file .*none\.toml"):
        read(tmp_path / "none.toml")
