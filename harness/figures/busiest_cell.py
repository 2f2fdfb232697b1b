"""The busiest cell second by second: rates, and depths of the queues."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes

from harness.figures.parts import (
    Sheet,
    count,
    cycle_entry,
    muted_colour,
    payload_name,
    thousands,
    used_dialogs,
)
from harness.figures.reduced_run import Missing

SECONDS_WITH_DEPTH = 2  # with fewer there is no line to draw
SHORTEST_SECOND = 0.25  # a shorter last second has no meaningful rate


def draw(seconds: pd.DataFrame, cells: pd.DataFrame) -> Sheet:
    """Draw the cell whose queues were deepest."""
    cell = busiest(seconds, cells)
    rows = seconds[seconds.cell_id == cell.cell_id].sort_values("second")
    length = float(cell.load_s + cell.drain_s)
    width = (length - rows.second).clip(upper=1.0)
    rows, width = rows[width >= SHORTEST_SECOND], width[width >= SHORTEST_SECOND]
    middle = rows.second + width / 2
    fig = Sheet(9.4, 6.2)
    rates, depths = fig.subplots(2, 1, sharex=True)
    rate_words = (("sent", "sent by the clients"), ("processed", "processed by the target"))
    for place, (column, words) in enumerate(rate_words):
        rates.plot(middle, rows[column] / width, label=words, markeredgecolor="white", **cycle_entry(2 * place))
    for place, (column, words) in enumerate(
        (("queue_depth", "target's queue"), ("transmission_queue_depth", "transmission queues of the initiators"))
    ):
        known = rows[column].notna()
        depths.plot(middle[known], rows[column][known], label=words, markeredgecolor="white", **cycle_entry(2 * place))
    rates.set_ylabel("messages per second")
    depths.set_ylabel("messages in queues")
    depths.set_xlabel("seconds since the clients started")
    for ax in (rates, depths):
        ax.set_ylim(bottom=0, top=max(ax.get_ylim()[1], 1))
        ax.set_xlim(0, length)
        thousands(ax.yaxis)
        ax.legend(loc="best")
        _phases(ax, cell, named=ax is rates)
    depth = (rows.queue_depth.fillna(0) + rows.transmission_queue_depth.fillna(0)).max()
    fig.entitle(
        f"Queues of the busiest cell, {cell.cell_id}",
        f"{count(int(cell.initiators))} × {cell.threads} threads, {payload_name(int(cell.payload_bytes))} a message, "
        f"{used_dialogs(cell.dialog_ratio)}. At most {depth:,.0f} messages were queued; drained "
        f"{cell.drain_s:.1f} s after the last call. Depth: the deepest sample of each second.",
        rows,
    )
    return fig


def busiest(seconds: pd.DataFrame, cells: pd.DataFrame) -> pd.Series:
    """Choose the cell with the deepest queues among those sampled often enough; of two, the faster one."""
    sampled = seconds.dropna(subset=["queue_depth"]).groupby("cell_id").size()
    known = cells[cells.cell_id.isin(sampled[sampled >= SECONDS_WITH_DEPTH].index)]
    if known.empty:
        raise Missing("no cell has samples of its queues in two seconds")
    depth = known.queue_depth_peak.fillna(0) + known.transmission_queue_depth_peak.fillna(0)
    ranked = known.assign(depth=depth).sort_values(["depth", "processed_per_s", "cell_id"])
    return ranked.iloc[-1]


def _phases(ax: Axes, cell: pd.Series, *, named: bool) -> None:
    end_of_window = cell.settle_s + cell.measured_s
    ax.axvspan(cell.settle_s, end_of_window, color=muted_colour(), alpha=0.12, linewidth=0, zorder=0)
    ax.axvline(cell.load_s, color=muted_colour(), linewidth=0.9, linestyle=(0, (2, 2)))
    if not named:
        return
    for at, words, align in (
        ((cell.settle_s + end_of_window) / 2, "measured", "center"),
        (cell.load_s, " clients stopped", "left"),
    ):
        ax.annotate(
            words,
            (at, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 2),
            textcoords="offset points",
            ha=align,
            va="bottom",
            fontsize="small",
            color=muted_colour(),
        )
