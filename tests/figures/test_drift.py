"""A drift of the rates over a run is told with its interval, or that it cannot be distinguished from none."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import style

from harness.figures import drift
from harness.figures.build import STYLE
from harness.figures.reduced_run import Missing

MINUTE_NS = 60 * 10**9


def cells(blocks: int, change: float = 0.0, noise: float = 0.0) -> pd.DataFrame:
    """Return six cells in blocks of ten minutes; `change` is that of the rates between two blocks."""
    random = np.random.default_rng(7)
    rows = [
        {
            "cell_id": f"cell-{cell}",
            "block": block,
            "server_version": "2008",
            "initiators": 1,
            "processed_per_s": 100 * cell * (1 + change) ** block * np.exp(random.normal(0, noise)),
            "valid": True,
            "started_at_ns": (block * 10 + cell) * MINUTE_NS,
        }
        for block in range(1, blocks + 1)
        for cell in range(1, 7)
    ]
    return pd.DataFrame(rows)


def title(table: pd.DataFrame) -> str:
    with style.context(STYLE):
        return drift.draw(table).title


def test_a_drift_is_told_from_the_first_block_to_the_last():
    words = title(cells(5, change=0.02, noise=0.001))
    assert words.startswith("Rates changed by +8 % (95 %: +8 to +") and words.endswith("over the run")
    assert title(cells(5, change=-0.1)) == "Rates changed by −34 % (95 %: −34 to −34 %) over the run"


def test_without_a_drift_none_is_told():
    assert title(cells(6, noise=0.05)).startswith("Over the run, a change of rates cannot be distinguished from none: ")
    assert title(cells(2, noise=0.05)).endswith("over the run: 2 runs, no interval")


def test_only_cells_that_count_in_each_block_are_compared():
    table = cells(4)
    table.loc[(table.cell_id == "cell-6") & (table.block == 4), "processed_per_s"] *= 0.1
    table.loc[(table.cell_id == "cell-6") & (table.block == 4), "valid"] = False
    assert "changed by" not in title(table)
    with style.context(STYLE):
        assert drift.draw(table).subtitle.startswith("5 cells that count in each of 4 blocks. ")


@pytest.mark.parametrize("blocks", [1, 3])
def test_without_cells_in_several_blocks_there_is_no_figure(blocks):
    with pytest.raises(Missing):
        drift.draw(cells(blocks).assign(valid=blocks == 1))
