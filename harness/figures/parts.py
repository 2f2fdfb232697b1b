"""Parts that several figures share: lines per payload, names at their ends, the paper's marks, words and numbers."""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FixedLocator, Formatter, FuncFormatter, MaxNLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from harness.definitions.inference import BLOCKS_MIN, intervals, no_interval_sentence
from harness.definitions.matrix import PAYLOADS_BYTES, which_dialogs
from harness.definitions.units import counted
from harness.definitions.whitepaper import BASE_DIALOG_RATIO, TRICK_DIALOG_RATIO
from harness.figures.reduced_run import listed

# A number of the paper is drawn to scale up to this many times the data's maximum, else as an arrow at the edge.
ON_SCALE = 1.4
LABEL_GAP_POINTS = 10.5
NUMBER_WIDTH_POINTS = 13.0  # a tick's number of two digits and the gap to the next
LOG_STEPS = ((1,), (1, 2, 5), (1, 1.5, 2, 3, 5, 7))
TICKS_MIN = 3
_OF_BLOCKS = " A point is the geometric mean of its blocks."
BELOW_LABEL_IN, BELOW_PANEL_IN = 0.46, 0.1
LEGEND_COLUMNS_MAX = 3  # more are wider than a panel
PAPER_STYLE = 4  # entry of the style's cycle
RATIO_STYLES = {TRICK_DIALOG_RATIO: 0, BASE_DIALOG_RATIO: 2}  # entries of the style's cycle
OTHER_RATIO_STYLES = (1, 3)
OTHER_RATIO_MARKERS = (
    "s",
    "D",
    "v",
    "P",
    "X",
    "<",
    ">",
    "*",
    "h",
)  # odd: each goes with both styles before one returns


@dataclass(frozen=True)
class LineEnd:
    """The end of a line, and the name to write there."""

    ax: Axes
    x: float
    y: float
    name: str
    colour: str


class Sheet(Figure):
    """A figure with the texts that `build` writes around it and at the ends of its lines."""

    def __init__(self, width: float, height: float) -> None:
        super().__init__(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(self)  # keeps the sizes of texts from one layout to the next and for the PNG
        self.title = ""
        self.subtitle = ""
        self.versions: list[str] = []
        self.line_ends: list[LineEnd] = []

    def entitle(self, title: str, subtitle: str, points: pd.DataFrame) -> None:
        """Set title, subtitle and, from the rows that are drawn, the versions to name above them."""
        self.title, self.subtitle = title, " ".join(subtitle.split())
        self.versions = sorted(points.server_version.unique())


def used_dialogs(dialog_ratio: float) -> str:
    """Say which dialogs a dialog ratio uses: `every 150th dialog used`."""
    return f"{which_dialogs(int(dialog_ratio))} used"


def count(initiators: int) -> str:
    return counted(initiators, "initiator")


def clients(initiators: int, threads: int) -> str:
    """`3 initiators × 50 threads`"""
    return f"{count(int(initiators))} × {counted(int(threads), 'thread')}"


def threads_label(initiators: int) -> str:
    return "client threads" if initiators == 1 else f"client threads per initiator ({count(initiators)})"


def payload_name(payload_bytes: int, rows: pd.DataFrame) -> str:
    """Write a payload in the units of the paper's table 1, `100 bytes` or `8 KB`; 4,000 bytes are no whole KB.

    Where the messages of the rows have sizes of their own it is their mean: `981 bytes on average`.
    """
    return f"{_size(payload_bytes)}{_average(rows)}"


def payload_words(payload_bytes: int, rows: pd.DataFrame) -> str:
    """Say the payload of these rows: `100 bytes a message`, or `981 bytes a message on average`."""
    return f"{_size(payload_bytes)} a message{_average(rows)}"


def _size(payload_bytes: int) -> str:
    return f"{payload_bytes // 1024:,} KB" if payload_bytes % 1024 == 0 else f"{payload_bytes:,} bytes"


def _average(rows: pd.DataFrame) -> str:
    return " on average" * payload_is_mean(rows)


def payload_is_mean(rows: pd.DataFrame) -> bool:
    """Whether rows are of messages with sizes of their own; `reduced_run.read` adds the column."""
    return "payload_is_mean" in rows and bool(rows.payload_is_mean.any())


def payload_style(payload_bytes: int, drawn: Iterable[int] = PAYLOADS_BYTES) -> dict[str, Any]:
    """Return colour, marker and line of a payload, one of those drawn: its entry in the style's cycle.

    The paper's payloads look alike in all figures that draw no other.
    """
    payloads = {int(payload) for payload in drawn}
    among = PAYLOADS_BYTES if payloads <= set(PAYLOADS_BYTES) else sorted(payloads)
    return cycle_entry(among.index(payload_bytes) % PAPER_STYLE)


def shown_ratios(values: Iterable[int]) -> list[int]:
    """Choose the dialog ratios that have a panel: the trick's, else the highest; then every dialog, else the lowest."""
    present = {int(value) for value in values}
    if not present:
        return []
    trick = TRICK_DIALOG_RATIO if TRICK_DIALOG_RATIO in present else max(present)
    base = BASE_DIALOG_RATIO if BASE_DIALOG_RATIO in present else min(present)
    return [trick] if trick == base else [trick, base]


def ratio_style(dialog_ratio: int, drawn: Iterable[int]) -> dict[str, Any]:
    """Return colour, marker and line of a dialog ratio, one of those drawn; the paper's look alike in all figures."""
    if dialog_ratio in RATIO_STYLES:
        return cycle_entry(RATIO_STYLES[dialog_ratio])
    place = sorted({int(ratio) for ratio in drawn} - set(RATIO_STYLES)).index(dialog_ratio)
    entry = cycle_entry(OTHER_RATIO_STYLES[place % len(OTHER_RATIO_STYLES)])
    return entry | {"marker": OTHER_RATIO_MARKERS[place % len(OTHER_RATIO_MARKERS)]}


def ratio_words(dialog_ratio: int) -> str:
    """Say which dialogs a dialog ratio uses, as the title of a panel."""
    return f"{used_dialogs(dialog_ratio)}{' (the 150 trick)' if dialog_ratio == TRICK_DIALOG_RATIO else ''}"


def cycle_entry(place: int) -> dict[str, Any]:
    return dict(next(itertools.islice(mpl.rcParams["axes.prop_cycle"], place, None)))


def paper_colour() -> str:
    return str(cycle_entry(PAPER_STYLE)["color"])


def percent(value: float) -> str:
    """Write a signed percentage: `+12 %`, `0 %`, `−3 %`."""
    return f"{signed(value)} %"


def signed(value: float) -> str:
    """Write a signed whole number; zero has no sign."""
    rounded = round(value)
    return f"+{rounded:,}" if rounded > 0 else f"{rounded:,}".replace("-", "−")


def short(value: float) -> str:
    """Write a positive number in few digits: `1,234`, `57`, `0.63`."""
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.2g}"


