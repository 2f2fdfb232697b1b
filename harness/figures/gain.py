"""The gain of the 150 trick: by client threads (the paper's figure 5), and over the whole matrix."""

import math
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import CenteredNorm, Normalize
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter

from harness.claims.gain import logarithms, noise_of
from harness.claims.judgement import of_the_paper, of_the_trick
from harness.claims.measurement import geometric_mean, points_of
from harness.definitions import units
from harness.definitions.inference import BLOCKS_MIN, intervals, no_interval, noise_band
from harness.definitions.matrix import which_dialogs
from harness.definitions.whitepaper import GAIN_MAX_PERCENT, GAIN_NOTICEABLE_FROM, NO_GAIN_UP_TO
from harness.figures import parts
from harness.figures.reduced_run import Missing, listed

# Axes span at least this much, so that equal points do not look different.
SMALLEST_SPAN_PERCENT = 5.0
# The colours of the gain map, the same for all labs: the paper's largest gain, a factor of 4.15, is nearly the darkest.
GAIN_SCALE = CenteredNorm(0, math.log(5))
# Colours of a comparison span at least this factor.
SMALLEST_FACTOR = 1.4
NOT_TOLD = "#dcdce0"
PALE = 0.5  # the share of its colour that a square without an interval has
# Numbers beside a colour scale, in percent: the first of these whose scale holds the colours.
SCALE_PERCENTS = (
    (1.7, (-40, -30, -20, -10, 0, 10, 20, 40, 60)),
    (6.0, (-80, -67, -50, -33, -20, 0, 25, 50, 100, 200, 400)),
    (math.inf, (-99.9, -99, -97, -90, -67, 0, 200, 900, 2900, 9900, 99900)),
)
PAPER_INITIATORS = 3
OF_FIGURE_5 = ["total_threads", "payload_bytes"]
NOISE_OF_BLOCKS = "noise: 95 % of single pairs without a gain"
NOISE_OF_VERSIONS = f"{NOISE_OF_BLOCKS}, if versions differ by chance"


def gain_points(gain: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return a row per point with its gain: the geometric mean over versions and blocks, with the blocks' interval.

    Only valid pairs count. A point without any has the geometric mean of those that do not count, no interval, and
    false in `counts`. `differs` says whether the gain is distinguished from none, corrected for the number of points.
    """
    logs = logarithms(gain)
    counted = intervals(logs[logs.valid], by, ["server_version"], "log_factor").assign(counts=True)
    all_points = intervals(logs, by, ["server_version"], "log_factor").assign(counts=False, differs=False)
    all_points[["low", "high", "p_value"]] = np.nan
    # The first row of a point is kept, which is the one that counts.
    bands = pd.concat([table for table in (counted, all_points) if len(table)] or [counted])
    points = bands.drop_duplicates(by).sort_values(by).reset_index(drop=True)
    percents = {name: 100 * (points[column] - 1) for name, column in PERCENTS.items()}
    return points.assign(**percents, is_known=points.low.notna(), payload_is_mean=parts.payload_is_mean(gain))


PERCENTS = {"percent": "ratio", "percent_low": "low", "percent_high": "high"}


def of_one_ratio(gain: pd.DataFrame) -> pd.DataFrame:
    """Choose the pairs of the 150 trick; if there are none, those of the highest dialog ratio."""
    of_trick = of_the_trick(gain)
    return of_trick if of_trick.empty == gain.empty else gain[gain.dialog_ratio == gain.dialog_ratio.max()]


def by_threads(gain: pd.DataFrame) -> parts.Sheet:
    """Draw the gain of a ratio for the largest number of initiators that has pairs; the paper's figure 5 has 3."""
    if gain.empty:
        raise Missing("no cell was completed with both dialog ratios")
    ratio = int(gain.dialog_ratio.iloc[0])
    initiators = int(gain.initiators.max())
    gain = gain[gain.initiators == initiators]
    points = gain_points(gain, OF_FIGURE_5)
    fig = parts.Sheet(9.4, 5.7)
    ax = fig.subplots()
    gain_lines(fig, ax, points, "total_threads")
    noise, words = noise_of(gain), NOISE_OF_BLOCKS
    if noise is None:
        noise, words = noise_of(gain, of_versions=True), NOISE_OF_VERSIONS
    low, high = gain_limits(points, noise)
    ax.set_ylim(low, high)
    draw_noise(ax, noise, words)
    parts.log_thread_axis(
        ax,
        list(gain.total_threads),
        f"client threads in all ({parts.count(initiators)} × threads per initiator; log scale)",
        name=lambda total: f"{initiators}×{total // initiators}",
    )
    ax.set_ylabel("gain in messages processed per second, %")
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: parts.signed(value)))
    is_papers = not of_the_paper(gain).empty
    if is_papers:
        parts.paper_level(ax, GAIN_MAX_PERCENT.value, "the paper, SQL Server: up to +315 %", high)
        _paper_ranges(ax)
    figure = "the paper's figure 5" + ("" if initiators == PAPER_INITIATORS else ", which has 3 initiators")
    corresponds = f"Corresponds to {figure}. " if is_papers else ""
    fig.entitle(
        f"Gain of using {which_dialogs(ratio)} instead of every one, {parts.count(initiators)}",
        f"{corresponds}{_largest(gain, points)} {points_note(gain, points)}",
        gain,
    )
    return fig


