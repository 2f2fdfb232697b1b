"""Whether run b is slower than run a by more than a threshold: what `compare --fail-over` decides.

Three answers: it is slower, no slowdown beyond the threshold can hide in the intervals, or nobody can tell. What is
looked at:

* the rate processed, of all cells together and of each; in an open loop, where the rate is given, the share of the
  calls that were due and never made
* latencies, p50, p95 and p99 of calls and end to end, over all cells. They vary more than rates, so four times the
  threshold is allowed
* the cells: one that counted in a and failed in b, or whose target is saturated or behind now, is slower until it is
  shown not to be. One that is missing, disturbed or unsettled in b says nothing, and so nobody can tell

Alarms are corrected for the number of lists that may raise one (`ratios.FAMILIES`).
"""

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass, field

import pandas as pd

from harness.definitions.inference import BLOCKS_MIN, Difference, Interval, verdicts
from harness.definitions.units import counted
from harness.figures.ratios import FAMILIES, LATENCIES, RATE, Group, ratio_words
from harness.files.records import State

LATENCY_THRESHOLDS = 4  # of latencies, in thresholds of rates
MISSED_SHARE_MAX = 0.01  # of the calls that were due; below it an open loop made its rate
MOST_BLOCKS = 0.5  # in so many of its blocks a cell must count
CELLS_NAMED = 3
BLOCKS_NAMED_MAX = 100


@dataclass
class Gate:
    """What is slower in b, and what nobody can tell: a phrase each. Both are empty where no slowdown can hide."""

    slowdowns: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def judge(  # noqa: PLR0917
    a: pd.DataFrame, b: pd.DataFrame, table: pd.DataFrame, groups: Sequence[Group], threshold: float, failed: Set[str]
) -> Gate:
    """Judge two runs by their cells as `ratios.pair` pairs them, a row per cell and block, and by the ratios of these:
    `table` as `ratios.by_cell` returns it, `groups` as `ratios.groups` does.

    `failed` are the ids of the cells of b that failed in a block and were completed in none.
    """
    gate = Gate()
    is_open_loop = "rate_per_s" in a and a.rate_per_s.notna().any()
    if is_open_loop:
        _judge_missed_calls(gate, a, b)
    else:
        _judge_rates(gate, table, groups, threshold)
    if groups:
        _judge_latencies(gate, groups[0], threshold)
    _judge_states(gate, a, b, failed)
    return gate


def _judge_rates(gate: Gate, table: pd.DataFrame, groups: Sequence[Group], threshold: float) -> None:
    if not groups:
        gate.unknown.append("no cell counts in both runs")
        return
    whole, cells = groups[0], counted(groups[0].cells, "cell")
    rate = whole.ratios[RATE]
    if whole.verdict.difference is Difference.SLOWER:
        gate.slowdowns.append(f"all {cells} together ({ratio_words(rate)})")
    elif rate.low is None:
        needed = f"{BLOCKS_MIN} blocks that count in both"
        gate.unknown.append(f"the rates of {cells} have no interval, which needs {needed}")
    elif rate.low < 1 - threshold:
        gate.unknown.append(f"all {cells} together ({ratio_words(rate)}): {_more_blocks(rate, threshold)}")
    gate.slowdowns += [
        f"{row.cell_id} ({row.processed_per_s_ratio:.2f}, {row.processed_per_s_ratio_low:.2f} to "
        f"{row.processed_per_s_ratio_high:.2f})"
        for row in table[table.verdict == Difference.SLOWER].sort_values(f"{RATE}_ratio").itertuples()
    ]


def _more_blocks(rate: Interval, threshold: float) -> str:
    """Say how many blocks of both runs would be enough, if their spread and ratio stay."""
    assert rate.low is not None
    room, half = math.log(rate.ratio / (1 - threshold)), math.log(rate.ratio / rate.low)
    if room <= 0:
        return "more blocks would tell"
    blocks = math.ceil(rate.blocks * (half / room) ** 2)
    return f"about {blocks} blocks of both would tell" if blocks <= BLOCKS_NAMED_MAX else "the rates vary too much"


def _judge_missed_calls(gate: Gate, a: pd.DataFrame, b: pd.DataFrame) -> None:
    shares = [float(cells.missed_calls.sum() / max(1, cells.due_calls.sum())) for cells in (a, b)]
    if shares[1] > shares[0] + MISSED_SHARE_MAX:
        gate.slowdowns.append(f"calls that were due and never made: {shares[1]:.1%}, after {shares[0]:.1%}")


def _judge_latencies(gate: Gate, whole: Group, threshold: float) -> None:
    quantities = [name for name in LATENCIES if name in whole.ratios]
    allowed = LATENCY_THRESHOLDS * threshold
    found = verdicts([_inverse(whole.ratios[name]) for name in quantities], allowed, families=FAMILIES)
    for name, verdict in zip(quantities, found, strict=True):
        ratio = whole.ratios[name]
        words = f"{name.replace('latency_us', 'call').replace('_us_', ' ').replace('_', ' ')} ({ratio_words(ratio)})"
        if verdict.difference is Difference.SLOWER:
            gate.slowdowns.append(words)
        elif ratio.high is not None and 1 / ratio.high < 1 - allowed:
            gate.unknown.append(words)


def _inverse(ratio: Interval) -> Interval:
    """Return a divided by b: a longer latency is slower."""
    low, high = (None if end is None else 1 / end for end in (ratio.high, ratio.low))
    return Interval(1 / ratio.ratio, low, high, ratio.blocks, ratio.p_value)


def _judge_states(gate: Gate, a: pd.DataFrame, b: pd.DataFrame, failed: Set[str]) -> None:
    """Compare what each cell of a counted for with what it counts for in b."""
    became: dict[str, list[str]] = {}
    for cell_id in a[a.valid].cell_id.unique():
        if change := _change(a[a.cell_id == cell_id], b[b.cell_id == cell_id], is_failed=cell_id in failed):
            became.setdefault(change, []).append(cell_id)
    for change, ids in became.items():
        ids_shown = ", ".join(ids[:CELLS_NAMED]) + (", ..." if len(ids) > CELLS_NAMED else "")
        is_slower = change in {"failed", State.SATURATED, State.BEHIND}
        (gate.slowdowns if is_slower else gate.unknown).append(
            f"{counted(len(ids), 'cell')} that counted in a, {change} in b ({ids_shown})"
        )


def _change(in_a: pd.DataFrame, in_b: pd.DataFrame, *, is_failed: bool) -> str:
    """Return what became of a cell that counted in a; empty if it counts for as much in b."""
    if in_b.empty:
        return "failed" if is_failed else "missing"
    if in_b.saturated.any() and not in_a.saturated.any():
        return State.SATURATED.value
    if in_b.valid.mean() >= MOST_BLOCKS:
        return ""
    return str(in_b[~in_b.valid].state.mode()[0]) if "state" in in_b else "not counted"
