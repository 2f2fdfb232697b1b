"""Claims on the paper's recommendations, from the table of `harness techniques`: one row per technique and run."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping

import numpy as np

from harness.claims.judgement import Measurement, NotMeasured, Tables
from harness.claims.spread import spread_of, spread_of_quotient

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
    **{claim: functools.partial(faster, claim=claim) for claim in WITHOUT},
    "techniques_build_up": build_up,
}
