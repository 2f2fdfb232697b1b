"""What a run's numbers can prove: ratios with intervals, verdicts, and the differences that a number of repeats shows.

The unit is the block: one pass over the selected cells. Cells, calls and seconds inside a block share its moment on
the machine and follow one another, so they are no replicates (Kalibera and Jones 2013; Georges et al. 2007), and no
interval is computed over them. Rates are compared as ratios, so everything is computed on their natural logarithms and
shown as a ratio: 1 is no difference.

* Two cells that are neighbours in each block, as the two of a gain: one log ratio per block, `interval_of_ratio`.
* Two runs: block 3 of one is no neighbour of block 3 of the other, so the blocks are independent samples with
  variances of their own, `interval_between` (Welch). What differs between two runs as wholes, such as the machine's
  neighbours on that day, is not in their blocks: twin runs measure it (`harness aa`), and the interval has
  it as `between`.
* Several cells at once: `block_means` first, then one of these.
* Several intervals side by side: `intervals` and `verdicts`, which keep the share of false ones below 5 % (Benjamini
  and Hochberg 1995).

SciPy and statsmodels do the statistics.
"""

# ruff: noqa: PLC0415  scipy.stats takes a second to import, and a run without repeats needs none of it; statsmodels half

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.definitions.variances import Spread, Variances

if TYPE_CHECKING:
    from pandas.core.groupby import DataFrameGroupBy, SeriesGroupBy
    from scipy.stats import TtestResult

CONFIDENCE = 0.95
ALPHA = 1 - CONFIDENCE
POWER = 0.8
# The t interval of two blocks is ten times as wide as that of five, and fewer than two show no spread at all.
BLOCKS_MIN = 3
_THERE_Z, _SUSPECTED_Z = 1.645, 0.524  # one-sided, at the levels of 5 and 30 %
# Logarithms closer than this are equal but for rounding: a model without chance repeats its numbers exactly.
_EQUAL = 1e-9

Logs = Sequence[float] | npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio with its interval, of so many blocks; without `low`, `high` and `p_value` below BLOCKS_MIN blocks."""

    ratio: float
    low: float | None
    high: float | None
    blocks: int
    p_value: float | None  # that a ratio so far from 1 comes by chance where there is no difference

    @property
    def is_known(self) -> bool:
        return self.low is not None


def no_interval(blocks: int) -> str:
    """`one run, no interval`: what stands in the place of an interval below BLOCKS_MIN blocks."""
    return f"{'one run' if blocks == 1 else f'{blocks} runs'}, no interval"


def no_interval_sentence(blocks: int) -> str:
    """`One run, no interval.`"""
    words = no_interval(blocks)
    return f"{words[:1].upper()}{words[1:]}."


@dataclass(frozen=True, slots=True)
class IntervalOfMean:
    """An arithmetic mean with its interval, of so many blocks; without `low` and `high` below BLOCKS_MIN blocks."""

    mean: float
    low: float | None
    high: float | None
    blocks: int


class Difference(StrEnum):
    """What a comparison can say."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a comparison says at a threshold, which is a part: 0.05 is 5 %."""

    difference: Difference
    threshold: float

    def __str__(self) -> str:
        """`faster`, `slower`, `same within 5 %` or `cannot tell`"""
        same = self.difference is Difference.SAME
        return f"{self.difference.value}{f' within {100 * self.threshold:g} %' if same else ''}"


def interval_of_ratio(log_ratios: Logs, confidence: float = CONFIDENCE, spread: Spread | None = None) -> Interval:
    """Return the geometric mean of the ratios of neighbours, one log ratio per block, with its t interval.

    A `spread` of blocks takes the place of that of these few. Raises ValueError if there is none, or if one is not
    finite.
    """
    values = _finite(log_ratios)
    mean = float(values.mean())
    if len(values) < BLOCKS_MIN:
        return Interval(math.exp(mean), None, None, len(values), None)
    if spread is not None and spread.variance > 0:
        return _of_spreads(mean, [Spread(spread.variance / len(values), spread.freedom)], confidence, len(values))
    if np.ptp(values) < _EQUAL:
        return _exact(mean, len(values))
    from scipy import stats

    return _tested(mean, stats.ttest_1samp(values, 0), confidence, len(values))


