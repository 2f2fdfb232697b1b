"""Twin runs: what their journals tell, the certificate, and what a comparison and a plan make of it."""

import io
import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness import api
from harness.definitions.matrix import Cell
from harness.experiments import sweep_plan, twin_runs
from harness.experiments.twin_runs import NoTwins
from harness.failures import Declined
from harness.figures.comparison import compare
from harness.files import certificate
from harness.files.certificate import Subject
from harness.files.journal import Entry, Journal
from harness.files.records import State
from harness.output.reporting import Lines, Reporter, SafeConsole
from harness.run import engine, run_folder
from tests.results_fixture import write_manifest, write_reduced

CELLS = [Cell("2008", 1, ratio, threads, 100) for threads in (2, 15) for ratio in (1, 150)]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def twins(
    folder: Path, deviations: dict[str, float], runs: int = 6, blocks: int = 3, per_thread_s: float = 1000
) -> list[Path]:
    """Write runs whose rates differ so much, as the journals of real ones would have it."""
    random = np.random.default_rng(1)
    folders = []
    for number in range(runs):
        run = folder / f"run-{number}"
        write_manifest(run, code="0")
        journal = Journal(run / "journal.jsonl")
        of_run = random.normal(0, deviations.get("run", 0))
        of_cell = {cell: random.normal(0, deviations.get("cell", 0)) for cell in CELLS}
        for block in range(1, blocks + 1):
            of_block = random.normal(0, deviations.get("block", 0))
            for cell in CELLS:
                log = of_run + of_cell[cell] + of_block + random.normal(0, deviations.get("rest", 0))
                rate = per_thread_s * cell.threads * math.exp(log)
                entry = Entry(cell.id, 1, "completed", "", "2026-01-01T00:00:00Z", 1, state="valid", block=block)
                journal.append(Entry(**{**vars(entry), "processed_per_s": 1.0, "state": "disturbed"}))
                journal.append(Entry(**{**vars(entry), "attempt": 2, "processed_per_s": rate}))
        folders.append(run)
    return folders


def test_the_variances_are_those_with_which_the_runs_were_made(tmp_path: Path) -> None:
    put = {"run": 0.2, "cell": 0.05, "block": 0.1, "rest": 0.02}
    found = twin_runs.certify(twins(tmp_path, put, runs=40)).variances
    assert (found.run, found.cell) == (pytest.approx(0.2, rel=0.3), pytest.approx(0.05, rel=0.3))
    assert (found.block, found.rest) == (pytest.approx(0.1, rel=0.3), pytest.approx(0.02, rel=0.2))
    assert found.between(4).variance == pytest.approx(2 * (found.run**2 + found.cell**2 / 4))
    assert found.between(4).freedom == 39


def test_comparisons_of_runs_that_differ_as_wholes_are_false(tmp_path: Path) -> None:
    quiet = twin_runs.certify(twins(tmp_path / "quiet", {"rest": 0.01}))
    assert (quiet.comparisons, quiet.false_verdicts) == (15, 0)
    assert quiet.pair == pytest.approx(0.01 * math.sqrt(2), rel=0.3)
    slow = twins(tmp_path / "slow", {"rest": 0.01}, runs=1, per_thread_s=500)
    loud = twin_runs.certify([*twins(tmp_path / "others", {"rest": 0.01}, runs=5), *slow])
    assert (loud.comparisons, loud.false_verdicts) == (15, 5)
    assert loud.sentence.startswith("By their blocks alone, 5 of 15 comparisons")


def test_too_few_cells_that_count_tell_nothing(tmp_path: Path) -> None:
    folders = twins(tmp_path, {"rest": 0.01}, blocks=1)
    with pytest.raises(NoTwins, match="too few cells count"):
        twin_runs.certify(folders)


@pytest.mark.drawing
def test_a_comparison_takes_the_certificate_into_its_intervals(tmp_path: Path) -> None:
    runs = [write_reduced(tmp_path / name, CELLS, blocks=3, factor=factor) for name, factor in (("a", 1.0), ("b", 0.8))]
    text = io.StringIO()
    console = SafeConsole(width=200, file=text)
    before = compare(*runs, console=console)
    assert before.gate.slowdowns
    assert "harness aa measures it" in text.getvalue()
    manifest = run_folder.read_manifest(runs[1])
    found = twin_runs.certify(twins(tmp_path / "twins", {"run": 0.3, "rest": 0.01}))
    certificate.write(found.model_copy(update={"subject": Subject.of(manifest)}))
    after = compare(*runs, console=console)
    assert not after.gate.slowdowns and after.gate.unknown
    assert f"what differs between runs as wholes: {found.words}" in text.getvalue()


def test_a_run_carries_the_certificate_to_other_machines(tmp_path: Path) -> None:
    write_manifest(tmp_path)
    found = twin_runs.certify(twins(tmp_path / "twins", {"rest": 0.01}))
    kept = certificate.write(found.model_copy(update={"subject": Subject.of(run_folder.read_manifest(tmp_path))}))
    run_folder.finish(tmp_path)
    kept.unlink()
    carried = certificate.find(run_folder.read_manifest(tmp_path))
    assert carried is not None and carried.variances == found.variances


