"""Whole sweeps on the embedded lab: real driver, Locust, processes; what happens when each kind of process is killed."""

import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from harness.definitions.matrix import Cell, Visit
from harness.experiments import matrix_run
from harness.experiments.lab_choice import OnServers
from harness.files.journal import Entry, read
from harness.lab import drivers, pulse
from harness.lab.opening import select_lab
from harness.output.reporting import Reporter
from harness.results.run import Run
from harness.run.under_way import Outcome
from tests.commands import harness
from tests.processes import Child, children_of, command_line, environment, is_alive
from tests.thorough import one_of_each
from tests.waiting import wait_until

pytestmark = pytest.mark.process

freetds = [driver for driver in drivers.find() if driver.kind == "freetds"]
FIVE = "i1-t[1-5]-r1-p100-v2008"
CELLS = ("i1-t2-r1-p100-v2008", "i1-t1-r1-p100-v2008")
QUICK = ["--lab", "embedded", "--measure", "300ms", "--settle", "200ms", "--rate", "100/s"]


class Saboteur(Reporter):
    """Sends a signal to a child process of this one when a cell is first measured, to another one in the next cell."""

    def __init__(self, victims: Sequence[str], number: signal.Signals = signal.SIGKILL) -> None:
        self.victims = list(victims)
        self.number = number
        self.notes: list[str] = []
        self.spared = set(psutil.Process().children())  # servers of other tests' fixtures
        self.killed: dict[str, int] = {}

    def note(self, text: str) -> None:
        self.notes.append(text)

    def phase(self, what: str) -> None:
        if what.endswith(": measure") and what not in self.killed and self.victims:
            victim = self.victims.pop(0)
            found = next(
                child.pid
                for child in psutil.Process().children()
                if child not in self.spared and victim in " ".join(command_line(child))
            )
            self.killed[what] = found
            os.kill(found, self.number)


def run(lab: OnServers, results: Path, visits: list[Visit], reporter: Reporter) -> Outcome:
    return matrix_run.run_visits(lab.settings, lab.executor_of(visits, reporter), results, visits, reporter)


def entries(results: Path) -> list[Entry]:
    return list(read(results / "journal.jsonl"))


VICTIMS = {
    "locust-worker-1": "load/locustfile.py",
    "locust-master": "harness.load.master",
    "initiator-1": "--name initiator-1",
    "target": "--name target",
}


@pytest.mark.parametrize(
    "first, second", one_of_each([("locust-worker-1", "target"), ("locust-master", "initiator-1")])
)
def test_a_process_killed_in_mid_cell_fails_that_cell_which_is_tried_again(
    first: str, second: str, tmp_path: Path
) -> None:
    selection = select_lab(
        {"lab": "embedded", "measure": "300ms", "settle": "200ms", "rate": "100/s", "results": tmp_path}
    )
    cells = [Visit(Cell.parse(f"i1-t{threads}-r1-p100-v2008")) for threads in (1, 2)]
    lab = OnServers(selection.settings, selection.topology)
    results = lab.open_results(cells)
    saboteur = Saboteur([VICTIMS[first], VICTIMS[second]])
    outcome = run(lab, results, cells, saboteur)
    assert (outcome.completed, outcome.failed) == (2, 0), outcome.reason
    failed = [entry for entry in entries(results) if entry.outcome == "failed"]
    for name, killed, entry in zip((first, second), saboteur.killed.values(), failed, strict=True):
        assert f"{name} (process {killed}) was killed by signal 9 (SIGKILL)" in entry.reason
    assert len({entry.cell for entry in failed}) == 2
    completed = [entry for entry in entries(results) if entry.outcome == "completed"]
    assert {entry.cell for entry in completed} == {entry.cell for entry in failed}  # one in doubt is measured again
    assert set(psutil.Process().children()) <= saboteur.spared


@pytest.mark.thorough
def test_an_instance_that_stops_in_mid_cell_is_told_of_and_fails_that_cell_which_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulse, "TOLD_AFTER_S", 1)
    monkeypatch.setattr(pulse, "DEAD_AFTER_S", 3)
    selection = select_lab(
        {"lab": "embedded", "measure": "300ms", "settle": "200ms", "rate": "100/s", "results": tmp_path}
    )
    cells = [Visit(Cell.parse("i1-t1-r1-p100-v2008"))]
    lab = OnServers(selection.settings, selection.topology)
    results = lab.open_results(cells)
    saboteur = Saboteur([VICTIMS["target"]], signal.SIGSTOP)
    assert run(lab, results, cells, saboteur).completed == 1
    failed, completed = entries(results)
    assert "has not answered for 3 s: its process was killed" in failed.reason
    assert completed.outcome == "completed"
    assert any("has not answered for 1 s" in note for note in saboteur.notes)
    assert set(psutil.Process().children()) <= saboteur.spared


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start `harness ...` and see to it that nothing of it stays."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> subprocess.Popen[str]:
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "harness", *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                cwd=tmp_path,
            )
        )
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def first_journal_line(folder: Path) -> Path | None:
    """The results folder, once its journal has a line."""
    found = [path.parent for path in folder.glob("results/*/journal.jsonl") if path.stat().st_size]
    return found[0] if found else None


