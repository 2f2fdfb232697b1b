"""Does the 150 trick pay on this lab? The answer of a run in a sentence, with its evidence.

The trick *pays* if it is faster by more than 5 % at one load at least, distinguished from none. The intervals of the
loads hold together, with 95 % for all of them (Bonferroni): so the largest of many loads is no winner by chance. It
*does not pay* if its mean gain over all loads is certainly less than 5 %, no single load gains more, and no load with
more threads than these is unknown. Else the run *cannot tell*.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from harness.claims.gain import logarithms
from harness.claims.judgement import PAIR, of_the_trick, over_blocks
from harness.definitions.inference import (
    ALPHA,
    Interval,
    block_means,
    interval_of_ratio,
    intervals,
    no_interval,
    repeated,
)
from harness.definitions.matrix import which_dialogs
from harness.definitions.units import counted
from harness.definitions.whitepaper import BASE_DIALOG_RATIO, TRICK_DIALOG_RATIO
from harness.figures import instance_activity, pages
from harness.figures.parts import clients, payload_words, percent
from harness.figures.reduced_run import Missing, Run

MATRIX = "trick"  # whose report begins with the answer
THRESHOLD = 0.05
LOAD = ["initiators", "threads", "payload_bytes"]


@dataclass(frozen=True)
class Load:
    """A load of the run, with the gain of the trick there, or why it is not known."""

    words: str
    total_threads: int
    gain: Interval | None = None
    unknown: str = ""  # why there is no gain with an interval

    def __str__(self) -> str:
        return f"{self.words}: {_gain(self.gain) if self.gain else self.unknown}"


def is_asked(run: Run) -> bool:
    return run.matrix == MATRIX


def answer(run: Run) -> str:
    """Say whether the trick pays, by how much, and with which interval."""
    sentences = _answer(of_the_trick(run.gain), loads(run))
    if run.cannot_gain:
        return f"{run.cannot_gain} {sentences}"
    if run.few_schedulers:
        sentences += f" On this machine: {run.few_schedulers}, so fewer sends meet on a page."
    return f"A model, not SQL Server: {sentences[:1].lower()}{sentences[1:]}" if run.is_model else sentences


def loads(run: Run) -> list[Load]:
    """Return every load of the run, those with the fewest threads first."""
    gain = of_the_trick(run.gain)
    by_load = run.cells.sort_values(["total_threads", *LOAD]).groupby(LOAD, sort=False)
    logs = logarithms(gain[gain.valid]) if len(gain) else gain.reindex(columns=[*LOAD, "log_factor"])
    level = 1 - ALPHA / by_load.ngroups
    known = intervals(logs, LOAD, ["server_version"], "log_factor", level) if len(logs) else logs
    found = []
    for (initiators, threads, payload), cells in by_load:
        words = f"{clients(initiators, threads)}, {payload_words(int(payload), run.cells)}"
        total_threads = int(cells.total_threads.iloc[0])
        reasons = []
        for row in known[(known[LOAD] == [initiators, threads, payload]).all(axis=1)].itertuples():
            if pd.notna(row.low):
                interval = Interval(row.ratio, row.low, row.high, row.blocks, row.p_value)
                found.append(Load(words, total_threads, interval))
                break
            reasons.append(f"{_percent(row.ratio)}, {no_interval(row.blocks)}")
        else:
            found.append(Load(words, total_threads, unknown="; ".join([*reasons, *_why_unknown(cells)])))
    return found


def _why_unknown(cells: pd.DataFrame) -> list[str]:
    """Say which cells of a load are missing or do not count, and what the gain is at least."""
    reasons = [
        f"no cell with {which_dialogs(ratio)} was completed"
        for ratio in (BASE_DIALOG_RATIO, TRICK_DIALOG_RATIO)
        if not (cells.dialog_ratio == ratio).any()
    ]
    for cell_id, blocks in cells[~cells.valid].groupby("cell_id", sort=False):
        all_blocks = int((cells.cell_id == cell_id).sum())
        often = f" in {len(blocks)} of {all_blocks} blocks" if all_blocks > 1 else ""
        reasons.append(f"{cell_id} is {blocks.state.iloc[0]}{often} ({blocks.state_reason.iloc[0]})")
    base = cells[(cells.dialog_ratio == BASE_DIALOG_RATIO) & cells.valid].processed_per_s
    drained = cells[cells.dialog_ratio == TRICK_DIALOG_RATIO].until_drained_per_s
    if reasons and len(base) and len(drained) and base.min() > 0:
        reasons.append(f"by the time until all was processed at least {_percent(drained.mean() / base.mean())}")
    return reasons


def _answer(gain: pd.DataFrame, of_loads: list[Load]) -> str:
    unknown_words = "Whether the 150 trick pays here cannot be told"
    if gain.empty:
        return f"{unknown_words}: no cell was completed with both dialog ratios, 1 and 150."
    known = [(load, load.gain) for load in of_loads if load.gain is not None]
    unknown = [load for load in of_loads if load.gain is None]
    if not known:
        blocks = int(gain[gain.valid].groupby(PAIR).block.nunique().max()) if gain.valid.any() else 0
        return f"{unknown_words}: {no_interval(blocks) if blocks else 'no pair of cells counts'}."
    logs = logarithms(gain[gain.valid])
    mean = interval_of_ratio(block_means(repeated(logs, PAIR), PAIR, "log_factor").to_numpy())
    number = f"{len(known)} of {len(of_loads)} loads" if unknown else counted(len(known), "load")
    mean_words = f"its mean gain over {number} is {_gain(mean, level='95 %')}"
    rest = ""
    if unknown:
        rest = f" Not known: {'; '.join(load.words for load in unknown)}."
    faster = [(load, one) for load, one in known if one.low is not None and one.low > 1 and one.ratio > 1 + THRESHOLD]
    if faster:
        best, most = max(faster, key=lambda pair: pair[1].low or 0)
        return (
            f"The 150 trick pays here: {_gain(most)} with {best.words}. It gains more than {100 * THRESHOLD:g} %, "
            f"distinguished from none, at {len(faster)} of {len(of_loads)} loads; {mean_words}.{rest}"
        )
    best, most = max(known, key=lambda pair: pair[1].ratio)
    is_small = mean.high is not None and mean.high <= 1 + THRESHOLD and most.ratio <= 1 + THRESHOLD
    busiest = max(load.total_threads for load, _ in known)
    if is_small and all(load.total_threads <= busiest for load in unknown):
        return f"The 150 trick does not pay here: {mean_words}, and none gains more than {100 * THRESHOLD:g} %.{rest}"
    return (
        f"{unknown_words}: {mean_words}, and the largest is {_gain(most)} with {best.words}.{rest} "
        "More --repeats make the intervals narrower."
    )


def evidence(run: Run) -> list[str]:
    """Say what each load gains, on which pages the dialogs lay, for whose pages tasks waited, and what instances waited
    for longest."""
    merged = over_blocks(run)
    tellings: tuple[tuple[str, Callable[[], list[str]]], ...] = (
        ("Loads", lambda: [f"{'; '.join(map(str, loads(run)))}."]),
        ("Pages", lambda: pages.spread_sentences(merged.page_spread)),
        ("Page latches", lambda: pages.latch_sentences(merged.latch_share, merged.index_waits, is_model=run.is_model)),
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


def _gain(interval: Interval, *, level: str = "95 %, all loads together") -> str:
    if interval.low is None or interval.high is None:
        return _percent(interval.ratio)
    return f"{_percent(interval.ratio)} ({level}: {_percent(interval.low)} to {_percent(interval.high)})"


def _percent(ratio: float) -> str:
    return percent(100 * (ratio - 1))
