"""Claims on the gain of the 150 trick and of other recommendations, on tables of a few rows."""

import pandas as pd
import pytest

from harness.claims.gain import noise_of
from tests.claims.tables import measured, missing, value


def gain(*rows):
    """Make a table from rows of (threads per initiator, factor); there are three initiators."""
    table = pd.DataFrame(rows, columns=["threads", "factor"])
    return table.assign(
        initiators=3,
        block=1,
        server_version="2005",
        total_threads=3 * table.threads,
        payload_bytes=100,
        dialog_ratio=150,
        gain_percent=100 * (table.factor - 1),
        valid=True,
    )


def test_one_number_of_threads_that_gains_refutes_no_gain_up_to_15():
    assert value("no_gain_up_to_15", gain=gain((1, 1.0), (3, 1.3), (5, 0.9))) == pytest.approx(30)
    assert "15 threads" in missing("no_gain_up_to_15", gain=gain((1, 1.0), (10, 2.0)))


def test_one_number_of_threads_without_gain_refutes_noticeable_from_30():
    table = gain((5, 1.0), (10, 1.2), (30, 1.05), (50, 4.0))
    assert value("gain_noticeable_from_30", gain=table) == pytest.approx(5)
    assert value("gain_max", gain=table) == pytest.approx(300)
    assert "is valid" in missing("gain_max", gain=table.assign(valid=False))
    assert "no pair" in missing("gain_max")


def test_no_gain_up_to_15_shows_what_fewer_initiators_gain_and_does_not_judge_it():
    others = pd.concat(
        [
            gain((1, 1.0), (15, 1.25), (20, 9.0)).assign(initiators=1, total_threads=[1, 15, 20]),
            gain((5, 0.9)).assign(initiators=2, total_threads=10),
        ]
    )
    found = measured("no_gain_up_to_15", gain=pd.concat([gain((1, 1.0), (5, 1.02)), others]))
    assert found.value == pytest.approx(2)
    assert found.basis.endswith("not judged, the largest of fewer initiators: +25 % with 1×15, −10 % with 2×5")
    assert measured("no_gain_up_to_15", gain=gain((5, 1.02))).basis.endswith("fewer initiators: none")


def test_a_gain_and_its_reciprocal_cancel():
    halves = [gain((5, 0.5), (10, 0.25)).assign(server_version="2008")]
    table = pd.concat([gain((5, 2.0), (10, 4.0)), *halves])
    assert value("no_gain_up_to_15", gain=table) == pytest.approx(0)
    assert value("gain_max", gain=table) == value("gain_noticeable_from_30", gain=table) == pytest.approx(0)


def techniques(**rates):
    rows = [(name, block, rate) for name, runs in rates.items() for block, rate in enumerate(runs, start=1)]
    table = pd.DataFrame(rows, columns=["technique", "block", "processed_per_s"])
    return table.assign(state="valid", server_version="2005")


def test_a_recommendation_is_worth_the_quotient_of_geometric_means():
    table = techniques(baseline=[900.0, 1100.0], receive_top_1=[250.0, 150.0], cold=[0.0])
    found = measured("receive_top_1", techniques=table)
    assert found.value == pytest.approx((900 * 1100 / (250 * 150)) ** 0.5)
    assert (found.blocks, found.low) == (2, None)
    assert "few_readers" in missing("few_readers", techniques=table)
    assert "cold" in missing("warm_up_needed", techniques=table)
    assert "were not run" in missing("warm_up_needed")
    table.loc[table.technique == "receive_top_1", "state"] = "saturated"
    assert "the target was saturated in receive_top_1" in measured("receive_top_1", techniques=table).basis


def test_the_ladder_counts_its_weakest_step():
    steps = ("dialog_per_message", "reuse", "receive_top_n", "activation_life", "readers_per_core", "trick_150")
    rates = dict(zip(steps, ([100.0], [300.0], [600.0], [660.0], [594.0], [1000.0]), strict=True))
    found = measured("techniques_build_up", techniques=techniques(**rates))
    assert found.value == pytest.approx(0.9) and "from activation_life to readers_per_core" in found.basis
    del rates["trick_150"]
    assert "trick_150" in missing("techniques_build_up", techniques=techniques(**rates))


def test_a_recommendation_that_was_run_in_three_blocks_has_the_interval_of_the_blocks_own_ratios():
    table = techniques(baseline=[900.0, 1800.0, 450.0], receive_top_1=[300.0, 600.0, 150.0])
    found = measured("receive_top_1", techniques=table)
    assert (found.low, found.value, found.high) == pytest.approx((3, 3, 3))
    other = techniques(baseline=[900.0, 900.0, 900.0], receive_top_1=[300.0, 600.0, 150.0])
    found = measured("receive_top_1", techniques=other)
    assert found.value == pytest.approx(3)
    assert found.low < 1.3 and found.high > 7


def test_the_noise_of_gains_is_not_the_difference_of_dialog_ratios():
    point = {"server_version": "2022", "initiators": 1, "threads": 5, "payload_bytes": 100, "valid": True}
    table = pd.DataFrame(
        [
            point | {"dialog_ratio": ratio, "block": block, "factor": factor}
            for block in (1, 2, 3)
            for ratio, factor in ((50, 1.1), (150, 4))
        ]
    )
    assert noise_of(table) == pytest.approx(0, abs=1e-12)