@dataclass(frozen=True)
class Swept:
    """A sweep that ended, with the administrator's password, processes and command lines that were seen while it ran."""

    results: Path
    output: str
    secret: str
    children: list[psutil.Process]
    shown: list[str]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Swept:
    folder = tmp_path_factory.mktemp("swept")
    command = [sys.executable, "-m", "harness", "matrix", "--only-sweep", "--cells", " ".join(CELLS), *QUICK]
    with Child(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder) as process:

        def password() -> str | None:
            servers = (child for child in children_of(process.pid) if "serve" in command_line(child))
            return next((word for one in servers if (word := environment(one).get("HARNESS_PASSWORD"))), None)

        secret = wait_until(password)
        assert secret is not None
        wait_until(lambda: len(children_of(process.pid)) >= 4)
        children = children_of(process.pid)
        shown = [word for child in children for word in command_line(child)]
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    return Swept(folder / output.splitlines()[-1].removeprefix("results: "), output, secret, children, shown)


def test_a_sweep_leaves_whole_records_and_no_process(swept: Swept) -> None:
    assert not any(map(is_alive, swept.children))
    results = swept.results
    assert swept.output.startswith("lab: embedded (as selected)")
    assert "cell 2 of 2" in swept.output
    completed = [entry.cell for entry in entries(results) if entry.outcome == "completed"]
    assert set(completed) == set(CELLS)
    for kind in ("cells", "calls", "deliveries", "receives", "samples", "waits", "processors"):
        assert len(list((results / "raw" / kind).glob("*.parquet"))) == len(completed), kind
    for file in (results / "raw" / "cells").glob("*.parquet"):
        row = pq.read_table(file).to_pylist()[0]
        assert row["outcome"] == "completed"
        assert row["sent_messages"] == row["processed_messages"] > 0
    samples = pq.read_table(results / "raw" / "samples").to_pandas()
    assert "observer_failure" not in set(samples["metric"])
    assert {"queue_depth", "transmission_queue_depth", "counter"} <= set(samples["metric"])
    assert not list((results / "lab").glob("*/data"))


def test_no_secret_is_in_what_a_sweep_leaves_or_shows(swept: Swept) -> None:
    assert swept.secret not in swept.output
    assert not any(swept.secret in word for word in swept.shown)
    for file in (path for path in swept.results.parent.rglob("*") if path.is_file()):
        assert swept.secret.encode() not in file.read_bytes(), file


def test_a_support_bundle_has_what_happened_and_no_secret(swept: Swept) -> None:
    with zipfile.ZipFile(Run(swept.results).support_bundle()) as bundle:
        texts = {name: bundle.read(name).decode() for name in bundle.namelist()}
    assert {"findings.txt", "manifest.json", "journal.jsonl", "lab/2008/logs/target.log"} <= set(texts)
    assert "is not kept" not in swept.output  # an instance that has written nothing has no file of its error log
    assert "target, " in texts["findings.txt"]
    assert not [name for name, text in texts.items() if swept.secret in text]


def ended(process: subprocess.Popen[str], ending: signal.Signals, tmp_path: Path) -> tuple[Path, str]:
    """End a sweep that has done a cell; its folder and output. None of its processes is left."""
    results = wait_until(lambda: first_journal_line(tmp_path) or process.poll() is not None)
    assert isinstance(results, Path), process.communicate()[0]
    for second in ("matrix", "--resume"), ("reduce",):
        refused = harness(tmp_path, *second, str(results))
        assert (refused.code, refused.line.partition(":")[0]) == (3, f"{results} is in use by process {process.pid}")
    children = children_of(process.pid)
    assert len(children) >= 4
    process.send_signal(ending)
    output, _ = process.communicate(timeout=500)
    wait_until(lambda: not any(map(is_alive, children)))
    return results, output


@pytest.mark.parametrize("ending", one_of_each([signal.SIGINT, signal.SIGTERM, signal.SIGHUP]))
def test_an_interrupted_sweep_ends_with_130_how_to_go_on_a_whole_journal_and_no_process(
    ending: signal.Signals, start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    process = start("matrix", "--only-sweep", "--cells", "i1-t[1-5]-r*-p100-v2008", *QUICK)
    results, output = ended(process, ending, tmp_path)  # before the last cell, on a busy machine too
    assert process.returncode == 130, output
    done = len(entries(results))
    assert output.splitlines()[-1] == (
        f"harness: interrupted; measured: {done} of 10 cells; "
        f"go on with: harness matrix --resume {results.relative_to(tmp_path)}"
    )
    assert 1 <= done < 10
    assert {entry.outcome for entry in entries(results)} == {"completed"}
    assert not list((results / "lab").glob("*/data"))


def test_a_killed_sweep_resumes_where_it_was_and_only_under_the_same_settings(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    results, _ = ended(start("matrix", "--only-sweep", "--cells", FIVE, *QUICK), signal.SIGKILL, tmp_path)
    done = [entry.cell for entry in entries(results)]
    refused = harness(tmp_path, "matrix", "--resume", str(results), "--measure", "2s")
    assert refused.code == 2
    assert "cannot be resumed with other settings: measure is 0.3 in the run and 2.0 now" in refused.line
    resumed = harness(tmp_path, "matrix", "--only-sweep", "--resume", str(results))
    assert resumed.code == 0, resumed
    assert f"{len(done)} of 5 cells are done already" in resumed.out
    completed = [entry.cell for entry in entries(results) if entry.outcome == "completed"]
    assert completed[: len(done)] == done
    assert len(set(completed[:5])) == len(set(completed)) == 5  # those in doubt come once more, after all five
    assert json.loads((results / "manifest.json").read_text())["finished_at"]


@pytest.mark.thorough
@pytest.mark.skipif(not freetds, reason="FreeTDS is not installed (apt-get install tdsodbc)")
def test_a_cell_runs_with_freetds_as_well(tmp_path: Path) -> None:
    ran = harness(tmp_path, "run", CELLS[0], "--driver", "freetds", *QUICK)
    assert ran.code == 0, ran
    assert "each processed once and in order" in ran.out
