"""The whole way of a run in virtual time, in an empty folder: worlds, Spark, tables, figures."""

import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.files.records import SCHEMAS

CELLS = "i1-t1-r1-p100-v2008 i2-t2-r1-p1024-v2008"
pytestmark = [pytest.mark.process, pytest.mark.spark]


def test_a_run_in_virtual_time_ends_with_tables_figures_and_a_report_of_a_model(
    warm_jvm: dict[str, str], run_installed: Callable[..., str], tmp_path: Path
) -> None:
    folder, scratch = tmp_path / "runs", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    # The matrix's ratio of 150 would make a world of 7,500 dialogs, which takes seconds.
    command = (
        sys.executable,
        "-m",
        "harness",
        "simulate",
        "--ratios",
        "1",
        "--cells",
        CELLS,
        "--measure",
        "300ms",
        "--seed",
        "5",
    )
    variables = {name: value for name, value in warm_jvm.items() if name.startswith("PYSPARK")}
    output = run_installed(*command, "--master", "local[1]", cwd=folder, TMPDIR=str(scratch), **variables)
    said = output.splitlines()
    assert list(scratch.iterdir()) == []
    [results] = (folder / "results").iterdir()
    assert said[0].startswith("lab: simulated - a model of the hardware 'paper' in virtual time")
    assert said[1].startswith("seed 5, ")
    assert said[-2].endswith(results.name) and said[-1].endswith(" --open")
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
        "leaks",
    }
    assert (results / "figures" / "figure-2-throughput-1-initiator.png").is_file()
    page = (results / "report.html").read_text()
    assert "A model, not SQL Server" in page and "Parameters of the model" in page and "client.round_trip_us" in page
