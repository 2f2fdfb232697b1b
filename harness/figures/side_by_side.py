"""Figures of a comparison: throughput and gain of two runs side by side, their ratio over the matrix, their shapes."""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.ticker import FuncFormatter, PercentFormatter

from harness.claims.gain import noise_of
from harness.definitions.inference import Difference
from harness.definitions.matrix import which_dialogs
from harness.definitions.units import counted
from harness.figures import parts
from harness.figures.gain import (
    colour_bar,
    comparison_scale,
    draw_noise,
    gain_limits,
    gain_lines,
    gain_points,
    matrix_panel,
    points_note,
)
from harness.figures.reduced_run import Missing

Pair = tuple[pd.DataFrame, ...]
_POINT = ["dialog_ratio", "threads", "payload_bytes"]
_DASHES = ("-", (0, (5, 2)))


def throughput(cells: Pair, repeats: Pair, names: tuple[str, str], initiators: int) -> parts.Sheet:
    """Draw messages per second of both runs on one scale, one row of panels per dialog ratio.

    `cells` has one row per cell, `repeats` one per cell and block, which the intervals are over.
    """
    cells, repeats = (tuple(run[run.initiators == initiators] for run in pair) for pair in (cells, repeats))
    if cells[0].empty:
        raise Missing(f"no common cell with {parts.count(initiators)}")
    ratios = parts.shown_ratios(cells[0].dialog_ratio)
    fig = parts.Sheet(10.4, 1.0 + 3.7 * len(ratios))
    panels = fig.subplots(len(ratios), 2, sharex=True, sharey=True, squeeze=False)
    points = [
        parts.with_intervals(parts.over_versions(run, _POINT, "processed_per_s"), repeat, _POINT, "processed_per_s")
        for run, repeat in zip(cells, repeats, strict=True)
    ]
    highest = max(float(of_run[["mean", "high"]].max(axis=None)) for of_run in points)
    for row, ratio in zip(panels, ratios, strict=True):
        for ax, run, name in zip(row, points, names, strict=True):
            parts.payload_lines(fig, ax, run[run.dialog_ratio == ratio])
            parts.thread_axis(
                ax, list(cells[0].threads), parts.threads_label(initiators) if ratio == ratios[-1] else ""
            )
            ax.set_title(f"{name}: {parts.used_dialogs(ratio)}")
        row[0].set_ylabel("messages processed, per second")
    panels[0][0].set_ylim(0, highest * 1.08)
    parts.thousands(panels[0][0].yaxis)
    fig.entitle(
        f"Messages per second with {parts.count(initiators)}: {names[0]} and {names[1]}",
        f"Cells that both runs completed, on one scale. {_points_note(cells, points)} "
        f"{parts.states_note(pd.concat(cells))}",
        cells[0],
    )
    return fig


def gain(pairs: Pair, names: tuple[str, str]) -> parts.Sheet:
    """Draw the gain of one dialog ratio in both runs, for the largest common number of initiators."""
    if pairs[0].empty:
        raise Missing("no pair of cells of both dialog ratios is in both runs")
    initiators = int(pairs[0].initiators.max())
    chosen = [table[table.initiators == initiators] for table in pairs]
    points = [gain_points(table, ["threads", "payload_bytes"]) for table in chosen]
    noises = [noise_of(table) for table in chosen]
    fig = parts.Sheet(10.4, 4.9)
    panels = fig.subplots(1, 2, sharey=True)
    limits = [gain_limits(of_run, noise) for of_run, noise in zip(points, noises, strict=True)]
    panels[0].set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
    for ax, of_run, noise, table, name in zip(panels, points, noises, chosen, names, strict=True):
        gain_lines(fig, ax, of_run, "threads")
        draw_noise(ax, noise)
        parts.thread_axis(ax, list(table.threads), parts.threads_label(initiators))
        ax.set_title(name)
    panels[0].set_ylabel("gain in messages processed per second, %")
    panels[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: parts.signed(value)))
    notes = [f"{name}: {points_note(*run)}" for name, run in zip(names, zip(chosen, points, strict=True), strict=True)]
    fig.entitle(
        f"Gain of using {which_dialogs(int(pairs[0].dialog_ratio.iloc[0]))} instead of every one, "
        f"{parts.count(initiators)}: {names[0]} and {names[1]}",
        " ".join(notes),
        pairs[0],
    )
    return fig


def ratio_map(table: pd.DataFrame) -> parts.Sheet:
    """Draw how much faster b is than a for every common cell, one column of panels per dialog ratio.

    Of several versions a square is the geometric mean.
    """
    rated = table[table.processed_per_s_ratio > 0]
    if rated.empty:
        raise Missing("no common cell processed messages in both runs")
    points = _over_pairs_of_versions(rated)
    has_intervals = bool(points.is_known.any())
    initiators, ratios = sorted(points.initiators.unique()), sorted(points.dialog_ratio.unique())
    fig = parts.Sheet(2.4 + 5.2 * len(ratios), 1.2 + 1.75 * len(initiators))
    panels = fig.subplots(len(initiators), len(ratios), sharex=True, sharey=True, squeeze=False)
    scale = comparison_scale(points.ratio)
    for row, number in zip(panels, initiators, strict=True):
        for ax, ratio in zip(row, ratios, strict=True):
            chosen = points[(points.initiators == number) & (points.dialog_ratio == ratio)]
            matrix_panel(ax, chosen, points, scale)
            ax.set_title(f"{parts.count(int(number)).capitalize()}, {parts.used_dialogs(ratio)}")
    for ax in panels[-1]:
        ax.set_xlabel("client threads per initiator")
    colour_bar(fig, panels, scale, "b compared with a, %")
    low, middle, high = (100 * (value - 1) for value in np.exp(np.log(points.ratio).quantile([0, 0.5, 1])))
    grey = "Grey: neither faster nor slower." if has_intervals else "Pale: one run, no interval, so no verdict."
    pairs = rated.drop_duplicates(["server_version_a", "server_version_b"])
    means = " Each square is the geometric mean over versions." if len(pairs) > 1 else ""
    invalid = " In brackets: a cell that does not count in one of the runs." if not points.counts.all() else ""
    fig.entitle(
        "Messages per second of b compared with a, in percent, over the matrix",
        f"From {parts.percent(low)} to {parts.percent(high)}, median {parts.percent(middle)}, "
        f"of {counted(len(rated), 'cell')}. {grey}{means}{invalid}",
        rated.rename(columns={"server_version_a": "server_version"}),
    )
    return fig


