"""A run's number for a claim, with its interval over the blocks of the run.

The builders take a Series whose index has a level `block`; the other levels name the member, such as a cell or a pair
of cells. They average over members in each block and then over blocks, so that the block is the unit of the interval
(`harness.definitions.inference`). Members that were repeated in fewer than three blocks are left out where others were
repeated more often: their spread is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from harness.definitions.inference import (
    ALPHA,
    BLOCKS_MIN,
    CONFIDENCE,
    block_means,
    interval_of_mean,
    interval_of_ratio,
    pooled,
    repeated,
)
from harness.definitions.variances import Spread


class NotMeasured(Exception):
    """The result set lacks what a claim speaks of; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A run's number for a claim in the claim's unit; `basis` says in a clause what it is made of.

    `blocks` are those over which the number is a mean, 0 for a count. `low` and `high` are its interval, None below
    three blocks. `single` are the lowest and the highest of the cells that the number is made of, which is no interval:
    the cells of a matrix are no repetitions of each other.
    """

    value: float
    basis: str
    blocks: int = 0
    low: float | None = None
    high: float | None = None
    single: tuple[float, float] | None = None

    def scaled(self, scale: float, offset: float = 0) -> Measurement:
        """Return the number in another unit: `scale` times as much, plus `offset`."""

        def of(value: float) -> float:
            return scale * value + offset

        return replace(
            self,
            value=of(self.value),
            low=None if self.low is None else of(self.low),
            high=None if self.high is None else of(self.high),
            single=None if self.single is None else (of(self.single[0]), of(self.single[1])),
        )


@dataclass(frozen=True, slots=True)
class Points:
    """The points of which one is the best or the worst: how many, and how their blocks scatter."""

    number: int
    spread: Spread | None  # None without repeats


def points_of(logs: pd.Series, point: Sequence[str]) -> Points:
    """Return the points of logarithms whose index has these levels. Their spread is pooled, because that of the best
    one's few blocks is too small by chance, or so uncertain that intervals of many points together say nothing."""
    rows = logs.rename("value").reset_index()
    member = [name for name in logs.index.names if name not in {"block", *point}]
    means = block_means(repeated(rows, member, point), member, "value", point)
    of_points = means.groupby(level=list(point))
    return Points(len(of_points), pooled(of_points))


def geometric_mean(logs: pd.Series, of: str, basis: str = "", *, among: Points | None = None) -> Measurement:
    """Take the geometric mean of rates or ratios, given as logarithms; `of` names them: `pairs of cells`.

    Where it is the best or the worst `among` points, the interval is one of intervals that all hold together
    (Bonferroni): the largest of many is too large by chance.
    """
    rows, member = _members(logs)
    confidence, spread = (1 - ALPHA / among.number, among.spread) if among else (CONFIDENCE, None)
    interval = interval_of_ratio(block_means(rows, member, "value"), confidence, spread)
    members = np.exp(rows.groupby(member).value.mean())
    return Measurement(
        interval.ratio,
        _basis(basis, "geometric mean", len(members), of),
        interval.blocks,
        interval.low,
        interval.high,
        _ends(members),
    )


def mean(values: pd.Series, of: str, basis: str = "") -> Measurement:
    """Take the arithmetic mean of times or percentages; `of` names them."""
    rows, member = _members(values)
    members = rows.groupby(member).value.mean()
    by_block = block_means(rows, member, "value")
    return _mean_of_blocks(by_block, _basis(basis, "mean", len(members), of), _ends(members))


def quotient_of_sums(dividends: pd.Series, divisors: pd.Series, basis: str) -> Measurement:
    """Divide the sum of `dividends` by the sum of `divisors` in each block, and take the mean of the blocks.

    Some divisor must be positive.
    """
    rows, member = _members(divisors)
    rows = rows.assign(dividend=dividends.reset_index(drop=True)[rows.index])
    by_member = rows.groupby(member)[["dividend", "value"]].sum()
    by_block = rows.groupby("block")[["dividend", "value"]].sum()
    if not (by_block.value > 0).any():
        raise NotMeasured("the cells that were repeated have nothing to divide by")
    quotients, single = (sums.dividend[sums.value > 0] / sums.value[sums.value > 0] for sums in (by_block, by_member))
    return _mean_of_blocks(quotients, basis, _ends(single))


def place(by_block: pd.Series, basis: str) -> Measurement:
    """Take the mean over blocks of numbers that each block has one of."""
    return _mean_of_blocks(by_block, basis, None)


def _mean_of_blocks(by_block: pd.Series, basis: str, single: tuple[float, float] | None) -> Measurement:
    interval = interval_of_mean(by_block)
    if interval.blocks >= BLOCKS_MIN and by_block.nunique() == 1:
        return Measurement(interval.mean, basis, single=single)  # a count, whose interval would have no width
    return Measurement(interval.mean, basis, interval.blocks, interval.low, interval.high, single)


def _members(values: pd.Series) -> tuple[pd.DataFrame, list[str]]:
    rows = values.rename("value").reset_index()
    member = [name for name in values.index.names if name != "block"]
    return repeated(rows, member), member


def _ends(members: pd.Series) -> tuple[float, float] | None:
    return (float(members.min()), float(members.max())) if members.nunique() > 1 else None


def _basis(basis: str, mean: str, members: int, of: str) -> str:
    """Write `few words: geometric mean of 3 pairs of cells`; one member has no mean worth words."""
    return f"{basis}{mean} of {members} {of}" if members > 1 else basis.rstrip(";: ") or f"one of {of}"
