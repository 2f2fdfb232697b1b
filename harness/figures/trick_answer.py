"""Does the 150 trick pay on this lab? The answer of a run in a sentence, with its evidence.

The trick *pays* if it is faster by more than 5 % at one load at least, distinguished from none and corrected for the
number of loads. It *does not pay* if its mean gain over all loads is certainly less than 5 %, and no single load gains
more. Else the run *cannot tell*.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from harness.claims.gain import logarithms
from harness.claims.judgement import PAIR, of_the_trick, over_blocks
from harness.definitions.inference import (
    Difference,
    Interval,
    block_means,
    interval_of_ratio,
    no_interval,
    repeated,
    verdicts,
)
from harness.figures import instance_activity, pages
from harness.figures.gain import gain_points
from harness.figures.parts import clients, payload_words, percent
from harness.figures.reduced_run import Missing, Run

MATRIX = "trick"  # whose report begins with the answer
THRESHOLD = 0.05
LOAD = ["initiators", "threads", "payload_bytes"]


def is_asked(run: Run) -> bool:
    return run.matrix == MATRIX


def answer(run: Run) -> str:
    """Say whether the trick pays, by how much, and with which interval."""
    sentences = _answer(of_the_trick(run.gain))
    if run.cannot_gain:
        return f"{run.cannot_gain} {sentences}"
    return f"A model, not SQL Server: {sentences[:1].lower()}{sentences[1:]}" if run.is_model else sentences


def _answer(gain: pd.DataFrame) -> str:
    unknown = "Whether the 150 trick pays here cannot be told"
    if gain.empty:
        return f"{unknown}: no cell was completed with both dialog ratios, 1 and 150."
    loads = gain_points(gain, LOAD)
    counted = loads[loads.counts & loads.low.notna()]
    if counted.empty:
        valid = loads[loads.counts]
        return f"{unknown}: {no_interval(int(valid.blocks.max())) if len(valid) else 'no pair of cells is valid'}."
    logs = logarithms(gain)
    mean = interval_of_ratio(block_means(repeated(logs[logs.valid], PAIR), PAIR, "log_factor").to_numpy())
    of_loads = [Interval(row.ratio, row.low, row.high, int(row.blocks), row.p_value) for row in counted.itertuples()]
    faster = counted[[verdict.difference is Difference.FASTER for verdict in verdicts(of_loads, THRESHOLD)]]
    most = counted.loc[counted.ratio.idxmax()]
    how_many = f"{len(counted)} load{'s' * (len(counted) != 1)}"
    words = f"its mean gain over {how_many} is {_gain(mean.ratio, mean.low, mean.high)}"
    if len(faster):
        best = faster.loc[faster.ratio.idxmax()]
        return (
            f"The 150 trick pays here: {_gain(best.ratio, best.low, best.high)} with {_load(best, loads)}. It gains "
            f"more than {100 * THRESHOLD:g} %, distinguished from none, at {len(faster)} of {len(counted)} loads; "
            f"{words}."
        )
    if mean.high is not None and mean.high <= 1 + THRESHOLD and most.ratio <= 1 + THRESHOLD:
        return f"The 150 trick does not pay here: {words}, and no load gains more than {100 * THRESHOLD:g} %."
    return (
        f"{unknown}: {words}, and the largest is {_gain(most.ratio, most.low, most.high)} with {_load(most, loads)}. "
        "More --repeats make the intervals narrower."
    )


def evidence(run: Run) -> list[str]:
    """Say on which pages the dialogs lay, for whose pages tasks waited, and what instances waited for longest."""
    merged = over_blocks(run)
    tellings: tuple[tuple[str, Callable[[], list[str]]], ...] = (
        ("Pages", lambda: pages.spread_sentences(merged.page_spread)),
        ("Page latches", lambda: pages.latch_sentences(merged.latch_share, merged.index_waits)),
        ("Waits", lambda: instance_activity.wait_sentences(merged.waits, merged.cells)),
    )
    sentences = []
    for subject, tell in tellings:
        try:
            text = " ".join(tell())
        except Missing as reason:
            text = f"{reason}."
        if text:
            sentences.append(f"{subject}: {text}")
    return sentences


def _gain(ratio: float, low: float | None, high: float | None) -> str:
    gain, *ends = (None if value is None else percent(100 * (value - 1)) for value in (ratio, low, high))
    return f"{gain} (95 %: {ends[0]} to {ends[1]})" if all(ends) else str(gain)


def _load(row: pd.Series, rows: pd.DataFrame) -> str:
    return f"{clients(row.initiators, row.threads)}, {payload_words(int(row.payload_bytes), rows)}"