def gain_lines(sheet: parts.Sheet, ax: Axes, points: pd.DataFrame, x: str) -> None:
    """Draw one line per payload through the gains, with their intervals; points that do not count are hollow."""
    ax.axhline(0, color=parts.paper_colour(), linewidth=0.9)
    for payload, unordered in points.groupby("payload_bytes"):
        line = unordered.sort_values(x)
        style = parts.payload_style(int(payload), points.payload_bytes)
        spread = np.array([line.percent - line.percent_low, line.percent_high - line.percent]).clip(min=0)
        bars = spread if line.low.notna().any() else None
        counting = line.percent.where(line.counts)
        ax.errorbar(line[x], counting, yerr=bars, elinewidth=0.9, markeredgecolor="white", **style)
        hollow = style | {"linestyle": "none", "markerfacecolor": "white", "markeredgewidth": 1.3, "zorder": 3}
        ax.plot(line[x][~line.counts], line.percent[~line.counts], **hollow)
        end = (float(line[x].iloc[-1]), float(line.percent.iloc[-1]))
        sheet.line_ends.append(parts.LineEnd(ax, *end, parts.payload_name(int(payload), points), style["color"]))


def gain_limits(points: pd.DataFrame, noise: float | None) -> tuple[float, float]:
    """Return the limits of a y axis that holds zero, the points, their intervals and the noise band."""
    band = [100 * (bound - 1) for bound in noise_band(noise)] if noise is not None else []
    limits = [0.0, *band, *points[list(PERCENTS)].to_numpy().ravel()]
    low, high = float(np.nanmin(limits)), float(np.nanmax(limits))
    room = max(SMALLEST_SPAN_PERCENT - (high - low), 0) / 2
    margin = 0.09 * (high - low + 2 * room)
    return low - room - margin, high + room + margin


def draw_noise(ax: Axes, noise: float | None, words: str = NOISE_OF_BLOCKS) -> None:
    """Shade where pairs without a gain lie, if the run has repeats that show it."""
    if noise is None:
        return
    low, high = (100 * (bound - 1) for bound in noise_band(noise))
    ax.axhspan(low, high, color=parts.muted_colour(), alpha=0.1, linewidth=0, zorder=0)
    place: dict[str, Any] = {"ha": "right", "va": "bottom", "shift": (0, 1)}
    outline = [withStroke(linewidth=2.5, foreground="white")]
    parts.note(ax, words, (0.99, high), ("axes fraction", "data"), parts.muted_colour(), path_effects=outline, **place)


def _paper_ranges(ax: Axes) -> None:
    """Shade where the paper saw no gain, and where it saw one."""
    low, high = ax.get_xlim()
    spans = (
        (low, min(high, NO_GAIN_UP_TO.value), f"the paper: no benefit at {NO_GAIN_UP_TO.value:.0f} threads or less"),
        (max(low, GAIN_NOTICEABLE_FROM.value), high, f"the paper: noticeable from {GAIN_NOTICEABLE_FROM.value:.0f}"),
    )
    for start, end, words in spans:
        if end <= start * 1.3:
            continue
        ax.axvspan(start, end, color=parts.paper_colour(), alpha=0.055, linewidth=0, zorder=0)
        middle, where = ((start * end) ** 0.5, 0.02), ("data", "axes fraction")
        parts.note(ax, words, middle, where, parts.paper_colour(), ha="center", va="bottom")


