"""The gain of each dialog ratio over using every dialog: the step at the number of rows that fit on a page."""

import pandas as pd
from matplotlib.ticker import FuncFormatter

from harness.claims.gain import noise_of
from harness.definitions.whitepaper import SYSDESEND_ROWS_PER_PAGE
from harness.figures.gain import draw_noise, gain_limits, gain_lines, gain_points, points_note
from harness.figures.parts import Sheet, clients, note, paper_colour, signed
from harness.figures.reduced_run import Missing


def has_course(gain: pd.DataFrame) -> bool:
    """Whether there are more dialog ratios than the paper's two."""
    return len(gain) > 0 and gain.dialog_ratio.nunique() > 1


def by_ratio(gain: pd.DataFrame) -> Sheet:
    """Draw the gain by dialog ratio for the busiest load that has the most valid ratios, a line per payload."""
    valid = gain[gain.valid]
    if valid.empty:
        raise Missing("no pair of cells of different dialog ratios is valid")
    loads = valid.groupby(["initiators", "threads"]).dialog_ratio.nunique()
    initiators, threads = max(loads[loads == loads.max()].index, key=lambda load: (load[0] * load[1], load))
    gain_shown = gain[(gain.initiators == initiators) & (gain.threads == threads)]
    points = gain_points(gain_shown, ["dialog_ratio", "payload_bytes"])
    noise = noise_of(gain_shown)
    fig = Sheet(8.4, 5.0)
    ax = fig.subplots()
    gain_lines(fig, ax, points, "dialog_ratio")
    ax.set_ylim(*gain_limits(points, noise))
    draw_noise(ax, noise)
    ax.axvline(SYSDESEND_ROWS_PER_PAGE, color=paper_colour(), linewidth=1.1, linestyle=(0, (6, 3)))
    words = f"{SYSDESEND_ROWS_PER_PAGE} rows of sys.sysdesend fit on a page"
    note(
        ax, words, (SYSDESEND_ROWS_PER_PAGE, 1.0), ("data", "axes fraction"), paper_colour(), shift=(0, 3), ha="center"
    )
    ax.set_xlabel("dialog ratio: every nth dialog is used")
    ax.set_ylabel("gain in messages processed per second, %")
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: signed(value)))
    fig.entitle(
        f"Gain by dialog ratio over using every dialog, {clients(initiators, threads)}",
        f"From a ratio of {SYSDESEND_ROWS_PER_PAGE} on, each used dialog has a page of its own. "
        f"{points_note(gain_shown, points)}",
        gain_shown,
    )
    return fig
