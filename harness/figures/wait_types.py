"""Waits of initiators and target by wait type, with and without the 150 trick."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from harness.figures.parts import RATIO_WORDS, Sheet, cycle_entry, short, thousands, used_dialogs
from harness.figures.reduced_run import Missing
from harness.whitepaper import BASE_DIALOG_RATIO, TOP_WAIT, TRICK_DIALOG_RATIO

TYPES_SHOWN = 6  # a role
TICKS = 5  # more numbers of six digits would touch in a panel of this width
ROLES = {"initiator": "Initiators", "target": "Target"}
PAIR = ["server_version", "initiators", "threads", "payload_bytes"]


def draw(waits: pd.DataFrame, cells: pd.DataFrame) -> Sheet:
    """Draw waiting per thousand messages: total waits by total messages, of the same cells for both ratios."""
    cells, paired = _comparable(cells[cells.processed_per_s > 0])
    per_thousand, roles = _waiting(waits, cells)
    rows = min(TYPES_SHOWN, max(len(per_thousand.loc[role]) for role in roles))
    fig = Sheet(9.8, 1.3 + 0.68 * max(rows, 3))
    panels = fig.subplots(1, len(roles), squeeze=False)[0]
    for ax, role in zip(panels, roles, strict=True):
        _bars(ax, per_thousand.loc[role], rows)
        ax.set_title(f"{ROLES[role]}{' (all together)' if role == 'initiator' else ''}")
        ax.set_xlabel("waiting, ms per 1,000 messages processed")
    handles, labels = panels[0].get_legend_handles_labels()
    # The longest waits are on top: the lower right corner is free.
    panels[-1].legend(handles[::-1], labels[::-1], loc="lower right")
    cells_words = f"{len(cells)} cells, the same for both ratios" if paired else f"{len(cells)} cells"
    fig.entitle(
        "What the instances waited for, by wait type",
        f"{_finding(per_thousand, roles)} In the paper: initiators {TOP_WAIT['initiator', BASE_DIALOG_RATIO]} → "
        f"{TOP_WAIT['initiator', TRICK_DIALOG_RATIO]}; target {TOP_WAIT['target', TRICK_DIALOG_RATIO]}. "
        f"Totals of the measured windows of {cells_words}, without the waits of idle tasks.",
        cells,
    )
    return fig


def longest(waits: pd.DataFrame, cells: pd.DataFrame) -> str:
    """Name the longest waits by role and dialog ratio in a sentence; raises Missing if none was recorded."""
    return _finding(*_waiting(waits, _comparable(cells[cells.processed_per_s > 0])[0]))


def _waiting(waits: pd.DataFrame, cells: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return milliseconds per thousand messages by role and wait type, a column per ratio; and the roles."""
    waits = waits[waits.cell_id.isin(cells.cell_id) & (waits.wait_time_ms > 0)]
    roles = [role for role in ROLES if (waits.role == role).any()]
    if not roles:
        raise Missing("no waits were recorded")
    # Messages of the measured window, like the waits.
    messages = (cells.processed_per_s * cells.measured_s).groupby(cells.dialog_ratio).sum()
    totals = waits.groupby(["role", "wait_type", "dialog_ratio"]).wait_time_ms.sum().unstack("dialog_ratio")
    return (totals / messages * 1000).fillna(0.0), roles


def _comparable(cells: pd.DataFrame) -> tuple[pd.DataFrame, bool]:
    """Return the cells that have a partner of the other ratio, or all if none has; and whether they have one."""
    partners = cells.groupby(PAIR).dialog_ratio.transform("nunique")
    return (cells[partners > 1], True) if (partners > 1).any() else (cells, False)


def _bars(ax: Axes, table: pd.DataFrame, rows: int) -> None:
    """Draw the longest waits, the longest on top, in as many rows as the other panel has."""
    longest = table.loc[table.max(axis=1).nlargest(TYPES_SHOWN).index][::-1]
    ratios = sorted(longest.columns)
    height = 0.8 / len(ratios)
    top = float(longest.max(axis=None))
    for place, ratio in enumerate(reversed(ratios)):
        at = np.arange(len(longest)) + (place - (len(ratios) - 1) / 2) * height
        ax.barh(
            at,
            longest[ratio],
            height * 0.92,
            color=cycle_entry(0 if ratio == TRICK_DIALOG_RATIO else 2)["color"],
            hatch="" if ratio == TRICK_DIALOG_RATIO else "////",
            label=RATIO_WORDS.get(ratio, f"dialog ratio {ratio}").split(" used")[0],
        )
        for y, value in zip(at, longest[ratio], strict=True):
            beside: dict[str, Any] = {"xytext": (3, 0), "textcoords": "offset points", "va": "center"}
            ax.annotate(short(value), (value, y), fontsize="small", **beside)
    ax.set_xlim(0, top * 1.16)
    ax.set_ylim(len(longest) - rows - 0.5, len(longest) - 0.5)
    ax.set_yticks(np.arange(len(longest)), list(longest.index))
    ax.grid(visible=False, axis="y")
    ax.tick_params(axis="y", length=0)
    ax.xaxis.set_major_locator(MaxNLocator(TICKS))
    if top >= 1000:
        thousands(ax.xaxis)


def _finding(table: pd.DataFrame, roles: list[str]) -> str:
    ratios = sorted(table.columns)
    dialogs = ", then ".join(used_dialogs(ratio) for ratio in ratios)
    tops = [
        f"{ROLES[role].lower()} {' → '.join(table.loc[role][ratio].idxmax() for ratio in ratios)}" for role in roles
    ]
    return f"Longest, {dialogs}: {'; '.join(tops)}."
