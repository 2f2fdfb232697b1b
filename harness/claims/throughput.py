"""Claims on messages per second: figures 2 to 4, payloads, versions, the complete matrix."""

import functools
import itertools
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from harness.claims.judgement import Evidence
from harness.claims.measurement import Measurement, NotMeasured, Points, geometric_mean, place, points_of
from harness.definitions.matrix import PAPER_VERSIONS, PAYLOADS_BYTES
from harness.definitions.whitepaper import LARGE_PAYLOAD_BYTES, PLATEAU, PLATEAU_OF_LARGE_PAYLOADS, TRICK_DIALOG_RATIO

# The paper's lines peak near their ends, so a peak needs cells with at least so many threads per initiator.
THREADS_OF_A_PEAK = 30
PAIR = ["initiators", "threads", "dialog_ratio", "payload_bytes"]


class Point(NamedTuple):
    """A point of the matrix, whatever the version."""

    initiators: int
    dialog_ratio: int
    threads: int
    payload_bytes: int


POINT = list(Point._fields)


def matrix_complete(evidence: Evidence) -> Measurement:
    by_version = evidence.completed.groupby("server_version").cell_id.nunique()
    if by_version.empty:
        raise NotMeasured("no cell was completed")
    return Measurement(int(by_version.min()), f"completed cells per version, the fewest of {len(by_version)} versions")


def peak(evidence: Evidence, initiators: int) -> Measurement:
    cells = with_trick(evidence, initiators)
    best, point = fastest(evidence, cells)
    where = f"{point.threads} threads per initiator and {point.payload_bytes:,} bytes"
    basis = f"the highest rate of a point that counts, {where}: "
    return geometric_mean(best, "versions", basis, among=candidates(cells))


def candidates(cells: pd.DataFrame) -> Points:
    """Return the points of which `fastest` chooses one."""
    return points_of(logs_of(cells, [*POINT, "server_version"]), POINT)


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
        raise NotMeasured(f"no {words} is valid, of {completed.cell_id.nunique()}")
    return chosen


def counted(initiators: int) -> str:
    return "1 initiator" if initiators == 1 else f"{initiators} initiators"


def fastest(evidence: Evidence, cells: pd.DataFrame) -> tuple[pd.Series, Point]:
    """Find the point with the highest mean over versions, of those that processed something and are valid in each
    version that completed them.

    Returns the logarithms of its rates by version and block, and the point.
    """
    by_point = cells.groupby(POINT).agg(
        rate=("processed_per_s", "mean"), low=("processed_per_s", "min"), versions=("server_version", "nunique")
    )
    completed = evidence.completed.groupby(POINT).server_version.nunique()
    complete = by_point[(by_point.versions == completed.reindex(by_point.index)) & (by_point.low > 0)]
    if complete.empty:
        raise NotMeasured(f"none of {len(by_point)} points is valid in all versions and processed messages")
    best = complete.rate.idxmax()
    return logs_of(cells[(cells[POINT] == best).all(axis=1)], ["server_version"]), Point(*map(int, best))


def growth(evidence: Evidence, few: int, many: int) -> Measurement:
    """Divide the peak with many initiators by the peak with few."""
    (less, _), (more, _) = (fastest(evidence, with_trick(evidence, initiators)) for initiators in (few, many))
    return _quotient(more, less, f"{_rate(more)} messages/s with {counted(many)}, {_rate(less)} with {few}; ")


def _quotient(more: pd.Series, less: pd.Series, basis: str) -> Measurement:
    """Divide rates of the same versions and blocks, given as logarithms."""
    quotients = (more - less).dropna()
    if quotients.empty:
        raise NotMeasured(f"{basis}in no version and block are both valid")
    return geometric_mean(quotients, "versions", basis)


def _rate(logs: pd.Series) -> str:
    """Write the geometric mean of rates in three digits."""
    return f"{float(f'{math.exp(logs.mean()):.3g}'):,.0f}"


def threads_raise(evidence: Evidence) -> Measurement:
    """Measure the step from one number of threads to the next that raises the rate least: each must raise it."""
    logs = logs_of(with_trick(evidence, 1), ["server_version", "payload_bytes", "threads"]).unstack("threads")
    if min(logs.columns, default=0) != 1 or max(logs.columns) < THREADS_OF_A_PEAK:
        raise NotMeasured(f"no valid cells with 1 thread and with {THREADS_OF_A_PEAK} or more")
    steps = {
        (few, many): pairs
        for few, many in itertools.pairwise(logs.columns)
        if not (pairs := (logs[many] - logs[few]).dropna()).empty
    }
    if not steps:
        raise NotMeasured("no pair of valid cells differs only by one step of the threads")
    few, many = min(steps, key=lambda step: float(steps[step].mean()))
    basis = f"the step that raises it least, from {few} to {many} threads, of {len(steps)}: "
    among = points_of(pd.concat(steps, names=["few", "many"]), ["few", "many"])
    return geometric_mean(steps[few, many], "pairs of cells", basis, among=among)


