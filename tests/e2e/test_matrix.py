"""The whole way as a user goes it: sweep, Spark, figures, then a comparison with another folder of results."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.reductions import SparkUnavailable
from harness.reductions.spark_session import require_java

CELLS = "i1-t2-*-p100-v2008 i2-t1-r150-p1024-v2008"


def harness(*arguments: str, cwd: Path, scratch: Path) -> str:
    command = [sys.executable, "-m", "harness", *arguments]
    environment = os.environ | {"TMPDIR": str(scratch)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.process
@pytest.mark.spark
def test_a_matrix_ends_with_tables_and_figures_that_another_run_can_be_compared_with(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    try:
        require_java()
    except SparkUnavailable as missing:
        pytest.skip(str(missing))
    scratch = tmp_path_factory.mktemp("scratch")
    matrix = (
        "matrix",
        "--lab",
        "embedded",
        "--cells",
        CELLS,
        "--measure",
        "500ms",
        "--settle",
        "500ms",
        "--results",
        "runs",
    )
    output = harness(*matrix, cwd=tmp_path, scratch=scratch)
    assert os.listdir(tmp_path) == ["runs"]
    assert os.listdir(scratch) == []
    [run] = (tmp_path / "runs").iterdir()
    assert "not SQL Server's" in output.splitlines()[0]
    assert f"results: runs/{run.name}" in output.splitlines()[-1]

    cells = pq.read_table(run / "reduced" / "cells.parquet").to_pylist()
    assert {row["cell_id"] for row in cells} == {
        "i1-t2-r1-p100-v2008",
        "i1-t2-r150-p100-v2008",
        "i2-t1-r150-p1024-v2008",
    }
    assert all(row["processed_per_s"] > 0 for row in cells)
    calls = [row["sent_per_s"] * row["measured_s"] for row in cells]
    assert [row["latency_us_p50"] is not None for row in cells] == [number >= 20 for number in map(round, calls)]
    assert pq.read_metadata(run / "reduced" / "gain.parquet").num_rows == 1
    figures = {path.name for path in (run / "figures").glob("*.png")}
    assert any(name.startswith("figure-2") for name in figures) and any(name.startswith("figure-5") for name in figures)
    assert {path.stem for path in (run / "figures").glob("*.svg")} == {Path(name).stem for name in figures}

    other = shutil.copytree(run, tmp_path / "other")
    manifest = json.loads((run / "manifest.json").read_text())
    (other / "manifest.json").write_text(json.dumps(manifest | {"run_id": "other"}))
    harness("compare", str(run), str(other), "--output", "compared", cwd=tmp_path, scratch=scratch)
    assert list((tmp_path / "compared").glob("*.png")) and list((tmp_path / "compared").glob("*.csv"))


@pytest.mark.process
@pytest.mark.spark
def test_axes_of_ones_own_are_run_drawn_and_resumed(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    try:
        require_java()
    except SparkUnavailable as missing:
        pytest.skip(str(missing))
    (tmp_path / "mine.toml").write_text(
        '[axes]\nthreads = 2\nversions = "newest"\n[times]\nmeasure = "400ms"\nsettle = "400ms"\n'
    )
    scratch = tmp_path_factory.mktemp("scratch")
    axes = ("--matrix", "mine.toml", "--initiators", "4", "--threads", "1,7", "--ratios", "1,20", "--payloads", "3000")
    output = harness("matrix", "--lab", "embedded", *axes, "--results", "runs", cwd=tmp_path, scratch=scratch)
    [run] = (tmp_path / "runs").iterdir()
    cells = {f"i4-t{threads}-r{ratio}-p3000-v2008" for threads in (1, 7) for ratio in (1, 20)}
    rows = pq.read_table(run / "reduced" / "cells.parquet").to_pylist()
    assert {row["cell_id"] for row in rows} == cells
    assert all(f"│ {cell} " in output for cell in cells), output
    assert (run / "figures" / "throughput-4-initiators.png").is_file()
    settings = json.loads((run / "manifest.json").read_text())["settings"]
    assert (settings["matrix"]["name"], settings["threads"], settings["measure"]) == ("mine", [1, 7], 0.4)

    (tmp_path / "mine.toml").unlink()  # the manifest keeps the matrix
    again = harness("matrix", "--resume", str(run), "--only-sweep", cwd=tmp_path, scratch=scratch)
    assert "4 cells" in again and "completed" not in again
