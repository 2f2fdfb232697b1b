"""Claims on messages per second: figures 2 to 4, payloads, versions, the complete matrix."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from harness.claims.judgement import (
    Evidence,
    Measurement,
    NotMeasured,
    Spread,
    geometric_mean,
    mean_of_quotients,
    spread_of,
    spread_of_quotient,
)
from harness.matrix import PAPER_VERSIONS, PAYLOADS_BYTES
from harness.whitepaper import (
    LARGE_PAYLOAD_BYTES,
    PLATEAU,
    PLATEAU_OF_LARGE_PAYLOADS,
    TRICK_DIALOG_RATIO,
)

# The paper's lines peak near their ends, so a peak needs cells with at least so many threads per initiator.
THREADS_OF_A_PEAK = 30
POINT = ["initiators", "dialog_ratio", "threads", "payload_bytes"]
PAIR = ["initiators", "threads", "dialog_ratio", "payload_bytes"]


def matrix_complete(evidence: Evidence) -> Measurement:
    by_version = evidence.completed.groupby("server_version").cell_id.nunique()
    return Measurement(int(by_version.min()), f"completed cells per version, the fewest of {len(by_version)} versions")


def peak(evidence: Evidence, initiators: int) -> Measurement:
    best = fastest(evidence, with_trick(evidence, initiators))
    return Measurement(best.value, f"the highest rate of a valid point: {best.basis}", best.spread)


def with_trick(evidence: Evidence, initiators: int) -> pd.DataFrame:
    """Choose the valid cells of figures 2 to 4: so many initiators, every 150th dialog.

    The run must have loads that can have a peak, valid or not: a peak may be where the target cannot take more.
    """
    completed, chosen = (
        cells[(cells.initiators == initiators) & (cells.dialog_ratio == TRICK_DIALOG_RATIO)]
        for cells in (evidence.completed, evidence.cells)
    )
    words = f"cell with {counted(initiators)} and every {TRICK_DIALOG_RATIO}th dialog"
    if completed.empty or completed.threads.max() < THREADS_OF_A_PEAK:
        raise NotMeasured(f"no {words} was completed with {THREADS_OF_A_PEAK} or more threads per initiator")
    if chosen.empty:
        raise NotMeasured(f"no {words} is valid, of {len(completed)}")
    return chosen


def counted(initiators: int) -> str:
    return "1 initiator" if initiators == 1 else f"{initiators} initiators"


def fastest(evidence: Evidence, cells: pd.DataFrame) -> Measurement:
    """Find the point with the highest mean over versions, of those that processed something and are valid in each
    version that completed them."""
    points = cells.groupby(POINT).agg(
        rate=("processed_per_s", "mean"), low=("processed_per_s", "min"), versions=("server_version", "nunique")
    )
    completed = evidence.completed.groupby(POINT).server_version.nunique()
    whole = points[(points.versions == completed.reindex(points.index)) & (points.low > 0)]
    if whole.empty:
        raise NotMeasured(f"none of {len(points)} points is valid in all versions and processed messages")
    best = whole.rate.idxmax()
    _, _, threads, payload_bytes = best
    versions = cells[(cells[POINT] == best).all(axis=1)]
    spread = spread_of(versions.processed_per_s, "versions") or _over_seconds(evidence.seconds, versions.iloc[0])
    where = f"{threads:.0f} threads per initiator, {payload_bytes:,.0f} bytes"
    return Measurement(float(whole.rate[best]), where, spread)


def _over_seconds(seconds: pd.DataFrame, cell: pd.Series) -> Spread | None:
    """Return the spread of the whole seconds of a cell's measured window."""
    inside = seconds[
        (seconds.cell_id == cell.cell_id)
        & (seconds.second >= math.ceil(cell.settle_s))
        & (seconds.second + 1 <= math.floor(cell.settle_s + cell.measured_s))
    ]
    return spread_of(inside.processed, "seconds")


def growth(evidence: Evidence, few: int, many: int) -> Measurement:
    """Divide the peak with many initiators by the peak with few."""
    less, more = (fastest(evidence, with_trick(evidence, initiators)) for initiators in (few, many))
    return Measurement(
        more.value / less.value,
        f"{more.value:,.0f} messages/s with {counted(many)}, {less.value:,.0f} with {few}",
        spread_of_quotient(more.spread, less.spread),
    )


