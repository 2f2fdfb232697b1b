"""What the instances waited for, by wait type, and how often they wrote their logs, with the stall of a write."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from harness.claims.judgement import PAIR, VISIT, Tables, of_the_paper
from harness.claims.server_load import SYSTEM_DATABASES
from harness.definitions.units import counted
from harness.definitions.whitepaper import BASE_DIALOG_RATIO, TOP_WAIT, TRICK_DIALOG_RATIO
from harness.figures import parts
from harness.figures.reduced_run import Missing
from harness.files.records import SCHEDULERS

TYPES_SHOWN = 6  # a role
TICKS = 5  # more numbers of six digits would touch in a panel of this width
ROLES = {"initiator": "Initiators", "target": "Target"}
LOGS = {"initiator": "An initiator's log", "target": "The target's log"}
EACH = {"initiator": "An initiator", "target": "The target"}
ONLINE, RUNNABLE, ACTIVE, _ = SCHEDULERS
POINT = ["threads", "payload_bytes"]
CELL = ["cell_id", "server_version", "initiators", "threads", "dialog_ratio", "payload_bytes"]


def waits(waits: pd.DataFrame, cells: pd.DataFrame) -> parts.Sheet:
    """Draw waiting per thousand messages: total waits by total messages, of the same cells for both ratios."""
    cells, paired = _comparable(cells[cells.processed_per_s > 0])
    per_thousand, roles = _waiting(waits, cells)
    rows = min(TYPES_SHOWN, max(len(per_thousand.loc[role]) for role in roles))
    fig = parts.Sheet(9.8, 1.3 + 0.68 * max(rows, 3))
    panels = fig.subplots(1, len(roles), squeeze=False)[0]
    for ax, role in zip(panels, roles, strict=True):
        _bars(ax, per_thousand.loc[role], rows)
        ax.set_title(f"{ROLES[role]}{' (all together)' if role == 'initiator' else ''}")
        ax.set_xlabel("waiting, ms per 1,000 messages processed")
    handles, labels = panels[0].get_legend_handles_labels()
    parts.legend_below(panels[-1], dict(zip(labels[::-1], handles[::-1], strict=True)))
    number = counted(len(cells), "cell")
    cells_words = f"{number}{_of_which_invalid(cells)}{', the same for both ratios' if paired else ''}"
    paper = (
        f" In the paper: initiators {TOP_WAIT['initiator', BASE_DIALOG_RATIO]} → "
        f"{TOP_WAIT['initiator', TRICK_DIALOG_RATIO]}; target {TOP_WAIT['target', TRICK_DIALOG_RATIO]}."
    )
    fig.entitle(
        "What the instances waited for, by wait type",
        f"{_finding(per_thousand, roles)}{'' if of_the_paper(cells).empty else paper} "
        f"Totals of the measured windows of {cells_words}, without the waits of idle tasks.",
        cells,
    )
    return fig


def _of_which_invalid(cells: pd.DataFrame) -> str:
    invalid = int((~cells.valid).sum())
    return f" ({invalid} of them not counting)" if invalid else ""


def wait_sentences(waits: pd.DataFrame, cells: pd.DataFrame) -> list[str]:
    """Name the longest waits by role and dialog ratio, then say how long one lasts and how many tasks of an instance
    wait so at a time; raises Missing if no wait was recorded."""
    cells = _comparable(cells[cells.processed_per_s > 0])[0]
    per_thousand, roles = _waiting(waits, cells)
    return [_finding(per_thousand, roles), *_at_a_time(waits, cells, per_thousand, roles)]


def _at_a_time(waits: pd.DataFrame, cells: pd.DataFrame, per_thousand: pd.DataFrame, roles: list[str]) -> list[str]:
    sentences = []
    for role in roles:
        for ratio in sorted(per_thousand.columns):
            top = per_thousand.loc[role][ratio].idxmax()
            chosen = cells[cells.dialog_ratio == ratio]
            mine = waits[(waits.role == role) & (waits.wait_type == top) & waits.cell_id.isin(chosen.cell_id)]
            if mine.waiting_tasks.sum() == 0:
                continue
            observed_s = (chosen.measured_s * (1 if role == "target" else chosen.initiators)).sum()
            waited_ms = mine.wait_time_ms.sum()
            sentences.append(
                f"{EACH[role].lower()}, {parts.used_dialogs(ratio)}, {parts.short(waited_ms / 1000 / observed_s)} "
                f"tasks wait for {top}, {parts.short(waited_ms / mine.waiting_tasks.sum())} ms each"
            )
    return [f"At a time: {'; '.join(sentences)}."] if sentences else []


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
    """Return the cells of both ratios to show that have a partner, or all of them if none has; and whether any has."""
    cells = cells[cells.dialog_ratio.isin(parts.shown_ratios(cells.dialog_ratio))]
    partners = cells.groupby(PAIR).dialog_ratio.transform("nunique")
    return (cells[partners > 1], True) if (partners > 1).any() else (cells, False)


def _bars(ax: Axes, table: pd.DataFrame, rows: int) -> None:
    """Draw the longest waits, the longest on top, in as many rows as the other panel has."""
    longest = table.loc[table.max(axis=1).nlargest(TYPES_SHOWN).index][::-1]
    ratios = sorted(longest.columns)
    height = 0.8 / len(ratios)
    top = float(longest.max(axis=None))
    for place, ratio in enumerate(reversed(ratios)):
        is_base = ratio == ratios[0] != TRICK_DIALOG_RATIO
        at = np.arange(len(longest)) + (place - (len(ratios) - 1) / 2) * height
        ax.barh(
            at,
            longest[ratio],
            height * 0.92,
            color=parts.cycle_entry(2 if is_base else 0)["color"],
            hatch="////" if is_base else "",
            label=parts.ratio_words(ratio).split(" used")[0],
        )
        for y, value in zip(at, longest[ratio], strict=True):
            parts.note(ax, parts.short(value), (value, y), shift=(3, 0), va="center")
    ax.set_xlim(0, top * 1.16)
    ax.set_ylim(len(longest) - rows - 0.5, len(longest) - 0.5)
    ax.set_yticks(np.arange(len(longest)), list(longest.index))
    ax.grid(visible=False, axis="y")
    ax.tick_params(axis="y", length=0)
    ax.xaxis.set_major_locator(MaxNLocator(TICKS))
    if top >= 1000:
        parts.thousands(ax.xaxis)


def _finding(table: pd.DataFrame, roles: list[str]) -> str:
    ratios = sorted(table.columns)
    dialogs = ", then ".join(parts.used_dialogs(ratio) for ratio in ratios)
    tops = [
        f"{ROLES[role].lower()} {' → '.join(table.loc[role][ratio].idxmax() for ratio in ratios)}" for role in roles
    ]
    return f"Longest, {dialogs}: {'; '.join(tops)}."


def scheduler_sentences(counters: pd.DataFrame, spinlocks: pd.DataFrame, cells: pd.DataFrame) -> list[str]:
    """Say how many tasks waited for a processor where most did, and which spinlocks spun most, by role, over the cells
    that are valid (over all if none is)."""
    if counters.empty or not counters.counter.isin(SCHEDULERS).any():
        raise Missing("the instances' schedulers were not sampled")
    cell_ids = set(cells.cell_id[cells.valid] if cells.valid.any() else cells.cell_id)
    sampled = counters[counters.counter.isin(SCHEDULERS) & counters.cell_id.isin(cell_ids)]
    means = sampled.pivot_table(index=["cell_id", "instance"], columns="counter", values="mean").reset_index()
    spun = spinlocks if spinlocks.empty else spinlocks[spinlocks.cell_id.isin(cell_ids)]
    sentences = []
    for role, role_words in EACH.items():
        if len(rows := _of_role(means, role)):
            most = rows.loc[rows[RUNNABLE].idxmax()]
            runnable = f"at most {parts.short(most[RUNNABLE])}" if most[RUNNABLE] else "none"
            sentences.append(
                f"{role_words}, {counted(int(most[ONLINE]), 'scheduler')}: runnable tasks that wait for a processor: "
                f"{runnable}, with {parts.short(most[ACTIVE])} active workers (means of a cell's samples)."
            )
        if len(rows := _of_role(spun, role)):
            most_spun = rows.groupby("spinlock")[["spins_per_s", "backoffs_per_s"]].max().nlargest(3, "spins_per_s")
            worst = [
                f"{row.Index} {row.spins_per_s:,.0f} ({row.backoffs_per_s:,.0f})" for row in most_spun.itertuples()
            ]
            sentences.append(f"{role_words}, most spins (backoffs) a second of a spinlock: {', '.join(worst)}.")
    return sentences


def _of_role(table: pd.DataFrame, role: str) -> pd.DataFrame:
    return table if table.empty else table[(table.instance == "target") == (role == "target")]


def logs(merged: Tables, repeats: Tables) -> parts.Sheet:
    """Draw writes per second and the mean stall of a write, one row per role, with the first ratio to show.

    `merged` has one row per cell, `repeats` one per cell and block, which the intervals are over.
    """
    file_io, cells = merged.file_io, merged.cells
    logs = log_writes(file_io).merge(cells[["cell_id", "valid", "saturated"]], on="cell_id")
    ratio = parts.shown_ratios(logs.dialog_ratio)[0]
    logs = logs[logs.dialog_ratio == ratio]
    initiators = int(logs.initiators.max())
    logs = logs[logs.initiators == initiators]
    of_blocks = repeats.file_io[repeats.file_io.cell_id.isin(logs.cell_id)]
    blocks = log_writes(of_blocks, ["block"]).merge(repeats.cells[[*VISIT, "valid"]], on=VISIT)
    files = file_io[file_io.cell_id.isin(logs.cell_id)]
    roles = [role for role in LOGS if (logs.role == role).any()]
    fig = parts.Sheet(10.4, 0.9 + 2.9 * len(roles))
    panels = fig.subplots(len(roles), 2, sharex=True, squeeze=False)
    drawn = []
    for row, role in zip(panels, roles, strict=True):
        rows, in_blocks = (table[table.role == role] for table in (logs, blocks))
        for ax, value, words in (
            (row[0], "writes_per_s", "log writes per second"),
            (row[1], "write_stall_ms", "stall of a log write, ms (mean)"),
        ):
            points = parts.with_intervals(parts.over_versions(rows, POINT, value), in_blocks, POINT, value)
            drawn.append(points)
            parts.payload_lines(fig, ax, points)
            parts.thread_axis(ax, list(logs.threads), parts.threads_label(initiators) if role == roles[-1] else "")
            ax.set_ylim(0, max(float(points[["mean", "high"]].max(axis=None)) * 1.1, 0.1))
            ax.set_ylabel(words)
            ax.set_title(LOGS[role])
        parts.thousands(row[0].yaxis)
    fig.entitle(
        f"Log writes and their stalls, {parts.count(initiators)}, {parts.used_dialogs(ratio)}",
        f"{' '.join(log_sentences(files, cells))} {parts.versions_note(logs)} "
        f"{parts.intervals_note(pd.concat(drawn))} {parts.states_note(logs.drop_duplicates('cell_id'))}",
        logs,
    )
    return fig


def log_writes(file_io: pd.DataFrame, more: Sequence[str] = ()) -> pd.DataFrame:
    """Return one row per cell and role: log writes per second of one instance, and the mean stall of a write in ms.

    `more` are further columns that tell rows apart, such as the block.

    The logs of system databases are left out. Raises Missing if no log was written.
    """
    if file_io.empty:
        raise Missing("the instances' database files were not observed")
    logs = file_io[(file_io.file_type == "LOG") & ~file_io.database_name.isin(SYSTEM_DATABASES) & (file_io.writes > 0)]
    if logs.empty:
        raise Missing("no write to a log was observed")
    logs = logs.assign(role=np.where(logs.instance == "target", "target", "initiator"))
    table = logs.groupby([*CELL, *more, "role"], as_index=False).agg(
        instances=("instance", "nunique"),
        writes=("writes", "sum"),
        stalled=("write_stall_ms", "sum"),
        writes_per_s=("writes_per_s", "sum"),
        written_mib_per_s=("written_mib_per_s", "sum"),
    )
    table["writes_per_s"] /= table.instances
    table["written_mib_per_s"] /= table.instances
    table["write_stall_ms"] = table.stalled / table.writes
    return table.assign(payload_is_mean=parts.payload_is_mean(file_io))


def log_sentences(file_io: pd.DataFrame, cells: pd.DataFrame) -> list[str]:
    """Say how often logs were written and how long a write stalled, over the cells that are valid (over all if none
    is), and whether a file grew in any."""
    logs = log_writes(file_io)
    valid = logs.cell_id.isin(cells.cell_id[cells.valid])
    logs = logs[valid] if valid.any() else logs
    sentences = []
    for role, words in LOGS.items():
        rows = logs[logs.role == role]
        if not rows.empty:
            stall = parts.short(rows.stalled.sum() / rows.writes.sum())
            sentences.append(
                f"{words}: up to {rows.writes_per_s.max():,.0f} writes/s and "
                f"{parts.short(rows.written_mib_per_s.max())} MiB/s; a write stalls {stall} ms on average."
            )
    grown = file_io[file_io.growth_bytes > 0]
    if grown.empty:
        sentences.append("No file grew in a measured window.")
    else:
        cells = grown.cell_id.nunique()
        sentences.append(
            f"Files grew in the measured window{'s' * (cells > 1)} of {counted(cells, 'cell')}, by up to "
            f"{grown.growth_bytes.max() / 2**20:,.0f} MiB: senders or readers may have waited for the growth."
        )
    return sentences
