"""Latency of a call of the send procedure by client threads."""

from __future__ import annotations

import pandas as pd
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from harness.figures.parts import Sheet, count, payload_lines, thread_axis, used_dialogs, versions_note
from harness.figures.reduced_run import Missing
from harness.whitepaper import BASE_DIALOG_RATIO, TRICK_DIALOG_RATIO

ROWS = (("latency_us_p50", "median"), ("latency_us_p95", "95th percentile"))


def draw(cells: pd.DataFrame) -> Sheet:
    """Draw median and 95th percentile, one column per number of initiators, with the 150 trick if it was run."""
    ratio = TRICK_DIALOG_RATIO if (cells.dialog_ratio == TRICK_DIALOG_RATIO).any() else BASE_DIALOG_RATIO
    cells = cells[(cells.dialog_ratio == ratio) & (cells.latency_us_p50 > 0)]
    if cells.empty:
        raise Missing("no call returned in a measured window")
    initiators = sorted(cells.initiators.unique())
    fig = Sheet(max(2.2 + 2.9 * len(initiators), 7.6), 6.4)
    panels = fig.subplots(len(ROWS), len(initiators), sharex="col", sharey=True, squeeze=False)
    for row, (column, words) in zip(panels, ROWS, strict=True):
        for ax, number in zip(row, initiators, strict=True):
            of_number = cells[cells.initiators == number]
            payload_lines(fig, ax, of_number, "threads", column, scale=0.001)
            thread_axis(ax, list(cells.threads), "", label_gap=0.17)
            ax.set_yscale("log")
            ax.set_title(f"{count(int(number)).capitalize()}, {words}")
        row[0].set_ylabel("latency of a call, ms (log scale)")
    for ax in panels[-1]:
        ax.set_xlabel("client threads per initiator")
    axis = panels[0][0].yaxis
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
    fig.entitle(
        f"Latency of a send by client threads, {used_dialogs(ratio)}",
        f"Calls that returned in the measured window. Closed loop: a thread calls again after its call has returned, "
        f"so a stall shows in few calls. {versions_note(cells)}",
        cells,
    )
    return fig