def interval_of_mean(values: Logs) -> IntervalOfMean:
    """Return the mean of one value per block with its t interval: for percentages and counts, which may be zero.

    Raises ValueError if there is none, or if one is not finite.
    """
    finite = _finite(values)
    mean = float(finite.mean())
    if len(finite) < BLOCKS_MIN:
        return IntervalOfMean(mean, None, None, len(finite))
    if np.ptp(finite) < _EQUAL * max(1.0, abs(mean)):
        return IntervalOfMean(mean, mean, mean, len(finite))
    from scipy import stats

    low, high = stats.ttest_1samp(finite, 0).confidence_interval(CONFIDENCE)
    return IntervalOfMean(mean, float(low), float(high), len(finite))


def interval_between(
    logs_a: Logs, logs_b: Logs, confidence: float = CONFIDENCE, between: Spread | None = None
) -> Interval:
    """Return b divided by a with the interval of Welch's t test, from the logarithms of the blocks of two runs.

    A variance `between` the runs is a third one beside theirs, with Satterthwaite's degrees of freedom. The interval's
    blocks are those of the run that has fewer. Raises ValueError if a run has none, or if one is not finite.
    """
    a, b = _finite(logs_a), _finite(logs_b)
    mean, blocks = float(b.mean() - a.mean()), min(len(a), len(b))
    if blocks < BLOCKS_MIN:
        return Interval(math.exp(mean), None, None, blocks, None)
    if between is not None and between.variance > 0:
        parts = [Spread(float(side.var(ddof=1)) / len(side), len(side) - 1) for side in (a, b)]
        return _of_spreads(mean, [between, *parts], confidence, blocks)
    if max(np.ptp(a), np.ptp(b)) < _EQUAL:
        return _exact(mean, blocks)
    from scipy import stats

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # one side may repeat its number exactly, and the other not
        return _tested(mean, stats.ttest_ind(b, a, equal_var=False), confidence, blocks)


def _of_spreads(mean: float, parts: Sequence[Spread], confidence: float, blocks: int) -> Interval:
    from scipy import stats

    whole = _sum(parts)
    error = math.sqrt(whole.variance)
    low, high = (math.exp(end) for end in stats.t.interval(confidence, whole.freedom, mean, error))
    return Interval(math.exp(mean), low, high, blocks, float(2 * stats.t.sf(abs(mean) / error, whole.freedom)))


def _sum(parts: Sequence[Spread]) -> Spread:
    """Add variances, with Satterthwaite's degrees of freedom."""
    variance = sum(part.variance for part in parts)
    return Spread(variance, variance**2 / sum(part.variance**2 / part.freedom for part in parts))


def _finite(logs: Logs) -> npt.NDArray[np.float64]:
    values = np.asarray(logs, dtype=float)
    if not (values.size and np.isfinite(values).all()):
        raise ValueError("an interval needs at least one block, and finite numbers")
    return values


def _exact(mean: float, blocks: int) -> Interval:
    is_equal = abs(mean) < _EQUAL
    ratio = 1.0 if is_equal else math.exp(mean)
    return Interval(ratio, ratio, ratio, blocks, float(is_equal))


def _tested(mean: float, test: TtestResult, confidence: float, blocks: int) -> Interval:
    low, high = (math.exp(bound) for bound in test.confidence_interval(confidence))
    return Interval(math.exp(mean), low, high, blocks, float(test.pvalue))


def block_means(
    rows: pd.DataFrame, member: Sequence[str], value: str | list[str], by: Sequence[str] = ()
) -> pd.Series | pd.DataFrame:
    """Return the mean of `value`, a column or several, over the members in each block, by `block`; with `by`, at each
    point of these columns, by them and `block`.

    `rows` has one row per member (its columns `member`) and block. A member that a block lacks leaves that block's mean
    where it was: a member counts as its own mean plus its deviations.
    """
    members = _members(rows, member, by)[value]
    deviations = (rows[value] - members.transform("mean")).groupby([rows[name] for name in (*by, "block")]).mean()
    if not by:
        return members.mean().mean() + deviations
    level = members.mean().groupby(level=list(by)).mean()
    return deviations + level.reindex(deviations.index.droplevel("block")).to_numpy()


def repeated(rows: pd.DataFrame, member: Sequence[str], by: Sequence[str] = ()) -> pd.DataFrame:
    """Return the rows of members that are in BLOCKS_MIN blocks or more; all rows where no member is, at each point of
    `by` for itself.

    A member of fewer blocks would hide its spread among the others.
    """
    often = _members(rows, member, by).block.transform("nunique") >= BLOCKS_MIN
    is_any = often.groupby([rows[name] for name in by]).transform("any") if by else often.any()
    return rows[often | np.logical_not(is_any)]


