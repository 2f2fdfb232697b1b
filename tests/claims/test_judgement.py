import numpy as np
import pandas as pd
import pytest

from harness.claims.judgement import Spread, geometric_mean, spread_of, spread_of_quotient


def test_a_spread_is_the_lowest_and_the_highest_of_the_values_that_are_numbers():
    assert spread_of(pd.Series([3.0, np.nan, 1.0, 2.0]), "cells") == Spread(1, 3, "cells")
    assert spread_of(pd.Series([3.0, np.nan]), "cells") is None


def test_the_spread_of_a_quotient_is_as_wide_as_both_spreads_allow():
    runs = Spread(10, 20, "runs")
    assert spread_of_quotient(runs, Spread(2, 5, "runs")) == Spread(2, 10, "runs")
    assert spread_of_quotient(runs, Spread(2, 5, "seconds")).over == "runs and seconds"
    assert spread_of_quotient(runs, Spread(0, 5, "runs")) is None
    assert spread_of_quotient(None, runs) is None


def test_twice_and_half_cancel_in_the_geometric_mean():
    assert geometric_mean(pd.Series([2.0, 0.5])) == pytest.approx(1.0)
    assert geometric_mean(pd.Series([2.0, 8.0, None])) == pytest.approx(4.0)
    assert np.isnan(geometric_mean(pd.Series([0.0])))