def _largest(gain: pd.DataFrame, points: pd.DataFrame) -> str:
    """Name the largest gain that is distinguished from none."""
    counted = points[points.counts]
    if counted.empty:
        return "No pair of cells is valid, so there is no gain that counts."
    if not counted.is_known.any():
        most = counted.loc[counted.ratio.idxmax()]
        return (
            f"The largest of {units.counted(len(counted), 'gain')}: {parts.percent(most.percent)} at "
            f"{most.total_threads:.0f} threads in all with {parts.payload_words(int(most.payload_bytes), points)}. The "
            "largest of many is too large by chance."
        )
    different = counted[counted.differs & (counted.ratio > 1)]
    if different.empty:
        return f"At none of {units.counted(len(counted), 'point')} is a gain distinguished from none."
    best = different.loc[different.ratio.idxmax()]
    logs = logarithms(gain[gain.valid]).set_index([*OF_FIGURE_5, "server_version", "block"]).log_factor
    most = geometric_mean(logs.xs(tuple(best[OF_FIGURE_5]), level=OF_FIGURE_5), "", among=points_of(logs, OF_FIGURE_5))
    assert most.low is not None and most.high is not None
    low, high = (parts.percent(100 * (end - 1)) for end in (most.low, most.high))
    return (
        f"Largest gain distinguished from none: {parts.percent(best.percent)} ({low} to {high}, all points together) "
        f"at {best.total_threads:.0f} threads in all with {parts.payload_words(int(best.payload_bytes), points)}; "
        f"distinguished from none at {len(different)} of {len(counted)} points."
    )


def points_note(gain: pd.DataFrame, points: pd.DataFrame, *, on_map: bool = False) -> str:
    """Say what points and bars show: of what they are means, which have no interval, and which do not count."""
    point_words, bars, invalid = "Points", "; bars: 95 % intervals of the blocks", "Hollow"
    if on_map:
        point_words, bars, invalid = "Numbers", "", "In brackets"
    versions = sorted(gain.server_version.unique())
    means = f"geometric means{f' of versions {listed(versions)}' if len(versions) > 1 else ''}"
    with_interval = points[points.low.notna()]
    lacking = points[points.counts & points.low.isna()]
    sentences = []
    if len(with_interval):
        blocks = sorted({int(with_interval.blocks.min()), int(with_interval.blocks.max())})
        sentences.append(f"{point_words}: {means} over {' to '.join(map(str, blocks))} blocks{bars}.")
        if len(lacking):
            sentences.append(
                f"{units.counted(len(lacking), 'point')} with fewer than {BLOCKS_MIN} blocks: no interval."
            )
    elif len(lacking):
        words = no_interval(int(lacking.blocks.max()))
        sentences.append(
            f"{words[:1].upper()}{words[1:]}{f'; {point_words.lower()}: {means}' if len(versions) > 1 else ''}."
        )
    if not points.counts.all():
        sentences.append(f"{invalid}: {int((~points.counts).sum())} with a cell that does not count.")
    return " ".join(sentences)


