"""The whole way as a user goes it: sweep, Spark, figures, then a comparison with another folder of results."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.processes import free_port

pytestmark = [pytest.mark.process, pytest.mark.spark]

MATRIX = '[axes]\nthreads = 5\nversions = "newest"\n[times]\nmeasure = "500ms"\nsettle = "500ms"\n'
AXES = ("--matrix", "mine.toml", "--initiators", "2", "--threads", "2", "--ratios", "1,150", "--payloads", "3000")
CELLS = {f"i2-t2-r{ratio}-p3000-v2008" for ratio in (1, 150)}


@dataclass(frozen=True)
class Done:
    """A run, with what its command printed and left beside its results."""

    folder: Path
    output: str
    left: set[str]


def harness(*arguments: str, cwd: Path, scratch: Path, environment: Mapping[str, str] = os.environ) -> str:
    command = [sys.executable, "-m", "harness", *arguments]
    environment = {**environment, "TMPDIR": str(scratch)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, warm_jvm: dict[str, str]) -> Done:
    """A run of axes of one's own."""
    folder, scratch = tmp_path_factory.mktemp("matrix"), tmp_path_factory.mktemp("scratch")
    (folder / "mine.toml").write_text(MATRIX)
    port = str(free_port())
    command = ("matrix", "--lab", "embedded", *AXES, "--results", "runs", "--web", port)
    output = harness(*command, cwd=folder, scratch=scratch, environment=warm_jvm)
    [run] = (folder / "runs").iterdir()
    (folder / "mine.toml").unlink()
    return Done(run, output, {*os.listdir(folder), *os.listdir(scratch)})


def test_a_matrix_ends_with_tables_and_figures(done: Done) -> None:
    run = done.folder
    assert done.left == {"runs"}
    assert "not SQL Server's" in done.output.splitlines()[0]
    assert "page: http://127.0.0.1:" in done.output
    assert f"results: runs/{run.name}" in done.output.splitlines()[-2]
    cells = pq.read_table(run / "reduced" / "cells.parquet").to_pylist()
    assert {row["cell_id"] for row in cells} == CELLS
    assert all(row["processed_messages"] > 0 for row in cells)  # in half a second a busy machine may process none
    calls = [row["sent_per_s"] * row["measured_s"] for row in cells]
    assert [row["latency_us_p50"] is not None for row in cells] == [number >= 20 for number in map(round, calls)]
    assert pq.read_metadata(run / "reduced" / "gain.parquet").num_rows == 1
    figures = {path.stem for path in (run / "figures").glob("*.png")}
    assert {"figure-3-throughput-2-initiators", "figure-5-gain"} <= figures
    assert {path.stem for path in (run / "figures").glob("*.svg")} == figures


def test_a_run_records_one_dialog_a_page_with_the_ratio_and_all_on_one_without(done: Done) -> None:
    assert "sys.sysdesend" not in done.output, "the pages are the model's"
    raw = done.folder / "raw"
    for cell in CELLS:
        dialogs = pq.read_table(raw / "dialog_pages" / f"{cell}-b1-a1.parquet").to_pylist()
        ratio = 150 if "-r150-" in cell else 1
        for initiator in ("initiator-1", "initiator-2"):
            kept = [row for row in dialogs if row["instance"] == initiator]
            assert [row["dialog_id"] for row in kept] == [ratio, 2 * ratio]
            assert len({row["page_id"] for row in kept}) == (2 if ratio == 150 else 1)
        for kind in ("latch_waits", "latches"):
            assert (raw / kind / f"{cell}-b1-a1.parquet").exists()
        samples = pq.read_table(raw / "samples" / f"{cell}-b1-a1.parquet").to_pylist()
        looked_at = {row["instance"] for row in samples if row["metric"] == "latch_looks"}
        assert looked_at == {"target", "initiator-1", "initiator-2"}
        written = pq.read_table(raw / "file_io" / f"{cell}-b1-a1.parquet").to_pylist()
        assert {row["file_name"] for row in written} >= {"SSBTarget_log", "SSBInitiator1_log"}
        assert all(row["bytes_written"] > 0 and row["writes"] > 0 for row in written)


def test_axes_of_ones_own_are_shown_and_resumed_without_their_file(done: Done, tmp_path: Path) -> None:
    assert all(f"│ {cell} " in done.output for cell in CELLS), done.output
    settings = json.loads((done.folder / "manifest.json").read_text())["settings"]
    assert (settings["matrix"]["name"], settings["threads"], settings["measure"]) == ("mine", [2], 0.5)
    resume = ("matrix", "--resume", str(done.folder), "--only-sweep")
    again = harness(*resume, cwd=done.folder, scratch=tmp_path)
    assert "2 cells" in again and "completed" not in again


def test_a_run_is_compared_with_another(done: Done, tmp_path: Path) -> None:
    other = shutil.copytree(done.folder, tmp_path / "other")
    manifest = json.loads((other / "manifest.json").read_text())
    (other / "manifest.json").write_text(json.dumps(manifest | {"run_id": "other"}))
    compare = ("compare", str(done.folder), str(other), "--output", "compared")
    harness(*compare, cwd=tmp_path, scratch=tmp_path)
    assert list((tmp_path / "compared").glob("*.png")) and list((tmp_path / "compared").glob("*.csv"))
