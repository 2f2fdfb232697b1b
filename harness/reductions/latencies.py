"""Latencies of one cell, of calls or of messages end to end: exact percentiles to the microsecond."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

QUANTILES = (0.5, 0.95, 0.99)
NS_PER_US = 1000


class Latencies:
    """How many of a cell's latencies took each whole microsecond, which are far fewer numbers than latencies."""

    def __init__(self) -> None:
        self._us = self._counts = np.empty(0, np.int64)
        self._longest_ns: int | None = None
        self._negative = 0

    def add(self, ns: NDArray[np.int64]) -> None:
        if not len(ns):
            return
        longest = int(ns.max())
        self._longest_ns = longest if self._longest_ns is None else max(self._longest_ns, longest)
        self._negative += int((ns < 0).sum())
        us, counts = np.unique(_us(ns), return_counts=True)
        if len(self._us):
            us, places = np.unique(np.concatenate((self._us, us)), return_inverse=True)
            counts = np.bincount(places, weights=np.concatenate((self._counts, counts))).astype(np.int64)
        self._us, self._counts = us, counts

    @property
    def longest_us(self) -> float | None:
        return None if self._longest_ns is None else self._longest_ns / NS_PER_US

    @property
    def negative(self) -> int | None:
        """The number of latencies below zero; None without latencies."""
        return None if self._longest_ns is None else self._negative

    def quantile_us(self, quantile: float) -> float | None:
        """Interpolate between the nearest ranks; None where too few values carry the quantile."""
        values = int(self._counts.sum())
        if values < values_needed(quantile):
            return None
        position = quantile * (values - 1)
        below = math.floor(position)
        # The distinct value of a rank is the first one up to which more values lie than the rank says.
        first, second = self._us[np.searchsorted(self._counts.cumsum(), (below, below + 1), side="right")]
        return float(first * (1 - (position - below)) + second * (position - below))


def values_needed(quantile: float) -> int:
    """Return how many values carry a quantile: ten lie beyond it, so that a few slow calls do not decide it."""
    return round(10 / (1 - quantile))


def _us(ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the nearest microsecond; the half is rounded away from zero."""
    rounded = (np.abs(ns) + NS_PER_US // 2) // NS_PER_US
    return np.where(ns < 0, -rounded, rounded)
