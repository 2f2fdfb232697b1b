"""One cell on one time axis: the depth of its queues, the states of the queue monitors, the target's queue readers.

Drawn from the raw samples, which an observer takes once a second: no reduction is needed. What lies between two samples
nobody saw: lines are straight there, and states and readers are those of the nearer sample.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from harness.definitions.matrix import Cell, Visit, matching, nearest_ids
from harness.definitions.units import counted
from harness.figures import parts
from harness.figures.throughput import not_valid, phases
from harness.files import records
from harness.files.records import WITH_THROUGHPUT, ResultsError
from harness.observe.observers import FAILURE, LATCH_SAMPLES

TARGET = "target"
NO_MONITOR = "no queue monitor"  # at a moment when the instance was sampled
# From light to dark, so that they stay apart in grey. A state that is not here has the colour of OTHER_STATE.
STATE_COLOURS = {NO_MONITOR: "#ffffff", "INACTIVE": "#d5d8e3", "NOTIFIED": "#dd9a17", "RECEIVES_OCCURRING": "#16256b"}
OTHER_STATE = "#cf5a14"
LANE_IN = 0.36  # height of a monitor's strip
LANE_PART = 0.66  # of it that is filled
QUEUE_NAME_LENGTH = 24  # longer names end in an ellipsis: they would leave no room for the panels
HEADROOM = 1.08
THIN = {"linestyle": "-", "linewidth": 1.0, "markersize": 4}
PANEL_IN = 0.72  # height of a panel's title, numbers and legend


@dataclass(frozen=True)
class Course:
    """What was sampled of one completed cell in one block."""

    cells: pd.DataFrame  # its row of the record `cells`, with `valid` and the lengths that the table `cells` has
    samples: pd.DataFrame  # the record `samples` without counters; `second` since the clients started, `queue`, `state`

    @property
    def cell(self) -> pd.Series:
        return self.cells.iloc[0]

    @property
    def instances(self) -> list[str]:
        return list(self.samples.instance.unique())

    @property
    def target_queue(self) -> str:
        """The queue whose depth was sampled at the target."""
        rows = self.samples[(self.samples.instance == TARGET) & (self.samples.metric == "queue_depth")]
        return "" if rows.empty else str(rows.label.iloc[0])

    @property
    def failures(self) -> list[str]:
        """Why an observer could not read everything, once for each time."""
        return list(self.samples[self.samples.metric == FAILURE].label)

    def is_whole(self, instance: str) -> pd.Series:
        """Return by second, for each moment at which an instance was sampled, whether all was read."""
        rows = self.samples[self.samples.instance == instance]
        return (rows.metric != FAILURE).groupby(rows.second).all()

    def values(self, instance: str, metric: str, queue: str | None = None) -> pd.Series:
        """Return by second the sum of a metric's values, of one queue or all, whenever an instance was sampled.

        Where it has no row it is 0, as there was nothing to clients, or null if the observer failed at that moment.
        """
        rows = self.samples[(self.samples.instance == instance) & (self.samples.metric == metric)]
        if queue is not None:
            rows = rows[rows.queue == queue]
        is_whole = self.is_whole(instance)
        return (
            rows.groupby("second").value.sum().reindex(is_whole.index).fillna(is_whole.map({True: 0.0, False: np.nan}))
        )


@dataclass(frozen=True)
class Lane:
    """A queue monitor: its state at each moment at which its instance was sampled, null where that is unknown."""

    instance: str
    queue: str
    states: pd.Series  # by second


def read(results: Path, cell_id: str, block: int) -> Course:
    """Read the samples of a cell, which the beginning of its id names too where no other begins so.

    Raises ResultsError.
    """
    visit = Visit(Cell.parse(_only_cell(results, cell_id)), block)
    paths = sorted((results / "raw" / "cells").glob(f"{visit.id}-b{block}-a*.parquet"))
    if not paths:
        raise ResultsError(f"{results} has no block {block} of {visit.id}: leave out --block, or choose another")
    try:
        attempts = pd.concat([pq.read_table(path).to_pandas() for path in paths]).sort_values("attempt")
        last = attempts.tail(1).reset_index(drop=True)
        if last.outcome[0] != "completed":
            raise ResultsError(f"{visit.id} has no samples in block {block}, as it failed: {last.reason[0]}")
        samples = pq.read_table(records.raw_path(results, "samples", visit, int(last.attempt[0]))).to_pandas()
    except (OSError, pa.ArrowException) as error:
        raise ResultsError(f"{results / 'raw'} cannot be read: {error}") from None
    seconds = {
        "settle_s": last.measured_from_ns - last.started_at_ns,
        "measured_s": last.measured_to_ns - last.measured_from_ns,
        "load_s": last.stopped_at_ns - last.started_at_ns,
        "drain_s": last.drained_at_ns - last.stopped_at_ns,
    }
    samples = samples[~samples.metric.isin(["counter", LATCH_SAMPLES])]
    names = samples.label.str.rpartition("\\")  # of a queue monitor: queue and state
    return Course(
        last.assign(valid=last.state.isin(WITH_THROUGHPUT), **{name: length / 1e9 for name, length in seconds.items()}),
        samples.assign(second=(samples.sampled_at_ns - last.started_at_ns[0]) / 1e9, queue=names[0], state=names[2]),
    )


def _only_cell(results: Path, cell_id: str) -> str:
    """Return the id of the only cell with raw records that matches."""
    ids = sorted({path.name.rsplit("-b", 1)[0] for path in (results / "raw" / "cells").glob("*.parquet")})
    if not ids:
        raise ResultsError(f"{results} has no raw records of cells: name a run that has kept its folder raw/")
    matches = matching(ids, cell_id)
    if not matches:
        hint = nearest_ids(ids, cell_id) or f"; its first is {ids[0]}"
        raise ResultsError(f"{results} has no cell {cell_id!r}{hint}")
    if len(matches) > 1:
        raise ResultsError(f"{cell_id!r} matches {len(matches)} cells, {matches[0]} to {matches[-1]}: name one")
    return matches[0]


def draw(course: Course) -> parts.Sheet:
    """Draw depths, states of the queue monitors and readers below one another."""
    cell, lanes = course.cell, _lanes(course)
    heights = [2.6, LANE_IN * max(len(lanes), 1), 1.2]
    fig = parts.Sheet(9.8, sum(heights) + PANEL_IN * len(heights))
    depths, monitors, readers = fig.subplots(3, 1, sharex=True, height_ratios=heights)
    depth = _depths(depths, course)
    _monitors(monitors, lanes, course)
    _readers(readers, course)
    moments = [0.0, cell.load_s + cell.drain_s, *course.samples.second]
    readers.set_xlim(min(moments), max(moments))
    for ax in (depths, monitors, readers):
        phases(ax, cell, are_named=ax is depths)
    times = counted(len(course.failures), "time")
    failures = f" The observers failed {times}: {course.failures[0].rstrip('.')}." if course.failures else ""
    fig.entitle(
        f"Queues, queue monitors and readers of {cell.cell_id}, block {cell.block}",
        f"{parts.clients(cell.initiators, cell.threads).capitalize()}, "
        f"{parts.payload_words(int(cell.payload_bytes), course.cells)}, {parts.used_dialogs(cell.dialog_ratio)}. "
        f"{depth} Drained {cell.drain_s:.1f} s after the last call.{not_valid(cell)} The instances were sampled about "
        f"once a second; a state or a number of readers is that of the nearest sample.{failures}",
        course.cells,
    )
    return fig


def _depths(ax: Axes, course: Course) -> str:
    """Draw the depths of the target's queue and of all transmission queues; return the largest in a sentence."""
    at_target = course.values(TARGET, "queue_depth")
    waiting = {name: course.values(name, "transmission_queue_depth") for name in course.instances}
    ax.plot(at_target.index, at_target, label="target's queue", **_line(0))
    senders = [name for name in waiting if name != TARGET]
    words, look = "initiator's transmission queue", _line(2)
    if len(senders) > 1:
        words, look = "transmission queues of the initiators, a line each", look | THIN
    for name in senders:
        ax.plot(waiting[name].index, waiting[name], label=words, **look)
        words = ""  # the legend names the first of them
    if waiting[TARGET].max() > 0:
        ax.plot(waiting[TARGET].index, waiting[TARGET], label="target's transmission queue", **_line(3))
    most = max(series.max() for series in waiting.values())
    _count_axis(ax, max(at_target.max(), most), "messages")
    parts.legend_below(ax)
    return (
        f"At most {at_target.max():,.0f} messages were seen in the target's queue, and {most:,.0f} in a transmission "
        "queue."
    )


