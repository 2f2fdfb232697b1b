"""The paper's figures 2, 3 and 4: messages per second by client threads, one line per payload."""

from __future__ import annotations

import pandas as pd

from harness.figures.parts import (
    RATIO_WORDS,
    Sheet,
    behind_note,
    count,
    over_versions,
    paper_level,
    payload_lines,
    payload_name,
    thousands,
    thread_axis,
    threads_label,
    used_dialogs,
    versions_note,
)
from harness.figures.reduced_run import Missing
from harness.whitepaper import PEAK_THROUGHPUT, TRICK_DIALOG_RATIO

PAPER_FIGURE = {1: 2, 2: 3, 3: 4}  # by number of initiators


def draw(cells: pd.DataFrame, initiators: int) -> Sheet:
    """Draw the target's throughput with so many initiators: with the 150 trick as in the paper, and without it."""
    cells = cells[cells.initiators == initiators]
    if cells.empty:
        raise Missing(f"no completed cell with {count(initiators)}")
    ratios = [ratio for ratio in RATIO_WORDS if (cells.dialog_ratio == ratio).any()]
    if not ratios:
        raise Missing(f"no completed cell of dialog ratio 1 or 150 with {count(initiators)}")
    fig = Sheet(10.4 if len(ratios) > 1 else 7.4, 5.7)
    panels = fig.subplots(1, len(ratios), sharey=True, squeeze=False)[0]
    points = over_versions(cells, ["dialog_ratio", "threads", "payload_bytes"], "processed_per_s")
    highest = float(points["max"].max())
    for ax, ratio in zip(panels, ratios, strict=True):
        payload_lines(fig, ax, cells[cells.dialog_ratio == ratio], "threads", "processed_per_s")
        thread_axis(ax, list(cells.threads), threads_label(initiators))
        ax.set_title(RATIO_WORDS[ratio].capitalize())
    panels[0].set_ylim(0, highest * 1.08)
    panels[0].set_ylabel("messages processed by the target, per second")
    thousands(panels[0].yaxis)
    if TRICK_DIALOG_RATIO in ratios and initiators in PEAK_THROUGHPUT:
        paper_level(panels[0], PEAK_THROUGHPUT[initiators].value, paper_words(initiators), highest)
    fig.entitle(
        f"Messages per second with {count(initiators)} and one target", _finding(points, cells, initiators), cells
    )
    return fig


def paper_words(initiators: int) -> str:
    return f"the paper's peak, SQL Server: {PEAK_THROUGHPUT[initiators].wording}"


def _finding(points: pd.DataFrame, cells: pd.DataFrame, initiators: int) -> str:
    best = points.loc[points["mean"].idxmax()]
    figure = f"Corresponds to the paper's figure {PAPER_FIGURE[initiators]}. " if initiators in PAPER_FIGURE else ""
    return (
        f"{figure}Peak: {best['mean']:,.0f} messages/s at {initiators} × {best['threads']:.0f} threads with "
        f"{payload_name(int(best['payload_bytes']))} a message, {used_dialogs(best['dialog_ratio'])}. "
        f"{versions_note(cells)} {behind_note(cells)}"
    )
