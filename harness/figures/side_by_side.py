"""Figures of a comparison: throughput and gain of two runs side by side, their ratio over the matrix, their shapes."""

from __future__ import annotations

import pandas as pd
from matplotlib.ticker import FuncFormatter, PercentFormatter

from harness.figures.gain import SMALLEST_SPAN_PERCENT, colour_bar, matrix_panel, percent_scale
from harness.figures.parts import (
    RATIO_WORDS,
    Sheet,
    count,
    cycle_entry,
    invalid_note,
    legend_below,
    over_versions,
    paper_colour,
    payload_lines,
    payload_name,
    percent,
    signed,
    thousands,
    thread_axis,
    threads_label,
    used_dialogs,
    versions_note,
)
from harness.figures.reduced_run import Missing

Pair = tuple[pd.DataFrame, ...]
_DASHES = ("-", (0, (5, 2)))


def throughput(cells: Pair, names: tuple[str, str], initiators: int) -> Sheet:
    """Draw messages per second of both runs on one scale, one row of panels per dialog ratio."""
    cells = tuple(run[run.initiators == initiators] for run in cells)
    ratios = [ratio for ratio in RATIO_WORDS if (cells[0].dialog_ratio == ratio).any()]
    if not ratios:
        raise Missing(f"no common cell with {count(initiators)}")
    fig = Sheet(10.4, 1.0 + 3.7 * len(ratios))
    panels = fig.subplots(len(ratios), 2, sharex=True, sharey=True, squeeze=False)
    highest = 0.0
    for row, ratio in zip(panels, ratios, strict=True):
        for ax, run, name in zip(row, cells, names, strict=True):
            of_ratio = run[run.dialog_ratio == ratio]
            payload_lines(fig, ax, of_ratio, "threads", "processed_per_s")
            thread_axis(ax, list(cells[0].threads), threads_label(initiators) if ratio == ratios[-1] else "")
            ax.set_title(f"{name}: {used_dialogs(ratio)}")
            highest = max(highest, float(of_ratio.processed_per_s.max()))
        row[0].set_ylabel("messages processed, per second")
    panels[0][0].set_ylim(0, highest * 1.08)
    thousands(panels[0][0].yaxis)
    fig.entitle(
        f"Messages per second with {count(initiators)}: {names[0]} and {names[1]}",
        f"Cells that both runs completed, on one scale. {_versions_note(cells)} {invalid_note(pd.concat(cells))}",
        cells[0],
    )
    return fig


def gain(pairs: Pair, names: tuple[str, str]) -> Sheet:
    """Draw the gain of the 150 trick in both runs, for the largest common number of initiators."""
    if pairs[0].empty:
        raise Missing("no pair of cells of both dialog ratios is in both runs")
    initiators = int(pairs[0].initiators.max())
    fig = Sheet(10.4, 4.9)
    panels = fig.subplots(1, 2, sharey=True)
    highest, lowest = SMALLEST_SPAN_PERCENT, -SMALLEST_SPAN_PERCENT / 2
    for ax, table, name in zip(panels, pairs, names, strict=True):
        rows = table[table.initiators == initiators]
        ax.axhline(0, color=paper_colour(), linewidth=0.9)
        payload_lines(fig, ax, rows, "threads", "gain_percent")
        thread_axis(ax, list(rows.threads), threads_label(initiators))
        ax.set_title(name)
        highest = max(highest, float(rows.gain_percent.max()))
        lowest = min(lowest, float(rows.gain_percent.min()))
    panels[0].set_ylim(lowest * 1.15, highest * 1.1)
    panels[0].set_ylabel("gain in messages processed per second, %")
    panels[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: signed(value)))
    medians = [percent(float(table.gain_percent.median())) for table in pairs]
    fig.entitle(
        f"Gain of using every 150th dialog instead of every one, {count(initiators)}: {names[0]} and {names[1]}",
        f"Median over all pairs of cells: {names[0]} {medians[0]}, {names[1]} {medians[1]}. {_versions_note(pairs)}",
        pairs[0],
    )
    return fig


def ratio_map(table: pd.DataFrame) -> Sheet:
    """Draw how much faster b is than a for every common cell, one column of panels per dialog ratio."""
    known = table.dropna(subset=["processed_per_s_ratio"])
    if known.empty:
        raise Missing("no common cell processed messages in both runs")
    changes = known.assign(change_percent=100 * (known.processed_per_s_ratio - 1))
    points = over_versions(changes, ["initiators", "dialog_ratio", "payload_bytes", "threads"], "change_percent")
    initiators, ratios = sorted(points.initiators.unique()), sorted(points.dialog_ratio.unique())
    fig = Sheet(2.4 + 5.2 * len(ratios), 1.2 + 1.75 * len(initiators))
    panels = fig.subplots(len(initiators), len(ratios), sharex=True, sharey=True, squeeze=False)
    scale = percent_scale(points["mean"])
    for row, number in zip(panels, initiators, strict=True):
        for ax, ratio in zip(row, ratios, strict=True):
            chosen = points[(points.initiators == number) & (points.dialog_ratio == ratio)]
            matrix_panel(ax, chosen, points, scale)
            dialogs = used_dialogs(ratio)
            ax.set_title(f"{count(int(number)).capitalize()}, {dialogs}")
    for ax in panels[-1]:
        ax.set_xlabel("client threads per initiator")
    colour_bar(fig, panels, points["mean"], scale, "b compared with a, messages processed per second, %")
    low, high = float(points["mean"].min()), float(points["mean"].max())
    same = known[known.server_version_a == known.server_version_b].rename(
        columns={"server_version_a": "server_version"}
    )
    note = versions_note(same).split(";")[0].rstrip(".") if len(same) else ""
    fig.entitle(
        "Messages per second of b compared with a, in percent, over the matrix",
        f"From {percent(low)} to {percent(high)}, median {percent(points['mean'].median())}, of {len(known)} cells. "
        f"{f'{note}.' if note else ''} In brackets: does not count.",
        known.rename(columns={"server_version_a": "server_version"}),
    )
    return fig


def shape(cells: Pair, names: tuple[str, str]) -> Sheet:
    """Draw messages per second by threads, each run relative to its own peak, for the smallest common payload.

    Labs of different speed can agree in shape, such as the embedded lab in real time and a model of its machine. There
    is one panel per number of initiators. Raises Missing without a curve.
    """
    by = ["initiators", "dialog_ratio", "threads", "payload_bytes"]
    points = pd.concat(
        [over_versions(run, by, "processed_per_s").assign(run=name) for run, name in zip(cells, names, strict=True)]
    )
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
            invalid = line[~line.valid]
            ax.plot(invalid.threads, invalid.part, **style | {"linestyle": "none", "markerfacecolor": "white"})
        thread_axis(ax, list(here.threads), threads_label(number))
        peaks = ", ".join(f"{name} {rows['mean'].max():,.0f}/s" for name, rows in here.groupby("run"))
        ax.set_title(f"{count(number).capitalize()}; peaks: {peaks}")
    panels[0].set_ylim(0, 1.08)
    panels[0].yaxis.set_major_formatter(PercentFormatter(1.0))
    panels[0].set_ylabel("messages processed, % of the run's own peak")
    legend_below(panels[-1])
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


def _versions_note(pair: Pair) -> str:
    """Say what points show of the versions, once if both runs do the same."""
    notes = [versions_note(run) for run in pair]
    if notes[0] == notes[1]:
        return notes[0]
    return " ".join(f"{name}: {note}" for name, note in zip("ab", notes, strict=True) if note)