def test_a_target_with_other_processors_is_another_subject(tmp_path: Path) -> None:
    write_manifest(tmp_path)
    manifest = run_folder.read_manifest(tmp_path)
    system = {"cpu_count": 8}
    with_target = manifest | {"instances": [{"name": "target", "fingerprint": {"system": system}}]}
    found = twin_runs.certify(twins(tmp_path / "twins", {"rest": 0.01}))
    certificate.write(found.model_copy(update={"subject": Subject.of(with_target)}))
    assert certificate.find(with_target) is not None
    assert certificate.find(manifest) is not None, "before a lab is open"
    other = manifest | {"instances": [{"name": "target", "fingerprint": {"system": {"cpu_count": 4}}}]}
    assert certificate.find(other) is None


def test_a_plan_takes_the_noise_of_twins(tmp_path: Path) -> None:
    found = twin_runs.certify(twins(tmp_path / "twins", {"rest": 0.05}))
    subject = Subject.of({"lab": "embedded", "machine": run_folder.machine()})
    certificate.write(found.model_copy(update={"subject": subject}))
    plan = sweep_plan.plan({"lab": "embedded", "matrix": "quick", "results": tmp_path / "results"})
    assert found.words in plan.noise
    assert "harness compare finds a slowdown of all cells of " in plan.explanation
    assert "with 3 blocks each, of " in plan.explanation and " with no number of blocks" in plan.explanation


def test_runs_whose_cells_do_not_count_tell_nothing(tmp_path: Path) -> None:
    folders = twins(tmp_path, {"rest": 0.01})
    for folder in folders[1:]:
        lines = (folder / "journal.jsonl").read_text()
        (folder / "journal.jsonl").write_text(lines.replace('"state": "valid"', '"state": "disturbed"'))
    with pytest.raises(NoTwins, match="too few cells count"):
        twin_runs.certify(folders)


def test_a_model_has_no_twins(tmp_path: Path) -> None:
    with pytest.raises(NoTwins, match="runs of a model repeat exactly"):
        twin_runs.run({"lab": "simulated"}, Reporter(), runs=3)
    with pytest.raises(NoTwins, match="--runs 2: 3 runs or more"):
        twin_runs.run({"lab": "embedded"}, Reporter(), runs=2)
    with pytest.raises(NoTwins, match="is no folder of twins: it has no run"):
        twin_runs.run({}, Reporter(), runs=3, resume=tmp_path)


class Refusal(Reporter):
    """A user who says no."""

    def __init__(self) -> None:
        self.questions: list[str] = []

    def confirm(self, question: str) -> bool:
        self.questions.append(question)
        return False


@pytest.mark.parametrize(
    ("run", "question"),
    [
        (lambda **settings: api.run_matrix(reduce=False, **settings), r"528 cells, about .* h.*: begin\?"),
        (
            lambda **settings: api.run_pair("paper", "paper-variants", repeats=3, **settings),
            r"a pair, about .*: begin\?",
        ),
        (lambda **settings: api.run_twins(matrix="paper", **settings), r"6 twin runs, about .* h.*: begin\?"),
        (
            lambda **settings: api.run_soak("i1-t2-r1-p100-v2022", duration="8h", **settings),
            "1 cell, each in .* h.*: begin",
        ),
    ],
    ids=["matrix", "pair", "twins", "soak"],
)
def test_hours_are_asked_for_once_and_nothing_starts(run: Callable[..., object], question: str, tmp_path: Path) -> None:
    refusal = Refusal()
    with pytest.raises(Declined, match="declined, nothing was started"):
        run(lab="embedded", measure="30s", results=tmp_path / "results", progress=refusal)
    [asked] = refusal.questions
    assert re.match(question, asked)
    assert not (tmp_path / "results").exists()


@pytest.mark.thorough
@pytest.mark.process
def test_twins_are_made_and_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twin_runs, "WITH_THROUGHPUT", frozenset(State))  # the machine may be busy
    monkeypatch.setattr(twin_runs, "RUNS_MIN", 2)
    monkeypatch.setattr(engine, "MEASURED_MAX", 1)
    options = {"lab": "embedded", "threads": [2], "measure": "200ms", "settle": "200ms", "repeats": 2}
    notes = io.StringIO()
    found = api.run_twins(runs=2, results=tmp_path, progress=Lines(SafeConsole(file=notes)), **options)
    assert re.search(
        r"twin run 1 of 2, about \d+ s left\n.*\ntwin run 2 of 2, about \d+ s left\n", notes.getvalue(), re.DOTALL
    )
    assert (found.variances.runs, found.blocks, found.cells) == (2, 2, 2)
    [folder] = tmp_path.glob("*-twins")
    settings = [run_folder.read_manifest(run)["settings"] for run in folder.iterdir()]
    assert settings[0] == settings[1]
    assert api.run_twins(runs=3, resume=folder).variances.runs == 3