def muted_colour() -> str:
    return str(mpl.rcParams["xtick.color"])


def note(
    ax: Axes, words: str, at: tuple[Any, Any], where: Any = "data", colour: str | None = None, **text: Any
) -> None:
    """Write small words at a point of a panel; `shift=(x, y)` moves them by points."""
    if shift := text.pop("shift", None):
        text |= {"xytext": shift, "textcoords": "offset points"}
    ax.annotate(words, at, xycoords=where, color=colour, **{"fontsize": "small"} | text)


def thousands(axis: Any) -> None:
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def over_versions(cells: pd.DataFrame, by: Sequence[str], value: str) -> pd.DataFrame:
    """Return mean, smallest and largest `value` of the server versions at each point.

    If `cells` says which rows are valid, a point says whether those of all versions are, and if any is saturated.
    """
    points = cells.dropna(subset=[value]).groupby(list(by), as_index=False)[value].agg(["mean", "min", "max"])
    points = points.assign(payload_is_mean=payload_is_mean(cells))
    if "valid" not in cells:
        return points
    return points.merge(cells.groupby(list(by), as_index=False).agg({"valid": "all", "saturated": "any"}))


def with_intervals(points: pd.DataFrame, repeats: pd.DataFrame, by: Sequence[str], value: str) -> pd.DataFrame:
    """Add to points of `over_versions` the columns `low`, `high` and `blocks` of the intervals over valid blocks.

    `repeats` has one row per cell and block. A point that has an interval is its geometric mean.
    """
    positive = repeats[repeats.valid & (repeats[value] > 0)]
    logs = positive.assign(log=np.log(positive[value].astype(float)))
    estimates = intervals(logs, by, ["server_version"], "log")[[*by, "ratio", "low", "high", "blocks"]]
    merged = points.merge(estimates, how="left", on=list(by))
    return merged.assign(mean=merged.ratio.where(merged.low.notna(), merged["mean"]))


def intervals_note(points: pd.DataFrame) -> str:
    """Say what blocks make of the points of `with_intervals`, and what the bars are; empty if no point is valid."""
    valid = points.dropna(subset=["blocks"])
    with_interval = valid[valid.low.notna()]
    if valid.empty:
        return ""
    if with_interval.empty:
        most = int(valid.blocks.max())
        return f"{no_interval_sentence(most)}{_OF_BLOCKS * (most > 1)}"
    blocks = sorted({int(with_interval.blocks.min()), int(with_interval.blocks.max())})
    lacking = len(valid) - len(with_interval)
    few = f" {counted(lacking, 'point')} with fewer than {BLOCKS_MIN} blocks: no bar." if lacking else ""
    return f"Bars: 95 % intervals over {' to '.join(map(str, blocks))} blocks.{_OF_BLOCKS}{few}"


