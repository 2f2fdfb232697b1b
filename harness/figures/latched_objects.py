"""Page latch waits by object: whose pages tasks were seen waiting for, with and without the 150 trick."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from harness.figures.parts import Sheet, count, cycle_entry, paper_colour, short, used_dialogs
from harness.figures.reduced_run import Missing
from harness.whitepaper import BASE_DIALOG_RATIO, LATCHED_TABLE, NO_GAIN_UP_TO, TRICK_DIALOG_RATIO

QUEUE, OTHER, UNRESOLVED = "the queue's own table", "other objects", "not resolved"
OBJECTS = (LATCHED_TABLE, "sys.sysxmitqueue", QUEUE, OTHER, UNRESOLVED)
SHARE_SHOWN_FROM = 0.1  # tasks waiting at a time: the share of fewer is meaningless
HATCHES = ("", "////", "....", "", "xxxx")
ROLES = {"initiator": "An initiator", "target": "The target"}
CELL = ["server_version", "initiators", "threads", "payload_bytes", "dialog_ratio"]


def draw(latch_share: pd.DataFrame) -> Sheet:
    """Draw the tasks that wait at a time, stacked by object, by threads; a row per role, a column per dialog ratio."""
    table = waiting(latch_share)
    initiators = int(table.initiators.max())
    shown = table[table.initiators == initiators]
    roles = [role for role in ROLES if shown.times_seen[shown.role == role].sum() > 0]
    if not roles:
        raise Missing(f"with {count(initiators)}, no task was seen waiting for a page latch")
    ratios = sorted(shown.dialog_ratio.unique())
    threads = sorted(shown.threads.unique())
    fig = Sheet(2.0 + 4.3 * len(ratios), 0.9 + 2.75 * len(roles))
    panels = fig.subplots(len(roles), len(ratios), sharex=True, sharey="row", squeeze=False)
    for row, role in zip(panels, roles, strict=True):
        for ax, ratio in zip(row, ratios, strict=True):
            stacks = _means(shown[(shown.role == role) & (shown.dialog_ratio == ratio)], threads)
            _stack(ax, stacks, named=role == "initiator")
            ax.set_title(f"{ROLES[role]}, {used_dialogs(ratio)}")
        row[0].set_ylabel("tasks waiting for a page latch\n(mean of all samples)")
        row[0].set_ylim(0, max(ax.get_ylim()[1] for ax in row) * 1.3)
        if role == "initiator":
            _paper(row, ratios, threads, initiators)
    for ax in panels[-1]:
        ax.set_xticks(range(len(threads)), [str(number) for number in threads])
        ax.set_xlabel("client threads per initiator")
    drawn = dict(pair for ax in panels.flat for pair in zip(*ax.get_legend_handles_labels()[::-1], strict=True))
    panels[-1][-1].legend(
        [drawn[name] for name in OBJECTS if name in drawn],
        [name for name in OBJECTS if name in drawn],
        loc="upper left",
        bbox_to_anchor=(0, 0.86 if roles == ["initiator"] else 1),
        ncols=2,
    )
    fig.entitle(f"Whose pages tasks waited for: page latches by object, {count(initiators)}", _finding(shown), shown)
    return fig


def waiting(latch_share: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of cells that have a partner of the other ratio, or of all cells if none has, with role and kind.

    Raises Missing if waiting tasks were not sampled, or no task was ever seen waiting.
    """
    if latch_share.empty or latch_share.looks.fillna(0).sum() == 0:
        raise Missing("tasks that wait for page latches were not sampled")
    table = latch_share.dropna(subset=["looks"])
    partners = table.groupby(CELL[:-1]).dialog_ratio.transform("nunique")
    table = table[partners > 1] if (partners > 1).any() else table
    if not table.times_seen.sum():
        raise Missing(f"in {int(_samples(table)):,} samples no task was seen waiting for a page latch")
    return table.assign(
        role=np.where(table.instance == "target", "target", "initiator"), kind=table.object_name.map(kind)
    )


def kind(name: object) -> str:
    """Return the entry of OBJECTS to which an object belongs."""
    text = name if isinstance(name, str) else OTHER
    if text in OBJECTS:
        return text
    return QUEUE if text.startswith("queue ") else OTHER


