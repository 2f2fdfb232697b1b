"""Log writes per second, and the stall of a write, by client threads."""

from __future__ import annotations

import numpy as np
import pandas as pd

from harness.figures.parts import (
    Sheet,
    count,
    payload_lines,
    short,
    thousands,
    thread_axis,
    threads_label,
    used_dialogs,
    versions_note,
)
from harness.figures.reduced_run import Missing
from harness.whitepaper import BASE_DIALOG_RATIO, TRICK_DIALOG_RATIO

SYSTEM_DATABASES = ("master", "model", "msdb", "tempdb")
ROLES = {"initiator": "An initiator's log", "target": "The target's log"}
CELL = ["cell_id", "server_version", "initiators", "threads", "dialog_ratio", "payload_bytes"]


def draw(file_io: pd.DataFrame) -> Sheet:
    """Draw writes per second and the mean stall of a write, one row per role, with the 150 trick if it was run."""
    logs = log_writes(file_io)
    ratio = TRICK_DIALOG_RATIO if (logs.dialog_ratio == TRICK_DIALOG_RATIO).any() else BASE_DIALOG_RATIO
    logs = logs[logs.dialog_ratio == ratio]
    initiators = int(logs.initiators.max())
    logs = logs[logs.initiators == initiators]
    roles = [role for role in ROLES if (logs.role == role).any()]
    fig = Sheet(10.4, 0.9 + 2.9 * len(roles))
    panels = fig.subplots(len(roles), 2, sharex=True, squeeze=False)
    for row, role in zip(panels, roles, strict=True):
        rows = logs[logs.role == role]
        for ax, value, words in (
            (row[0], "writes_per_s", "log writes per second"),
            (row[1], "write_stall_ms", "stall of a log write, ms (mean)"),
        ):
            payload_lines(fig, ax, rows, "threads", value)
            thread_axis(ax, list(logs.threads), threads_label(initiators) if role == roles[-1] else "")
            ax.set_ylim(0, max(float(rows[value].max()) * 1.1, 0.1))
            ax.set_ylabel(words)
            ax.set_title(ROLES[role])
        thousands(row[0].yaxis)
    fig.entitle(
        f"Log writes and their stalls, {count(initiators)}, {used_dialogs(ratio)}",
        f"{' '.join(sentences(file_io))} {versions_note(logs)}",
        logs,
    )
    return fig


def log_writes(file_io: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell and role: log writes per second of one instance, and the mean stall of a write in ms.

    The logs of system databases are left out. Raises Missing if no log was written.
    """
    if file_io.empty:
        raise Missing("the instances' database files were not observed")
    logs = file_io[(file_io.file_type == "LOG") & ~file_io.database_name.isin(SYSTEM_DATABASES) & (file_io.writes > 0)]
    if logs.empty:
        raise Missing("no write to a log was observed")
    logs = logs.assign(role=np.where(logs.instance == "target", "target", "initiator"))
    table = logs.groupby([*CELL, "role"], as_index=False).agg(
        instances=("instance", "nunique"),
        writes=("writes", "sum"),
        stalled=("write_stall_ms", "sum"),
        writes_per_s=("writes_per_s", "sum"),
        written_mib_per_s=("written_mib_per_s", "sum"),
    )
    table["writes_per_s"] /= table.instances
    table["written_mib_per_s"] /= table.instances
    table["write_stall_ms"] = table.stalled / table.writes
    return table


def sentences(file_io: pd.DataFrame) -> list[str]:
    """Say how often logs were written, how long a write stalled, and whether a file grew, over all cells."""
    logs = log_writes(file_io)
    told = []
    for role, words in ROLES.items():
        rows = logs[logs.role == role]
        if not rows.empty:
            stall = short(rows.stalled.sum() / rows.writes.sum())
            told.append(
                f"{words}: up to {rows.writes_per_s.max():,.0f} writes/s and {short(rows.written_mib_per_s.max())} "
                f"MiB/s; a write stalls {stall} ms on average."
            )
    grown = file_io[file_io.growth_bytes > 0]
    if grown.empty:
        told.append("No file grew in a measured window.")
    else:
        cells = grown.cell_id.nunique()
        told.append(
            f"Files grew in the measured window{'s' * (cells > 1)} of {cells} cell{'s' * (cells > 1)}, by up to "
            f"{grown.growth_bytes.max() / 2**20:,.0f} MiB: senders or readers may have waited for the growth."
        )
    return told
