"""The gain of the 150 trick: by client threads (the paper's figure 5), and over the whole matrix."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import CenteredNorm, Normalize
from matplotlib.ticker import FuncFormatter, MaxNLocator

from harness.figures.parts import (
    Sheet,
    count,
    invalid_note,
    log_thread_axis,
    note,
    over_versions,
    paper_colour,
    paper_level,
    payload_lines,
    payload_name,
    percent,
    signed,
    versions_note,
)
from harness.figures.reduced_run import Missing
from harness.whitepaper import GAIN_MAX_PERCENT, GAIN_NOTICEABLE_FROM, NO_GAIN_UP_TO

# Repetitions of a short cell differ by less than this. Axes and colours always span at least this much.
SMALLEST_SPAN_PERCENT = 40.0
PAPER_INITIATORS = 3


def by_threads(gain: pd.DataFrame) -> Sheet:
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
    log_thread_axis(
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
        middle, where = ((start * end) ** 0.5, 0.02), ("data", "axes fraction")
        note(ax, words, middle, where, paper_colour(), ha="center", va="bottom")


def _finding(points: pd.DataFrame, gain: pd.DataFrame) -> str:
    valid = points[points.valid]
    initiators = int(gain.initiators.iloc[0])
    figure = "the paper's figure 5" + ("" if initiators == PAPER_INITIATORS else ", which has 3 initiators")
    notes = f"{versions_note(gain)} {invalid_note(gain)}"
    if valid.empty:
        return f"Corresponds to {figure}. No pair of cells is valid, so there is no gain that counts. {notes}"
    best = valid.sort_values("mean").iloc[-1]
    return (
        f"Corresponds to {figure}. Largest gain: {percent(best['mean'])} at {initiators} × "
        f"{best['total_threads'] // initiators:.0f} threads with {payload_name(int(best['payload_bytes']))} a message; "
        f"median of {len(valid)} points {percent(valid['mean'].median())}. {notes}"
    )


def over_matrix(gain: pd.DataFrame) -> Sheet:
    """Draw the gain of the 150 trick for every pair of cells."""
    if gain.empty:
        raise Missing("no cell was completed with both dialog ratios")
    points = over_versions(gain, ["initiators", "payload_bytes", "threads"], "gain_percent")
    initiators = sorted(points.initiators.unique())
    fig = Sheet(10.4, 1.5 + 1.75 * len(initiators))
    panels = fig.subplots(len(initiators), 1, sharex=True, squeeze=False)[:, 0]
    scale = percent_scale(points["mean"])
    known = points[points.valid] if points.valid.any() else points
    low, high = min(float(known["mean"].min()), 0), max(float(known["mean"].max()), 0)
    for ax, number in zip(panels, initiators, strict=True):
        matrix_panel(ax, points[points.initiators == number], points, scale)
        ax.set_title(count(int(number)).capitalize())
    panels[-1].set_xlabel("client threads per initiator")
    colour_bar(fig, panels, points["mean"], scale, "gain in messages processed per second, %")
    empty = len(initiators) * points.threads.nunique() * points.payload_bytes.nunique() - len(points)
    versions = versions_note(gain)
    mean = f" {versions.split(';')[0].rstrip('.')}." if versions else ""
    brackets = int((~points.valid).sum())
    invalid = f" In brackets: {brackets} that do not count; the report says why." if brackets else ""
    missing = f" Hatched: {empty} without a pair of completed cells." if empty else ""
    fig.entitle(
        "Gain of using every 150th dialog, in percent, over the matrix",
        f"From {percent(low)} to {percent(high)}, median {percent(known['mean'].median())}."
        f"{mean}{missing}{invalid} The paper saw up to +315 %, none at 15 threads in all or fewer.",
        gain,
    )
    return fig


def percent_scale(values: pd.Series) -> Normalize:
    """Return a colour scale with zero in the middle and the same strength for gain and loss."""
    return CenteredNorm(0, max(float(values.abs().max()), SMALLEST_SPAN_PERCENT))


def matrix_panel(ax: Axes, points: pd.DataFrame, whole: pd.DataFrame, scale: Normalize) -> None:
    """Draw payload by threads, each square with its number; `whole` determines rows and columns."""
    threads, payloads = sorted(whole.threads.unique()), sorted(whole.payload_bytes.unique())
    square = points.pivot(index="payload_bytes", columns="threads", values="mean").reindex(payloads, columns=threads)
    known = points.pivot(index="payload_bytes", columns="threads", values="valid")
    counts = known.reindex(payloads, columns=threads).to_numpy()
    values = np.ma.masked_invalid(square.to_numpy(dtype=float))
    colours = mpl.colormaps[mpl.rcParams["image.cmap"]]
    ax.patch.set(hatch="////", facecolor="#f1f1f3", edgecolor="#cfcfd4")
    ax.pcolormesh(values, cmap=colours, norm=scale, edgecolors="white", linewidth=1.2)
    for (row, column), value in np.ma.ndenumerate(values):  # type: ignore[no-untyped-call]
        red, green, blue, _ = colours(scale(value))
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
        ink = "white" if dark else "black"
        number = signed(value) if counts[row, column] else f"({signed(value)})"
        ax.text(column + 0.5, row + 0.5, number, ha="center", va="center", color=ink, fontsize="small")
    ax.set_xticks(np.arange(len(threads)) + 0.5, [str(value) for value in threads])
    ax.set_yticks(np.arange(len(payloads)) + 0.5, [payload_name(int(value)) for value in payloads])
    ax.grid(visible=False)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def colour_bar(fig: Sheet, panels: np.ndarray, values: pd.Series, scale: Normalize, label: str) -> None:
    """Draw the colours of `scale` beside the panels, as far as the values extend."""
    bar = fig.colorbar(mpl.cm.ScalarMappable(scale), ax=list(panels.flat), pad=0.015, aspect=30)
    least = SMALLEST_SPAN_PERCENT / 4
    bar.ax.set_ylim(min(float(values.min()), -least), max(float(values.max()), least))
    bar.ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: signed(value)))
    bar.set_label(label)
    bar.outline.set_visible(False)
