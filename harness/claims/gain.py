"""Claims on what the 150 trick gains: figure 5, which has three initiators."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pandas as pd

from harness.claims.judgement import Measurement, NotMeasured, Tables
from harness.claims.spread import geometric_mean, spread_of
from harness.whitepaper import GAIN_NOTICEABLE_FROM, NO_GAIN_UP_TO

INITIATORS = 3


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


MEASURES: Mapping[str, Callable[[Tables], Measurement]] = {
    "gain_max": largest,
    "no_gain_up_to_15": up_to_15,
    "gain_noticeable_from_30": from_30,
}
