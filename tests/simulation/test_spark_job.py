"""The Spark job over cells, with fake worlds: cells, workers and journal entries."""

import os
import re
import signal
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.definitions.matrix import Cell, Visit
from harness.experiments import matrix_run
from harness.failures import UsageFailure
from harness.files import journal
from harness.files.journal import Entry
from harness.files.records import State
from harness.files.settings import SimulationSettings
from harness.output.reporting import Lines, Reporter
from harness.reductions.spark_session import context
from harness.run import in_process, run_folder
from harness.run.attempt import Measured
from harness.run.cell_failures import CellFailed
from harness.run.phases import Phases
from harness.run.under_way import Outcome
from harness.simulation import parameters, spark_job
from harness.simulation.simulated_cell import WorldSize
from harness.simulation.spark_job import Experiment, JobBroken, Mailbox, MakeTestbed, PlannedAttempt, cell_work_s
from tests.results_fixture import quick_cells

CELLS = ("i1-t1-r1-p100-v2005", "i1-t1-r150-p100-v2005", "i1-t2-r1-p100-v2005", "i1-t2-r150-p100-v2008")
pytestmark = pytest.mark.spark


def fake_world(on_cell: Callable[[Cell], None] = lambda cell: None, in_doubt: Collection[int] = ()) -> MakeTestbed:
    """Fake the worlds: their cells do what `on_cell` does, and are in doubt in some attempts. Pickled by value, as
    workers cannot import test modules."""

    class FakeTestbed(in_process.Testbed[Visit]):
        def __init__(self, experiment: Experiment) -> None:
            self._built = experiment.results / "built"

        def make_ready(self, cell: Visit, phases: Phases) -> None:
            with self._built.open("a") as built:
                built.write(f"{cell.cell.server_version}\n")

        def run(self, cell: Visit, attempt: int, run: int, phases: Phases) -> Measured:
            on_cell(cell.cell)
            state = State.UNSETTLED if attempt in in_doubt else State.VALID
            return Measured(float(os.getpid()), 10.0 * cell.cell.threads, 20, 1.0, {}, state=state)

    return FakeTestbed


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    settings = SimulationSettings(settle=0.5, measure=1.0)
    return Experiment(settings, parameters.read("paper"), tmp_path, WorldSize(((1, 50), (150, 50)), 3))


def attempts(*cells: str) -> list[PlannedAttempt]:
    return [PlannedAttempt(Visit(cell), 1, cell_work_s(cell, 1.5)) for cell in map(Cell.parse, cells)]


def run_job(experiment: Experiment, make_testbed: MakeTestbed, *cells: str) -> list[Entry]:
    entries: list[Entry] = []
    spark_job.run(experiment, attempts(*cells), master="local[2]", make_testbed=make_testbed, on_entry=entries.append)
    return entries


@pytest.fixture(scope="module", autouse=True)
def _one_context_for_all(warm_spark: None) -> Iterator[None]:
    with context("local[2]", spark_job.SPARK):
        yield


def test_every_cell_runs_in_the_world_of_its_group(experiment: Experiment) -> None:
    entries = run_job(experiment, fake_world(), *CELLS)
    assert {entry.cell: entry.processed_per_s for entry in entries} == dict(
        zip(CELLS, (10.0, 10.0, 20.0, 20.0), strict=True)
    )
    assert {(entry.outcome, entry.attempt, entry.run) for entry in entries} == {("completed", 1, 1)}
    built = (experiment.results / "built").read_text().split()
    assert set(built) == {"2005", "2008"}
    assert [path.name for path in experiment.results.iterdir()] == ["built"]


@pytest.mark.parametrize("in_doubt, attempts", [((1,), 2), ((1, 2), 3), ((1, 2, 3), 3)])
def test_a_cell_in_doubt_is_measured_again_at_once(
    in_doubt: Collection[int], attempts: int, experiment: Experiment
) -> None:
    entries = run_job(experiment, fake_world(in_doubt=in_doubt), *CELLS)
    assert sorted((entry.cell, entry.attempt) for entry in entries) == [
        (cell, attempt) for cell in sorted(CELLS) for attempt in range(1, attempts + 1)
    ]
    assert len({(entry.cell, entry.sent_per_s) for entry in entries}) == len(CELLS)  # each in one process


