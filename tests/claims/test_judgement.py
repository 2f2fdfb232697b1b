import numpy as np
import pandas as pd
import pytest

from harness.claims.judgement import Tables, geometric_mean, over_blocks, papers_cells
from tests.claims.tables import cells


def test_twice_and_half_cancel_in_the_geometric_mean():
    assert geometric_mean(pd.Series([2.0, 0.5])) == pytest.approx(1.0)
    assert geometric_mean(pd.Series([2.0, 8.0, None])) == pytest.approx(4.0)
    assert np.isnan(geometric_mean(pd.Series([0.0])))


def test_blocks_are_merged_over_the_valid_ones_where_there_are_any():
    table = pd.concat(
        [
            cells((1, 1, 150, 100, "2005", 100.0), (1, 5, 150, 100, "2005", 10.0), block=1),
            cells((1, 1, 150, 100, "2005", 400.0), (1, 5, 150, 100, "2005", 40.0), block=2),
        ],
        ignore_index=True,
    )
    table.loc[table.threads == 5, ["state", "state_reason"]] = ["disturbed", "other processes"]
    table.loc[(table.threads == 1) & (table.block == 2), "state"] = "behind"
    merged = over_blocks(Tables(cells=table)).cells.set_index("threads")
    assert (merged.processed_per_s[1], merged.state[1]) == (pytest.approx(100.0), "valid")
    assert (merged.processed_per_s[5], merged.state[5]) == (pytest.approx(20.0), "disturbed")


@pytest.mark.parametrize("other", [(4, 1, 150, 100), (1, 7, 150, 100), (1, 1, 10, 100), (1, 1, 150, 200)])
def test_cells_that_the_paper_did_not_run_are_not_judged(other):
    run = Tables(cells=cells((1, 1, 150, 100, "2022", 100.0), (*other, "2022", 900.0)))
    assert papers_cells(run).cells.processed_per_s.tolist() == [100.0]
    assert papers_cells(Tables(cells=run.cells.assign(workload="orders"))).cells.empty