def _line(place: int) -> dict[str, Any]:
    return parts.cycle_entry(place) | {"clip_on": False}  # a marker at zero, or at the first moment, is whole


def _lanes(course: Course) -> list[Lane]:
    """Return the queue monitors that were seen, those of the target first."""
    monitor_samples = course.samples[course.samples.metric == "queue_monitor"]
    lanes = []
    for (instance, queue), rows in monitor_samples.groupby(["instance", "queue"], sort=False):
        is_whole = course.is_whole(str(instance))
        states = rows.groupby("second").state.last().reindex(is_whole.index)
        lanes.append(Lane(str(instance), str(queue), states.mask(states.isna() & is_whole, NO_MONITOR)))
    return sorted(lanes, key=lambda lane: lane.instance != TARGET)


def _monitors(ax: Axes, lanes: Sequence[Lane], course: Course) -> None:
    """Draw a strip for each queue monitor, the target's on top."""
    ax.set_title("State of the queue monitor" if len(lanes) < 2 else "States of the queue monitors")
    ax.grid(visible=False, axis="y")
    ax.set_ylim(max(len(lanes), 1) - 0.5, -0.5)
    ax.set_yticks(range(len(lanes)), [f"{lane.instance}\n{_shortened(lane.queue)}" for lane in lanes])
    ax.tick_params(axis="y", length=0)
    if not lanes:
        why = "the observers failed, see above" if course.failures else "no queue of this lab has activation"
        _not_seen(ax, f"No state was seen: {why}.")
        return
    states_drawn = set()
    for place, lane in enumerate(lanes):
        moments = lane.states.index.to_numpy()
        edges = [moments[0], *(moments[1:] + moments[:-1]) / 2, moments[-1]]
        spans = zip(lane.states, edges[:-1], edges[1:], strict=True)
        for state, same in itertools.groupby(spans, key=lambda span: span[0]):
            if isinstance(state, str):
                pieces = list(same)
                strip = (pieces[0][1], pieces[-1][2] - pieces[0][1])
                ax.broken_barh([strip], (place - LANE_PART / 2, LANE_PART), **_look(state))
                states_drawn.add(state)
    state_names = [*STATE_COLOURS, *sorted(states_drawn - set(STATE_COLOURS))]
    patches = {state: Patch(**_look(state)) for state in state_names if state in states_drawn}
    parts.legend_below(ax, patches, columns=len(patches))


