"""The bytes that messages take of the network are told by payload."""

import pandas as pd
import pytest
from matplotlib import style

from harness.figures import network
from harness.figures.build import STYLE
from harness.figures.reduced_run import Missing

KEY = {"block": 1, "attempt": 1}


def tables(instance: str = "") -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return two cells with 100 and 1000 bytes a message, and the counters of a target that adds 50 bytes to each."""
    cells, counters = [], []
    for payload, rate in ((100, 2000.0), (1000, 500.0)):
        of_cell = KEY | {"cell_id": f"p{payload}"}
        facts = {"server_version": "2008", "payload_bytes": payload, "processed_per_s": rate, "valid": True}
        cells.append(of_cell | facts)
        for counter, size in ((network.RECEIVED, payload + 40), (network.SENT, 10)):
            named = f"{counter}\\{instance}" if instance else counter
            counters.append(of_cell | {"instance": "target", "counter": named, "change_per_s": size * rate})
            counters.append(of_cell | {"instance": "initiator-1", "counter": named, "change_per_s": 1e9})
    return pd.DataFrame(cells), pd.DataFrame(counters)


@pytest.mark.parametrize("instance", ["", "_Total"])
def test_bytes_of_a_message_and_of_a_second_are_drawn_by_payload(instance):
    with style.context(STYLE):
        sheet = network.draw(*tables(instance))
    assert sheet.title == "A message of 100 bytes takes 150 bytes on the network"
    of_message, of_second = sheet.axes
    assert [list(line.get_ydata()) for line in of_message.lines] == [[140, 1040], [10, 10], [100, 1000]]
    assert [list(line.get_ydata()) for line in of_second.lines] == [[0.28, 0.52], [0.02, 0.005]]


def test_cells_that_do_not_count_and_counters_of_a_single_sample_are_left_out():
    cells, counters = tables()
    cells.loc[0, "valid"] = False
    with style.context(STYLE):
        assert network.draw(cells, counters).title.startswith("A message of 1,000 bytes takes 1,050 bytes")
    with pytest.raises(Missing, match="not sampled"):
        network.draw(cells, counters.assign(change_per_s=None))
