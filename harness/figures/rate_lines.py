"""Latency of a send against throughput, for one cell at rates up to and beyond its closed loop's."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from harness.figures.parts import Sheet, count, cycle_entry, legend_below, log_value_axis, muted_colour, note, thousands
from harness.figures.reduced_run import Missing, read_steps

TABLE = Path("reduced") / "rates.parquet"
LINES = {"latency_us_p99": "99th percentile", "latency_us_p95": "95th percentile", "latency_us_p50": "median"}
COLUMNS = (
    *("cell_id", "server_version", "initiators", "threads", "percent", "asked_per_s", "measured_s", "sent_per_s"),
    *("late_calls", "missed_calls", "was_made", *LINES),
)


def read(results: Path) -> pd.DataFrame:
    """Read the table of a run of rates; raises ResultsError."""
    return read_steps(results, TABLE, COLUMNS, "rates")


def draw(table: pd.DataFrame) -> Sheet:
    """Draw a line per percentile over the open loops, and the closed loop's percentiles as crosses at its rate."""
    steps = table[table.percent.notna()].sort_values("percent")
    closed_loop = table[table.percent.isna()]
    known = steps[list(LINES)].stack()
    if known.empty:
        raise Missing("no open loop has enough calls for a percentile")
    fig = Sheet(9.4, 5.6)
    ax = fig.subplots()
    for place, (column, words) in enumerate(LINES.items()):
        entry = cycle_entry(place)
        ax.plot(steps.sent_per_s, steps[column] / 1000, label=words, **{**entry, "marker": ""})
        for was_made, rows in steps.groupby("was_made"):
            face = entry["color"] if was_made else "white"
            ax.scatter(rows.sent_per_s, rows[column] / 1000, color=entry["color"], facecolor=face, s=26, zorder=3)
        ax.scatter(closed_loop.sent_per_s, closed_loop[column] / 1000, marker="x", color=entry["color"], s=44, zorder=4)
    shown = pd.concat([known, closed_loop[list(LINES)].stack()]) / 1000
    log_value_axis(ax, float(shown.min()), float(shown.max()))
    for rate_per_s in closed_loop.sent_per_s:
        ax.axvline(rate_per_s, color=muted_colour(), linewidth=0.9, linestyle=(0, (2, 2)))
        note(ax, "closed loop ", (rate_per_s, 0.01), ("data", "axes fraction"), muted_colour(), ha="right", va="bottom")
    ax.set_xlim(0, float(table.sent_per_s.max()) * 1.06)
    thousands(ax.xaxis)
    ax.set_xlabel("calls of the send procedure that returned, per second")
    ax.set_ylabel("latency from the intended start, ms (log scale)")
    legend_below(ax)
    fig.entitle(f"Latency against throughput, {table.cell_id.iloc[0]}", _finding(table, steps), table)
    return fig


def _finding(table: pd.DataFrame, steps: pd.DataFrame) -> str:
    load = table.iloc[0]
    made = steps[steps.was_made & steps.latency_us_p99.notna()]
    found = ""
    if len(made) > 1:
        first, last = made.iloc[0], made.iloc[-1]
        found = (
            f"99th percentile: {first.latency_us_p99 / 1000:,.3g} ms at {first.percent:.0f} % of the closed loop's "
            f"rate, {last.latency_us_p99 / 1000:,.3g} ms at {last.percent:.0f} %. "
        )
    hollow = (
        "" if steps.was_made.all() else "Hollow: the clients did not make the rate, as sends started late or never. "
    )
    return (
        f"{count(int(load.initiators)).capitalize()} × {load.threads} threads. {found}{hollow}"
        f"Crosses: the closed loop, where latency counts from the call."
    )
