"""`harness techniques` on the embedded lab and in virtual time, with a small load."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from harness.experiments.technique_scenario import DEFAULT, read
from harness.experiments.techniques_table import SCHEMA
from harness.files import journal
from tests.commands import harness

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("warm_clients", "warm_lab")]

VARIANTS = """\
workload = "paper-variants"
load = {initiators = 1, threads = 2, payload_bytes = 100}
times.embedded = {settle = "200ms", measure = "400ms", drain = "2m"}
start = {conversations = "one_per_thread", dialog_ratio = 1, warm_up = true, client.think_time = "5ms"}

[[variants]]
technique = "all"
target = {tables = "heap", store_in_order = false}
client = {procedure = "dbo.SendMessageAsCaller", direct_rpc = true}
queue.retention = true

[[variants]]
technique = "batch"
batch = true

[[variants]]
technique = "outside_readers"
outside_readers = true
"""

MODELLED = "dialog_per_message|reuse|activation_life|baseline|receive_top_1|cold"


@pytest.fixture
def scenario(tmp_path: Path, lab: str) -> Path:
    """The package's steps with a small load and pool, which a window of less than a second can carry."""
    text = re.sub(r"initiators = 3", "initiators = 1", DEFAULT.read_text())
    text = re.sub(r"threads = 50", "threads = 2", text)
    text = re.sub(r"dialog_ratio = 150", "dialog_ratio = 5", text)
    text = re.sub(r"max_queue_readers = 16", "max_queue_readers = 2", text)
    if lab == "embedded":  # few calls cost little; the model's clients do not pause
        text = text.replace("client = { ", 'client = { think_time = "5ms", ', 1)
    else:  # a world for each takes seconds
        head, *steps = re.split(r"^(?=\[\[)", text, flags=re.MULTILINE)
        text = head + "".join(step for step in steps if re.search(f'technique = "({MODELLED})"', step))
    path = tmp_path / "small.toml"
    path.write_text(text)
    return path


def run_techniques(tmp_path: Path, *arguments: str) -> tuple[Path, list[str]]:
    done = harness(tmp_path, "techniques", *arguments, "--results", "runs")
    assert done.code == 0, done
    [results] = (tmp_path / "runs").iterdir()
    return results, done.out.splitlines()


@pytest.mark.thorough
@pytest.mark.parametrize("lab", ["simulated", "embedded"])
def test_every_technique_leaves_a_row_its_records_and_its_bar(tmp_path: Path, scenario: Path, lab: str) -> None:
    times = ["--settle", "200ms", "--measure", "400ms"]
    results, lines = run_techniques(tmp_path, "--lab", lab, "--scenario", str(scenario), *times)
    assert "not SQL Server's" in lines[0]
    assert lines[-2] == f"results: runs/{results.name}"
    assert any(re.search("processed/s .* state ", line) for line in lines)
    assert any(re.fullmatch(r"(All|\d+ of) \d+ runs count.*\.", line) for line in lines)

    table = pd.read_parquet(results / "reduced" / "techniques.parquet")
    assert table.technique.tolist() == [technique.key for technique in read(scenario).techniques]
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
        "figure 1 of 1: techniques completed",
        *(f"figure: {results / 'figures' / 'techniques'}.{ending}" for ending in ("png", "svg")),
    ]


def test_a_lab_changes_from_one_variant_to_the_next_and_processes_each_message_once_and_in_order(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine.toml").write_text(VARIANTS)
    results, _ = run_techniques(tmp_path, "--lab", "embedded", "--scenario", "mine.toml")
    table = pd.read_parquet(results / "reduced" / "techniques.parquet")
    assert table.technique.tolist() == ["all", "batch", "outside_readers"]
    assert (table.sent_messages > 0).all()
    assert table.processed_per_s[1] > 0, "after the clients have stopped"
    *_, batch = (entry for entry in journal.read(results / journal.NAME) if entry.cell == "batch")
    assert batch.processed_per_s == pytest.approx(table.processed_per_s[1], abs=0.01)  # rounded in the table
    assert "processed" not in batch.state_reason
    raw = results / "techniques" / "batch" / "raw"
    [deliveries], [cells] = ([*map(pd.read_parquet, (raw / kind).iterdir())] for kind in ("deliveries", "cells"))
    assert deliveries.processed_at_ns.min() > cells.stopped_at_ns[0]
    outside = results / "techniques" / "outside_readers" / "activator"
    assert "reader of SSBTarget.dbo.MySSBLabTestQueue" in (outside / "activator.log").read_text()
    assert "password" not in (outside / "activator.toml").read_text().lower()