def sentences(latch_share: pd.DataFrame) -> list[str]:
    """Say how many tasks waited and for whose pages, by role and dialog ratio, over all cells."""
    table = waiting(latch_share)
    told = []
    for role, who in ROLES.items():
        for ratio in sorted(table.dialog_ratio.unique()):
            rows = table[(table.role == role) & (table.dialog_ratio == ratio)]
            samples, seen = _samples(rows), int(rows.times_seen.sum())
            if not samples:
                continue
            dialogs = used_dialogs(ratio)
            if not seen:
                told.append(f"{who}, {dialogs}: no task waited in {samples:,.0f} samples.")
                continue
            shares = 100 * rows.groupby("kind").times_seen.sum() / seen
            exclusive = 100 * rows.times_seen[rows.wait_type == "PAGELATCH_EX"].sum() / seen
            parts = [f"{name} {shares.get(name, 0):.0f} %" for name in OBJECTS[:1]]
            parts += [f"{name} {shares[name]:.0f} %" for name in OBJECTS[1:] if shares.get(name, 0) >= 0.5]
            told.append(
                f"{who}, {dialogs}: {short(seen / samples)} tasks wait at a time, {', '.join(parts)} "
                f"(PAGELATCH_EX {exclusive:.0f} %)."
            )
    return told


def _finding(shown: pd.DataFrame) -> str:
    parts = []
    for ratio, rows in shown[shown.role == "initiator"].groupby("dialog_ratio"):
        seen = rows.times_seen.sum()
        share = 100 * rows.times_seen[rows.kind == LATCHED_TABLE].sum() / seen if seen else 0
        dialogs = used_dialogs(ratio)
        parts.append(
            f"{dialogs}, {short(seen / _samples(rows))} tasks at a time, {share:.0f} % of them for {LATCHED_TABLE}"
        )
    told = f"Waiting at an initiator: {'; '.join(parts)} (percentages above the bars). " if parts else ""
    return f"{told}From {_samples(shown):,.0f} samples of an instance's waiting tasks in the measured windows."


def _samples(rows: pd.DataFrame) -> float:
    """Count the samples of instances: those of an instance count once, whatever objects its tasks waited for."""
    return float(rows.drop_duplicates(["cell_id", "instance"]).looks.sum())


def _means(rows: pd.DataFrame, threads: list[int]) -> pd.DataFrame:
    """Return tasks waiting at a time in one instance: a row per number of threads, a column per kind of object."""
    seen = rows.pivot_table(index="threads", columns="kind", values="times_seen", aggfunc="sum")
    samples = pd.Series({number: _samples(rows[rows.threads == number]) for number in threads})
    return seen.reindex(threads, columns=list(OBJECTS)).fillna(0).div(samples.where(samples > 0), axis=0).fillna(0)


def _stack(ax: Axes, stacks: pd.DataFrame, *, named: bool) -> None:
    at = np.arange(len(stacks))
    floor = np.zeros(len(stacks))
    for place, name in enumerate(OBJECTS):
        heights = stacks[name].to_numpy()
        colour = "#b9b9c0" if name == UNRESOLVED else cycle_entry(place)["color"]
        if heights.any() or place < 2:
            ax.bar(at, heights, 0.72, bottom=floor, color=colour, hatch=HATCHES[place], label=name, linewidth=0)
        floor += heights
    ax.grid(visible=False, axis="x")
    ax.tick_params(axis="x", length=0)
    if not named:
        return
    for x, height, part in zip(at, floor, stacks[LATCHED_TABLE], strict=True):
        if height >= SHARE_SHOWN_FROM:
            ax.annotate(
                f"{100 * part / height:.0f} %",
                (x, height),
                xytext=(0, 2),
                textcoords="offset points",
                ha="center",
                fontsize=7,
            )


def _paper(row: list[Axes], ratios: list[int], threads: list[int], initiators: int) -> None:
    """Mark what the paper states, at the loads of which it states it."""
    words = {
        BASE_DIALOG_RATIO: f"the paper, SQL Server: page latch contention\non {LATCHED_TABLE} above 15 threads in all",
        TRICK_DIALOG_RATIO: "the paper, SQL Server: the 150 trick\nremoves the latch contention on this table",
    }
    contended = [place for place, number in enumerate(threads) if number * initiators > NO_GAIN_UP_TO.value]
    for ax, ratio in zip(row, ratios, strict=True):
        if ratio not in words or not contended:
            continue
        ax.axvspan(contended[0] - 0.5, len(threads) - 0.5, color=paper_colour(), alpha=0.055, linewidth=0, zorder=0)
        ax.annotate(
            words[ratio],
            (len(threads) - 0.55, 0.98),
            xycoords=("data", "axes fraction"),
            ha="right",
            va="top",
            fontsize="small",
            color=paper_colour(),
        )
