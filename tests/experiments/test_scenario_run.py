"""Runs of a scenario: what is refused, what is written, and where the table goes."""

import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from harness import cli
from harness.definitions.lab_kinds import EMBEDDED
from harness.experiments import lab_choice, scenario_run, techniques_table, virtual_lab
from harness.experiments.scenario_run import OtherLab
from harness.experiments.technique_scenario import DEFAULT, ScenarioError, Turn, read, turns
from harness.failures import UsageFailure
from harness.files import journal
from harness.files.records import NotWritable
from harness.files.settings import SettingsError, SimulationSettings
from harness.output.reporting import Reporter
from harness.run import in_process, run_folder
from harness.run.attempt import Measured
from harness.run.cell_failures import CellFailed
from harness.run.equipment import Preflight
from harness.run.phases import Phases
from harness.run.run_folder import NoRun, ResumeRefused
from harness.run.under_way import Outcome
from harness.simulation import parameters
from tests.experiments.raw import write_raw
from tests.noting import NotingReporter
from tests.results_fixture import write_manifest

STEPS = [technique.key for technique in read().techniques]
ORDER = [turn.id for turn in turns(read(), version="2008", repeats=1, seed=1)]  # of a block
SERVERS = ("[target]", *3 * ["[[initiator]]"])

Trouble = Callable[[str, int], None]


class FakeTestbed(in_process.Testbed[Turn]):
    """Every step leaves the same records at once; `trouble` may raise for (turn, attempt)."""

    def __init__(self, results: Path, trouble: Trouble) -> None:
        self._results = results
        self._trouble = trouble

    def run(self, cell: Turn, attempt: int, run: int, phases: Phases) -> Measured:
        self._trouble(cell.id, attempt)
        write_raw(self._results, cell, attempt=attempt)
        return Measured(sent_per_s=10, processed_per_s=9, sent=20, window_s=1, columns={})


def fake(monkeypatch: pytest.MonkeyPatch, trouble: Trouble = lambda turn, attempt: None) -> list[float]:
    """Replace the simulated lab by a fake; return the drain times that it gets, in seconds."""
    drains: list[float] = []

    def testbed(
        settings: SimulationSettings, hardware: Any, results: Path, *, workload: Any, load_of: Any
    ) -> FakeTestbed:
        drains.append(settings.drain)
        return FakeTestbed(results, trouble)

    monkeypatch.setattr(virtual_lab, "VirtualTestbed", testbed)
    return drains


def failing(turn: str, *attempts: int, error: BaseException) -> Trouble:
    def trouble(id: str, attempt: int) -> None:
        if id == turn and attempt in attempts:
            raise error

    return trouble


def is_down(turn: str, attempt: int) -> None:
    raise CellFailed("the target is down")


def climb(
    tmp_path: Path,
    lab: str,
    *,
    scenario_file: Path | None = None,
    add_to: Path | None = None,
    reporter: Reporter | None = None,
    resume: Path | None = None,
    **options: Any,
) -> Outcome:
    return scenario_run.run(
        options if resume else {"lab": lab, "results": tmp_path / "runs", **options},
        reporter or Reporter(),
        scenario_file=scenario_file,
        add_to=add_to,
        resume=resume,
    )


def a_run(folder: Path, lab: str, **more: Any) -> Path:
    write_manifest(folder, lab=lab, **more)
    return folder


def paper(**changed: float) -> dict[str, dict[str, Any]]:
    model = parameters.read("paper").as_manifest()
    return model | {name: model[name] | {"value": value, "source": "elsewhere"} for name, value in changed.items()}


def techniques_in(results: Path) -> Sequence[str]:
    return list(pd.read_parquet(results / "reduced" / "techniques.parquet").technique)


# What is refused


def test_the_table_of_one_lab_does_not_go_into_the_run_of_another(tmp_path: Path) -> None:
    other = a_run(tmp_path / "other", "sqlserver")
    with pytest.raises(OtherLab, match="a run on the sqlserver lab, but this run is on the embedded lab"):
        climb(tmp_path, "embedded", add_to=other)
    assert not (tmp_path / "runs").exists()


def test_the_table_of_one_model_does_not_go_into_the_run_of_another(tmp_path: Path) -> None:
    other = a_run(tmp_path / "other", "simulated", model=paper(**{"client.round_trip_us": 7.0}))
    with pytest.raises(OtherLab, match=r"another model: client.round_trip_us is 7.0 there and 300.0 here \(--hardware"):
        climb(tmp_path, "simulated", add_to=other)
    assert not (tmp_path / "runs").exists()


