"""Claims on what the 150 trick gains (figure 5, which has three initiators), and what the other recommendations gain.

The latter come from the table of `harness techniques`: one row per technique and run.
"""

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from harness.claims.judgement import GAIN, PAIR, Evidence, is_saturated, of_the_trick
from harness.claims.measurement import Measurement, NotMeasured, Points, geometric_mean, points_of
from harness.definitions.inference import Correlation, correlation_of_blocks, noise_of_pairs, width
from harness.definitions.matrix import Cell
from harness.definitions.whitepaper import GAIN_NOTICEABLE_FROM, NO_GAIN_UP_TO

INITIATORS = 3
IMPRECISE_SHOWN = 10
BLOCKS_OF_PRECISION = 4  # before which no pair stops
BASELINE = "baseline"  # follows all recommendations
# By claim: the technique that leaves out one recommendation.
WITHOUT: Mapping[str, str] = {
    "single_conversation": "single_conversation",
    "dialog_per_message": "one_message_per_conversation",
    "receive_top_1": "receive_top_1",
    "short_activation_life": "short_activation_life",
    "few_readers": "few_readers",
    "warm_up_needed": "cold",
}
OF_TECHNIQUES = frozenset({*WITHOUT, "techniques_build_up"})  # the claims that need no cell of the matrix
# The paper's recommendations, each added to those before it.
STEPS = ("dialog_per_message", "reuse", "receive_top_n", "activation_life", "readers_per_core", "trick_150")


def largest(evidence: Evidence) -> Measurement:
    """Measure the pair of cells that gains most above 15 threads."""
    pairs = valid_pairs(evidence, INITIATORS)
    larger = pairs[pairs.total_threads > NO_GAIN_UP_TO.value]
    if larger.empty:
        raise NotMeasured(f"no valid pair of cells with more than {NO_GAIN_UP_TO.value:.0f} threads")
    point = ["threads", "payload_bytes"]
    by_point = larger.groupby(point)
    best = by_point.log_factor.mean().idxmax()
    threads, payload_bytes = best
    where = f"the largest gain, with {INITIATORS}×{threads} threads and {payload_bytes:,} bytes: "
    return _gain(by_point.get_group(best), where, among=points_of(gains(larger), point))


def up_to_15(evidence: Evidence) -> Measurement:
    """Measure the number of threads that gains most, of those up to 15 with three initiators: none of them may gain."""
    few = _few_threads(valid_pairs(evidence, INITIATORS))
    if not (few.total_threads == NO_GAIN_UP_TO.value).any():
        raise NotMeasured(f"no valid pair of cells with {NO_GAIN_UP_TO.value:.0f} threads, where the claim ends")
    number = _of_threads(few, most=True)
    other_points = []
    for initiators in range(1, INITIATORS):
        with contextlib.suppress(NotMeasured):
            total, log_factor = _extreme(_few_threads(valid_pairs(evidence, initiators)), most=True)
            percent = f"{100 * math.expm1(log_factor):+.0f} %".replace("-", "−")
            other_points.append(f"{percent} with {initiators}×{total // initiators}")
    return replace(
        number,
        basis=f"{number.basis}; not judged, the largest of fewer initiators: {', '.join(other_points) or 'none'}",
    )


def from_30(evidence: Evidence) -> Measurement:
    """Measure the number of threads that gains least, of those from 30 on: all of them must gain."""
    pairs = valid_pairs(evidence, INITIATORS)
    many = pairs[pairs.total_threads >= GAIN_NOTICEABLE_FROM.value]
    if not (many.total_threads == GAIN_NOTICEABLE_FROM.value).any():
        raise NotMeasured(
            f"no valid pair of cells with {GAIN_NOTICEABLE_FROM.value:.0f} threads, where the claim begins"
        )
    return _of_threads(many, most=False)


