"""Claims on what the 150 trick gains (figure 5, which has three initiators), and what the other recommendations gain.

The latter come from the table of `harness techniques`: one row per technique and run.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from harness.claims.judgement import (
    Measurement,
    NotMeasured,
    Tables,
    geometric_mean,
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


def sustained(gain: pd.DataFrame) -> pd.DataFrame:
    """Choose the pairs of cells of figure 5 in which both targets kept up."""
    chosen = gain[(gain.initiators == INITIATORS) & (gain.factor > 0)] if len(gain) else gain
    if chosen.empty:
        raise NotMeasured(f"no pair of cells with {INITIATORS} initiators was completed with both dialog ratios")
    kept_up = chosen[chosen.target_kept_up]
    if kept_up.empty:
        raise NotMeasured(f"both targets kept up in none of {len(chosen)} pairs of cells: there is no sustained gain")
    return kept_up


def largest(tables: Tables) -> Measurement:
    gain = sustained(tables.gain)
    above = gain[gain.total_threads > NO_GAIN_UP_TO.value]
    if above.empty:
        raise NotMeasured(f"no sustained pair of cells with more than {NO_GAIN_UP_TO.value:.0f} threads")
    points = above.groupby(["threads", "payload_bytes"]).gain_percent
    best = points.mean().idxmax()
    threads, payload_bytes = best
    return Measurement(
        float(points.mean()[best]),
        f"the largest sustained gain: {INITIATORS}×{threads} threads, {payload_bytes:,} bytes",
        spread_of(points.get_group(best), "versions"),
    )


def up_to_15(tables: Tables) -> Measurement:
    """Measure the number of threads that gains most, of those up to 15: none of them may gain."""
    gain = sustained(tables.gain)
    few = gain[gain.total_threads <= NO_GAIN_UP_TO.value]
    if not (few.total_threads == NO_GAIN_UP_TO.value).any():
        raise NotMeasured(f"no sustained pair of cells with {NO_GAIN_UP_TO.value:.0f} threads, where the claim ends")
    return _of_threads(few, most=True)


def from_30(tables: Tables) -> Measurement:
    """Measure the number of threads that gains least, of those from 30 on: all of them must gain."""
    gain = sustained(tables.gain)
    many = gain[gain.total_threads >= GAIN_NOTICEABLE_FROM.value]
    if not (many.total_threads == GAIN_NOTICEABLE_FROM.value).any():
        raise NotMeasured(
            f"no sustained pair of cells with {GAIN_NOTICEABLE_FROM.value:.0f} threads, where the claim begins"
        )
    return _of_threads(many, most=False)


def _of_threads(gain: pd.DataFrame, *, most: bool) -> Measurement:
    by_threads = gain.groupby("total_threads").factor.agg(geometric_mean)
    total = int(by_threads.idxmax() if most else by_threads.idxmin())
    pairs = gain[gain.total_threads == total].factor
    threads = ", ".join(f"{INITIATORS}×{number // INITIATORS}" for number in by_threads.index)
    return Measurement(
        100 * (float(by_threads[total]) - 1),
        f"the {'largest' if most else 'smallest'} gain is at {INITIATORS}×{total // INITIATORS} threads, of {threads}: "
        f"geometric mean of {len(pairs)} sustained pairs of cells",
        spread_of(100 * (pairs - 1), "cells"),
    )


def faster(tables: Tables, claim: str) -> Measurement:
    """Measure how many times as fast the target processes messages if the recommendation is followed too."""
    advised, against = (rates(tables, technique) for technique in (BASELINE, WITHOUT[claim]))
    return Measurement(
        float(advised.mean() / against.mean()),
        f"{advised.mean():,.0f} messages/s with the recommendation, {against.mean():,.0f} without, "
        f"{_runs(advised, against)}{_behind(tables, BASELINE, WITHOUT[claim])}",
        spread_of_quotient(spread_of(advised, "runs"), spread_of(against, "runs")),
    )


def build_up(tables: Tables) -> Measurement:
    """Measure the step of the ladder that gains least: each must gain."""
    runs = [rates(tables, technique) for technique in STEPS]
    means = [float(each.mean()) for each in runs]
    gains = [after / before for before, after in itertools.pairwise(means)]
    least = int(np.argmin(gains))
    return Measurement(
        gains[least],
        f"the step that gains least, from {STEPS[least]} to {STEPS[least + 1]}, of "
        f"{' → '.join(f'{mean:,.0f}' for mean in means)} messages/s, {_runs(*runs)}{_behind(tables, *STEPS)}",
        spread_of_quotient(spread_of(runs[least + 1], "runs"), spread_of(runs[least], "runs")),
    )


def rates(tables: Tables, technique: str) -> np.ndarray:
    """Return the messages per second of each run of a technique, whether or not the target kept up: most
    recommendations are about how much a target can take in."""
    table = tables.techniques
    if table.empty:
        raise NotMeasured("the techniques were not run")
    of_technique = table[table.technique == technique].processed_per_s.dropna()
    if of_technique.empty or not of_technique.min() > 0:
        raise NotMeasured(f"the technique {technique} has no run, or one that processed no messages")
    return np.asarray(of_technique, dtype=float)


def _runs(*of: np.ndarray) -> str:
    fewest, most = min(len(runs) for runs in of), max(len(runs) for runs in of)
    return f"means of {fewest if fewest == most else f'{fewest} to {most}'} runs" if most > 1 else "one run of each"


def _behind(tables: Tables, *techniques: str) -> str:
    table = tables.techniques
    behind = set(table[~table.target_kept_up.astype(bool)].technique)
    named = [technique for technique in techniques if technique in behind]
    return f"; the target fell behind in {', '.join(named)}" if named else ""


MEASURES: Mapping[str, Callable[[Tables], Measurement]] = {
    "gain_max": largest,
    "no_gain_up_to_15": up_to_15,
    "gain_noticeable_from_30": from_30,
    **{claim: functools.partial(faster, claim=claim) for claim in WITHOUT},
    "techniques_build_up": build_up,
}