def higher_uncounted(cells: pd.DataFrame, rate: float) -> str:
    """Name the highest rate above that of a peak whose cell does not count; empty if there is none."""
    higher = cells[~cells.valid & (cells.processed_per_s > rate)]
    if higher.empty:
        return ""
    cell = higher.loc[higher.processed_per_s.idxmax()]
    return f" A higher rate does not count: {cell.processed_per_s:,.0f} messages/s, {cell.cell_id} is {cell.state}."


def states_note(rows: pd.DataFrame) -> str:
    """Explain hollow points and those with a dark edge; empty if there are none."""
    invalid, saturated = int((~rows.valid).sum()), int(rows.saturated.sum())
    notes = []
    if saturated:
        notes.append(f"Dark edge: saturated, the most that the target can sustain ({saturated} of {len(rows)}).")
    if invalid:
        notes.append(f"Hollow: does not count ({invalid} of {len(rows)}; the report says why).")
    return " ".join(notes)


def payload_lines(sheet: Sheet, ax: Axes, points: pd.DataFrame, *, scale: float = 1.0) -> None:
    """Draw one line per payload over the client threads, through points of `over_versions`, with intervals where known.

    Points are hollow, and no line goes through them, where the cell of a version does not count; they have a dark edge
    where it was saturated, if `points` says so.
    """
    for payload, unordered in points.groupby("payload_bytes"):
        line = unordered.sort_values("threads")
        style = payload_style(int(payload), points.payload_bytes)
        mean = line["mean"] * scale
        bars = None
        if "low" in line and line.low.notna().any():
            bars = np.array([mean - line.low * scale, line.high * scale - mean])
        counting = mean.where(line.valid) if "valid" in line else mean
        ax.errorbar(line.threads, counting, yerr=bars, elinewidth=0.9, markeredgecolor="white", **style)
        if "valid" in line:
            marks = style | {"linestyle": "none", "markeredgewidth": 1.3, "zorder": 3}
            ax.plot(line.threads[~line.valid], mean[~line.valid], **marks | {"markerfacecolor": "white"})
            saturated = line.valid & line.saturated
            ax.plot(line.threads[saturated], mean[saturated], **marks | {"markeredgecolor": "black"})
        end = (float(line.threads.iloc[-1]), float(mean.iloc[-1]))
        sheet.line_ends.append(LineEnd(ax, *end, payload_name(int(payload), points), style["color"]))


def name_lines(sheet: Sheet) -> bool:
    """Write each line's name behind its last point, without overlaps, and return whether there is any.

    Call it after a layout.
    """
    points_per_pixel = 72 / sheet.dpi
    by_place: dict[tuple[Axes, float], list[LineEnd]] = {}
    for end in sheet.line_ends:
        by_place.setdefault((end.ax, end.x), []).append(end)
    for ends in by_place.values():
        heights = [float(end.ax.transData.transform((end.x, end.y))[1]) * points_per_pixel for end in ends]
        for end, height, placed in zip(ends, heights, spread_apart(heights, LABEL_GAP_POINTS), strict=True):
            place: dict[str, Any] = {"shift": (9, placed - height), "va": "center", "annotation_clip": False}
            outline = [withStroke(linewidth=2.5, foreground="white")]
            note(end.ax, end.name, (end.x, end.y), colour=end.colour, fontweight="bold", path_effects=outline, **place)
    return bool(by_place)


def spread_apart(positions: Sequence[float], gap: float) -> list[float]:
    """Move positions as little as possible so that they lie at least `gap` apart, in the same order."""
    from scipy.optimize import isotonic_regression  # noqa: PLC0415  a third of a second, and only drawings need it

    order = np.argsort(positions, kind="stable")
    steps = gap * np.arange(len(order))
    placed = np.empty(len(order))
    placed[order] = isotonic_regression(np.asarray(positions)[order] - steps).x + steps
    return placed.tolist()


def thread_axis(ax: Axes, values: Sequence[int], label: str) -> None:
    """Make the x axis linear from 0, with a tick at each number of threads (or ratio, or initiators) that was run.

    What is proportional to the threads is a straight line where the y axis is linear too.
    """
    ticks = sorted({int(value) for value in values})
    ax.set_xlim(0, ticks[-1] * 1.03)
    _thread_ticks(ax, ticks, str)
    ax.set_xlabel(label)