def test_what_an_earlier_run_left_of_an_earlier_attempt_is_not_taken_again(experiment: Experiment) -> None:
    [first] = run_job(experiment, fake_world(), CELLS[0])
    Mailbox(experiment.results).put(first)
    entries: list[Entry] = []
    again = [replace(attempts(CELLS[0])[0], attempt=2)]
    spark_job.run(experiment, again, master="local[2]", make_testbed=fake_world(), on_entry=entries.append)
    assert [entry.attempt for entry in entries] == [2]


def test_a_failed_cell_is_one_line_and_our_bugs_leave_a_traceback(experiment: Experiment) -> None:
    def trip(cell: Cell) -> None:
        if cell.threads == 2:
            if cell.dialog_ratio == 1:
                raise CellFailed("the accounting\nis wrong")
            error = AssertionError("ours")
            error.add_note("noted in the copy")
            raise error

    entries = {entry.cell: entry for entry in run_job(experiment, fake_world(trip), *CELLS)}
    assert [entries[cell].outcome for cell in CELLS] == ["completed", "completed", "failed", "failed"]
    assert entries[CELLS[2]].reason == "the accounting is wrong"
    assert entries[CELLS[3]].reason == f"AssertionError: ours (traceback in tracebacks/{CELLS[3]}-b1-a1.txt)"
    [file] = (experiment.results / "tracebacks").iterdir()
    text = file.read_text(encoding="utf-8")
    assert "in trip\n" in text and text.endswith("AssertionError: ours\nnoted in the copy\n")


def test_cells_of_a_killed_worker_are_started_again(experiment: Experiment) -> None:
    victim, killed = CELLS[2], experiment.results / "killed"

    def die_once(cell: Cell) -> None:
        if cell.id == victim and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    entries = run_job(experiment, fake_world(die_once), *CELLS)
    assert killed.exists()
    assert sorted(entry.cell for entry in entries) == sorted(CELLS)
    assert {entry.outcome for entry in entries} == {"completed"}


def test_a_world_that_cannot_be_built_ends_the_job_in_one_line(experiment: Experiment) -> None:
    def make(experiment: Experiment) -> Any:
        raise ValueError("no such procedure")

    with pytest.raises(JobBroken, match=r"^Spark's Python workers failed: ValueError: no such procedure$"):
        run_job(experiment, make, *CELLS)


def test_a_machine_without_the_results_folder_ends_the_job_in_one_line(experiment: Experiment) -> None:
    elsewhere = replace(experiment, results=experiment.results / "elsewhere")
    with pytest.raises(JobBroken, match=r"/elsewhere is not there on \S+\. Name a folder that all machines .*share"):
        run_job(elsewhere, fake_world(), *CELLS)


def sweep(options: Mapping[str, object], make_testbed: MakeTestbed, reporter: Reporter, **more: Path) -> Outcome:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark_job, "virtual_testbed", make_testbed)
        outcome = matrix_run.sweep({"lab": "simulated", **options}, reporter, **more)
    assert outcome is not None
    return outcome


def simulate(results: Path, make_testbed: MakeTestbed, **options: object) -> Outcome:
    return sweep({"cells": CELLS, "results": results, "master": "local[2]", **options}, make_testbed, Reporter())


def resume(folder: Path, make_testbed: MakeTestbed, **options: object) -> Outcome:
    return sweep(options, make_testbed, Reporter(), resume=folder)


