"""Latency of a call against throughput, for one cell at rates up to and beyond its closed loop's."""

from pathlib import Path

import numpy as np
import pandas as pd

from harness.definitions.inference import BLOCKS_MIN, interval_of_ratio, no_interval_sentence
from harness.figures import parts
from harness.figures.reduced_run import Missing, read_steps

TABLE = Path("reduced") / "rates.parquet"
LINES = {"latency_us_p99": "99th percentile", "latency_us_p95": "95th percentile", "latency_us_p50": "median"}
COLUMNS = (
    *("cell_id", "server_version", "initiators", "threads", "block", "percent", "asked_per_s", "measured_s"),
    *("sent_per_s", "processed_per_s", "late_calls", "missed_calls", "was_made", *LINES),
)


def read(results: Path) -> pd.DataFrame:
    """Read the table of a run of rates; raises ResultsError."""
    return read_steps(results, TABLE, COLUMNS, "rates")


def over_blocks(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per step, the closed loop first: rates and counts are means of its blocks, `was_made` is of all.

    A percentile is the geometric mean of its blocks; `<percentile>_low` and `<percentile>_high`, its 95 % interval, are
    null with fewer than BLOCKS_MIN blocks.
    """
    means = pd.DataFrame([_over_blocks(rows) for _, rows in table.groupby("percent", dropna=False)])
    means = means.astype({name: float for name in means if name.startswith("latency_us_")})  # also where all are None
    return means.sort_values("percent", na_position="first", ignore_index=True)


def _over_blocks(rows: pd.DataFrame) -> dict[str, float]:
    """Average the blocks of one step."""
    names = ["percent", "asked_per_s", "sent_per_s", "processed_per_s", "late_calls", "missed_calls"]
    point = {**rows[names].mean(), "was_made": rows.was_made.all(), "blocks": len(rows)}
    for column in LINES:
        values = rows[column].dropna()
        if len(values):
            interval = interval_of_ratio(np.log(values))  # of the latency to one microsecond
            point |= {column: interval.ratio, f"{column}_low": interval.low, f"{column}_high": interval.high}
        else:
            point |= dict.fromkeys((column, f"{column}_low", f"{column}_high"))
    return point


def repeats_words(blocks: int) -> str:
    """Say of how many runs a percentile is made, and whether it has an interval."""
    if blocks < BLOCKS_MIN:
        return no_interval_sentence(blocks)
    return f"Geometric means of {blocks} runs with 95 % intervals."


def draw(table: pd.DataFrame) -> parts.Sheet:
    """Draw a line per percentile over the open loops, and the closed loop's percentiles as crosses at its rate."""
    means = over_blocks(table)
    steps, closed_loop = means[means.percent.notna()], means[means.percent.isna()]
    if steps[list(LINES)].stack().empty:
        raise Missing("no open loop has enough calls for a percentile")
    fig = parts.Sheet(9.4, 5.6)
    ax = fig.subplots()
    for place, (column, words) in enumerate(LINES.items()):
        entry = parts.cycle_entry(place)
        made = steps[column].where(steps.was_made) / 1000  # no line goes through a rate that was not made
        ax.plot(steps.sent_per_s, made, label=words, **{**entry, "marker": ""})
        with_interval = means[means[f"{column}_low"].notna()]
        lower_bars, upper_bars = (
            with_interval[column] - with_interval[f"{column}_low"],
            with_interval[f"{column}_high"] - with_interval[column],
        )
        whiskers = {"fmt": "none", "ecolor": entry["color"], "elinewidth": 0.9}
        ax.errorbar(
            with_interval.sent_per_s,
            with_interval[column] / 1000,
            yerr=[lower_bars / 1000, upper_bars / 1000],
            **whiskers,
        )
        for was_made, rows in steps.groupby("was_made"):
            face = entry["color"] if was_made else "white"
            ax.scatter(rows.sent_per_s, rows[column] / 1000, color=entry["color"], facecolor=face, s=26, zorder=3)
        ax.scatter(closed_loop.sent_per_s, closed_loop[column] / 1000, marker="x", color=entry["color"], s=44, zorder=4)
    values_ms = means[[f"{column}{end}" for column in LINES for end in ("", "_low", "_high")]].stack() / 1000
    parts.log_value_axis(ax, float(values_ms.min()), float(values_ms.max()))
    for rate_per_s in closed_loop.sent_per_s:
        ax.axvline(rate_per_s, color=parts.muted_colour(), linewidth=0.9, linestyle=(0, (2, 2)))
        parts.note(
            ax,
            "closed loop ",
            (rate_per_s, 0.01),
            ("data", "axes fraction"),
            parts.muted_colour(),
            ha="right",
            va="bottom",
        )
    ax.set_xlim(0, float(means.sent_per_s.max()) * 1.06)
    parts.thousands(ax.xaxis)
    ax.set_xlabel("calls of the clients that returned, per second")
    ax.set_ylabel("latency from the intended start, ms (log scale)")
    parts.legend_below(ax)
    title = f"Latency against throughput, {table.cell_id.iloc[0]}"
    fig.entitle(title, _finding(table, steps, int(means.blocks.max())), table)
    return fig


def _finding(table: pd.DataFrame, steps: pd.DataFrame, blocks: int) -> str:
    load = table.iloc[0]
    made_steps = steps[steps.was_made & steps.latency_us_p99.notna()]
    sentence = ""
    if len(made_steps) > 1:
        first, last = made_steps.iloc[0], made_steps.iloc[-1]
        sentence = (
            f"99th percentile: {first.latency_us_p99 / 1000:,.3g} ms at {first.percent:.0f} % of the closed loop's "
            f"rate, {last.latency_us_p99 / 1000:,.3g} ms at {last.percent:.0f} %. "
        )
    hollow = (
        "" if steps.was_made.all() else "Hollow: the clients did not keep to the rate, as sends started late or never. "
    )
    return (
        f"{parts.clients(load.initiators, load.threads).capitalize()}. {sentence}{repeats_words(blocks)} {hollow}"
        f"Crosses: the closed loop, where latency counts from the call."
    )