def threads_raise(evidence: Evidence) -> Measurement:
    """Measure the step from one number of threads to the next that raises the rate least: each must raise it."""
    lines = _busy(with_trick(evidence, 1)).set_index(["server_version", "payload_bytes", "threads"])
    rates = lines.processed_per_s.unstack("threads")
    if min(rates.columns, default=0) != 1 or max(rates.columns) < THREADS_OF_A_PEAK:
        raise NotMeasured(f"no valid cells with 1 thread and with {THREADS_OF_A_PEAK} or more")
    steps = {
        (few, many): pairs
        for few, many in itertools.pairwise(rates.columns)
        if not (pairs := (rates[many] / rates[few]).dropna()).empty
    }
    if not steps:
        raise NotMeasured("no pair of valid cells differs only by one step of the threads")
    few, many = min(steps, key=lambda step: geometric_mean(steps[step]))
    return mean_of_quotients(
        steps[few, many],
        f"the step that raises it least, from {few} to {many} threads, of {len(steps)}: geometric mean of "
        f"{len(steps[few, many])} pairs of cells",
    )


def payload_matters(evidence: Evidence) -> Measurement:
    axes = ["server_version", "initiators", "threads", "dialog_ratio"]
    rates = _busy(evidence.cells).set_index([*axes, "payload_bytes"]).processed_per_s.unstack("payload_bytes")
    least, most = PAYLOADS_BYTES[0], PAYLOADS_BYTES[-1]
    if not {least, most} <= set(rates.columns) or (pairs := (rates[most] / rates[least]).dropna()).empty:
        raise NotMeasured(f"no pair of valid cells that differ only in the payload, {least} and {most} bytes")
    return mean_of_quotients(pairs, f"geometric mean of {len(pairs)} pairs of cells")


def peak_of_small_payloads(evidence: Evidence) -> Measurement:
    cells = with_trick(evidence, 3)
    small, large = cells[cells.payload_bytes < LARGE_PAYLOAD_BYTES], cells[cells.payload_bytes >= LARGE_PAYLOAD_BYTES]
    if small.empty or large.empty:
        raise NotMeasured("there are no valid cells of both smaller and larger payloads with 3 initiators")
    first, second = fastest(evidence, small), fastest(evidence, large)
    return Measurement(
        first.value / second.value,
        f"peak of smaller payloads {first.value:,.0f} messages/s, of larger ones {second.value:,.0f}",
        spread_of_quotient(first.spread, second.spread),
    )


def plateau(evidence: Evidence) -> Measurement:
    """Measure the fewest threads that reach nine tenths of their line's highest rate; the median of the lines."""
    cells = _busy(with_trick(evidence, 3))
    lines = cells[cells.payload_bytes >= LARGE_PAYLOAD_BYTES].groupby(["server_version", "payload_bytes"])
    stated = PLATEAU_OF_LARGE_PAYLOADS.value
    onsets = [
        int(line.total_threads[line.processed_per_s >= PLATEAU * line.processed_per_s.max()].min())
        for _, line in lines
        if line.total_threads.min() < stated < line.total_threads.max() and (line.total_threads == stated).any()
    ]
    if not onsets:
        raise NotMeasured(f"no line of a larger payload has valid cells below, at and above {stated:.0f} threads")
    return Measurement(
        float(np.median(onsets)),
        f"the threads that reach {100 * PLATEAU:.0f} % of a line's highest rate, median of {len(onsets)} lines",
        spread_of(np.array(onsets), "lines"),
    )


def versions_alike(evidence: Evidence) -> Measurement:
    rates = _busy(evidence.cells).set_index([*PAIR, "server_version"]).processed_per_s.unstack("server_version")
    older, newer = PAPER_VERSIONS
    if not {older, newer} <= set(rates.columns):
        raise NotMeasured(f"the result set has no valid cells of both {older} and {newer}")
    ratios = (rates[newer] / rates[older]).dropna()
    if ratios.empty:
        raise NotMeasured(f"no cell is valid with both {older} and {newer}")
    typical = math.exp(float(np.median(np.abs(np.log(ratios))))) - 1
    return mean_of_quotients(
        ratios,
        f"{newer} over {older}, geometric mean of {len(ratios)} pairs of cells, half of which differ by no "
        f"more than {100 * typical:.0f} %",
    )


def _busy(cells: pd.DataFrame) -> pd.DataFrame:
    return cells[cells.processed_per_s > 0]


MEASURES: Mapping[str, Callable[[Evidence], Measurement]] = {
    "matrix_complete": matrix_complete,
    "peak_1_initiator": functools.partial(peak, initiators=1),
    "peak_2_initiators": functools.partial(peak, initiators=2),
    "peak_3_initiators": functools.partial(peak, initiators=3),
    "peak_concluded": functools.partial(peak, initiators=3),
    "linear_1_to_3": functools.partial(growth, few=1, many=3),
    "linear_third_initiator": functools.partial(growth, few=2, many=3),
    "threads_raise_throughput": threads_raise,
    "payload_matters": payload_matters,
    "peak_of_small_payloads": peak_of_small_payloads,
    "plateau_of_large_payloads": plateau,
    "versions_alike": versions_alike,
}