def test_a_run_leaves_the_files_of_every_run_and_says_that_it_is_a_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"matrix": "quick", "results": tmp_path, "seed": "7"}
    outcome = sweep(settings, fake_world(), Lines())
    assert (outcome.total, outcome.completed, outcome.failed) == (24, 24, 0)
    written = run_folder.read_manifest(outcome.results)
    assert (written["lab"], written["seed"], written["settings"]["hardware"]) == ("simulated", 7, "paper")
    assert written["model"]["client.round_trip_us"]["value"] == parameters.read("paper").client.round_trip_us
    assert written["finished_at"]
    assert {entry.cell for entry in journal.read(outcome.results / journal.NAME)} == {c.id for c in quick_cells()}
    lab, seed, _, *lines = capsys.readouterr().out.splitlines()
    assert lab.startswith("lab: simulated - a model of the hardware 'paper' in virtual time")
    assert seed.startswith("seed 7, ")
    first = re.fullmatch(r"cell 1 of 24: i\d-t(\d+)-r\d+-\S+ completed: .* sent/s, (\d+) processed/s", lines[0])
    assert first and int(first[2]) == 10 * int(first[1]), "the worlds of this test process ten a second and thread"
    assert re.fullmatch(r"cell 2 of 24: .* processed/s, .* left", lines[1])
    assert len(lines) == 24


def test_a_resumed_run_runs_the_missing_cells(tmp_path: Path) -> None:
    def trip(cell: Cell) -> None:
        if cell.threads == 2:
            raise CellFailed("for now")

    first = simulate(tmp_path, fake_world(trip))
    assert (first.completed, first.failed, first.reason) == (2, 2, "for now")
    # A cell whose end nobody collected: the driver was killed.
    Mailbox(first.results).put(Entry(CELLS[2], 2, "completed", "", run_folder.now(), 1))
    second = resume(first.results, fake_world())
    assert (second.total, second.completed, second.failed) == (4, 4, 0)
    entries = list(journal.read(first.results / journal.NAME))
    assert [(entry.cell, entry.attempt) for entry in entries[4:]] == [(CELLS[2], 2), (CELLS[3], 2)]


def test_pairs_whose_gain_is_precise_enough_run_in_no_further_block(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    pair = ("i1-t1-r1-p100-v2005", "i1-t1-r150-p100-v2005")
    # The worlds of this test process have no chance: after four blocks their gain is exact.
    settings = {"cells": pair, "results": tmp_path, "master": "local[2]", "repeats": "6", "precision": "10%"}
    outcome = sweep(settings, fake_world(), Lines())
    assert (outcome.total, outcome.completed, outcome.failed) == (8, 8, 0)
    entries = list(journal.read(outcome.results / journal.NAME))
    assert {(entry.cell, entry.block) for entry in entries} == {(cell, block) for cell in pair for block in range(1, 5)}
    assert "1 of 1 gains are known within 10 %." in capsys.readouterr().out


def test_a_run_is_not_resumed_with_another_seed_or_hardware(tmp_path: Path) -> None:
    first = simulate(tmp_path, fake_world())
    with pytest.raises(UsageFailure, match="seed is 1 in the run and 2 now"):
        resume(first.results, fake_world(), seed="2")
    with pytest.raises(UsageFailure, match="hardware is paper in the run and this-machine now"):
        resume(first.results, fake_world(), hardware="this-machine")
    assert resume(first.results, fake_world(), master="local[1]").completed == 4


def test_a_run_in_blocks_has_every_cell_in_each_and_resumes_inside_a_block(tmp_path: Path) -> None:
    def trip(cell: Cell) -> None:
        if cell.threads == 2:
            raise CellFailed("for now")

    first = simulate(tmp_path, fake_world(trip), repeats="2")
    assert (first.total, first.completed, first.failed) == (8, 4, 4)
    second = resume(first.results, fake_world())
    assert (second.total, second.completed, second.failed) == (8, 8, 0)
    entries = list(journal.read(first.results / journal.NAME))[8:]
    assert sorted((entry.cell, entry.block, entry.attempt) for entry in entries) == [
        (cell, block, 2) for cell in CELLS[2:] for block in (1, 2)
    ]
