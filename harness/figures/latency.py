"""Latency by client threads: of the call that sends, and end to end, from the send until the target has stored it."""

from collections.abc import Iterable, Mapping

import pandas as pd

from harness.definitions.units import counted
from harness.figures import parts
from harness.figures.reduced_run import Missing

POINT = ["initiators", "threads", "payload_bytes"]
SEND = {"latency_us_p50": "median", "latency_us_p95": "95th percentile"}
END_TO_END = {
    "end_to_end_us_p50": "median",
    "end_to_end_us_p95": "95th percentile",
    "end_to_end_us_p99": "99th percentile",
}
_CALLS = {
    False: "Calls that returned in the measured window. Closed loop: a thread calls again after its call has returned, "
    "so a stall shows in few calls.",
    True: "Calls that were due in the measured window. Open loop: latency counts from the intended start.",
}


def of_send(cells: pd.DataFrame, repeats: pd.DataFrame) -> parts.Sheet:
    """Draw the latency of a call, one column per number of initiators, with the first ratio to show.

    `cells` has one row per cell, `repeats` one per cell and block, which the intervals are over.
    """
    cells, ratio, saturated = _with_median(cells, "latency_us_p50")
    fig, sure = _percentiles(cells, repeats, SEND, "latency of a call, ms (log scale)")
    fig.entitle(
        f"Latency of a call by client threads, {parts.used_dialogs(ratio)}",
        f"{_CALLS[cells.rate_per_s.notna().any()]} {_left_out(cells, SEND, saturated)} {parts.versions_note(cells)} "
        f"{sure} {parts.states_note(cells)}",
        cells,
    )
    return fig


def end_to_end(cells: pd.DataFrame, repeats: pd.DataFrame, clocks: str, *, is_counted: bool = False) -> parts.Sheet:
    """Draw the time from a send until the message is stored, from tables as for `of_send`.

    `clocks` says how far two machines' clocks differ.
    """
    if is_counted:
        raise Missing("messages were counted, so nobody knows when each was processed")
    cells, ratio, saturated = _with_median(cells, "end_to_end_us_p50")
    fig, sure = _percentiles(cells, repeats, END_TO_END, "send to stored, ms (log scale)")
    negative = int(cells.end_to_end_negative.sum())
    before = f"Stored before they were sent, by these clocks: {counted(negative, 'message')}." if negative else ""
    fig.entitle(
        f"End to end, from send to stored, by client threads, {parts.used_dialogs(ratio)}",
        f"Messages sent in the measured window, whenever they were stored: most of it may be "
        f"waiting in queues. {clocks} {before} {_left_out(cells, END_TO_END, saturated)} {parts.versions_note(cells)} "
        f"{sure} {parts.states_note(cells)}",
        cells,
    )
    return fig


def _with_median(cells: pd.DataFrame, median: str) -> tuple[pd.DataFrame, int, int]:
    """Return the cells that have a median, of the first dialog ratio to show; that ratio; and its saturated cells."""
    ratio = parts.shown_ratios(cells.dialog_ratio)[0]
    cells = cells[cells.dialog_ratio == ratio]
    saturated = int(cells.saturated.sum())
    cells = cells[cells[median] > 0]
    if cells.empty:
        raise Missing("no cell with a target that kept up has the 20 values that carry a median")
    return cells, ratio, saturated


def _left_out(cells: pd.DataFrame, columns: Iterable[str], saturated: int) -> str:
    """Say which points are missing, if any are."""
    few = "Percentiles that too few values carry are left out." if cells[list(columns)].isna().any(axis=None) else ""
    most = f"{counted(saturated, 'cell')} with a saturated target: latency grew as long as the clients sent."
    return f"{few}{' ' * bool(few)}{f'Left out: {most}' if saturated else ''}"


def _percentiles(
    cells: pd.DataFrame, repeats: pd.DataFrame, words: Mapping[str, str], label: str
) -> tuple[parts.Sheet, str]:
    """Draw a row of panels for each percentile that a cell has: `words` by column, in microseconds.

    Also return what the bars are, in a sentence.
    """
    columns = [column for column in words if (cells[column] > 0).any()]
    repeats = repeats[repeats.dialog_ratio.isin(cells.dialog_ratio)]
    points = {
        column: parts.with_intervals(
            parts.over_versions(cells[cells[column] > 0], POINT, column), repeats, POINT, column
        )
        for column in columns
    }
    initiators = sorted(cells.initiators.unique())
    fig = parts.Sheet(max(2.2 + 2.9 * len(initiators), 7.6), 1.0 + 2.7 * len(columns))
    panels = fig.subplots(len(columns), len(initiators), sharex="col", sharey=True, squeeze=False)
    for row, column in zip(panels, columns, strict=True):
        for ax, number in zip(row, initiators, strict=True):
            of_number = points[column][points[column].initiators == number]
            parts.payload_lines(fig, ax, of_number, scale=0.001)
            parts.log_thread_axis(ax, list(cells.threads), "")
            ax.set_title(f"{parts.count(int(number)).capitalize()}, {words[column]}")
        row[0].set_ylabel(label)
    for ax in panels[-1]:
        ax.set_xlabel("client threads per initiator (log scale)")
    drawn = pd.concat(points.values())
    values_ms = drawn[["mean", "low", "high"]] * 0.001
    parts.log_value_axis(panels[0][0], float(values_ms.min(axis=None)), float(values_ms.max(axis=None)))
    return fig, parts.intervals_note(drawn)
