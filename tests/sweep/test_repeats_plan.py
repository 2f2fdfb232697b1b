"""The noise from which a plan computes what its repeats can show."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from harness.matrix import Cell
from harness.records import ResultsError
from harness.sweep import repeats_plan
from tests.results_fixture import write_reduced

CELLS = [Cell("2008", 1, ratio, threads, 100) for threads in (1, 5, 10) for ratio in (1, 150)]


def test_the_noise_of_a_run_is_that_of_its_repeats(tmp_path: Path) -> None:
    noise = repeats_plan.of_run(write_reduced(tmp_path / "run", CELLS, blocks=6), "embedded")
    # Each rate of the fixture is drawn from 97 % to 103 %, evenly: a standard deviation of 1.7 %, two of them in a ratio.
    assert 0.5 < noise.log_ratio / (math.sqrt(2) * 0.06 / math.sqrt(12)) < 1.6
    assert "3 pairs" in noise.origin and "up to 6 blocks" in noise.origin


def test_more_repeats_take_longer_and_show_less() -> None:
    rows = repeats_plan.rows(repeats_plan.Noise(0.1, "measured"), lambda repeats: 60.0 * repeats)
    assert [row[:2] for row in rows[1:]] == [
        ("1", "about 1 min 00 s"),
        ("3", "about 3 min 00 s"),
        ("5", "about 5 min 00 s"),
        ("10", "about 10 min 00 s"),
    ]
    assert [row[2] for row in rows[1:]] == ["none: one run has no interval", "+38.6 %", "+18.3 %", "+10.5 %"]


@pytest.mark.parametrize(
    ("blocks", "lab", "message"),
    [(1, "embedded", "no pair of valid cells in two blocks"), (3, "sqlserver", "is a run of the embedded lab")],
)
def test_a_run_without_the_noise_is_an_error_of_one_line(tmp_path: Path, blocks: int, lab: str, message: str) -> None:
    run = write_reduced(tmp_path / "run", CELLS, blocks=blocks)
    with pytest.raises(ResultsError, match=message):
        repeats_plan.of_run(run, lab)