def over_matrix(gain: pd.DataFrame) -> parts.Sheet:
    """Draw the gain of the 150 trick for every pair of cells; grey where it is not distinguished from none."""
    if gain.empty:
        raise Missing("no cell was completed with both dialog ratios")
    points = gain_points(gain, ["initiators", "payload_bytes", "threads"])
    initiators = sorted(points.initiators.unique())
    fig = parts.Sheet(10.4, 1.5 + 1.75 * len(initiators))
    panels = fig.subplots(len(initiators), 1, sharex=True, squeeze=False)[:, 0]
    for ax, number in zip(panels, initiators, strict=True):
        matrix_panel(ax, points[points.initiators == number], points, GAIN_SCALE)
        ax.set_title(parts.count(int(number)).capitalize())
    panels[-1].set_xlabel("client threads per initiator")
    colour_bar(fig, panels, GAIN_SCALE, "gain in messages processed per second, %")
    known = points[points.counts & points.is_known]
    gains, losses = (int((known.differs & side).sum()) for side in (known.ratio > 1, known.ratio < 1))
    verdicts_words = (
        f"In full colour: distinguished from none, corrected for {len(known)} comparisons ({gains} gains, {losses} "
        "losses). Grey: nobody can tell. "
    )
    pale = " Pale: without an interval, so no verdict." if (points.counts & ~points.is_known).any() else ""
    empty = len(initiators) * points.threads.nunique() * points.payload_bytes.nunique() - len(points)
    missing = f" Hatched: {empty} without a pair of completed cells." if empty else ""
    paper = "" if of_the_paper(gain).empty else " The paper saw up to +315 %, none at 15 threads in all or fewer."
    fig.entitle(
        f"Gain of using {which_dialogs(int(gain.dialog_ratio.iloc[0]))}, in percent, over the matrix",
        f"{verdicts_words * bool(len(known))}{points_note(gain, points, on_map=True)}{pale}{missing}{paper}",
        gain,
    )
    return fig


def comparison_scale(ratios: pd.Series) -> Normalize:
    """Return a colour scale of log ratios: a half is as strong as a double."""
    return CenteredNorm(0, max(float(np.log(ratios).abs().max()), math.log(SMALLEST_FACTOR)))


def matrix_panel(ax: Axes, points: pd.DataFrame, all_points: pd.DataFrame, scale: Normalize) -> None:
    """Draw payload by threads, each square with its change in percent; `all_points` determine rows and columns.

    A square has the colour of its log ratio: pale where it has no interval (`is_known`), grey where the interval cannot
    distinguish it from 1 (`differs`). One that does not count (`counts`) is white, with its number in brackets.
    """
    threads, payloads = sorted(all_points.threads.unique()), sorted(all_points.payload_bytes.unique())
    colours = mpl.colormaps[mpl.rcParams["image.cmap"]]
    ax.patch.set(hatch="////", facecolor="#f1f1f3", edgecolor="#cfcfd4")
    for square in points.itertuples():
        column, row = threads.index(square.threads), payloads.index(square.payload_bytes)
        colour = mpl.colors.to_rgba("white" if not square.counts else NOT_TOLD)
        if square.counts and (square.differs or not square.is_known):
            colour = colours(float(scale(math.log(square.ratio))))
            if not square.is_known:
                red, green, blue, opacity = colour
                colour = (1 - PALE * (1 - red), 1 - PALE * (1 - green), 1 - PALE * (1 - blue), opacity)
        ax.add_patch(mpl.patches.Rectangle((column, row), 1, 1, facecolor=colour, edgecolor="white", linewidth=1.2))
        red, green, blue, _ = colour
        ink = "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5 else "black"
        number = parts.signed(100 * (square.ratio - 1))
        words = number if square.counts else f"({number})"
        ax.text(column + 0.5, row + 0.5, words, ha="center", va="center", color=ink, fontsize="small")
    ax.set_xlim(0, len(threads))
    ax.set_ylim(0, len(payloads))
    ax.set_xticks(np.arange(len(threads)) + 0.5, [str(value) for value in threads])
    ax.set_yticks(np.arange(len(payloads)) + 0.5, [parts.payload_name(int(value), all_points) for value in payloads])
    ax.grid(visible=False)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def colour_bar(fig: parts.Sheet, panels: np.ndarray, scale: Normalize, label: str) -> None:
    """Draw the colours of `scale` beside the panels, with percentages at their logarithms."""
    bar = fig.colorbar(mpl.cm.ScalarMappable(scale), ax=list(panels.flat), pad=0.015, aspect=30)
    assert scale.vmax is not None
    half = float(scale.vmax)
    percents = next(numbers for factor, numbers in SCALE_PERCENTS if half <= math.log(factor))
    ticks = {math.log1p(number / 100): number for number in percents if abs(math.log1p(number / 100)) <= half}
    bar.ax.yaxis.set_major_locator(FixedLocator(list(ticks)))
    bar.ax.yaxis.set_major_formatter(FixedFormatter([parts.signed(number) for number in ticks.values()]))
    bar.minorticks_off()
    bar.set_label(label)
    bar.outline.set_visible(False)
