"""Claims on the recommendations, on tables of a few rows."""

import pandas as pd
import pytest

from harness.claims.evaluation import MEASURES
from harness.claims.spread import Spread
from tests.claims.tables import Tables, missing


def techniques(**rates):
    rows = [(name, run, rate) for name, runs in rates.items() for run, rate in enumerate(runs, start=1)]
    return pd.DataFrame(rows, columns=["technique", "run", "processed_per_s"]).assign(target_kept_up=True)


def test_a_recommendation_is_worth_the_quotient_of_means():
    table = techniques(baseline=[900.0, 1100.0], receive_top_1=[250.0, 150.0], cold=[0.0])
    measured = MEASURES["receive_top_1"](Tables(techniques=table))
    assert measured.value == pytest.approx(5)
    assert measured.spread == Spread(3.6, 1100 / 150, "runs")
    assert "few_readers" in missing("few_readers", techniques=table)
    assert "cold" in missing("warm_up_needed", techniques=table)
    assert "were not run" in missing("warm_up_needed")
    table.loc[table.technique == "receive_top_1", "target_kept_up"] = False
    assert "the target fell behind in receive_top_1" in MEASURES["receive_top_1"](Tables(techniques=table)).basis


def test_the_ladder_counts_its_weakest_step():
    steps = ("dialog_per_message", "reuse", "receive_top_n", "activation_life", "readers_per_core", "trick_150")
    rates = dict(zip(steps, ([100.0], [300.0], [600.0], [660.0], [594.0], [1000.0]), strict=True))
    measured = MEASURES["techniques_build_up"](Tables(techniques=techniques(**rates)))
    assert measured.value == pytest.approx(0.9) and "from activation_life to readers_per_core" in measured.basis
    del rates["trick_150"]
    assert "trick_150" in missing("techniques_build_up", techniques=techniques(**rates))
