"""The numbers of a measured run that calibration fits and predicts; no model runs here."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from harness.definitions.matrix import Cell
from harness.failures import UsageFailure
from harness.simulation import calibration, parameters
from harness.simulation.calibration import CellFigures
from tests.results_fixture import write_reduced

HARDWARE = parameters.read("this-machine")
INSTANCES = [{"name": name, "cpu_count": "2"} for name in ("target", "initiator-1")]
THREADS = (1, 5, 10, 20, 50)


def run(folder: Path, threads: tuple[int, ...] = THREADS, **changes: Any) -> Path:
    """Two versions; at 2005 a thousand messages a second a thread at ratio 150 and half at ratio 1, at 2008 twice."""
    cells = [Cell(version, 1, ratio, n, 100) for version in ("2005", "2008") for ratio in (1, 150) for n in threads]
    write_reduced(folder, [*cells, Cell("2008", 2, 150, 1, 100), Cell("2008", 1, 150, 1, 8192)], **changes)
    table = folder / "reduced" / "cells.parquet"
    rows = pd.read_parquet(table)
    mine = (rows.initiators == 1) & (rows.payload_bytes == 100)
    made = (
        1000.0 * rows.threads * rows.dialog_ratio.map({1: 0.5, 150: 1.0}) * rows.server_version.map(int).sub(2002) / 3
    )
    rows["processed_per_s"] = made.where(mine, 1.0)
    rows["target_processor_percent"], rows["initiator_processor_percent"] = 30.0, 40.0
    rows.to_parquet(table, index=False)
    return folder


def test_rates_at_four_thread_counts_and_processor_times_at_the_highest_are_fitted(tmp_path: Path) -> None:
    wanted = calibration.numbers_of(run(tmp_path / "a run", instances=INSTANCES), HARDWARE)
    assert wanted.source == "a run"
    assert len(wanted.fitted) == len(HARDWARE.free)
    means_of_both_versions = [1500.0, 7500.0, 15_000.0, 75_000.0]
    assert [number.known for number in wanted.fitted] == [*means_of_both_versions, 60.0, 80.0]
    assert [number.cells[0].threads for number in wanted.fitted] == [1, 5, 10, 50, 50, 50]


def test_all_other_cells_of_the_curve_are_predicted(tmp_path: Path) -> None:
    wanted = calibration.numbers_of(run(tmp_path / "a run", instances=INSTANCES), HARDWARE)
    assert [(one.cells[0].dialog_ratio, one.cells[0].threads) for one in wanted.held_out] == [
        *[(150, 20)],
        *[(1, threads) for threads in THREADS],
    ]
    assert {(cell.initiators, cell.payload_bytes) for one in wanted.all for cell in one.cells} == {(1, 100)}


def test_processor_time_is_that_of_one_processor(tmp_path: Path) -> None:
    charged = parameters.read("paper")
    wanted = calibration.numbers_of(run(tmp_path / "a run", instances=INSTANCES), charged)
    figures = CellFigures(1.0, initiator_percent=10.0, target_percent=20.0)
    target, initiator = wanted.fitted[-2:]
    assert target.of(figures) == 20.0 * charged.processors.count
    assert initiator.of(figures) == 10.0 * charged.processors.count


@pytest.mark.parametrize(
    ("threads", "changes", "message"),
    [
        (
            (1, 5, 10),
            {"instances": INSTANCES},
            r"no cell like i1-t50-r150-p100-v2008: choose a run with all cells `i1-\*-p100-\*`",
        ),
        (THREADS, {"instances": []}, r"does not say how many processors target has"),
        (THREADS, {"lab": "simulated"}, r"is a run of the model"),
    ],
)
def test_an_unsuitable_run_is_refused_in_one_line(
    tmp_path: Path, threads: tuple[int, ...], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageFailure, match=message) as failure:
        calibration.numbers_of(run(tmp_path / "a run", threads, **changes), HARDWARE)
    assert "\n" not in str(failure.value)
