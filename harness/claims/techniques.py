"""Claims on the paper's advice, from the table of the techniques' scenarios: one row a technique and run."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping

import numpy as np

from harness.claims.intervals import CELLS_FOR_INTERVAL, LEVEL, RESAMPLES, Interval
from harness.claims.judgement import Measurement, NotMeasured, Tables

BASELINE = "baseline"  # all that the paper advises
# Claim: the technique that leaves one piece of advice out.
WITHOUT: Mapping[str, str] = {
    "single_conversation": "single_conversation",
    "dialog_per_message": "one_message_per_conversation",
    "receive_top_1": "receive_top_1",
    "short_activation_life": "short_activation_life",
    "few_readers": "few_readers",
    "warm_up_needed": "cold",
}
# The paper's recommendations, each on top of those before it.
STEPS = ("dialog_per_message", "reuse", "receive_top_n", "activation_life", "readers_per_core", "trick_150")


def faster(tables: Tables, claim: str) -> Measurement:
    """How many times as fast the target processes messages when the advice is followed as well."""
    advised, against = (rates(tables, technique) for technique in (BASELINE, WITHOUT[claim]))
    return Measurement(
        float(advised.mean() / against.mean()),
        f"with the advice {advised.mean():,.0f}, without {against.mean():,.0f} messages/s, {_runs(advised, against)}"
        f"{_behind(tables, BASELINE, WITHOUT[claim])}",
        *_interval(advised, against),
    )


def build_up(tables: Tables) -> Measurement:
    """The step of the paper's ladder that gains least: each must gain."""
    runs = [rates(tables, technique) for technique in STEPS]
    means = [float(each.mean()) for each in runs]
    gains = [after / before for before, after in itertools.pairwise(means)]
    least = int(np.argmin(gains))
    return Measurement(
        gains[least],
        f"the step that gains least, from {STEPS[least]} to {STEPS[least + 1]}, of "
        f"{' → '.join(f'{mean:,.0f}' for mean in means)} messages/s, {_runs(*runs)}{_behind(tables, *STEPS)}",
        *_interval(runs[least + 1], runs[least]),
    )


def rates(tables: Tables, technique: str) -> np.ndarray:
    """Messages processed a second in each run of a technique, whether or not the target kept up: what a target takes in
    at most is what most of the advice is about."""
    table = tables.techniques
    if table.empty:
        raise NotMeasured("the techniques' scenarios were not run")
    of_technique = table[table.technique == technique].processed_per_s.dropna()
    if of_technique.empty or not of_technique.min() > 0:
        raise NotMeasured(f"the scenario {technique} has no runs, or one that processed no messages")
    return np.asarray(of_technique, dtype=float)


def _runs(*of: np.ndarray) -> str:
    fewest, most = min(len(runs) for runs in of), max(len(runs) for runs in of)
    return f"means of {fewest if fewest == most else f'{fewest} to {most}'} runs" if most > 1 else "one run of each"


def _behind(tables: Tables, *techniques: str) -> str:
    table = tables.techniques
    behind = set(table[~table.target_kept_up.astype(bool)].technique)
    named = [technique for technique in techniques if technique in behind]
    return f"; the target fell behind in {', '.join(named)}" if named else ""


def _interval(advised: np.ndarray, against: np.ndarray) -> tuple[Interval | None, str]:
    """Of the quotient of means: bootstrap over runs; of few runs, the furthest that they allow; of one, none."""
    if min(len(advised), len(against)) < 2:
        return None, ""
    if min(len(advised), len(against)) < CELLS_FOR_INTERVAL:
        return (float(advised.min() / against.max()), float(advised.max() / against.min())), "runs"
    rng = np.random.default_rng(1)
    means = [rng.choice(runs, (RESAMPLES, len(runs))).mean(axis=1) for runs in (advised, against)]
    low, high = np.quantile(means[0] / means[1], LEVEL)
    return (float(low), float(high)), "runs"


MEASURES: Mapping[str, Callable[[Tables], Measurement]] = {
    **{claim: functools.partial(faster, claim=claim) for claim in WITHOUT},
    "techniques_build_up": build_up,
}
