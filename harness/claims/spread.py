"""The mean of ratios, and how far apart the values lie that a number is made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True, slots=True)
class Spread:
    """The lowest and the highest of the values that a number is made of.

    `over` names those values: cells, versions, lines, pools, seconds or runs. A spread is not a confidence interval:
    the cells of a matrix are not repetitions of each other.
    """

    low: float
    high: float
    over: str


def spread_of(values: pd.Series | np.ndarray, over: str) -> Spread | None:
    """Return the spread of the values that are numbers, or None for fewer than two."""
    known = pd.Series(values, dtype=float).dropna()
    return Spread(float(known.min()), float(known.max()), over) if len(known) > 1 else None


def spread_of_quotient(dividend: Spread | None, divisor: Spread | None) -> Spread | None:
    """Return the furthest values that a quotient of two numbers can have, or None where a spread is unknown."""
    if dividend is None or divisor is None or divisor.low <= 0:
        return None
    over = dividend.over if dividend.over == divisor.over else f"{dividend.over} and {divisor.over}"
    return Spread(dividend.low / divisor.high, dividend.high / divisor.low, over)


def geometric_mean(values: pd.Series) -> float:
    """Return the mean in which twice and half cancel; NaN without a positive value."""
    positive = values[values > 0]
    return float(np.exp(np.log(positive).mean())) if len(positive) else float("nan")
