"""The whole way of a run in virtual time: worlds, Spark, raw records, tables, figures.

The first run is that of an installed wheel in an empty folder; what follows runs from the checkout.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.files.records import SCHEMAS

ROOT = Path(__file__).parents[2]
CELLS = "i1-t1-r1-p100-v2008 i2-t2-r1-p1024-v2008"
RATIO = "1"  # the matrix's 150 would make a world of 7,500 dialogs, which takes seconds
pytestmark = [pytest.mark.process, pytest.mark.spark]


RUN_AGAIN = """
import signal, sys
from pathlib import Path
import psutil
from harness.output.reporting import Lines
from harness.experiments import matrix_run
handler = signal.getsignal(signal.SIGINT)
matrix_run.sweep(
    {"lab": "simulated", "cells": sys.argv[1].split(), "ratios": sys.argv[2], "measure": "300ms", "seed": "5", "master": "local[2]",
     "results": Path("again")},
    Lines(),
)
assert signal.getsignal(signal.SIGINT) is handler
assert not psutil.Process().children(), "Spark's JVM lives on"
"""


def raw_records(results: Path) -> dict[str, bytes]:
    return {str(path.relative_to(results)): path.read_bytes() for path in sorted(results.glob("raw/*/*"))}


@pytest.fixture(scope="module")
def simulated(
    installed: Path, run_installed: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("simulate")
    scratch = tmp_path_factory.mktemp("scratch")
    command = (installed, "simulate", "--ratios", RATIO, "--cells", CELLS, "--measure", "300ms", "--seed", "5")
    said = run_installed(
        *command, "--master", "local[1]", cwd=folder, PYTHONHASHSEED="1", TMPDIR=str(scratch)
    ).splitlines()
    assert list(scratch.iterdir()) == []
    [results] = (folder / "results").iterdir()
    return results, said


def test_a_run_in_virtual_time_ends_with_tables_figures_and_a_report_of_a_model(
    simulated: tuple[Path, list[str]],
) -> None:
    results, said = simulated
    assert said[0].startswith("lab: simulated - a model of the hardware 'paper' in virtual time")
    assert said[1].startswith("seed 5, ")
    assert said[-1].endswith(results.name)
    cells = pq.read_table(results / "reduced" / "cells.parquet").to_pylist()
    assert {row["cell_id"] for row in cells} == set(CELLS.split())
    assert {row["lab"] for row in cells} == {"simulated"}
    assert all(row["processed_per_s"] > 0 and row["initiator_processor_percent"] is not None for row in cells)
    # In virtual time no other process takes anything of the modelled machine.
    assert {path.name for path in (results / "raw").iterdir()} == set(SCHEMAS) - {
        "machine",
        "processed",
        "clocks",
        "containers",
        "events",
    }
    assert (results / "figures" / "figure-2-throughput-1-initiator.png").is_file()
    page = (results / "report.html").read_text()
    assert "A model, not SQL Server" in page and "Parameters of the model" in page and "client.round_trip_us" in page


def test_the_same_seed_gives_the_same_raw_records_byte_for_byte(
    simulated: tuple[Path, list[str]], tmp_path: Path
) -> None:
    """Other processes, another order of cells, other hashes."""
    results, _ = simulated
    command = [sys.executable, "-c", RUN_AGAIN, " ".join(CELLS.split()[::-1]), RATIO]
    environment = os.environ | {"PYTHONHASHSEED": "2", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, timeout=500, check=False, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [again] = (tmp_path / "again").iterdir()
    assert raw_records(again) == raw_records(results)