def log_thread_axis(ax: Axes, values: Sequence[int], label: str, *, name: Callable[[int], str] = str) -> None:
    """Make the x axis logarithmic, with a tick at each number of threads (or bytes) that was run."""
    ticks = sorted({int(value) for value in values})
    ax.set_xscale("log")
    ax.set_xlim(ticks[0] / 1.05, ticks[-1] * 1.05)
    _thread_ticks(ax, ticks, name)
    ax.set_xlabel(label)


def _thread_ticks(ax: Axes, ticks: Sequence[int], name: Callable[[int], str]) -> None:
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(_ThreadNumbers(ax, ticks, name))


class _ThreadNumbers(Formatter):
    """The numbers at the ticks; that of a tick is written if the panel has room for it beside those of more threads.

    The final width of a panel is known only when it is drawn.
    """

    def __init__(self, ax: Axes, ticks: Sequence[int], name: Callable[[int], str]) -> None:
        self._ax, self._downwards, self._name = ax, ticks[::-1], name

    def format_ticks(self, values: Iterable[float]) -> list[str]:
        wide = NUMBER_WIDTH_POINTS * max(len(self._name(self._downwards[0])) / 2, 1)
        points_per_pixel = 72 / self._ax.get_figure(root=True).dpi  # type: ignore[union-attr]
        places = self._ax.transData.transform([(tick, 0) for tick in self._downwards])[:, 0] * points_per_pixel
        labelled, last = set(), math.inf  # `last` is the place of the last number
        for tick, place in zip(self._downwards, places.tolist(), strict=True):
            if last - place >= wide:
                last = place
                labelled.add(tick)
        return [self._name(tick) if tick in labelled else "" for tick in map(round, values)]


def log_value_axis(ax: Axes, lowest: float, highest: float) -> None:
    """Make the y axis logarithmic around positive values, with at least three numbers, in steps as coarse as that
    allows."""
    low, high = lowest / 1.15, highest * 1.15
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    choices = [[step * 10.0**decade for decade in decades for step in steps] for steps in LOG_STEPS]
    # A narrow range has few such numbers; even steps fit it.
    choices.append(list(MaxNLocator(6).tick_values(low, high)))
    inside = [[tick for tick in ticks if low <= tick <= high] for ticks in choices]
    ticks = next((ticks for ticks in inside if len(ticks) >= TICKS_MIN), inside[-1])
    ax.set_yscale("log")
    ax.set_ylim(low, high)
    ax.yaxis.set_major_locator(FixedLocator(ticks))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))


def legend_below(ax: Axes, handles: Mapping[str, Any] | None = None, *, columns: int = LEGEND_COLUMNS_MAX) -> None:
    """Draw the legend below a panel and its label, where it cannot cover data: `named`, or what has a label.

    A legend that is wider than its panel pushes the panel away from the one before it: give it fewer columns.
    """
    handles = handles or dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    figure = ax.get_figure(root=True)
    assert figure is not None
    room_in = BELOW_LABEL_IN if ax.get_xlabel() else BELOW_PANEL_IN
    ax.legend(
        list(handles.values()),
        list(handles),
        loc="upper right",
        bbox_to_anchor=(1, 0),
        bbox_transform=ax.transAxes + ScaledTranslation(0, -room_in, figure.dpi_scale_trans),
        ncols=min(len(handles), columns),
        borderaxespad=0,
    )


def paper_level(ax: Axes, value: float, words: str, data_max: float) -> None:
    """Mark a level that the paper states: to scale, or as an arrow at the upper edge if it lies far above."""
    if value <= ON_SCALE * data_max:
        ax.axhline(value, color=paper_colour(), linewidth=1.1, linestyle=(0, (6, 3)), zorder=1)
        ax.set_ylim(top=max(ax.get_ylim()[1], value * 1.12))
        note(ax, words, (0.01, value), ("axes fraction", "data"), paper_colour(), shift=(0, 3))
        return
    ax.set_ylim(top=max(ax.get_ylim()[1], data_max * 1.25))
    note(ax, f"{words} (above this scale)", (0.06, 0.93), "axes fraction", paper_colour(), va="center")
    arrow = {"arrowstyle": "-|>", "color": paper_colour(), "linewidth": 1.1}
    ax.annotate("", (0.03, 1.0), (0.03, 0.89), xycoords="axes fraction", textcoords="axes fraction", arrowprops=arrow)


def versions_note(rows: pd.DataFrame) -> str:
    """Say what points show of the versions; empty for a single version."""
    versions = sorted(rows.server_version.unique())
    if len(versions) == 1:
        return ""
    point = [axis for axis in ("initiators", "threads", "dialog_ratio", "payload_bytes") if axis in rows]
    if (rows.groupby(point).server_version.nunique() > 1).any():
        return f"Points: mean of versions {listed(versions)}."
    return f"Each point is of one version, {' or '.join(versions)}."
