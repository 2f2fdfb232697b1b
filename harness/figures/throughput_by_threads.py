"""The paper's figures 2, 3 and 4: messages per second against client threads, a line a payload."""

from __future__ import annotations

import pandas as pd

from harness.figures.parts import (
    Sheet,
    behind_note,
    over_versions,
    paper_level,
    payload_lines,
    payload_name,
    thousands,
    thread_axis,
    versions_note,
)
from harness.figures.reduced_run import Missing
from harness.whitepaper import BASE_DIALOG_RATIO, PEAK_THROUGHPUT, TRICK_DIALOG_RATIO

RATIO_WORDS = {TRICK_DIALOG_RATIO: "every 150th dialog used (the 150 trick)", BASE_DIALOG_RATIO: "every dialog used"}
PAPER_FIGURE = {1: 2, 2: 3, 3: 4}  # by number of initiators


def draw(cells: pd.DataFrame, initiators: int) -> Sheet:
    """Throughput of the target with so many initiators: with the trick, as in the paper, and without beside it."""
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


def count(initiators: int) -> str:
    return "1 initiator" if initiators == 1 else f"{initiators} initiators"


def threads_label(initiators: int) -> str:
    if initiators == 1:
        return "client threads (log scale)"
    return f"client threads per initiator ({count(initiators)}; log scale)"


def _finding(points: pd.DataFrame, cells: pd.DataFrame, initiators: int) -> str:
    best = points.loc[points["mean"].idxmax()]
    dialogs = RATIO_WORDS[int(best["dialog_ratio"])].split(" (")[0]
    figure = f"As the paper's figure {PAPER_FIGURE[initiators]}. " if initiators in PAPER_FIGURE else ""
    return (
        f"{figure}Peak: {best['mean']:,.0f} messages/s at {initiators} × {best['threads']:.0f} threads with "
        f"{payload_name(int(best['payload_bytes']))} a message, {dialogs}. "
        f"{versions_note(cells)} {behind_note(cells)}"
    )
