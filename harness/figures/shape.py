"""The shapes of two runs in one picture: messages per second by threads, each run relative to its own peak.

Labs of different speed can agree in shape, such as the embedded lab in real time and a model of its machine.
"""

from __future__ import annotations

import pandas as pd
from matplotlib.ticker import PercentFormatter

from harness.figures.parts import (
    Sheet,
    count,
    cycle_entry,
    kept_up,
    over_versions,
    payload_name,
    percent,
    thread_axis,
    threads_label,
    used_dialogs,
    versions_note,
)
from harness.figures.reduced_run import Missing

_DASHES = ("-", (0, (5, 2)))


def draw(cells: tuple[pd.DataFrame, ...], names: tuple[str, str]) -> Sheet:
    """Draw one panel per number of initiators, for the smallest common payload; raises Missing without a curve."""
    points = pd.concat([_points(run).assign(run=name) for run, name in zip(cells, names, strict=True)])
    points = points[points.payload_bytes == points.payload_bytes.min()]
    counts = [number for number, rows in points.groupby("initiators") if rows.threads.nunique() > 2]
    if not counts:
        raise Missing("no common cells with three numbers of threads: there is no shape to compare")
    payload = payload_name(int(points.payload_bytes.min()))
    points = points[points.initiators.isin(counts)].assign(part=0.0)
    points["part"] = points["mean"] / points.groupby(["run", "initiators"])["mean"].transform("max")
    # The footer's text about the labs needs this width.
    fig = Sheet(max(8.4, 1.6 + 4.3 * len(counts)), 4.6)
    panels = fig.subplots(1, len(counts), sharey=True, squeeze=False)[0]
    for ax, number in zip(panels, counts, strict=True):
        here = points[points.initiators == number]
        for (place, ratio), (dashes, name) in (
            (entry, which)
            for entry in enumerate(sorted(here.dialog_ratio.unique()))
            for which in zip(_DASHES, names, strict=True)
        ):
            line = here[(here.dialog_ratio == ratio) & (here.run == name)].sort_values("threads")
            style = cycle_entry(place) | {"linestyle": dashes, "markersize": 4.5}
            label = f"{name}, {used_dialogs(ratio)}"
            ax.plot(line.threads, line.part, label=label, **style)
            behind = line[~line.target_kept_up]
            ax.plot(behind.threads, behind.part, **style | {"linestyle": "none", "markerfacecolor": "white"})
        thread_axis(ax, list(here.threads), threads_label(number))
        peaks = ", ".join(f"{name} {rows['mean'].max():,.0f}/s" for name, rows in here.groupby("run"))
        ax.set_title(f"{count(number).capitalize()}; peaks: {peaks}")
    panels[0].set_ylim(0, 1.08)
    panels[0].yaxis.set_major_formatter(PercentFormatter(1.0))
    panels[0].set_ylabel("messages processed, % of the run's own peak")
    panels[0].legend(loc="lower right", fontsize="small")
    apart = points.pivot_table(index=["initiators", "dialog_ratio", "threads"], columns="run", values="part")
    difference = 100 * (apart[names[1]] - apart[names[0]]).abs()
    fig.entitle(
        f"The shapes of {names[0]} and {names[1]}: throughput by threads, relative to each run's own peak",
        f"{payload} a message. The runs differ by {percent(difference.median()).lstrip('+')} of a peak at "
        f"the median of {len(difference)} points, by {percent(difference.max()).lstrip('+')} at most. "
        f"{versions_note(cells[0]).split('; bars')[0]}",
        cells[0],
    )
    return fig


def _points(cells: pd.DataFrame) -> pd.DataFrame:
    by = ["initiators", "dialog_ratio", "threads", "payload_bytes"]
    return over_versions(cells, by, "processed_per_s").merge(kept_up(cells, by), how="left")
