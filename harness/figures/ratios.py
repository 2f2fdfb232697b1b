"""What many ratios come to."""

from __future__ import annotations

import numpy as np
import pandas as pd

RESAMPLES = 4000
CELLS_FOR_INTERVAL = 5


def geometric_mean(values: pd.Series) -> float:
    """The mean that treats twice and half alike; NaN of nothing."""
    positive = values[values > 0]
    return float(np.exp(np.log(positive).mean())) if len(positive) else float("nan")


def interval(values: pd.Series) -> tuple[float, float] | None:
    """95 % bootstrap interval of the geometric mean over cells; None of too few.

    It says how far the mean depends on the choice of cells. It is no statement on repeating the runs.
    """
    logs = np.log(values[values > 0].to_numpy())
    if len(logs) < CELLS_FOR_INTERVAL:
        return None
    rng = np.random.default_rng(1)
    means = np.array([rng.choice(logs, len(logs)).mean() for _ in range(RESAMPLES)])
    low, high = np.exp(np.quantile(means, [0.025, 0.975]))
    return float(low), float(high)
