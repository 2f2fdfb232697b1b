"""What many ratios come to, and how far that depends on which cells they are of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

RESAMPLES = 1000
CELLS_FOR_INTERVAL = 5
LEVEL = (0.025, 0.975)

Interval = tuple[float, float]


def geometric_mean(values: pd.Series) -> float:
    """The mean that treats twice and half alike; NaN of nothing."""
    positive = values[values > 0]
    return float(np.exp(np.log(positive).mean())) if len(positive) else float("nan")


def interval(values: pd.Series) -> Interval | None:
    """95 % bootstrap interval of the geometric mean over cells; None of too few.

    It says how far the mean depends on the choice of cells. It is no statement on repeating the runs.
    """
    logs = np.log(values[values > 0].to_numpy())
    if len(logs) < CELLS_FOR_INTERVAL:
        return None
    rng = np.random.default_rng(1)
    means = rng.choice(logs, (RESAMPLES, len(logs))).mean(axis=1)
    low, high = np.exp(np.quantile(means, LEVEL))
    return float(low), float(high)


def bootstrap(rows: pd.DataFrame, statistic: Callable[[np.ndarray], float]) -> Interval | None:
    """95 % bootstrap interval of a statistic of the columns of `rows`, resampled row by row; None of too few rows.

    `statistic` gets an array (rows × columns) of floats.
    """
    values = rows.to_numpy(dtype=float)
    if len(values) < CELLS_FOR_INTERVAL:
        return None
    rng = np.random.default_rng(1)
    results = [statistic(values[rng.integers(0, len(values), len(values))]) for _ in range(RESAMPLES)]
    low, high = np.nanquantile(results, LEVEL)
    return float(low), float(high)


def of_proportion(successes: int, trials: int) -> Interval:
    """95 % Wilson interval of a proportion of at least one trial."""
    z2 = 1.959964**2
    share = successes / trials
    middle = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = np.sqrt(z2 * (share * (1 - share) / trials + z2 / (4 * trials**2))) / (1 + z2 / trials)
    return max(0.0, float(middle - half)), min(1.0, float(middle + half))
