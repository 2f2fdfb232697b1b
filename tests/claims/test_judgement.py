import numpy as np
import pandas as pd
import pytest

from harness.claims.judgement import geometric_mean


def test_twice_and_half_cancel_in_the_geometric_mean():
    assert geometric_mean(pd.Series([2.0, 0.5])) == pytest.approx(1.0)
    assert geometric_mean(pd.Series([2.0, 8.0, None])) == pytest.approx(4.0)
    assert np.isnan(geometric_mean(pd.Series([0.0])))
