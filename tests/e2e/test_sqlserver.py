"""A slice of the matrix on SQL Server in containers: sweep, Spark, figures, and no container left."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.lab import compose
from harness.reductions import SparkUnavailable
from harness.reductions.spark_session import require_java

# The version that the conformance tests run on, where they were given one.
_IMAGE_VERSION = re.search(r":(\d{4})\b", os.environ.get("CONFORMANCE_IMAGE", ""))
VERSION = _IMAGE_VERSION[1] if _IMAGE_VERSION else "2022"
CELLS = (f"i1-t2-r1-p100-v{VERSION}", f"i1-t2-r150-p100-v{VERSION}", f"i2-t2-r150-p1024-v{VERSION}")


def missing() -> str | None:
    if not compose.engine_answers():
        return "no Docker engine answers here"
    if compose.value("ACCEPT_EULA").upper() != "Y":
        return f"SQL Server's licence terms ({compose.LICENCE}) are not accepted: ACCEPT_EULA=Y accepts them"
    try:
        require_java()
    except SparkUnavailable as error:
        return str(error)
    return None


@pytest.mark.process
@pytest.mark.spark
@pytest.mark.sqlserver
@pytest.mark.timeout(1500)
def test_a_slice_of_the_matrix_runs_on_sql_server(tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(reason)
    times = ["--settle", "4s", "--measure", "5s", "--drain", "60s"]
    command = [sys.executable, "-m", "harness", "matrix", "--lab", "sqlserver", "--server-versions", VERSION]
    done = subprocess.run(
        [*command, "--cells", " ".join(CELLS), *times, "--results", str(tmp_path / "runs")],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=1400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sqlserver" in done.stdout.splitlines()[0]

    [run] = (tmp_path / "runs").iterdir()
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    cells = pq.read_table(run / "reduced" / "cells.parquet").to_pylist()
    assert {row["cell_id"] for row in cells} == set(CELLS)
    assert all(row["processed_per_s"] > 0 and row["latency_us_p50"] > 0 for row in cells)
    assert list((run / "figures").glob("*.png"))

    password = compose.password()
    assert password not in done.stdout + done.stderr
    files = [path for path in run.rglob("*") if path.is_file()]
    assert not any(password.encode() in path.read_bytes() for path in files)
    assert not any(container.is_running for container in compose.containers().values())
    assert all("Microsoft SQL Server" in json.dumps(instance) for instance in manifest["instances"])