def _over_pairs_of_versions(rated: pd.DataFrame) -> pd.DataFrame:
    """Return a row per square with its ratio, and whether the cells of all its versions count and differ."""
    distinguished = rated.verdict.isin([Difference.FASTER, Difference.SLOWER])
    known = rated.processed_per_s_ratio_low.notna()
    logs = rated.assign(log=np.log(rated.processed_per_s_ratio), differs=distinguished, is_known=known)
    point = ["initiators", "dialog_ratio", "payload_bytes", "threads"]
    points = logs.groupby(point, as_index=False).agg(
        log=("log", "mean"), counts=("counts", "all"), differs=("differs", "all"), is_known=("is_known", "all")
    )
    return points.assign(ratio=np.exp(points.log))


def shape(cells: Pair, names: tuple[str, str]) -> parts.Sheet:
    """Draw messages per second by threads, each run relative to its own highest rate, for the smallest common payload.

    Labs of different speed can agree in shape, such as the embedded lab in real time and a model of its machine. The
    highest rate may be that of a cell that does not count, so it is no peak. There is one panel per number of
    initiators. Raises Missing without a curve.
    """
    keys = ["initiators", "dialog_ratio", "threads", "payload_bytes"]
    points = pd.concat(
        [
            parts.over_versions(run, keys, "processed_per_s").assign(run=name)
            for run, name in zip(cells, names, strict=True)
        ]
    )
    points = points[points.payload_bytes == points.payload_bytes.min()]
    counts = [number for number, rows in points.groupby("initiators") if rows.threads.nunique() > 2]
    if not counts:
        raise Missing("no common cells with three numbers of threads: there is no shape to compare")
    payload = parts.payload_words(int(points.payload_bytes.min()), points)
    points = points[points.initiators.isin(counts)].assign(part=0.0)
    points["part"] = points["mean"] / points.groupby(["run", "initiators"])["mean"].transform("max")
    # The footer's text about the labs needs this width.
    fig = parts.Sheet(max(8.4, 1.6 + 4.3 * len(counts)), 4.6)
    panels = fig.subplots(1, len(counts), sharey=True, squeeze=False)[0]
    for ax, number in zip(panels, counts, strict=True):
        of_number = points[points.initiators == number]
        for ratio, (dashes, name) in itertools.product(
            sorted(of_number.dialog_ratio.unique()), zip(_DASHES, names, strict=True)
        ):
            line = of_number[(of_number.dialog_ratio == ratio) & (of_number.run == name)].sort_values("threads")
            style = parts.ratio_style(ratio, points.dialog_ratio) | {"linestyle": dashes, "markersize": 4.5}
            label = f"{name}, {parts.used_dialogs(ratio)}"
            ax.plot(line.threads, line.part.where(line.valid), label=label, **style)
            invalid = line[~line.valid]
            ax.plot(invalid.threads, invalid.part, **style | {"linestyle": "none", "markerfacecolor": "white"})
        parts.thread_axis(ax, list(of_number.threads), parts.threads_label(number))
        highest = ", ".join(f"{name} {rows['mean'].max():,.0f}/s" for name, rows in of_number.groupby("run"))
        ax.set_title(f"{parts.count(number).capitalize()}; highest: {highest}")
    panels[0].set_ylim(0, 1.08)
    panels[0].yaxis.set_major_formatter(PercentFormatter(1.0))
    panels[0].set_ylabel("messages processed, % of the run's highest")
    parts.legend_below(panels[-1], columns=2)
    apart = points.pivot_table(index=["initiators", "dialog_ratio", "threads"], columns="run", values="part")
    difference = 100 * (apart[names[1]] - apart[names[0]]).abs()
    fig.entitle(
        f"The shapes of {names[0]} and {names[1]}: throughput by threads, relative to each run's highest rate",
        f"{payload}. The runs differ by {parts.percent(difference.median()).lstrip('+')} of the highest rate at "
        f"the median of {counted(len(difference), 'point')}, by {parts.percent(difference.max()).lstrip('+')} at most. "
        f"{parts.versions_note(cells[0])} {parts.states_note(pd.concat(cells))}",
        cells[0],
    )
    return fig


def _points_note(cells: Pair, points: Sequence[pd.DataFrame]) -> str:
    """Say what points show of versions and blocks, once if both runs do the same."""
    notes = [
        f"{parts.versions_note(run)} {parts.intervals_note(drawn)}".strip()
        for run, drawn in zip(cells, points, strict=True)
    ]
    if notes[0] == notes[1]:
        return notes[0]
    return " ".join(f"{name}: {note}" for name, note in zip("ab", notes, strict=True) if note)