def test_servers_that_turn_out_to_be_embedded_are_refused_before_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Opening(FakeTestbed):
        def __init__(self, topology: Any, preflight: Preflight, load_of: Any) -> None:
            super().__init__(preflight.results, lambda turn, attempt: pytest.fail("it was measured"))
            self._preflight = preflight

        def make_ready(self, cell: Turn, phases: Phases) -> None:
            self._preflight.examine(SimpleNamespace(version="2022", kind=EMBEDDED))  # type: ignore[arg-type]

    def examine(preflight: Preflight, lab: Any, cells: Any) -> None:
        run_folder.write_manifest(preflight.results, run_folder.read_manifest(preflight.results) | {"lab": "embedded"})

    monkeypatch.setattr(lab_choice, "LabTestbed", Opening)
    monkeypatch.setattr(Preflight, "_examine_anew", examine)
    servers = "".join(f'{head}\nhost = "s{number}.example"\nuser = "u"\n' for number, head in enumerate(SERVERS))
    (tmp_path / "lab.toml").write_text(f'version = "2022"\n{servers}')
    other = a_run(tmp_path / "other", "sqlserver")
    with pytest.raises(OtherLab, match="a run on the sqlserver lab, but this run is on the embedded lab"):
        climb(tmp_path, "sqlserver", lab_file=tmp_path / "lab.toml", add_to=other)
    assert not (other / "reduced").exists()


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoRun):
        climb(tmp_path, "embedded", add_to=tmp_path / "none")


def test_a_scenario_without_times_for_virtual_time_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(DEFAULT.read_text().replace("[times.simulated]", "[times.elsewhere]"))
    with pytest.raises(ScenarioError, match="no times for the lab simulated"):
        climb(tmp_path, "simulated", scenario_file=path)


