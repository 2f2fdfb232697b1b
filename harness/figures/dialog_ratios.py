"""The gain of each dialog ratio over using every dialog: the step at the number of rows that fit on a page."""

from __future__ import annotations

import pandas as pd
from matplotlib.ticker import FuncFormatter

from harness.claims.judgement import geometric_mean
from harness.figures.parts import Sheet, count, note, paper_colour, payload_name, payload_style, signed
from harness.figures.reduced_run import Missing
from harness.whitepaper import SYSDESEND_ROWS_PER_PAGE


def has_course(gain: pd.DataFrame) -> bool:
    """Whether there are more dialog ratios than the paper's two."""
    return len(gain) > 0 and gain.dialog_ratio.nunique() > 1


def by_ratio(gain: pd.DataFrame) -> Sheet:
    """Draw the gain by dialog ratio for the busiest load that has the most ratios, a line per payload."""
    gain = gain[gain.valid]
    if gain.empty:
        raise Missing("no pair of cells of different dialog ratios is valid")
    loads = gain.groupby(["initiators", "threads"]).dialog_ratio.nunique()
    initiators, threads = max(loads[loads == loads.max()].index, key=lambda load: (load[0] * load[1], load))
    shown = gain[(gain.initiators == initiators) & (gain.threads == threads)]
    points = shown.groupby(["payload_bytes", "dialog_ratio"], as_index=False).factor.agg(geometric_mean)
    fig = Sheet(8.4, 5.0)
    ax = fig.subplots()
    ax.axhline(0, color=paper_colour(), linewidth=0.9)
    ax.axvline(SYSDESEND_ROWS_PER_PAGE, color=paper_colour(), linewidth=1.1, linestyle=(0, (6, 3)))
    words = f"{SYSDESEND_ROWS_PER_PAGE} rows of sys.sysdesend fit on a page"
    note(
        ax, words, (SYSDESEND_ROWS_PER_PAGE, 1.0), ("data", "axes fraction"), paper_colour(), shift=(0, 3), ha="center"
    )
    for payload, line in points.groupby("payload_bytes"):
        style = payload_style(int(payload), points.payload_bytes)
        gains = 100 * (line.factor - 1)
        ax.plot(line.dialog_ratio, gains, label=payload_name(int(payload), shown), markeredgecolor="white", **style)
    ax.set_xlabel("dialog ratio: every nth dialog is used")
    ax.set_ylabel("gain in messages processed per second, %")
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: signed(value)))
    ax.legend(loc="best")
    fig.entitle(
        f"Gain by dialog ratio over using every dialog, {count(int(initiators))} × {threads} threads",
        f"Geometric means of valid pairs over blocks and versions. From a ratio of {SYSDESEND_ROWS_PER_PAGE} on, each "
        "used dialog has a page of its own.",
        shown,
    )
    return fig