def _members(rows: pd.DataFrame, member: Sequence[str], by: Sequence[str]) -> DataFrameGroupBy:
    return rows.groupby(list(dict.fromkeys((*by, *member))))


def intervals(
    rows: pd.DataFrame, by: Sequence[str], member: Sequence[str], value: str, confidence: float = CONFIDENCE
) -> pd.DataFrame:
    """Return an interval per point of `by`, each over the blocks of its members; `value` are log ratios of neighbours.

    The columns are `by`, those of Interval, and `differs`: whether the ratio is distinguished from 1, corrected for the
    number of points. Points without a value are left out.
    """
    # All points at once: Pandas takes as long for one as for a hundred.
    logs = block_means(repeated(rows.dropna(subset=[value]), member, by), member, value, by)
    # The rows of a point follow one another.
    points = groupby(logs.reset_index().itertuples(index=False, name=None), itemgetter(slice(len(by))))
    rows_found = [
        (*point, *astuple(interval_of_ratio([row[-1] for row in of_point], confidence))) for point, of_point in points
    ]
    table = pd.DataFrame(rows_found, columns=[*by, *Interval.__slots__])
    adjusted = benjamini_hochberg([None if pd.isna(each) else each for each in table.p_value])
    table[["low", "high", "p_value"]] = table[["low", "high", "p_value"]].astype(float)
    return table.assign(differs=[each is not None and each < ALPHA for each in adjusted])


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """Return the p values of comparisons side by side, adjusted to control the share of false discoveries.

    Benjamini and Hochberg 1995. None, a comparison without interval, stays None and does not count.
    """
    known_values = [value for value in p_values if value is not None]
    if not known_values:
        return [None] * len(p_values)
    from scipy import stats

    adjusted = iter(stats.false_discovery_control(known_values).tolist())
    return [None if value is None else next(adjusted) for value in p_values]


def verdict(interval: Interval, threshold: float, p_adjusted: float | None = None) -> Verdict:
    """Return the verdict on one comparison; `threshold` is a part, 0.05 for 5 %.

    Faster and slower need both: a ratio beyond the threshold, and an interval without 1 (of comparisons side by side,
    `p_adjusted` decides in its place). `same` needs the whole interval within the threshold, which is an equivalence
    test, and is not corrected: a false `same` does not become likelier to be shown where others stand beside it.
    """
    if interval.low is None or interval.high is None or interval.p_value is None:
        return Verdict(Difference.UNKNOWN, threshold)
    if interval.low >= 1 - threshold and interval.high <= 1 + threshold:
        return Verdict(Difference.SAME, threshold)
    differs = (interval.p_value if p_adjusted is None else p_adjusted) < ALPHA
    if differs and interval.ratio > 1 + threshold:
        return Verdict(Difference.FASTER, threshold)
    if differs and interval.ratio < 1 - threshold:
        return Verdict(Difference.SLOWER, threshold)
    return Verdict(Difference.UNKNOWN, threshold)


def verdicts(intervals: Sequence[Interval], threshold: float, *, families: int = 1) -> list[Verdict]:
    """Return the verdicts on comparisons side by side, corrected for their number.

    `families` counts the lists of comparisons of which any may raise the alarm: they share the level (Bonferroni).
    """
    adjusted = benjamini_hochberg([interval.p_value for interval in intervals])
    return [
        verdict(each, threshold, None if p_value is None else families * p_value)
        for each, p_value in zip(intervals, adjusted, strict=True)
    ]


def smallest_visible_difference(blocks: int, noise: float) -> float | None:
    """Return the smallest gain of a pair that so many blocks show, as a part: 0.12 is 12 %; None below BLOCKS_MIN.

    `noise` is the standard deviation of the pair's log ratio from block to block. A gain of this size is distinguished
    from none at the level ALPHA with the probability POWER: the paired t test's, statsmodels TTestPower.
    """
    from statsmodels.stats.power import TTestPower

    if blocks < BLOCKS_MIN:
        return None
    if noise == 0:
        return 0.0
    effect = TTestPower().solve_power(effect_size=None, nobs=blocks, alpha=ALPHA, power=POWER)
    return math.exp(float(effect) * noise) - 1