def valid_pairs(evidence: Evidence, initiators: int | None = None) -> pd.DataFrame:
    """Choose the valid pairs of cells of so many initiators, or of all, with the logarithms of their factors."""
    pairs = evidence.gain
    if len(pairs):
        pairs = of_the_trick(pairs[pairs.factor > 0])
        pairs = pairs[pairs.initiators == initiators] if initiators else pairs
    if pairs.empty:
        raise NotMeasured(f"no pair of cells with {initiators or 'any'} initiators and both dialog ratios is valid")
    return pairs.assign(log_factor=np.log(pairs.factor))


def logarithms(gain: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs of cells that have a factor above zero, with its logarithm."""
    positive = gain[gain.factor > 0]
    return positive.assign(log_factor=np.log(positive.factor.astype(float)))


def noise_of(gain: pd.DataFrame, *, of_versions: bool = False) -> float | None:
    """Return the standard deviation of a valid gain's log factor from block to block; None without repeats.

    Versions are repeats too `of_versions`: of a run of one block they are all there is.
    """
    if gain.empty:
        return None
    logs = logarithms(gain)
    pair = [name for name in GAIN if not (of_versions and name == "server_version")]
    return noise_of_pairs(logs[logs.valid], pair, "log_factor")


def interval_widths(gain: pd.DataFrame) -> pd.DataFrame:
    """Return each gain (a pair's, at a dialog ratio) with its valid blocks and the width of an interval over so many.

    The width is a part of the gain's ratio, and NaN below BLOCKS_OF_PRECISION blocks. `gain` has a row per gain and
    block. The spread is that of all gains, pooled: a gain that stops where its own blocks lie close together by chance
    has too narrow an interval.
    """
    valid = gain[gain.valid & (gain.factor > 0)]
    blocks = valid.groupby(GAIN).block.nunique().rename("blocks").reset_index()
    noise = noise_of(gain)
    known = blocks.blocks >= BLOCKS_OF_PRECISION
    blocks["width"] = np.nan if noise is None else np.where(known, width(blocks.blocks.clip(lower=2), noise), np.nan)
    return gain[GAIN].drop_duplicates().merge(blocks, how="left", on=GAIN).fillna({"blocks": 0})


def correlation(gain: pd.DataFrame) -> Correlation | None:
    """Return how the gains of a block follow those of the block before; None where no block follows another.

    Where they do, intervals over blocks hold the truth too seldom, so that they say no precision. Gains of a pair share
    its base, so their mean counts.
    """
    valid = gain[gain.valid & (gain.factor > 0)]
    of_pairs = np.log(valid.factor).groupby([valid[name] for name in (*PAIR, "block")]).mean().reset_index()
    return correlation_of_blocks(of_pairs, PAIR, "factor")


def precision_reached(gain: pd.DataFrame, precision: float) -> str:
    """Say how many gains have an interval narrower than `precision`, a part of the gain, and which never got there."""
    widths = interval_widths(gain)
    if (follows := correlation(gain)) and follows.is_there:
        return (
            f"No gain of {len(widths)} is known within {100 * precision:g} %: the gains of a block follow those of the "
            f"block before (correlation {follows.value:.2f} ± {follows.error:.2f}), so intervals over blocks are too "
            "narrow. Something drifts on this machine: give a longer --measure, or find out what."
        )
    short = widths[~(widths.width < precision)].sort_values("width", ascending=False, na_position="first")
    sentence = f"{len(widths) - len(short)} of {len(widths)} gains are known within {100 * precision:g} %"
    if short.empty:
        return f"{sentence}."
    parts = []
    for row in short.to_dict("records"):
        cell = Cell(**{str(name): row[name] for name in GAIN})
        interval = "no interval" if np.isnan(row["width"]) else f"{100 * row['width']:.3g} % wide"
        parts.append(f"{cell.id} ({row['blocks']:.0f} valid blocks, {interval})")
    more = f"; and {len(parts) - IMPRECISE_SHOWN} more" if len(parts) > IMPRECISE_SHOWN else ""
    return f"{sentence}. Not there: {'; '.join(parts[:IMPRECISE_SHOWN])}{more}."


def _few_threads(gain: pd.DataFrame) -> pd.DataFrame:
    few = gain[gain.total_threads <= NO_GAIN_UP_TO.value]
    if few.empty:
        raise NotMeasured(f"no valid pair of cells with {NO_GAIN_UP_TO.value:.0f} threads or fewer")
    return few


def _of_threads(gain: pd.DataFrame, *, most: bool) -> Measurement:
    total, _ = _extreme(gain, most=most)
    threads = ", ".join(f"{INITIATORS}×{number // INITIATORS}" for number in sorted(gain.total_threads.unique()))
    return _gain(
        gain[gain.total_threads == total],
        f"the {'largest' if most else 'smallest'} gain, with {INITIATORS}×{total // INITIATORS} of {threads} threads: ",
        among=points_of(gains(gain), ["threads"]),
    )


def _extreme(gain: pd.DataFrame, *, most: bool) -> tuple[int, float]:
    """Return the total threads that gain most or least, and the mean logarithm of their factors."""
    means = gain.groupby("total_threads").log_factor.mean()
    total = means.idxmax() if most else means.idxmin()
    return int(total), float(means.loc[total])


def _gain(pairs: pd.DataFrame, basis: str, *, among: Points) -> Measurement:
    """Write the geometric mean of factors as a gain in percent; `among` is that of `geometric_mean`."""
    return geometric_mean(gains(pairs), "pairs of cells", basis, among=among).scaled(100, -100)


def gains(pairs: pd.DataFrame) -> pd.Series:
    """Return the logarithms of factors by pair and block."""
    logs: pd.Series = pairs.set_index([*PAIR, "block"]).log_factor
    return logs


def faster(evidence: Evidence, claim: str) -> Measurement:
    """Measure how many times as fast the target processes messages if the recommendation is followed too."""
    advised, against = (rates(evidence, technique) for technique in (BASELINE, WITHOUT[claim]))
    return geometric_mean(
        _factors(advised, against),
        "versions",
        f"{_shown(advised)} messages/s with the recommendation, {_shown(against)} without"
        f"{_saturated(evidence, BASELINE, WITHOUT[claim])}; ",
    )


def build_up(evidence: Evidence) -> Measurement:
    """Measure the step of the ladder that gains least: each must gain."""
    ladder = [rates(evidence, technique) for technique in STEPS]
    gains = [_factors(after, before) for before, after in itertools.pairwise(ladder)]
    least = int(np.argmin([gain.mean() for gain in gains]))
    return geometric_mean(
        gains[least],
        "versions",
        f"the step that gains least, from {STEPS[least]} to {STEPS[least + 1]}, of "
        f"{' → '.join(map(_shown, ladder))} messages/s{_saturated(evidence, *STEPS)}; ",
    )


def _factors(after: pd.Series, before: pd.Series) -> pd.Series:
    factors = (after - before).dropna()
    if factors.empty:
        raise NotMeasured("two techniques that the claim compares were never run in the same block")
    return factors


def rates(evidence: Evidence, technique: str) -> pd.Series:
    """Return the logarithms of a technique's messages per second by version and block, whether or not the target kept
    up: most recommendations are about how much a target can take in."""
    table = evidence.techniques
    if table.empty:
        raise NotMeasured("the techniques were not run")
    of_technique = table[table.technique == technique].set_index(["server_version", "block"]).processed_per_s.dropna()
    if of_technique.empty or not of_technique.min() > 0:
        raise NotMeasured(f"the technique {technique} has no run, or one that processed no messages")
    return np.log(of_technique)


def _shown(logs: pd.Series) -> str:
    return f"{float(f'{math.exp(logs.mean()):.3g}'):,.0f}"


def _saturated(evidence: Evidence, *techniques: str) -> str:
    table = evidence.techniques
    saturated = set(table[is_saturated(table)].technique)
    names = [technique for technique in techniques if technique in saturated]
    return f"; the target was saturated in {', '.join(names)}" if names else ""


MEASURES: Mapping[str, Callable[[Evidence], Measurement]] = {
    "gain_max": largest,
    "no_gain_up_to_15": up_to_15,
    "gain_noticeable_from_30": from_30,
    **{claim: functools.partial(faster, claim=claim) for claim in WITHOUT},
    "techniques_build_up": build_up,
}
