"""Claims on the gain of the 150 trick, on tables of a few rows."""

import pandas as pd
import pytest

from tests.claims.tables import missing, value


def gain(*rows):
    """Make a table from rows of (threads per initiator, factor); there are three initiators."""
    table = pd.DataFrame(rows, columns=["threads", "factor"])
    return table.assign(
        initiators=3,
        total_threads=3 * table.threads,
        payload_bytes=100,
        gain_percent=100 * (table.factor - 1),
        target_kept_up=True,
    )


def test_one_number_of_threads_that_gains_refutes_no_gain_up_to_15():
    assert value("no_gain_up_to_15", gain=gain((1, 1.0), (3, 1.3), (5, 0.9))) == pytest.approx(30)
    assert "15 threads" in missing("no_gain_up_to_15", gain=gain((1, 1.0), (10, 2.0)))


def test_one_number_of_threads_without_gain_refutes_noticeable_from_30():
    table = gain((5, 1.0), (10, 1.2), (30, 1.05), (50, 4.0))
    assert value("gain_noticeable_from_30", gain=table) == pytest.approx(5)
    assert value("gain_max", gain=table) == pytest.approx(300)
    assert "no sustained gain" in missing("gain_max", gain=table.assign(target_kept_up=False))
    assert "no pair" in missing("gain_max")
