"""A target whose clock is not this machine's."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.stand_ins import clocks
from tests.stand_ins.own_servers import OwnServers, running_servers

pytestmark = pytest.mark.process


@pytest.mark.skipif(not clocks.IS_AVAILABLE, reason="gcc is not installed")
def test_a_target_an_hour_ahead_is_measured_as_any_other(tmp_path: Path) -> None:
    clock = clocks.Clocks(tmp_path)
    clock.step_wall(3600)
    with running_servers(tmp_path / "servers", of_target=clock.environment) as servers:
        own = OwnServers(tmp_path, servers)
        words = "--threads 2 --rate 100/s --measure 300ms --settle 200ms --json cell.json --lab-file"
        ran = own.harness("run", *words.split(), str(own.lab_file()))
    assert ran.code == 0, ran
    assert "warning: target, clock: the clock differs" in ran.out
    [cell] = json.loads((tmp_path / "cell.json").read_text())["cells"]
    assert "clock" not in cell["state_reason"]
    assert cell["processed_per_s"] > 0
    [file] = (tmp_path / "results").rglob("deliveries/*.parquet")
    for row in pq.read_table(file).to_pylist():
        assert abs(row["processed_at_ns"] - row["sent_at_ns"]) < 60e9
