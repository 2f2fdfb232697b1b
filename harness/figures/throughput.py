"""Messages per second by client threads (the paper's figures 2, 3 and 4); the course of the busiest cell."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from harness.claims.judgement import of_the_paper
from harness.definitions.units import counted
from harness.definitions.whitepaper import PEAK_THROUGHPUT, TRICK_DIALOG_RATIO
from harness.figures import parts
from harness.figures.reduced_run import Missing

PAPER_FIGURE = {1: 2, 2: 3, 3: 4}  # by number of initiators
POINT = ["dialog_ratio", "threads", "payload_bytes"]
SECONDS_WITH_DEPTH = 2  # with fewer there is no line to draw
# The course has no rate for a bin that is shorter than this part of the longest: a few messages more or less, such as
# those of threads that stopped first, would be a peak or a gap.
SHORTEST_BIN = 0.2


def name(initiators: int) -> str:
    """Return the name of the figure's files: the paper's number and what it shows."""
    number = f"figure-{PAPER_FIGURE[initiators]}-" if initiators in PAPER_FIGURE else ""
    return f"{number}throughput-{initiators}-initiator{'s' * (initiators > 1)}"


def by_threads(cells: pd.DataFrame, repeats: pd.DataFrame, initiators: int) -> parts.Sheet:
    """Draw the target's throughput with so many initiators: with the 150 trick as in the paper, and without it.

    `cells` has one row per cell, `repeats` one per cell and block, which the intervals are over.
    """
    cells, repeats = (table[table.initiators == initiators] for table in (cells, repeats))
    if cells.empty:
        raise Missing(f"no completed cell with {parts.count(initiators)}")
    ratios = parts.shown_ratios(cells.dialog_ratio)
    fig = parts.Sheet(10.4 if len(ratios) > 1 else 7.4, 5.7)
    panels = fig.subplots(1, len(ratios), sharey=True, squeeze=False)[0]
    points = parts.with_intervals(
        parts.over_versions(cells, POINT, "processed_per_s"), repeats, POINT, "processed_per_s"
    )
    highest = float(np.nanmax(points[["mean", "high"]]))
    for ax, ratio in zip(panels, ratios, strict=True):
        parts.payload_lines(fig, ax, points[points.dialog_ratio == ratio])
        parts.thread_axis(ax, list(cells.threads), parts.threads_label(initiators))
        ax.set_title(parts.ratio_words(ratio).capitalize())
    panels[0].set_ylim(0, highest * 1.08)
    panels[0].set_ylabel("messages processed by the target, per second")
    parts.thousands(panels[0].yaxis)
    if initiators in PEAK_THROUGHPUT and (of_the_paper(cells).dialog_ratio == TRICK_DIALOG_RATIO).any():
        stated = PEAK_THROUGHPUT[initiators]
        parts.paper_level(panels[0], stated.value, f"the paper's peak, SQL Server: {stated.wording}", highest)
    fig.entitle(
        f"Messages per second with {parts.count(initiators)} and one target",
        _finding(points, cells, repeats, initiators),
        cells,
    )
    return fig


def _finding(points: pd.DataFrame, cells: pd.DataFrame, repeats: pd.DataFrame, initiators: int) -> str:
    is_papers = initiators in PAPER_FIGURE and not of_the_paper(cells).empty
    figure = f"Corresponds to the paper's figure {PAPER_FIGURE[initiators]}. " if is_papers else ""
    notes = f"{parts.versions_note(cells)} {parts.intervals_note(points)} {parts.states_note(cells)}"
    return f"{figure}{_peak(points, repeats, initiators)} {notes}"


def _peak(points: pd.DataFrame, repeats: pd.DataFrame, initiators: int) -> str:
    """Name the highest of the filled points, and a higher one that does not count."""
    valid = points[points.valid]
    if valid.empty:
        return "No cell is valid, so there is no peak."
    best = valid.loc[valid["mean"].idxmax()]
    return (
        f"Peak: {best['mean']:,.0f} messages/s at {initiators} × {counted(int(best['threads']), 'thread')} with "
        f"{parts.payload_words(int(best['payload_bytes']), points)}, {parts.used_dialogs(best['dialog_ratio'])}."
        f"{parts.higher_uncounted(repeats, best['mean'])}"
    )


def queues(bins: pd.DataFrame, seconds: pd.DataFrame, cells: pd.DataFrame) -> parts.Sheet:
    """Draw the course of the cell whose queues were deepest."""
    if bins.empty:
        raise Missing("the course of the cells was not reduced: run `harness reduce` on this run again")
    cell = busiest(seconds, cells)
    of_cell = [table[(table.cell_id == cell.cell_id) & (table.block == cell.block)] for table in (bins, seconds)]
    course, sampled = of_cell[0].sort_values("bin"), of_cell[1].sort_values("second")
    length = float(cell.load_s + cell.drain_s)
    fig = parts.Sheet(9.4, 6.8)
    rates, depths = fig.subplots(2, 1, sharex=True)
    _rates(rates, course)
    ends = course.from_s + course.length_s
    waiting = (course.sent_messages - course.processed_messages).cumsum()
    depths.plot([0, *ends], [0, *waiting], label="sent but not processed", color=parts.muted_colour(), marker="")
    _sampled(depths, sampled, length)
    depths.set_ylabel("messages")
    depths.set_xlabel("seconds since the clients started")
    for ax in (rates, depths):
        ax.set_ylim(bottom=0, top=max(ax.get_ylim()[1], 1))
        ax.set_xlim(0, length)
        parts.thousands(ax.yaxis)
        parts.legend_below(ax)
        phases(ax, cell, are_named=ax is rates)
    depth = (sampled.queue_depth.fillna(0) + sampled.transmission_queue_depth.fillna(0)).max()
    fig.entitle(
        f"Queues of the busiest cell, {cell.cell_id}{f', block {cell.block}' * (cells.block.nunique() > 1)}",
        f"{parts.clients(cell.initiators, cell.threads)}, {parts.payload_words(int(cell.payload_bytes), cells)}, "
        f"{parts.used_dialogs(cell.dialog_ratio)}. In the measured window {cell.sent_per_s:,.0f} messages/s were sent "
        f"and {cell.processed_per_s:,.0f} processed (dashes). At most {depth:,.0f} messages were seen in queues; "
        f"drained {cell.drain_s:.1f} s after the last call.{not_valid(cell)} Rates: in bins of "
        f"{parts.short(course.length_s.max())} s or less, cut where the clients stopped. Queues: the deepest sample of "
        "each second; a message is in both until its arrival is acknowledged.",
        course,
    )
    return fig


def not_valid(cell: pd.Series) -> str:
    """Say that the cell does not count, and why; empty if it does."""
    return "" if cell.valid else f" The cell does not count, it is {cell.state}: {cell.state_reason}."


def _rates(ax: Axes, course: pd.DataFrame) -> None:
    """Draw the rate of each bin as a step, and dashes at the rate of the whole window."""
    window = course[course.phase == "measure"]
    edges = [*course.from_s, course.from_s.iloc[-1] + course.length_s.iloc[-1]]
    long_enough = course.length_s >= SHORTEST_BIN * course.length_s.max()
    rate_words = (("sent_messages", "sent by the clients"), ("processed_messages", "processed by the target"))
    for place, (column, words) in enumerate(rate_words):
        colour = parts.cycle_entry(2 * place)["color"]
        rates = (course[column] / course.length_s).where(long_enough)
        ax.stairs(rates, edges, color=colour, linewidth=1.8, label=words)
        rate = window[column].sum() / window.length_s.sum()
        ax.hlines(rate, window.from_s.iloc[0], window.from_s.iloc[-1] + window.length_s.iloc[-1], colour, "dashed")
    ax.set_ylabel("messages per second")


def _sampled(ax: Axes, sampled: pd.DataFrame, length: float) -> None:
    """Draw the depths that were seen, which a second holds once, as points."""
    middle = (sampled.second + (sampled.second + 1).clip(upper=length)) / 2
    queue_words = (
        ("queue_depth", "seen in the target's queue"),
        ("transmission_queue_depth", "seen in the initiators' transmission queues"),
    )
    for place, (column, words) in enumerate(queue_words):
        has_value = sampled[column].notna()
        style = parts.cycle_entry(2 * place) | {"linestyle": "none", "markersize": 7, "markeredgecolor": "white"}
        ax.plot(middle[has_value], sampled[column][has_value], label=words, **style)


def busiest(seconds: pd.DataFrame, cells: pd.DataFrame) -> pd.Series:
    """Choose the cell and block with the deepest queues among those sampled often enough; of two, the faster one."""
    sampled = seconds.dropna(subset=["queue_depth"]).groupby(["cell_id", "block"]).size()
    often = sampled[sampled >= SECONDS_WITH_DEPTH].index
    repeated_cells = cells[pd.MultiIndex.from_frame(cells[["cell_id", "block"]]).isin(often)]
    if repeated_cells.empty:
        raise Missing("no cell has samples of its queues in two seconds")
    depth = repeated_cells.queue_depth_peak.fillna(0) + repeated_cells.transmission_queue_depth_peak.fillna(0)
    ranked = repeated_cells.assign(depth=depth).sort_values(["depth", "processed_per_s", "cell_id", "block"])
    return ranked.iloc[-1]


def phases(ax: Axes, cell: pd.Series, *, are_named: bool) -> None:
    """Mark the measured window, and where the clients stopped, in seconds since they started; `named` in words too."""
    end_of_window = cell.settle_s + cell.measured_s
    ax.axvspan(cell.settle_s, end_of_window, color=parts.muted_colour(), alpha=0.12, linewidth=0, zorder=0)
    ax.axvline(cell.load_s, color=parts.muted_colour(), linewidth=0.9, linestyle=(0, (2, 2)))
    if not are_named:
        return
    for at, words, align in (
        ((cell.settle_s + end_of_window) / 2, "measured", "center"),
        (cell.load_s, " clients stopped", "left"),
    ):
        where = ("data", "axes fraction")
        parts.note(ax, words, (at, 1.0), where, parts.muted_colour(), shift=(0, 2), ha=align, va="bottom")
