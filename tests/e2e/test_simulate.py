"""The whole way of a run in virtual time: worlds, Spark, raw records, tables, figures, a comparison."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.records import SCHEMAS

CELLS = "i1-t1-r1-p100-v2008 i2-t2-r1-p1024-v2008"
pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(600)]


def harness(*arguments: str, cwd: Path, hash_seed: int = 0) -> str:
    command = [sys.executable, "-m", "harness", *arguments]
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=280, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def raw_records(results: Path) -> dict[str, bytes]:
    return {str(path.relative_to(results)): path.read_bytes() for path in sorted(results.glob("raw/*/*"))}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[str]]:
    """Two runs of one seed: other processes, another order of cells, other hashes."""
    folder = tmp_path_factory.mktemp("simulate")
    said = [
        harness(
            *("simulate", "--cells", cells, "--measure", "300ms", "--seed", "5"),
            *("--master", master, "--results", f"runs-{hash_seed}"),
            cwd=folder,
            hash_seed=hash_seed,
        ).splitlines()
        for hash_seed, master, cells in ((1, "local[1]", CELLS), (2, "local[2]", " ".join(CELLS.split()[::-1])))
    ]
    [first], [second] = (list((folder / f"runs-{hash_seed}").iterdir()) for hash_seed in (1, 2))
    return first, second, said[0]


def test_a_run_in_virtual_time_ends_with_tables_figures_and_a_report_of_a_model(
    runs: tuple[Path, Path, list[str]],
) -> None:
    results, _, said = runs
    assert said[0].startswith("lab: simulated - a model of the hardware 'paper' in virtual time")
    assert said[1].startswith("seed 5, ")
    assert said[-1].endswith(results.name)
    cells = pq.read_table(results / "reduced" / "cells.parquet").to_pylist()
    assert {row["cell_id"] for row in cells} == set(CELLS.split())
    assert {row["lab"] for row in cells} == {"simulated"}
    assert all(row["processed_per_s"] > 0 and row["initiator_processor_percent"] is not None for row in cells)
    assert {path.name for path in (results / "raw").iterdir()} == set(SCHEMAS)
    assert (results / "figures" / "figure-2-throughput-1-initiator.png").is_file()
    page = (results / "report.html").read_text()
    assert "A model, not SQL Server" in page and "Parameters of the model" in page and "client.round_trip_us" in page


def test_the_same_seed_gives_the_same_raw_records_byte_for_byte(runs: tuple[Path, Path, list[str]]) -> None:
    first, second, _ = runs
    assert raw_records(first) == raw_records(second)


def test_models_are_compared_like_other_runs(runs: tuple[Path, Path, list[str]], tmp_path: Path) -> None:
    first, second, _ = runs
    said = harness("compare", str(first), str(second), "--output", "compared", cwd=tmp_path)
    assert "(simulated lab, a model, 2 cells)" in said
    assert "The models differ" not in said
    assert list((tmp_path / "compared").glob("*.png"))