@pytest.mark.parametrize(
    "changes, complaint",
    [
        ("client.messages_per_transaction = 10", "cold: on the lab simulated clients neither .* choose another --lab"),
        ("client.direct_rpc = true", "cold: on the lab simulated calls cost the same however the driver makes them"),
        ('client.think_time = "1ms"', "cold: on the lab simulated clients neither pause"),
        ("target.store_in_order = false", "cold: on the lab simulated targets neither .* or without ORDER BY: choose"),
        ('target.tables = "heap"', "cold: on the lab simulated targets neither .* choose another --lab"),
        ('workload = "fan-in"', "cold: on the lab simulated readers are launched .* choose another"),
        ('client.parameters = ["handle", "body", "Region"]', "'Region' is not valid"),
        ('client.values = {Region = "north"}', "warnings-7.client.values.Region: no parameter"),
    ],
)
def test_what_the_model_cannot_do_is_refused_in_virtual_time(tmp_path: Path, changes: str, complaint: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(DEFAULT.read_text().replace("warm_up = false", changes))
    with pytest.raises(UsageFailure, match=complaint):
        climb(tmp_path, "simulated", scenario_file=path)


def test_options_of_servers_are_refused_in_virtual_time(tmp_path: Path) -> None:
    with pytest.raises(UsageFailure, match="driver"):
        climb(tmp_path, "simulated", driver="freetds")


def test_options_of_the_model_are_refused_on_servers(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--hardware has no effect on servers"):
        climb(tmp_path, "embedded", hardware="paper")


def test_a_misspelt_lab_is_refused_with_the_valid_names(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--lab: unknown lab 'simulatd'; nearest: simulated"):
        climb(tmp_path, "simulatd")
    with pytest.raises(SettingsError, match="valid: sqlserver, embedded, simulated"):
        climb(tmp_path, "x")


@pytest.mark.parametrize("given", ["soon", "0s"])
def test_an_invalid_drain_is_refused(tmp_path: Path, given: str) -> None:
    with pytest.raises(SettingsError, match=f"--drain: .*{given[:-1]}"):
        climb(tmp_path, "simulated", drain=given)


# Calls of the lab


@pytest.mark.parametrize("given, expected", [(None, 600.0), ("3s", 3.0)])
def test_the_scenario_or_the_user_decides_how_long_virtual_time_drains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None, expected: float
) -> None:
    drains = fake(monkeypatch, is_down)
    outcome = climb(tmp_path, "simulated", drain=given)
    assert drains == [expected]
    assert run_folder.read_manifest(outcome.results)["settings"]["drain"] == expected


# What is kept


def test_the_table_goes_into_the_folder_of_a_run_on_the_same_model_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(monkeypatch)
    other = a_run(tmp_path / "other", "simulated", model=paper(**{"client.round_trip_us": 300.0}))
    reporter = NotingReporter()
    outcome = climb(tmp_path, "simulated", add_to=other, reporter=reporter)
    assert (outcome.completed, outcome.failed) == (len(STEPS), 0)
    own = [outcome.results / name for name in ("reduced/techniques.parquet", "figures/techniques.png")]
    copied = [other / f"reduced/techniques.{ending}" for ending in ("parquet", "csv")]
    assert reporter.notes[-4:] == [f"table: {own[0]}", f"figure: {own[1]}", *(f"table: {path}" for path in copied)]
    assert copied[0].read_bytes() == own[0].read_bytes()
    assert techniques_in(other) == STEPS


def test_a_step_that_fails_twice_has_no_row_its_reason_in_the_journal_and_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(monkeypatch, failing("reuse", 1, 2, error=CellFailed("the target is down")))
    with pytest.raises(SystemExit) as end:
        cli.main(["techniques", "--lab", "simulated", "--results", str(tmp_path / "runs")])
    assert end.value.code == 1
    [results] = (tmp_path / "runs").iterdir()
    assert f"1 of 13 runs failed; reasons in {results}/journal.jsonl" in capsys.readouterr().err
    reasons = [entry.reason for entry in journal.read(results / journal.NAME) if entry.outcome == "failed"]
    assert reasons == ["the target is down"] * 2
    assert techniques_in(results) == [step for step in STEPS if step != "reuse"]
    assert (results / "figures" / "techniques.png").is_file(), "the next step is compared with one that is missing"


def test_a_run_without_a_completed_step_has_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, is_down)
    outcome = climb(tmp_path, "simulated", add_to=a_run(tmp_path / "other", "simulated", model=paper()))
    assert outcome.completed == 0
    assert not (outcome.results / "reduced").exists() and not (tmp_path / "other" / "reduced").exists()


def test_an_interrupted_run_has_table_and_figure_of_its_completed_steps_whichever_attempt_completed_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trouble(turn: str, attempt: int) -> None:
        failing(ORDER[1], 1, error=CellFailed("a moment's trouble"))(turn, attempt)
        failing(ORDER[2], 1, error=KeyboardInterrupt())(turn, attempt)

    fake(monkeypatch, trouble)
    other = a_run(tmp_path / "other", "simulated", model=paper())
    reporter = NotingReporter()
    with pytest.raises(KeyboardInterrupt):
        climb(tmp_path, "simulated", add_to=other, reporter=reporter)
    [results] = (tmp_path / "runs").iterdir()
    assert techniques_in(results) == [step for step in STEPS if step in ORDER[:2]]
    assert reporter.notes[-2:] == [
        f"table: {results}/reduced/techniques.parquet",
        f"figure: {results}/figures/techniques.png",
    ]
    assert not (other / "reduced").exists(), "it is not whole"
    begun: list[str] = []
    fake(monkeypatch, lambda turn, attempt: begun.append(turn))
    outcome = climb(tmp_path, "simulated", add_to=other, resume=results)
    assert (outcome.results, outcome.completed, begun) == (results, len(STEPS), ORDER[2:])
    assert techniques_in(results) == techniques_in(other) == STEPS


def test_a_run_is_not_resumed_with_another_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch)
    scenario = tmp_path / "mine.toml"
    scenario.write_text(DEFAULT.read_text())
    results = climb(tmp_path, "simulated", scenario_file=scenario).results
    assert climb(tmp_path, "simulated", resume=results).completed == len(STEPS)
    scenario.write_text(DEFAULT.read_text().replace("threads = 50", "threads = 49"))
    with pytest.raises(ResumeRefused, match=f"{results} cannot be resumed: the scenario {scenario} is not as it was"):
        climb(tmp_path, "simulated", resume=results)


def test_the_first_error_is_reported_if_there_is_no_room_for_a_table_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    fake(monkeypatch, failing(ORDER[1], 1, error=full))

    def no_room(results: Path, rows: Any) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device", "reduced")

    monkeypatch.setattr(techniques_table, "write", no_room)
    with pytest.raises(NotWritable, match=r"the disk is full: free some space; measured: 1 of 13 runs"):
        climb(tmp_path, "simulated")
