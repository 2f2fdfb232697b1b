"""Cells in forks of a warmed world: records, repetition, failures."""

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.definitions.matrix import Cell, Visit
from harness.files import records
from harness.run.attempt import Measured, Times
from harness.run.cell_failures import CellFailed
from harness.simulation import simulated_cell
from harness.simulation.parameters import read
from harness.simulation.simulated_cell import WarmedWorld, WorldSize
from harness.simulation.simulated_lab import SimulatedLab

pytestmark = pytest.mark.process

TIMES = Times(settle=0.1, measure=0.2)
CELL = Cell.parse("i2-t3-r1-p100-v2008")
OTHER = Cell.parse("i1-t10-r1-p1024-v2008")
Elsewhere = dict[int, tuple[Path, "subprocess.Popen[bytes]"]]

RUN = """
import sys
from pathlib import Path
from harness.definitions.matrix import Cell, Visit
from harness.run.attempt import Times
from harness.simulation.simulated_cell import WarmedWorld, WorldSize
from harness.simulation.parameters import read

cell = Cell.parse(sys.argv[1])
group = WarmedWorld(read("paper"), cell.server_version, WorldSize.of([cell]), seed=int(sys.argv[2]))
group.run(Visit(cell), 1, Times(0.1, 0.2), Path(sys.argv[3]))
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Elsewhere]:
    """The cell in processes of their own that hash otherwise, by seed; under way while this process is at the others."""
    processes: Elsewhere = {}
    for seed in (1, 2):
        results = tmp_path_factory.mktemp(f"seed-{seed}")
        command = [sys.executable, "-c", RUN, CELL.id, str(seed), str(results)]
        processes[seed] = results, subprocess.Popen(command, env=os.environ | {"PYTHONHASHSEED": str(seed)})
    yield processes
    for _, process in processes.values():
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def group(elsewhere: Elsewhere) -> WarmedWorld:
    return WarmedWorld(read("paper"), "2008", WorldSize(((1, 50),), 3), seed=1)


@pytest.fixture(scope="module")
def ran(group: WarmedWorld, tmp_path_factory: pytest.TempPathFactory) -> tuple[Measured, Path]:
    """The cell run in a fork of this process's world, and its results folder."""
    results = tmp_path_factory.mktemp("ran")
    return group.run(Visit(CELL), 1, TIMES, results), results


def digests(results: Path) -> dict[str, str]:
    return {
        str(path.relative_to(results)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(results.rglob("*.parquet"))
    }


def row_of(results: Path) -> dict[str, object]:
    [path] = (results / "raw" / "cells").iterdir()
    row: dict[str, object] = pq.read_table(path).to_pylist()[0]
    return row


def test_a_cell_leaves_every_kind_of_record(ran: tuple[Measured, Path]) -> None:
    measured, results = ran
    row = row_of(results)
    assert row["outcome"] == "completed"
    assert row["sent_messages"] == row["processed_messages"] == measured.sent > 100
    no_machine_nor_counts = set(records.SCHEMAS) - {"machine", "processed", "clocks", "containers", "events", "leaks"}
    assert {path.name for path in (results / "raw").iterdir()} == no_machine_nor_counts


def test_the_target_has_all_its_readers_from_the_beginning(ran: tuple[Measured, Path]) -> None:
    samples = pq.read_table(next((ran[1] / "raw" / "samples").iterdir())).to_pylist()
    tasks = [row["value"] for row in samples if row["metric"] == "activated_tasks" and row["instance"] == "target"]
    assert set(tasks) == {16.0}


def test_a_cell_has_the_same_result_whichever_ran_before(
    group: WarmedWorld, ran: tuple[Measured, Path], tmp_path: Path
) -> None:
    group.run(Visit(OTHER), 1, TIMES, tmp_path / "other")
    group.run(Visit(CELL), 1, TIMES, tmp_path / "again")
    assert digests(ran[1]) == digests(tmp_path / "again")
    assert digests(ran[1])


def test_another_block_has_another_result_and_the_same_block_the_same(
    group: WarmedWorld, ran: tuple[Measured, Path], tmp_path: Path
) -> None:
    for name in ("second", "again"):
        group.run(Visit(CELL, 2), 1, TIMES, tmp_path / name)
    assert digests(tmp_path / "second") == digests(tmp_path / "again")
    [path] = (tmp_path / "second" / "raw" / "calls").glob("*-b2-a1-i1.parquet")
    first = ran[1] / "raw" / "calls" / path.name.replace("-b2-", "-b1-")
    starts = [pq.read_table(each, columns=["started_at_ns"]) for each in (path, first)]
    assert starts[0] != starts[1]


def test_the_same_seed_gives_the_same_bytes_in_another_process(
    ran: tuple[Measured, Path], elsewhere: Elsewhere
) -> None:
    found = {}
    for seed, (results, process) in elsewhere.items():
        assert process.wait(120) == 0
        found[seed] = digests(results)
    here = digests(ran[1])
    assert here == found[1]
    assert here.keys() == found[2].keys() and here != found[2]


def test_a_killed_fork_is_a_failed_cell(group: WarmedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_cell, "run", lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(CellFailed, match="killed by SIGKILL"):
        group.run(Visit(CELL), 1, TIMES, tmp_path)


def test_a_target_that_goes_down_fails_the_cell_and_is_named(
    group: WarmedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = simulated_cell.run

    def run_and_crash(lab: SimulatedLab, *arguments: Any, **options: Any) -> Measured:
        lab.world.visit(0.05, lab.world.servers["target"].crash)
        return run(lab, *arguments, **options)

    monkeypatch.setattr(simulated_cell, "run", run_and_crash)
    with pytest.raises(CellFailed, match="target is down"):
        group.run(Visit(CELL), 1, TIMES, tmp_path)
    row = row_of(tmp_path)
    assert (row["outcome"], row["reason"]) == ("failed", "target is down")
