"""Claims on what the 150 trick gains (figure 5, which has three initiators), and what the other recommendations gain.

The latter come from the table of `harness techniques`: one row per technique and run.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from harness.claims.judgement import (
    Evidence,
    Measurement,
    NotMeasured,
    geometric_mean,
    of_the_trick,
    spread_of,
    spread_of_quotient,
)
from harness.whitepaper import GAIN_NOTICEABLE_FROM, NO_GAIN_UP_TO

INITIATORS = 3
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
# The paper's recommendations, each added to those before it.
STEPS = ("dialog_per_message", "reuse", "receive_top_n", "activation_life", "readers_per_core", "trick_150")


def largest(evidence: Evidence) -> Measurement:
    """Measure the pair of cells that gains most above 15 threads."""
    pairs = _pairs(evidence)
    above = pairs[pairs.total_threads > NO_GAIN_UP_TO.value]
    if above.empty:
        raise NotMeasured(f"no valid pair of cells with more than {NO_GAIN_UP_TO.value:.0f} threads")
    points = above.groupby(["threads", "payload_bytes"]).factor
    best = points.agg(geometric_mean).idxmax()
    threads, payload_bytes = best
    return _gain(points.get_group(best), f"the largest gain: {INITIATORS}×{threads} threads, {payload_bytes:,} bytes")


def up_to_15(evidence: Evidence) -> Measurement:
    """Measure the number of threads that gains most, of those up to 15 with three initiators: none of them may gain."""
    few = _few_threads(_pairs(evidence))
    if not (few.total_threads == NO_GAIN_UP_TO.value).any():
        raise NotMeasured(f"no valid pair of cells with {NO_GAIN_UP_TO.value:.0f} threads, where the claim ends")
    number = _of_threads(few, most=True)
    others = []
    for initiators in range(1, INITIATORS):
        gain = _few_threads(_of_initiators(evidence.gain, initiators))
        if len(gain):
            total, mean = _extreme(gain, most=True)
            others.append(f"{100 * (mean - 1):+.0f} % with {initiators}×{total // initiators}".replace("-", "−"))
    return replace(
        number,
        basis=f"{number.basis}; not judged, the largest of fewer initiators: {', '.join(others) or 'none'}",
    )


def from_30(evidence: Evidence) -> Measurement:
    """Measure the number of threads that gains least, of those from 30 on: all of them must gain."""
    pairs = _pairs(evidence)
    many = pairs[pairs.total_threads >= GAIN_NOTICEABLE_FROM.value]
    if not (many.total_threads == GAIN_NOTICEABLE_FROM.value).any():
        raise NotMeasured(
            f"no valid pair of cells with {GAIN_NOTICEABLE_FROM.value:.0f} threads, where the claim begins"
        )
    return _of_threads(many, most=False)


def _pairs(evidence: Evidence) -> pd.DataFrame:
    """Choose the valid pairs of cells of figure 5."""
    pairs = _of_initiators(evidence.gain, INITIATORS)
    if pairs.empty:
        raise NotMeasured(f"no pair of cells with {INITIATORS} initiators and both dialog ratios is valid")
    return pairs


def _of_initiators(gain: pd.DataFrame, initiators: int) -> pd.DataFrame:
    gain = of_the_trick(gain)
    return gain[(gain.initiators == initiators) & (gain.factor > 0)] if len(gain) else gain


def _few_threads(gain: pd.DataFrame) -> pd.DataFrame:
    return gain[gain.total_threads <= NO_GAIN_UP_TO.value] if len(gain) else gain


def _of_threads(gain: pd.DataFrame, *, most: bool) -> Measurement:
    total, _ = _extreme(gain, most=most)
    pairs = gain[gain.total_threads == total].factor
    threads = ", ".join(f"{INITIATORS}×{number // INITIATORS}" for number in sorted(gain.total_threads.unique()))
    return _gain(
        pairs,
        f"the {'largest' if most else 'smallest'} gain is at {INITIATORS}×{total // INITIATORS} threads, of {threads}: "
        f"geometric mean of {len(pairs)} pairs of cells",
    )


def _extreme(gain: pd.DataFrame, *, most: bool) -> tuple[int, float]:
    """Return the total threads that gain most or least, and the geometric mean of their factors."""
    factors = gain.groupby("total_threads").factor.agg(geometric_mean)
    total = factors.idxmax() if most else factors.idxmin()
    return int(total), float(factors.loc[total])


def _gain(factors: pd.Series, basis: str) -> Measurement:
    """Write the geometric mean of factors as a gain in percent."""
    return Measurement(100 * (geometric_mean(factors) - 1), basis, spread_of(100 * (factors - 1), "cells"))


def faster(evidence: Evidence, claim: str) -> Measurement:
    """Measure how many times as fast the target processes messages if the recommendation is followed too."""
    advised, against = (rates(evidence, technique) for technique in (BASELINE, WITHOUT[claim]))
    means = geometric_mean(advised), geometric_mean(against)
    return Measurement(
        means[0] / means[1],
        f"{means[0]:,.0f} messages/s with the recommendation, {means[1]:,.0f} without, "
        f"{_runs(advised, against)}{_behind(evidence, BASELINE, WITHOUT[claim])}",
        spread_of_quotient(spread_of(advised, "runs"), spread_of(against, "runs")),
    )


def build_up(evidence: Evidence) -> Measurement:
    """Measure the step of the ladder that gains least: each must gain."""
    runs = [rates(evidence, technique) for technique in STEPS]
    means = [geometric_mean(each) for each in runs]
    gains = [after / before for before, after in itertools.pairwise(means)]
    least = int(np.argmin(gains))
    return Measurement(
        gains[least],
        f"the step that gains least, from {STEPS[least]} to {STEPS[least + 1]}, of "
        f"{' → '.join(f'{mean:,.0f}' for mean in means)} messages/s, {_runs(*runs)}{_behind(evidence, *STEPS)}",
        spread_of_quotient(spread_of(runs[least + 1], "runs"), spread_of(runs[least], "runs")),
    )


def rates(evidence: Evidence, technique: str) -> pd.Series:
    """Return the messages per second of each run of a technique, whether or not the target kept up: most
    recommendations are about how much a target can take in."""
    table = evidence.techniques
    if table.empty:
        raise NotMeasured("the techniques were not run")
    of_technique = table[table.technique == technique].processed_per_s.dropna()
    if of_technique.empty or not of_technique.min() > 0:
        raise NotMeasured(f"the technique {technique} has no run, or one that processed no messages")
    return of_technique


def _runs(*of: pd.Series) -> str:
    fewest, most = min(len(runs) for runs in of), max(len(runs) for runs in of)
    return (
        f"geometric means of {fewest if fewest == most else f'{fewest} to {most}'} runs"
        if most > 1
        else "one run of each"
    )


def _behind(evidence: Evidence, *techniques: str) -> str:
    table = evidence.techniques
    behind = set(table[~table.target_kept_up.astype(bool)].technique)
    named = [technique for technique in techniques if technique in behind]
    return f"; the target fell behind in {', '.join(named)}" if named else ""


MEASURES: Mapping[str, Callable[[Evidence], Measurement]] = {
    "gain_max": largest,
    "no_gain_up_to_15": up_to_15,
    "gain_noticeable_from_30": from_30,
    **{claim: functools.partial(faster, claim=claim) for claim in WITHOUT},
    "techniques_build_up": build_up,
}
