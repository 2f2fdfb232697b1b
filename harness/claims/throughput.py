"""Claims on messages per second: figures 2 to 4, payloads, versions, the complete matrix."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from harness.claims.judgement import (
    Measurement,
    NotMeasured,
    Spread,
    Tables,
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
POINT = ["threads", "payload_bytes"]
PAIR = ["initiators", "threads", "dialog_ratio", "payload_bytes"]


def matrix_complete(tables: Tables) -> Measurement:
    by_version = tables.cells.groupby("server_version").cell_id.nunique()
    return Measurement(int(by_version.min()), f"completed cells per version, the fewest of {len(by_version)} versions")


def peak(tables: Tables, initiators: int) -> Measurement:
    best = fastest(tables, with_trick(tables.cells, initiators))
    return Measurement(best.value, f"the highest sustained rate: {best.basis}", best.spread)


def with_trick(cells: pd.DataFrame, initiators: int) -> pd.DataFrame:
    """Choose the cells of figures 2 to 4: so many initiators, every 150th dialog, up to loads that can have a peak."""
    chosen = cells[(cells.initiators == initiators) & (cells.dialog_ratio == TRICK_DIALOG_RATIO)]
    if chosen.empty or chosen.threads.max() < THREADS_OF_A_PEAK:
        raise NotMeasured(
            f"no completed cell with {counted(initiators)}, every {TRICK_DIALOG_RATIO}th dialog and "
            f"{THREADS_OF_A_PEAK} or more threads per initiator"
        )
    return chosen


def counted(initiators: int) -> str:
    return "1 initiator" if initiators == 1 else f"{initiators} initiators"


def fastest(tables: Tables, cells: pd.DataFrame) -> Measurement:
    """Find the point with the highest mean over versions whose targets all kept up and processed something."""
    points = cells.groupby(POINT, as_index=False).agg(
        rate=("processed_per_s", "mean"), low=("processed_per_s", "min"), kept_up=("target_kept_up", "all")
    )
    sustained = points[points.kept_up & (points.low > 0)]
    if sustained.empty:
        raise NotMeasured(f"the target kept up in none of {len(points)} points: there is no sustained rate")
    best = sustained.loc[sustained.rate.idxmax()]
    versions = cells[(cells[POINT] == best[POINT].astype(int)).all(axis=1)]
    spread = spread_of(versions.processed_per_s, "versions") or _over_seconds(tables.seconds, versions.iloc[0])
    where = f"{best.threads:.0f} threads per initiator, {best.payload_bytes:,.0f} bytes"
    return Measurement(float(best.rate), where, spread)


def _over_seconds(seconds: pd.DataFrame, cell: pd.Series) -> Spread | None:
    """Return the spread of the whole seconds of a cell's measured window."""
    inside = seconds[
        (seconds.cell_id == cell.cell_id)
        & (seconds.second >= math.ceil(cell.settle_s))
        & (seconds.second + 1 <= math.floor(cell.settle_s + cell.measured_s))
    ]
    return spread_of(inside.processed, "seconds")


def growth(tables: Tables, few: int, many: int) -> Measurement:
    """Divide the peak with many initiators by the peak with few."""
    less, more = (fastest(tables, with_trick(tables.cells, initiators)) for initiators in (few, many))
    return Measurement(
        more.value / less.value,
        f"{more.value:,.0f} messages/s with {counted(many)}, {less.value:,.0f} with {few}",
        spread_of_quotient(more.spread, less.spread),
    )


def threads_raise(tables: Tables) -> Measurement:
    lines = _sustained(with_trick(tables.cells, 1)).set_index(["server_version", "payload_bytes", "threads"])
    rates = lines.processed_per_s.unstack("threads")
    most = max(rates.columns, default=0)
    if most < THREADS_OF_A_PEAK or 1 not in rates.columns or (pairs := (rates[most] / rates[1]).dropna()).empty:
        raise NotMeasured(f"no pair of sustained cells with 1 thread and {THREADS_OF_A_PEAK} or more")
    return mean_of_quotients(pairs, f"{most} threads over 1, geometric mean of {len(pairs)} pairs of cells")


def payload_matters(tables: Tables) -> Measurement:
    axes = ["server_version", "initiators", "threads", "dialog_ratio"]
    rates = _sustained(tables.cells).set_index([*axes, "payload_bytes"]).processed_per_s.unstack("payload_bytes")
    least, most = PAYLOADS_BYTES[0], PAYLOADS_BYTES[-1]
    if not {least, most} <= set(rates.columns) or (pairs := (rates[most] / rates[least]).dropna()).empty:
        raise NotMeasured(f"no pair of sustained cells that differ only in the payload, {least} and {most} bytes")
    return mean_of_quotients(pairs, f"geometric mean of {len(pairs)} pairs of cells")


def peak_of_small_payloads(tables: Tables) -> Measurement:
    cells = with_trick(tables.cells, 3)
    small, large = cells[cells.payload_bytes < LARGE_PAYLOAD_BYTES], cells[cells.payload_bytes >= LARGE_PAYLOAD_BYTES]
    if small.empty or large.empty:
        raise NotMeasured("there are no completed cells of both smaller and larger payloads with 3 initiators")
    first, second = fastest(tables, small), fastest(tables, large)
    return Measurement(
        first.value / second.value,
        f"peak of smaller payloads {first.value:,.0f} messages/s, of larger ones {second.value:,.0f}",
        spread_of_quotient(first.spread, second.spread),
    )


def plateau(tables: Tables) -> Measurement:
    """Measure the fewest threads that reach nine tenths of their line's highest rate; the median of the lines."""
    cells = _sustained(with_trick(tables.cells, 3))
    lines = cells[cells.payload_bytes >= LARGE_PAYLOAD_BYTES].groupby(["server_version", "payload_bytes"])
    stated = PLATEAU_OF_LARGE_PAYLOADS.value
    onsets = [
        int(line.total_threads[line.processed_per_s >= PLATEAU * line.processed_per_s.max()].min())
        for _, line in lines
        if line.total_threads.min() < stated < line.total_threads.max() and (line.total_threads == stated).any()
    ]
    if not onsets:
        raise NotMeasured(f"no line of a larger payload has sustained cells below, at and above {stated:.0f} threads")
    return Measurement(
        float(np.median(onsets)),
        f"the threads that reach {100 * PLATEAU:.0f} % of a line's highest rate, median of {len(onsets)} lines",
        spread_of(np.array(onsets), "lines"),
    )


def versions_alike(tables: Tables) -> Measurement:
    rates = _sustained(tables.cells).set_index([*PAIR, "server_version"]).processed_per_s.unstack("server_version")
    older, newer = PAPER_VERSIONS
    if not {older, newer} <= set(rates.columns):
        raise NotMeasured(f"the result set has no sustained cells of both {older} and {newer}")
    ratios = (rates[newer] / rates[older]).dropna()
    if ratios.empty:
        raise NotMeasured(f"no cell was sustained by both {older} and {newer}")
    typical = math.exp(float(np.median(np.abs(np.log(ratios))))) - 1
    return mean_of_quotients(
        ratios,
        f"{newer} over {older}, geometric mean of {len(ratios)} pairs of sustained cells, half of which differ by no "
        f"more than {100 * typical:.0f} %",
    )


def _sustained(cells: pd.DataFrame) -> pd.DataFrame:
    return cells[cells.target_kept_up & (cells.processed_per_s > 0)]


MEASURES: Mapping[str, Callable[[Tables], Measurement]] = {
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
