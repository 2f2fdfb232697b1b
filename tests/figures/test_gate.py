"""What `compare --fail-over` decides, on edited copies of a run."""

import numpy as np
import pandas as pd
import pytest

from harness.figures.gate import Gate, judge
from harness.figures.ratios import LATENCIES, QUANTITIES, by_cell, groups

CELLS, BLOCKS = 14, 5


@pytest.fixture
def cells() -> pd.DataFrame:
    """A run whose rates vary by 1 % from block to block, and its latencies by 3 %."""
    random = np.random.default_rng(1)
    rows = pd.DataFrame([(f"c{cell:02}", block) for block in range(1, BLOCKS + 1) for cell in range(CELLS)])
    rows.columns = pd.Index(["cell_id", "block"])
    axes = {"server_version": "2022", "initiators": 1, "dialog_ratio": 1, "payload_bytes": 100}
    rows = rows.assign(**axes, threads=rows.cell_id.str[1:].astype(int), total_threads=1, rate_per_s=np.nan)
    for name in QUANTITIES:
        rows[name] = 1000 * np.exp(random.normal(0, 0.03 if name in LATENCIES else 0.01, len(rows)))
    return rows.assign(valid=True, saturated=False, state="valid", missed_calls=np.nan, due_calls=np.nan)


def again(cells: pd.DataFrame) -> pd.DataFrame:
    """The same run on another day: its blocks in another order."""
    return cells.assign(block=BLOCKS + 1 - cells.block)


def judged(a: pd.DataFrame, b: pd.DataFrame, failed: frozenset[str] = frozenset()) -> Gate:
    return judge(a, b, by_cell(a, b, 0.05), groups(a, b, 0.05), 0.05, failed)


def test_no_slowdown_can_hide_in_a_run_that_repeats_its_numbers(cells: pd.DataFrame) -> None:
    assert judged(cells, again(cells)) == Gate()


def test_a_run_at_half_rate_is_slower(cells: pd.DataFrame) -> None:
    slower = judged(cells, cells.assign(processed_per_s=cells.processed_per_s / 2)).slowdowns
    assert slower[0].startswith("all 14 cells together (0.50, ") and len(slower) == 1 + CELLS


@pytest.mark.parametrize("state", ["behind", "saturated"])
def test_cells_whose_target_no_longer_keeps_up_are_slower_whether_they_count_or_not(
    cells: pd.DataFrame, state: str
) -> None:
    first_half = cells.threads < 8
    spoilt = cells.assign(valid=~first_half | (state == "saturated"), saturated=first_half & (state == "saturated"))
    spoilt.loc[first_half, ["state", "processed_per_s"]] = (state, 500.0)
    expected = f"8 cells that counted in a, {state} in b (c00, c01, c02, ...)"
    assert expected in judged(cells, spoilt).slowdowns


@pytest.mark.parametrize("how", ["missing", "failed", "disturbed"])
def test_cells_of_which_nothing_is_known_do_not_pass(cells: pd.DataFrame, how: str) -> None:
    gone = cells.threads < 8
    b = cells.assign(valid=~gone, state=np.where(gone, "disturbed", "valid")) if how == "disturbed" else cells[~gone]
    found = judged(cells, b, frozenset(cells.cell_id[gone]) if how == "failed" else frozenset())
    sentence = f"8 cells that counted in a, {how} in b (c00, c01, c02, ...)"
    assert found == (Gate(slowdowns=[sentence]) if how == "failed" else Gate(unknown=[sentence]))


@pytest.mark.parametrize("name", LATENCIES)
def test_latencies_ten_times_as_long_are_slower_and_a_tenth_more_is_not(cells: pd.DataFrame, name: str) -> None:
    words = name.replace("latency_us_", "call ").replace("end_to_end_us_", "end to end ")
    [slower] = judged(cells, cells.assign(**{name: 10 * cells[name]})).slowdowns
    assert slower.startswith(f"{words} (10.00, ")
    assert judged(cells, cells.assign(**{name: 1.1 * cells[name]})) == Gate()


def test_open_loops_are_judged_by_latencies_and_calls_that_were_never_made(cells: pd.DataFrame) -> None:
    a = cells.assign(rate_per_s=500.0, missed_calls=0.0, due_calls=1000.0)
    assert judged(a, a.assign(processed_per_s=a.processed_per_s / 2)) == Gate()
    assert judged(a, a.assign(missed_calls=100.0)).slowdowns == [
        "calls that were due and never made: 10.0%, after 0.0%"
    ]
    assert judged(a, a.assign(latency_us_p50=3 * a.latency_us_p50)).slowdowns


def test_runs_without_repeats_cannot_tell(cells: pd.DataFrame) -> None:
    once = cells[cells.block == 1]
    assert (
        judged(once, once).unknown[0]
        == "the rates of 14 cells have no interval, which needs 3 blocks that count in both"
    )


def test_where_the_rates_vary_the_blocks_that_would_tell_are_named(cells: pd.DataFrame) -> None:
    noise = 1 + 0.1 * (cells.block - 3) / 2
    [unknown] = judged(cells, cells.assign(processed_per_s=cells.processed_per_s * noise)).unknown
    assert unknown.startswith("all 14 cells together (1.00, ") and unknown.endswith(" blocks of both would tell")
