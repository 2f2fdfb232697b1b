"""Figures of a comparison: throughput and gain of two runs side by side, and their ratio over the matrix."""

from __future__ import annotations

import matplotlib as mpl
import pandas as pd
from matplotlib.ticker import FuncFormatter, MaxNLocator

from harness.figures.gain_by_threads import SMALLEST_SPAN_PERCENT
from harness.figures.matrix_map import matrix_panel, percent_scale
from harness.figures.parts import (
    RATIO_WORDS,
    Sheet,
    behind_note,
    count,
    kept_up,
    over_versions,
    paper_colour,
    payload_lines,
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
        f"Cells that both runs completed, on one scale. {_versions_note(cells)} {behind_note(pd.concat(cells))}",
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
    axes = ["initiators", "dialog_ratio", "payload_bytes", "threads"]
    points = over_versions(changes, axes, "change_percent").merge(kept_up(changes, axes), how="left")
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
    bar = fig.colorbar(mpl.cm.ScalarMappable(scale), ax=list(panels.flat), pad=0.015, aspect=30)
    low, high = float(points["mean"].min()), float(points["mean"].max())
    bar.ax.set_ylim(min(low, -10), max(high, 10))
    bar.ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: signed(value)))
    bar.set_label("b compared with a, messages processed per second, %")
    bar.outline.set_visible(False)
    same = known[known.server_version_a == known.server_version_b].rename(
        columns={"server_version_a": "server_version"}
    )
    note = versions_note(same).split(";")[0].rstrip(".") if len(same) else ""
    fig.entitle(
        "Messages per second of b compared with a, in percent, over the matrix",
        f"From {percent(low)} to {percent(high)}, median {percent(points['mean'].median())}, of {len(known)} cells. "
        f"{f'{note}.' if note else ''} In brackets: a target fell behind.",
        known.rename(columns={"server_version_a": "server_version"}),
    )
    return fig


def _versions_note(pair: Pair) -> str:
    """Say what points show of the versions, once if both runs do the same."""
    notes = [versions_note(run) for run in pair]
    if notes[0] == notes[1]:
        return notes[0]
    return " ".join(f"{name}: {note}" for name, note in zip("ab", notes, strict=True) if note)
