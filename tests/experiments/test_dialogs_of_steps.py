"""Which dialogs exist when a step begins: on servers, without a lab, and in virtual time."""

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.definitions.lab_kinds import EMBEDDED
from harness.experiments.technique_scenario import DEFAULT, VARIANTS, read, turns
from harness.files import settings as settings_module
from harness.lab import dialog_pool, link
from harness.lab.instances import LabError
from harness.lab.opening import Topology
from harness.output.reporting import Reporter
from harness.run import attempt as attempts
from harness.run import testbed as testbed_module
from harness.run.cell_failures import NotReady
from harness.run.equipment import Preflight
from harness.run.phases import Phases
from harness.run.testbed import LabTestbed
from harness.simulation import parameters
from harness.simulation.simulated_lab import SimulatedLab
from harness.simulation.virtual_testbed import VirtualTestbed
from tests.run.fakes import IdleClients

TURNS = {
    turn.technique.key: turn
    for scenario in (read(VARIANTS), read())
    for turn in turns(scenario, version="2008", repeats=1, seed=1)
}

Run = Callable[[str], list[str]]


@pytest.fixture(autouse=True)
def _on_a_machine_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Preflight, "stolen_percent", lambda self: 0.0)


class FakeLab:
    """Stands in for `LabEquipment` and records its calls."""

    def __init__(self, asked: list[str]) -> None:
        self.asked = asked
        self.parts: Any = None

    def open(self, version: str, initiators: int) -> Any:
        self.asked.append("open")
        self.parts = SimpleNamespace(lab=None, initiators=[])
        return self.parts

    def without_conversations(self) -> Any:
        self.asked.append("end all")
        return self.parts

    def close(self) -> None:
        self.parts = None


@pytest.fixture
def testbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabTestbed:
    asked: list[str] = []

    def build(lab: Any, *, initiators: int, dialogs: int, warm_up: bool, used: object) -> None:
        asked.append(f"build {dialogs}{'' if warm_up else ', cold'}")

    monkeypatch.setattr(testbed_module, "locust_clients", lambda preflight: IdleClients())
    monkeypatch.setattr(testbed_module, "LabEquipment", lambda *_, **__: FakeLab(asked))
    monkeypatch.setattr(dialog_pool, "build", build)
    monkeypatch.setattr(link, "change_workload", lambda lab, workload: None)
    monkeypatch.setattr(link, "retain", lambda lab, *, retention: None)
    monkeypatch.setattr(attempts, "sending_of", lambda lab, initiators, cell, arrangement: None)
    monkeypatch.setattr(attempts, "run", lambda attempt, equipment, phases: None)
    settings = settings_module.create({"lab": "embedded"}, environment={})
    cells = [turn.cell for turn in TURNS.values()]
    return LabTestbed(Topology(EMBEDDED), Preflight(settings, cells, tmp_path, Reporter()))


@pytest.fixture
def run(testbed: LabTestbed) -> Run:
    """Make ready for a step and run it; return the calls of the lab."""

    def run(key: str) -> list[str]:
        asked: list[str] = testbed._stages["2008"].equipment.asked  # type: ignore[attr-defined]
        asked.clear()
        testbed.make_ready(TURNS[key], Phases())
        testbed.run(TURNS[key], 1, 1, Phases())
        return list(asked)

    return run


def test_the_first_step_finds_a_lab_without_conversations(run: Run) -> None:
    assert run("dialog_per_message") == ["open"]


def test_steps_that_need_the_same_dialogs_share_them(run: Run) -> None:
    assert run("reuse") == ["open", "build 50"]
    assert run("receive_top_n") == run("readers_per_core") == []


def test_new_dialogs_are_built_after_all_others_have_ended(run: Run) -> None:
    run("reuse")
    assert run("trick_150") == ["end all", "build 7500"]
    assert run("single_conversation") == ["end all", "build 150"]


def test_conversations_of_a_step_end_before_the_next_step(run: Run) -> None:
    run("dialog_per_message")
    assert run("one_message_per_conversation") == ["end all"]
    assert run("reuse") == ["end all", "build 50"]


def test_cold_dialogs_are_not_used_a_second_time(run: Run) -> None:
    run("trick_150")
    assert run("cold") == run("cold") == ["end all", "build 7500, cold"]
    assert run("baseline") == ["end all", "build 7500"]


def test_messages_that_queues_retain_end_with_their_conversations_once_the_queues_do_not_retain_them(
    testbed: LabTestbed, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = testbed._stages["2008"].equipment.asked  # type: ignore[attr-defined]
    monkeypatch.setattr(link, "retain", lambda lab, *, retention: asked.append(f"retain: {retention}"))
    assert run("heaps") == ["open", "retain: False", "build 7500"]
    assert run("retention") == ["retain: True"]
    assert run("unordered") == ["retain: False", "end all", "build 7500"]


def test_activation_stops_for_a_step_in_batch_alone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[str] = []
    monkeypatch.setattr(link, "stop_activation", lambda lab: stopped.append("stopped"))
    run("batch")
    assert stopped == ["stopped"]
    run("heaps")
    assert stopped == ["stopped"]


def test_a_lab_that_was_torn_down_has_no_dialogs(run: Run, testbed: LabTestbed) -> None:
    run("reuse")
    testbed.tear_down()
    assert run("reuse") == ["open", "build 50"]


@pytest.mark.parametrize("before", ["reuse", None])
def test_after_dialogs_could_not_be_built_all_are_ended_and_built_again(
    run: Run, testbed: LabTestbed, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    if before:
        run(before)

    def fail(lab: Any, **_: Any) -> None:
        raise LabError("it is slow")

    with monkeypatch.context() as patched:
        patched.setattr(dialog_pool, "build", fail)
        with pytest.raises(NotReady, match="it is slow"):
            testbed.make_ready(TURNS["trick_150"], Phases())
    assert run("reuse") == ["end all", "build 50"]


def test_a_world_is_freed_when_a_step_needs_other_dialogs(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    text = DEFAULT.read_text().replace("initiators = 3", "initiators = 1").replace("threads = 50", "threads = 2")
    path.write_text(text)
    settings = settings_module.create_simulation({}, environment={})
    testbed = VirtualTestbed(settings, parameters.read("paper"), tmp_path, workload=read(path).workload)
    worlds = []
    steps = {turn.id: turn for turn in turns(read(path), version="2008", repeats=1, seed=1)}
    for key in ("dialog_per_message", "reuse", "receive_top_n"):
        testbed.make_ready(steps[key], Phases())
        assert isinstance(testbed._world, SimulatedLab)
        worlds.append(weakref.ref(testbed._world.world))
    first, second, third = (world() for world in worlds)
    assert first is None, "no dialogs of its own"
    assert second is third is not None
    gc.unfreeze()
