"""`harness rates` and `harness run --rate` on the embedded lab."""

import json
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from tests.commands import harness

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("warm_clients", "warm_lab")]

TIMES = ("--settle", "200ms", "--measure", "500ms", "--lab", "embedded", "--results", "runs")


def run(tmp_path: Path, *arguments: str) -> tuple[Path, str]:
    done = harness(tmp_path, *arguments, *TIMES)
    assert done.code == 0, done
    [results] = (tmp_path / "runs").iterdir()
    return results, done.out


@pytest.mark.thorough
def test_a_cell_climbs_from_a_tenth_of_its_rate_to_beyond_it(tmp_path: Path) -> None:
    results, printed = run(tmp_path, "rates", "i1-t2-r1-p100-v2008")
    table = pd.read_parquet(results / "reduced" / "rates.parquet")
    assert len(table) == 12 and table.percent.isna().tolist() == [True] + [False] * 11
    closed_loop_per_s = table.sent_per_s[0]
    whole_rates = (table.asked_per_s[1:] / table.percent[1:] * 100).tolist()
    assert whole_rates == pytest.approx([closed_loop_per_s] * 11, abs=0.006)
    assert "open loop, 110 %" in printed
    assert "12 steps count" in printed
    assert (results / "figures" / "rates.png").is_file() == table.latency_us_p50.notna().any()
    kinds = {path.name for path in (results / "rates" / "rate-050" / "raw").iterdir()}
    assert {"cells", "calls", "deliveries", "receives"} <= kinds


def test_a_single_cell_in_the_open_loop_has_its_schedule_in_the_records(tmp_path: Path) -> None:
    results, printed = run(tmp_path, "run", "i1-t2-r1-p100-v2008", "--rate", "40/s", "--arrivals", "poisson")
    model = "open loop, 40/s per initiator, Poisson arrivals"
    assert f"cell: i1-t2-r1-p100-v2008, {model}" in printed
    assert "2 threads per initiator can make 40 sends/s while a send takes at most 50 ms on average" in printed
    assert json.loads((results / "manifest.json").read_text())["load_model"] == model
    path = max((results / "raw" / "calls").iterdir())  # of the last attempt
    calls = pq.read_table(path).to_pandas()
    assert (calls.started_at_ns >= calls.intended_at_ns).all()
    assert (calls.latency_ns >= calls.started_at_ns - calls.intended_at_ns).all()
    path = max((results / "raw" / "cells").iterdir())
    [cell] = pq.read_table(path).to_pylist()
    window = calls.intended_at_ns.between(cell["measured_from_ns"], cell["measured_to_ns"], inclusive="left")
    assert cell["rate_per_s"] == 40
    assert cell["due_calls"] == window.sum() + cell["missed_calls"]
    assert f"latency counts from the intended start; {cell['due_calls']:,} calls due" in printed
    assert "call p50, ms" in printed and cell["state"] in printed
