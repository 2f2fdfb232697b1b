"""`harness techniques` on the embedded lab and in virtual time, with a small load."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from harness.techniques.technique_scenario import DEFAULT, read
from harness.techniques.techniques_table import SCHEMA
from tests.commands import harness

pytestmark = pytest.mark.process


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """The package's steps with a small load and pool, which a window of less than a second can carry."""
    text = re.sub(r"initiators = 3", "initiators = 1", DEFAULT.read_text())
    text = re.sub(r"threads = 50", "threads = 2", text)
    text = re.sub(r"dialog_ratio = 150", "dialog_ratio = 5", text)
    text = re.sub(r"max_queue_readers = 16", "max_queue_readers = 2", text)
    path = tmp_path / "small.toml"
    path.write_text(text)
    return path


def run_techniques(tmp_path: Path, *arguments: str) -> tuple[Path, list[str]]:
    done = harness(tmp_path, "techniques", *arguments, "--results", "runs")
    assert done.code == 0, done
    [results] = (tmp_path / "runs").iterdir()
    return results, done.out.splitlines()


@pytest.mark.parametrize("lab", ["embedded", "simulated"])
def test_every_technique_leaves_a_row_its_records_and_its_bar(tmp_path: Path, scenario: Path, lab: str) -> None:
    times = ["--settle", "200ms", "--measure", "400ms"]
    results, lines = run_techniques(tmp_path, "--lab", lab, "--scenario", str(scenario), *times)
    assert "not SQL Server's" in lines[0]
    assert lines[-1] == f"results: runs/{results.name}"
    assert any(re.search("processed/s .* state ", line) for line in lines)
    assert any(re.fullmatch(r"All \d+ runs are valid\.|\d+ of \d+ runs are not valid:", line) for line in lines)

    table = pd.read_parquet(results / "reduced" / "techniques.parquet")
    assert table.technique.tolist() == [technique.key for technique in read().techniques]
    assert set(table.lab) == {lab}
    assert table.columns.tolist() == SCHEMA.names
    assert (table.sent_messages > 0).all()
    if lab == "simulated":  # in real time a busy machine may let nothing happen in so short a window
        assert (table.processed_per_s > 0).all() and (table.sent_per_s > 0).all()
        assert not (table.latency_us_p95 < table.latency_us_p50).any()
    assert table.conversations_in_use.isna().tolist() == (table.conversations == "one_per_message").tolist()
    assert (results / "figures" / "techniques.png").is_file()
    svg = (results / "figures" / "techniques.svg").read_text()
    assert "not SQL Server" in svg

    kinds = {path.name for path in (results / "techniques" / "reuse" / "raw").iterdir()}
    assert {"cells", "calls", "deliveries", "receives", "samples", "waits"} <= kinds
    manifest = json.loads((results / "manifest.json").read_text())
    assert manifest["lab"] == lab and manifest["finished_at"]
    assert [step["key"] for step in manifest["scenario"]["techniques"]] == table.technique.tolist()

    again = harness(tmp_path, "figures", str(results))
    assert (again.code, again.err) == (0, "")
    assert again.out.splitlines() == [
        f"figure: {results / 'figures' / 'techniques'}.{ending}" for ending in ("png", "svg")
    ]
