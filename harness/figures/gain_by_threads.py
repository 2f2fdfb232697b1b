"""The paper's figure 5: the gain of the 150 trick by client threads."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from harness.figures.parts import (
    Sheet,
    behind_note,
    count,
    kept_up,
    over_versions,
    paper_colour,
    paper_level,
    payload_lines,
    payload_name,
    percent,
    signed,
    thread_axis,
    versions_note,
)
from harness.figures.reduced_run import Missing
from harness.whitepaper import GAIN_MAX_PERCENT, GAIN_NOTICEABLE_FROM, NO_GAIN_UP_TO

# Repetitions of a short cell differ by less than this. The axis always spans at least this much.
SMALLEST_SPAN_PERCENT = 40.0
PAPER_INITIATORS = 3


def draw(gain: pd.DataFrame) -> Sheet:
    """Draw the gain for the largest number of initiators that has pairs of cells; the paper's figure 5 has 3."""
    if gain.empty:
        raise Missing("no cell was completed with both dialog ratios")
    initiators = int(gain.initiators.max())
    gain = gain[gain.initiators == initiators]
    points = over_versions(gain, ["total_threads", "payload_bytes"], "gain_percent")
    fig = Sheet(9.4, 5.7)
    ax = fig.subplots()
    ax.axhline(0, color=paper_colour(), linewidth=0.9)
    payload_lines(fig, ax, gain, "total_threads", "gain_percent")
    thread_axis(
        ax,
        list(gain.total_threads),
        f"client threads in all ({count(initiators)} × threads per initiator; log scale)",
        name=lambda total: f"{initiators}×{total // initiators}",
    )
    highest = max(float(points["max"].max()), SMALLEST_SPAN_PERCENT)
    lowest = min(float(points["min"].min()), -SMALLEST_SPAN_PERCENT / 2)
    ax.set_ylim(lowest - 0.1 * (highest - lowest), highest + 0.08 * (highest - lowest))
    ax.set_ylabel("gain in messages processed per second, %")
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: signed(value)))
    paper_level(ax, GAIN_MAX_PERCENT.value, "the paper, SQL Server: up to +315 %", highest)
    _paper_ranges(ax)
    fig.entitle(
        f"Gain of using every 150th dialog instead of every one, {count(initiators)}", _finding(points, gain), gain
    )
    return fig


def _paper_ranges(ax: Axes) -> None:
    """Shade where the paper saw no gain, and where it saw one."""
    low, high = ax.get_xlim()
    spans = (
        (low, min(high, NO_GAIN_UP_TO.value), f"the paper: no benefit at {NO_GAIN_UP_TO.value:.0f} threads or less"),
        (max(low, GAIN_NOTICEABLE_FROM.value), high, f"the paper: noticeable from {GAIN_NOTICEABLE_FROM.value:.0f}"),
    )
    for start, end, words in spans:
        if end <= start * 1.3:
            continue
        ax.axvspan(start, end, color=paper_colour(), alpha=0.055, linewidth=0, zorder=0)
        ax.annotate(
            words,
            ((start * end) ** 0.5, 0.02),
            xycoords=("data", "axes fraction"),
            ha="center",
            va="bottom",
            fontsize="small",
            color=paper_colour(),
        )


def _finding(points: pd.DataFrame, gain: pd.DataFrame) -> str:
    axes = ["total_threads", "payload_bytes"]
    sustained = points.merge(kept_up(gain, axes)).query("target_kept_up")
    best = (sustained if len(sustained) else points).sort_values("mean").iloc[-1]
    initiators = int(gain.initiators.iloc[0])
    figure = "the paper's figure 5" + ("" if initiators == PAPER_INITIATORS else ", which has 3 initiators")
    what = "Largest sustained gain" if len(sustained) else "Largest gain"
    return (
        f"Corresponds to {figure}. {what}: {percent(best['mean'])} at {initiators} × "
        f"{best['total_threads'] // initiators:.0f} threads with {payload_name(int(best['payload_bytes']))} a message; "
        f"median of all {len(points)} points {percent(points['mean'].median())}. {versions_note(gain)} "
        f"{behind_note(gain)}"
    )