def payload_matters(evidence: Evidence) -> Measurement:
    axes = ["server_version", "initiators", "threads", "dialog_ratio", "payload_bytes"]
    logs = logs_of(evidence.cells, axes).unstack("payload_bytes")
    least, most = PAYLOADS_BYTES[0], PAYLOADS_BYTES[-1]
    if not {least, most} <= set(logs.columns) or (pairs := (logs[most] - logs[least]).dropna()).empty:
        raise NotMeasured(f"no pair of valid cells that differ only in the payload, {least} and {most} bytes")
    return geometric_mean(pairs, "pairs of cells")


def _by_size(cells: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Say which cells have larger, and which smaller payloads."""
    is_large = cells.payload_bytes >= LARGE_PAYLOAD_BYTES
    return is_large, ~is_large


def peak_of_small_payloads(evidence: Evidence) -> Measurement:
    cells = with_trick(evidence, 3)
    large, small = (cells[side] for side in _by_size(cells))
    if small.empty or large.empty:
        raise NotMeasured("there are no valid cells of both smaller and larger payloads with 3 initiators")
    (first, _), (second, _) = fastest(evidence, small), fastest(evidence, large)
    return _quotient(
        first, second, f"peak of smaller payloads {_rate(first)} messages/s, of larger ones {_rate(second)}; "
    )


def plateau(evidence: Evidence) -> Measurement:
    cells = with_trick(evidence, 3)
    onsets = _onsets(cells[_by_size(cells)[0]])
    return place(onsets, f"the threads {_LEVELS_OFF}, median of the lines")


def plateau_before_small(evidence: Evidence) -> Measurement:
    cells = with_trick(evidence, 3)
    large, small = (_onsets(cells[side]) for side in _by_size(cells))
    both = pd.DataFrame({"large": large, "small": small}).dropna()
    if both.empty:
        raise NotMeasured("no block has lines of both smaller and larger payloads")
    words = f"the threads {_LEVELS_OFF}: {both.small.mean():.0f} of smaller payloads, {both.large.mean():.0f} of larger"
    return place(both.small / both.large, words)


_LEVELS_OFF = f"from which on a line stays above {100 * PLATEAU:.0f} % of its highest rate"


def _onsets(cells: pd.DataFrame) -> pd.Series:
    """Return by block the threads in all from which on a line is level, the median of its lines."""
    stated = PLATEAU_OF_LARGE_PAYLOADS.value
    onsets = pd.DataFrame(
        [
            (block, _onset(line))
            for (block, *_), line in cells[cells.processed_per_s > 0].groupby(
                ["block", "server_version", "payload_bytes"]
            )
            if line.total_threads.min() < stated < line.total_threads.max() and (line.total_threads == stated).any()
        ],
        columns=["block", "threads"],
    )
    if onsets.empty:
        raise NotMeasured(f"no line of these payloads has valid cells below, at and above {stated:.0f} threads")
    medians: pd.Series = onsets.groupby("block").threads.median()
    return medians


def _onset(line: pd.DataFrame) -> int:
    """Return the threads in all from which on a line is level; one that falls is so at its last point only."""
    threads = line.total_threads
    is_below = line.processed_per_s < PLATEAU * line.processed_per_s.max()
    level = threads[threads > threads[is_below].max()] if is_below.any() else threads
    return int(level.min() if len(level) else threads.max())


def versions_alike(evidence: Evidence) -> Measurement:
    logs = logs_of(evidence.cells, [*PAIR, "server_version"]).unstack("server_version")
    older, newer = PAPER_VERSIONS
    if not {older, newer} <= set(logs.columns):
        raise NotMeasured(f"the result set has no valid cells of both {older} and {newer}")
    ratios = (logs[newer] - logs[older]).dropna()
    if ratios.empty:
        raise NotMeasured(f"no cell is valid with both {older} and {newer}")
    typical = 100 * math.expm1(float(ratios.abs().median()))
    return geometric_mean(
        ratios, "pairs of cells", f"{newer} over {older}, half of the pairs within {typical:.0f} % of each other; "
    )


def logs_of(cells: pd.DataFrame, member: list[str]) -> pd.Series:
    """Return the logarithms of rates above zero, by member and block."""
    busy = cells[cells.processed_per_s > 0]
    return np.log(busy.set_index([*member, "block"]).processed_per_s)


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
    "plateau_before_small_payloads": plateau_before_small,
    "versions_alike": versions_alike,
}
