"""Bars of the paper's recommendations and of what it warns of, under the same load."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from harness.definitions.inference import BLOCKS_MIN, interval_of_ratio, no_interval_sentence
from harness.definitions.units import counted
from harness.figures.parts import Sheet, count, cycle_entry, legend_below, muted_colour, note, payload_words, thousands
from harness.figures.reduced_run import Missing, read_steps

TABLE = Path("reduced") / "techniques.parquet"
KINDS = {
    "ladder": "Recommendations added one after another",
    "warning": "All recommendations, then all but one",
    "variant": "Variants, one at a time",
}
# The columns of the table of techniques that the figure and its footer read.
COLUMNS = (
    *("server_version", "place", "kind", "technique", "title", "compared_with", "block"),
    *("initiators", "threads", "payload_bytes", "measured_s"),
    *("processed_per_s", "sent_per_s", "latency_us_p95", "readers"),
)
_BASELINE = "the baseline"
_LADDER = ("the paper's recommendations", f"the step above, in the lower panel with {_BASELINE}")
BAR_IN, PANEL_IN = 0.34, 0.62  # heights of a bar with its gap, and of a panel without bars
PROCESSED, SENT = 1, 2  # entries of the style's cycle


def read(results: Path) -> pd.DataFrame:
    """Read the table of a run of techniques; raises ResultsError."""
    return read_steps(results, TABLE, COLUMNS, "techniques")


def draw(table: pd.DataFrame) -> Sheet:
    """Draw one bar per technique: messages per second that the target processed, with a mark for those sent."""
    if table.empty:
        raise Missing("the techniques were not run: run `harness techniques`")
    means = over_runs(table)
    kinds = [kind for kind in KINDS if (means.kind == kind).any()]
    heights = [BAR_IN * (means.kind == kind).sum() + PANEL_IN for kind in kinds]
    fig = Sheet(10.4, sum(heights) + 0.5)
    panels = fig.subplots(len(kinds), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    most = float(table[["processed_per_s", "sent_per_s"]].max().max()) or 1.0
    for ax, kind in zip(panels, kinds, strict=True):
        _bars(ax, means[means.kind == kind].reset_index(drop=True), table)
        ax.set_title(KINDS[kind])
    panels[0].set_xlim(0, most * 1.08)
    panels[-1].set_xlabel("messages per second")
    thousands(panels[-1].xaxis)
    panels[-1].xaxis.set_major_locator(MaxNLocator(8))
    legend_below(panels[-1])
    subject, compared = ("variants of the paper's set-up", _BASELINE) if kinds == ["variant"] else _LADDER
    fig.entitle(f"What {subject} are worth", _finding(table, int(means.runs.max()), compared), table)
    return fig


def over_runs(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per technique in the scenario's order: the mean of its runs, and its factor as `factor_words`."""
    step = ["place", "kind", "technique", "title", "compared_with"]
    means = table.groupby(step, as_index=False, dropna=False).agg(
        processed=("processed_per_s", "mean"),
        sent=("sent_per_s", "mean"),
        latency_us_p95=("latency_us_p95", "mean"),
        readers=("readers", "max"),
        runs=("block", "nunique"),
    )
    factors = [factor_words(table, row.technique, row.compared_with) for row in means.itertuples()]
    return means.assign(factor=factors)


def factor_words(table: pd.DataFrame, technique: str, compared_with: str | None) -> str:
    """Say by how much a technique is faster than another in the same blocks: `×1.52 (1.47 to 1.57)`.

    Without an interval the factor has two digits: more would look certain. Empty if there is nothing to compare.
    """
    rates = table.pivot_table(index="block", columns="technique", values="processed_per_s")
    if compared_with not in rates:
        return ""
    ratios = (rates[technique] / rates[compared_with]).replace([0, math.inf], math.nan).dropna()
    if ratios.empty:
        return ""
    interval = interval_of_ratio(list(np.log(ratios)))
    if interval.low is None or interval.high is None:
        return f"×{_two_digits(interval.ratio)}"
    return f"×{interval.ratio:.3g} ({interval.low:.3g} to {interval.high:.3g})"


def _two_digits(factor: float) -> str:
    return f"{factor:.0f}" if factor >= 10 else f"{factor:.2g}"


def _bars(ax: Axes, rows: pd.DataFrame, table: pd.DataFrame) -> None:
    places = list(range(len(rows)))
    bar, mark = cycle_entry(PROCESSED), cycle_entry(SENT)
    ax.barh(places, rows.processed, height=0.62, color=bar["color"], label="processed by the target")
    if (rows.runs > 1).any():
        runs = table[table.technique.isin(rows.technique)]
        ax.scatter(
            runs.processed_per_s,
            runs.technique.map(dict(zip(rows.technique, places, strict=True))),
            s=12,
            color="#1d1d1f",
            zorder=3,
            label="one run",
        )
    ax.scatter(rows.sent, places, marker="|", s=190, linewidths=2.2, color=mark["color"], label="sent by the clients")
    ax.set_yticks(places, list(rows.title), fontsize=9)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
    ax.tick_params(axis="y", length=0)
    for place, row in zip(places, rows.itertuples(), strict=True):
        coordinates = ("axes fraction", "data")
        note(ax, _words(row), (1.01, place), coordinates, muted_colour(), va="center", annotation_clip=False)


def _words(row: object) -> str:
    """`1,234/s, ×1.52 (1.47 to 1.57), p95 12.3 ms, 3 readers`."""
    values = row._asdict()  # type: ignore[attr-defined]
    text = f"{values['processed']:,.0f}/s"
    if values["factor"]:
        text += f", {values['factor']}"
    if pd.notna(values["latency_us_p95"]):
        text += f", p95 {values['latency_us_p95'] / 1000:,.1f} ms"
    if pd.notna(values["readers"]):
        text += f", {counted(int(values['readers']), 'reader')}"
    return text


def repeats_words(runs: int) -> str:
    """Say of how many runs a number is made, and whether its ratio has an interval."""
    if runs < BLOCKS_MIN:
        return no_interval_sentence(runs)
    return f"Means of {runs} runs. In parentheses: the 95 % interval of the ratio."


def _finding(table: pd.DataFrame, runs: int, compared: str) -> str:
    load = table.iloc[0]
    return (
        f"The same load in every step: {count(int(load.initiators))} × {counted(int(load.threads), 'client thread')}, "
        f"{payload_words(int(load.payload_bytes), table)}. "
        f"{repeats_words(runs)} "
        f"×: compared with {compared}. p95: latency of a call. "
        f"If more is sent than processed, messages queue up at the target. Readers: most at once in the window."
    )
