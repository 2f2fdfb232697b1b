"""Claims on what using every 150th dialog gains: figure 5, which has three initiators."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pandas as pd

from harness.claims.intervals import geometric_mean, interval
from harness.claims.judgement import Measurement, NotMeasured, Tables
from harness.whitepaper import GAIN_NOTICEABLE_FROM, NO_GAIN_UP_TO

INITIATORS = 3


def sustained(gain: pd.DataFrame) -> pd.DataFrame:
    """The pairs of cells of figure 5 whose targets both kept up."""
    chosen = gain[(gain.initiators == INITIATORS) & (gain.factor > 0)] if len(gain) else gain
    if chosen.empty:
        raise NotMeasured(f"no pair of cells with {INITIATORS} initiators was completed with both dialog ratios")
    kept_up = chosen[chosen.target_kept_up]
    if kept_up.empty:
        raise NotMeasured(f"in none of {len(chosen)} pairs did both targets keep up: there is no sustained gain")
    return kept_up


def largest(tables: Tables) -> Measurement:
    gain = sustained(tables.gain)
    above = gain[gain.total_threads > NO_GAIN_UP_TO.value]
    if above.empty:
        raise NotMeasured(f"no sustained pair with more than {NO_GAIN_UP_TO.value:.0f} threads")
    points = above.groupby(["threads", "payload_bytes"], as_index=False).gain_percent.agg(
        ["mean", "min", "max", "count"]
    )
    best = points.loc[points["mean"].idxmax()]
    several = best["count"] > 1
    return Measurement(
        float(best["mean"]),
        f"the largest sustained gain: {INITIATORS}×{best.threads:.0f} threads, {best.payload_bytes:,.0f} bytes",
        (float(best["min"]), float(best["max"])) if several else None,
        "versions" if several else "",
    )


def up_to_15(tables: Tables) -> Measurement:
    """The number of threads, up to the stated one, that gains most: none of them may gain."""
    gain = sustained(tables.gain)
    few = gain[gain.total_threads <= NO_GAIN_UP_TO.value]
    if not (few.total_threads == NO_GAIN_UP_TO.value).any():
        raise NotMeasured(f"no sustained pair with {NO_GAIN_UP_TO.value:.0f} threads, up to which nothing is gained")
    return _of_threads(few, most=True)


def from_30(tables: Tables) -> Measurement:
    """The number of threads, from the stated one on, that gains least: all of them must gain."""
    gain = sustained(tables.gain)
    many = gain[gain.total_threads >= GAIN_NOTICEABLE_FROM.value]
    if not (many.total_threads == GAIN_NOTICEABLE_FROM.value).any():
        raise NotMeasured(f"no sustained pair with {GAIN_NOTICEABLE_FROM.value:.0f} threads, where the gain begins")
    return _of_threads(many, most=False)


def _of_threads(gain: pd.DataFrame, *, most: bool) -> Measurement:
    by_threads = gain.groupby("total_threads").factor.agg(geometric_mean)
    total = int(by_threads.idxmax() if most else by_threads.idxmin())
    pairs = gain[gain.total_threads == total].factor
    threads = ", ".join(f"{INITIATORS}×{number // INITIATORS}" for number in by_threads.index)
    bounds = interval(pairs)
    return Measurement(
        _percent(float(by_threads[total])),
        f"{'most' if most else 'least'} is gained at {INITIATORS}×{total // INITIATORS} threads of {threads}, "
        f"geometric mean of {len(pairs)} sustained pairs of cells",
        (_percent(bounds[0]), _percent(bounds[1])) if bounds else None,
        "cells" if bounds else "",
    )


def _percent(factor: float) -> float:
    return 100 * (factor - 1)


MEASURES: Mapping[str, Callable[[Tables], Measurement]] = {
    "gain_max": largest,
    "no_gain_up_to_15": up_to_15,
    "gain_noticeable_from_30": from_30,
}
