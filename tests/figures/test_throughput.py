"""The course of the busiest cell."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import style
from matplotlib.patches import StepPatch

from harness.figures import throughput
from harness.figures.build import STYLE

CELL = {"cell_id": "i1-t5-r1-p100-v2022", "server_version": "2022", "block": 1}
NUMBERS = {"initiators": 1, "threads": 5, "dialog_ratio": 1, "payload_bytes": 100}
# Four bins of half a second; while the threads stopped one by one, the next is 10 ms long; then the drain.
LENGTHS_S = (0.5, 0.5, 0.5, 0.5, 0.01, 0.3)


@pytest.fixture
def cells() -> pd.DataFrame:
    course = {"settle_s": 1.0, "measured_s": 1.0, "load_s": 2.01, "drain_s": 0.3}
    rates = {"sent_per_s": 600.0, "processed_per_s": 200.0, "queue_depth_peak": 90, "transmission_queue_depth_peak": 9}
    state = {"state": "behind", "state_reason": "the target processed 33% of what was sent", "valid": False}
    return pd.DataFrame([CELL | NUMBERS | course | rates | state])


@pytest.fixture
def bins() -> pd.DataFrame:
    phases = ["settle", "settle", "measure", "measure", "stop", "drain"]
    sent = {"sent_messages": [300, 300, 300, 300, 1, 0], "processed_messages": [100, 100, 100, 100, 2, 799]}
    begins = np.cumsum([0, *LENGTHS_S[:-1]])
    table = pd.DataFrame({"bin": range(6), "phase": phases, "from_s": begins, "length_s": LENGTHS_S} | sent)
    return table.assign(**CELL)


def drawn(bins: pd.DataFrame, cells: pd.DataFrame):
    seconds = pd.DataFrame({"second": [0, 1], "queue_depth": [40.0, 90.0], "transmission_queue_depth": [4.0, 9.0]})
    with style.context(STYLE):
        return throughput.queues(bins, seconds.assign(**CELL), cells)


def test_a_bin_that_is_too_short_for_a_rate_has_none(bins: pd.DataFrame, cells: pd.DataFrame) -> None:
    sent, processed = (patch.get_data().values for patch in drawn(bins, cells).axes[0].findobj(StepPatch))
    assert list(sent[:4]) == [600] * 4 and list(processed[:4]) == [200] * 4
    assert np.isnan([sent[4], processed[4]]).all(), "one message in 10 ms is no fall to 100 messages/s"
    assert (sent[5], processed[5]) == (0, pytest.approx(799 / 0.3))


def test_a_busiest_cell_that_does_not_count_says_so(bins: pd.DataFrame, cells: pd.DataFrame) -> None:
    said = "The cell does not count, it is behind: the target processed 33% of what was sent."
    assert said in drawn(bins, cells).subtitle
    assert "does not count" not in drawn(bins, cells.assign(valid=True, state="valid", state_reason="")).subtitle