def _shortened(queue: str) -> str:
    return queue if len(queue) <= QUEUE_NAME_LENGTH else f"{queue[: QUEUE_NAME_LENGTH - 1]}…"


def _look(state: str) -> dict[str, Any]:
    return {"facecolor": STATE_COLOURS.get(state, OTHER_STATE), "edgecolor": parts.muted_colour(), "linewidth": 0.5}


def _readers(ax: Axes, course: Course) -> None:
    """Draw how many queue readers ran at the target, and how many sessions waited in RECEIVE."""
    ax.set_title("Queue readers of the target")
    counted = {
        "started by activation": (course.values(TARGET, "activated_tasks"), 0),
        "sessions that wait in RECEIVE": (course.values(TARGET, "queue_monitor", course.target_queue), 2),
    }
    curves = {words: series for words, series in counted.items() if series[0].notna().any()}
    for words, (numbers, place) in curves.items():
        ax.plot(numbers.index, numbers, label=words, drawstyle="steps-mid", **_line(place))
    _count_axis(ax, max((numbers.max() for numbers, _ in curves.values()), default=0), "sessions")
    ax.set_xlabel("seconds since the clients started")
    if curves:
        parts.legend_below(ax)
    else:
        _not_seen(ax, "No reader was counted: the observers failed, see above.")


def _not_seen(ax: Axes, why: str) -> None:
    parts.note(ax, why, (0.5, 0.5), "axes fraction", parts.muted_colour(), ha="center", va="center")


def _count_axis(ax: Axes, most: float, words: str) -> None:
    """Begin the y axis at zero, with whole numbers."""
    ax.set_ylim(0, HEADROOM * max(most, 1))
    ax.yaxis.set_major_locator(MaxNLocator(6 if most > 20 else 4, integer=True))
    parts.thousands(ax.yaxis)
    ax.set_ylabel(words)
