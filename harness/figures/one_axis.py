"""Messages per second along the only axis of a matrix: a plain line with its intervals."""

import numpy as np
import pandas as pd

from harness.definitions.inference import intervals
from harness.definitions.units import counted
from harness.figures import parts
from harness.figures.reduced_run import Missing

# The axes that no other figure has as its own, with the words of a file's name and of the label.
WORDS = {"initiators": "initiators", "dialog_ratio": "ratio", "payload_bytes": "payload"}
LABELS = {
    "initiators": "initiators",
    "dialog_ratio": "dialog ratio: every nth dialog is used",
    "payload_bytes": "bytes a message (log scale)",
}


def of(cells: pd.DataFrame) -> str | None:
    """Return the axis that alone has several values; None if there is none, or if it is the threads."""
    varied = [name for name in ("threads", *WORDS) if cells[name].nunique() > 1]
    return varied[0] if len(varied) == 1 and varied[0] in WORDS else None


def name(axis: str) -> str:
    """Return the name of the figure's files."""
    return f"throughput-by-{WORDS[axis]}"


def draw(cells: pd.DataFrame, axis: str) -> parts.Sheet:
    """Draw the rate of the valid cells by the values of the axis, from a table with a row per cell and block."""
    counting = cells[cells.valid & (cells.processed_per_s > 0)]
    if counting.empty:
        raise Missing("no cell is valid")
    logs = counting.assign(log_rate=np.log(counting.processed_per_s.astype(float)))
    points = intervals(logs, [axis], ["server_version"], "log_rate").sort_values(axis)
    fig = parts.Sheet(8.4, 5.0)
    ax = fig.subplots()
    bars = None
    if points.low.notna().any():
        bars = np.array([points.ratio - points.low, points.high - points.ratio])
    ax.errorbar(points[axis], points.ratio, yerr=bars, elinewidth=0.9, markeredgecolor="white", **parts.cycle_entry(0))
    ax.set_ylim(bottom=0)
    if axis == "payload_bytes":
        parts.log_thread_axis(ax, list(points[axis]), LABELS[axis], name="{:,}".format)
    else:
        parts.thread_axis(ax, list(points[axis]), LABELS[axis])
    ax.set_ylabel("messages processed by the target, per second")
    parts.thousands(ax.yaxis)
    fig.entitle(
        f"Messages per second by {LABELS[axis].partition(' (')[0].partition(':')[0]}",
        f"{_constant(counting, axis)}. {parts.versions_note(counting)} {parts.intervals_note(points)}",
        counting,
    )
    return fig


def _constant(cells: pd.DataFrame, axis: str) -> str:
    """Name the values of the other axes."""
    cell = cells.iloc[0]
    words = {
        "initiators": parts.clients(cell.initiators, cell.threads),
        "payload_bytes": parts.payload_words(int(cell.payload_bytes), cells),
        "dialog_ratio": parts.used_dialogs(cell.dialog_ratio),
    }
    if axis == "initiators":
        words[axis] = f"{counted(int(cell.threads), 'thread')} per initiator"
    else:
        words.pop(axis)
    return ", ".join(words.values())