def smallest_visible_slowdown(blocks: float, cells: int, twins: Variances, families: int) -> float:
    """Return the smallest slowdown, as a part, of all cells together that two runs of BLOCKS_MIN or more blocks show.

    It is found with the probability POWER, by a verdict that shares its level with so many `families`. Runs and blocks
    differ as those of the twins; an infinite number of blocks leaves what differs from run to run.
    """
    from scipy import stats

    of_block = (twins.block**2 + twins.rest**2 / cells) / blocks
    parts = [twins.between(cells), *2 * [Spread(of_block, blocks - 1)]]
    if not any(part.variance for part in parts):
        return 0.0
    whole = _sum(parts)
    errors = stats.t.ppf(1 - ALPHA / families / 2, whole.freedom) + stats.t.ppf(POWER, whole.freedom)
    return float(-np.expm1(-errors * math.sqrt(whole.variance)))


def width(blocks: npt.ArrayLike, noise: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the widths of the t intervals of ratios, each a part of its ratio, for blocks of BLOCKS_MIN or more.

    `noise` is the standard deviation of a ratio's logarithm from block to block.
    """
    from scipy import special

    counted = np.asarray(blocks, dtype=float)
    half = special.stdtrit(counted - 1, (1 + CONFIDENCE) / 2) * np.asarray(noise) / np.sqrt(counted)
    return np.asarray(2 * np.sinh(half))


def blocks_for(narrower_than: float, noise: float, most: int) -> int | None:
    """Return after how many blocks a pair's interval is narrower than a part of its ratio; None beyond `most`.

    `noise` is the standard deviation of the pair's log ratio from block to block. A sweep finds another in each pair.
    """
    blocks = np.arange(BLOCKS_MIN, most + 1)
    enough = blocks[width(blocks, noise) < narrower_than]
    return int(enough[0]) if len(enough) else None


def noise_of_pairs(gain: pd.DataFrame, pair: Sequence[str], value: str) -> float | None:
    """Return the standard deviation of log ratios from block to block inside a pair, pooled; None without repeats.

    `gain` has one row per pair (its columns `pair`) and block, `value` its log ratio.
    """
    spread = pooled(gain.dropna(subset=[value]).groupby(list(pair))[value])
    return math.sqrt(spread.variance) if spread else None


@dataclass(frozen=True)
class Correlation:
    """The correlation of a block's log ratios with those of the block before, and its standard error."""

    value: float
    error: float

    @property
    def is_there(self) -> bool:
        """Whether it is more than chance, at the level of 5 %, one-sided."""
        return self.value > _THERE_Z * self.error

    @property
    def is_suspected(self) -> bool:
        """The same at the level of 30 %: after a few blocks a correlation of 0.45 is often not more than chance yet."""
        return self.value > _SUSPECTED_Z * self.error


def correlation_of_blocks(gain: pd.DataFrame, pair: Sequence[str], value: str) -> Correlation | None:
    """Return the lag-1 correlation inside pairs, of all of them together; None without blocks that follow one another.

    Without correlation, deviations from the mean of n blocks have -1/n, which is taken off, and a variance of
    (n - 2)²/(n² (n - 1)) in each pair (Moran 1948).
    """
    rows = gain.dropna(subset=[value]).sort_values([*pair, "block"])
    by_pair = rows.groupby(list(pair))
    deviations = rows[value] - by_pair[value].transform("mean")
    before = deviations.groupby([rows[name] for name in pair]).shift()
    follows = by_pair.block.diff() == 1
    squares, sizes = float((deviations**2).sum()), by_pair.size()
    if not follows.any() or squares < _EQUAL:
        return None
    n = sizes[sizes > 1]
    products = float((deviations * before)[follows].sum())
    error = math.sqrt(float(((n - 2) ** 2 / (n**2 * (n - 1))).sum())) / len(n)
    return Correlation(products / squares + 1 / float(n.mean()), error)


def pooled(groups: SeriesGroupBy) -> Spread | None:
    """Return the variance inside groups of values, of all of them together; None where none has two values."""
    freedom = groups.size() - 1
    if not freedom.sum():
        return None
    return Spread(float((groups.var().fillna(0) * freedom).sum() / freedom.sum()), int(freedom.sum()))


def noise_band(noise: float) -> tuple[float, float]:
    """Return the ratios between which 95 % of single pairs without a difference lie; `noise` as above."""
    from scipy import stats

    half = float(stats.norm.ppf((1 + CONFIDENCE) / 2)) * noise
    return math.exp(-half), math.exp(half)
