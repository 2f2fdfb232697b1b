"""The noise from which a plan computes what its repeats can show."""

import math
from pathlib import Path

import pandas as pd
import pytest

from harness.definitions.matrix import Cell
from harness.experiments import repeats_plan, sweep_plan
from harness.files.records import ResultsError
from harness.output.reporting import duration
from tests.results_fixture import write_reduced

CELLS = [Cell("2008", 1, ratio, threads, 100) for threads in (1, 5, 10) for ratio in (1, 150)]


def test_the_noise_of_a_run_is_that_of_its_repeats(tmp_path: Path) -> None:
    noise = repeats_plan.of_run(write_reduced(tmp_path / "run", CELLS, blocks=6), "embedded")
    # Each rate of the fixture is drawn from 97 % to 103 %, evenly: a standard deviation of 1.7 %, two of them in a ratio.
    assert 0.5 < noise.log_ratio / (math.sqrt(2) * 0.06 / math.sqrt(12)) < 1.6
    assert "3 pairs" in noise.origin and "up to 6 blocks" in noise.origin


def test_the_time_of_a_plan_is_that_of_cells_that_settle_as_those_of_a_former_run(tmp_path: Path) -> None:
    run = write_reduced(tmp_path / "run", CELLS, blocks=2)
    table = pd.read_parquet(run / "reduced" / "cells.parquet").assign(settle_s=1.25)
    table.to_parquet(run / "reduced" / "cells.parquet")
    options = {"lab": "embedded", "initiators": "1", "settle": "2s"}
    usual, former = sweep_plan.plan(options), sweep_plan.plan(options, noise_from=run)
    assert "if a cell settles in 1.4 s on average" in usual.lines[-1], "not in the longest, 2 s"
    assert "if a cell settles in 1.2 s on average" in former.lines[-1]
    assert former.length_s == pytest.approx(usual.length_s - len(usual.cells) * 0.2)
    assert former.repeats[1][1] == f"about {duration(former.length_s)}"
    shorter = sweep_plan.plan(options | {"settle": "1s"}, noise_from=run)
    assert "if a cell settles in 1 s on average" in shorter.lines[-1], "a cell settles no longer than it may"


def test_more_repeats_take_longer_and_show_less() -> None:
    rows = repeats_plan.rows(repeats_plan.Noise(0.1, "measured"), lambda repeats: 60.0 * repeats)
    assert [row[:2] for row in rows[1:]] == [
        ("1", "about 1 min 00 s"),
        ("3", "about 3 min 00 s"),
        ("5", "about 5 min 00 s"),
        ("10", "about 10 min 00 s"),
    ]
    assert [row[2] for row in rows[1:]] == ["none: one run has no interval", "+38.6 %", "+18.3 %", "+10.5 %"]


def test_the_noise_of_a_plan_is_that_of_the_newest_run_with_repeats_and_else_unknown(tmp_path: Path) -> None:
    options = {"lab": "embedded", "results": tmp_path, "repeats": 5, "precision": "10%"}
    unknown = sweep_plan.plan(options)
    assert [row[2] for row in unknown.repeats[1:]] == ["none: one run has no interval", *3 * ["unknown"]]
    assert unknown.forecast == "" and f"{tmp_path} has no run of the embedded lab with repeats" in unknown.noise
    write_reduced(tmp_path / "20260101-120000-embedded", CELLS, blocks=3, settings={"repeats": 3})
    write_reduced(tmp_path / "20260102-120000-embedded", CELLS, blocks=4, settings={"repeats": 4})
    write_reduced(tmp_path / "20260103-120000-embedded", CELLS)
    (tmp_path / "20260104-120000-embedded").mkdir()
    (tmp_path / "20260104-120000-embedded" / "manifest.json").write_text("{")
    known = sweep_plan.plan(options)
    assert "20260102-120000-embedded, in up to 4 blocks" in known.noise and known.forecast
    assert all(row[2].startswith("+") for row in known.repeats[2:])


@pytest.mark.parametrize(
    ("blocks", "lab", "message"),
    [(1, "embedded", "no pair of valid cells in two blocks"), (3, "sqlserver", "is a run of the embedded lab")],
)
def test_a_run_without_the_noise_is_an_error_of_one_line(tmp_path: Path, blocks: int, lab: str, message: str) -> None:
    run = write_reduced(tmp_path / "run", CELLS, blocks=blocks)
    with pytest.raises(ResultsError, match=message):
        repeats_plan.of_run(run, lab)
