"""Maps of a value over the whole matrix: one panel per number of initiators, payload by threads."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import CenteredNorm, Normalize
from matplotlib.ticker import FuncFormatter, MaxNLocator

from harness.figures.parts import Sheet, count, kept_up, over_versions, payload_name, percent, signed, versions_note
from harness.figures.reduced_run import Missing

# The colour scale spans at least this much, so that noise stays pale.
SMALLEST_SPAN_PERCENT = 40.0


def draw(gain: pd.DataFrame) -> Sheet:
    """Draw the gain of the 150 trick for every pair of cells."""
    if gain.empty:
        raise Missing("no cell was completed with both dialog ratios")
    axes = ["initiators", "payload_bytes", "threads"]
    points = over_versions(gain, axes, "gain_percent").merge(kept_up(gain, axes), how="left")
    initiators = sorted(points.initiators.unique())
    fig = Sheet(10.4, 1.5 + 1.75 * len(initiators))
    panels = fig.subplots(len(initiators), 1, sharex=True, squeeze=False)[:, 0]
    scale = percent_scale(points["mean"])
    low, high = min(float(points["mean"].min()), 0), max(float(points["mean"].max()), 0)
    for ax, number in zip(panels, initiators, strict=True):
        matrix_panel(ax, points[points.initiators == number], points, scale)
        ax.set_title(count(int(number)).capitalize())
    panels[-1].set_xlabel("client threads per initiator")
    bar = fig.colorbar(mpl.cm.ScalarMappable(scale), ax=list(panels), pad=0.015, aspect=30)
    bar.ax.set_ylim(min(low, -SMALLEST_SPAN_PERCENT / 4), max(high, SMALLEST_SPAN_PERCENT / 4))
    bar.ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: signed(value)))
    bar.set_label("gain in messages processed per second, %")
    bar.outline.set_visible(False)
    empty = sum(_cells_of_panel(points) - len(points[points.initiators == number]) for number in initiators)
    note = versions_note(gain)
    mean = f" {note.split(';')[0].rstrip('.')}." if note else ""
    brackets = int((~points.target_kept_up).sum())
    behind = f" In brackets: {brackets} where a target fell behind, so the rate is not sustained." if brackets else ""
    missing = f" Hatched: {empty} without a pair of completed cells." if empty else ""
    fig.entitle(
        "Gain of using every 150th dialog, in percent, over the matrix",
        f"From {percent(low)} to {percent(high)}, median {percent(points['mean'].median())}."
        f"{mean}{missing}{behind} The paper saw up to +315 %, none at 15 threads in all or fewer.",
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
    known = points.pivot(index="payload_bytes", columns="threads", values="target_kept_up")
    sustained = known.reindex(payloads, columns=threads).to_numpy()
    values = np.ma.masked_invalid(square.to_numpy(dtype=float))
    colours = mpl.colormaps[mpl.rcParams["image.cmap"]]
    ax.patch.set(hatch="////", facecolor="#f1f1f3", edgecolor="#cfcfd4")
    ax.pcolormesh(values, cmap=colours, norm=scale, edgecolors="white", linewidth=1.2)
    for (row, column), value in np.ma.ndenumerate(values):  # type: ignore[no-untyped-call]
        red, green, blue, _ = colours(scale(value))
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
        ink = "white" if dark else "black"
        number = signed(value) if sustained[row, column] else f"({signed(value)})"
        ax.text(column + 0.5, row + 0.5, number, ha="center", va="center", color=ink, fontsize="small")
    ax.set_xticks(np.arange(len(threads)) + 0.5, [str(value) for value in threads])
    ax.set_yticks(np.arange(len(payloads)) + 0.5, [payload_name(int(value)) for value in payloads])
    ax.grid(visible=False)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def _cells_of_panel(points: pd.DataFrame) -> int:
    return int(points.threads.nunique() * points.payload_bytes.nunique())
