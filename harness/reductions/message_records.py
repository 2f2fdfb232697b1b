"""The records that a cell has per message: Spark's tasks read each of them once, and keep of a cell what tables need.

They are nearly all records of a run, and the tables need a few hundred numbers of each cell. numpy adds them up file by
file, without the shuffles and second readings of a query that groups and ranks them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from harness.records import ResultsError
from harness.reductions.bins import bin_of, phases
from harness.reductions.cells import ATTEMPT, ATTEMPT_KEY, NS_PER_S
from harness.reductions.latencies import QUANTILES, Latencies

# The columns that are read, by kind.
COLUMNS_READ: Mapping[str, tuple[str, ...]] = {
    "calls": ("intended_at_ns", "latency_ns", "succeeded"),
    "deliveries": ("sent_at_ns", "processed_at_ns"),
    "receives": ("received_at_ns", "messages"),
    "processed": ("processed_at_ns", "messages"),
}
ROWS_PER_BATCH = 1024 * 1024
TASKS_PER_PROCESSOR = 4  # cells differ in size
COUNTS = ("sent", "processed", "receives")
PLACE = ("second", "bin", "in_window")
_PERCENTILES = [f"p{round(quantile * 100)}" for quantile in QUANTILES]
_LATENCIES = (
    *(f"latency_us_{name}" for name in (*_PERCENTILES, "max")),
    *(f"end_to_end_us_{name}" for name in _PERCENTILES),
)
_COURSE = {"second": pa.int32(), "bin": pa.int32(), "in_window": pa.bool_(), **dict.fromkeys(COUNTS, pa.int64())}
_SUMMARY = pa.schema(
    {
        **{"cell_id": pa.string(), "block": pa.int32(), "attempt": pa.int32()},
        **dict.fromkeys(_LATENCIES, pa.float64()),
        **{"end_to_end_negative": pa.int64(), "course": pa.list_(pa.struct(_COURSE))},
    }
)

Records = Iterable[Mapping[str, NDArray[Any]]]  # columns by name, batch by batch


def summaries(attempts: DataFrame, files: Mapping[str, Mapping[int, Sequence[Path]]]) -> DataFrame:
    """Return one row per attempt: latencies of its window in microseconds, and its course as an array.

    `files` has the files of each kind by the number of their attempt; latencies are not rounded.
    """
    tasks = TASKS_PER_PROCESSOR * attempts.sparkSession.sparkContext.defaultParallelism

    def summarize(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for attempt in batch.to_pylist():
                records = {kind: read(kind, files[kind].get(attempt[ATTEMPT_KEY], ())) for kind in COLUMNS_READ}
                yield pa.RecordBatch.from_pylist([summary(attempt, records)], _SUMMARY)

    return phases(attempts).repartition(tasks).mapInArrow(summarize, from_arrow_schema(_SUMMARY))


def course(summaries: DataFrame) -> DataFrame:
    """Return messages sent and processed, and the number of RECEIVEs, by second, by bin, and in the window or not.

    All that tables say of the course of a cell is added up of these few rows.
    """
    return summaries.select(*ATTEMPT, F.inline("course"))


def latencies(summaries: DataFrame) -> DataFrame:
    """Return one row per attempt: percentiles, the longest call, and how many messages have a latency below zero."""
    return summaries.select(*ATTEMPT, *(F.round(name, 3).alias(name) for name in _LATENCIES), "end_to_end_negative")


def summary(attempt: Mapping[str, Any], records: Mapping[str, Records]) -> dict[str, Any]:
    """Return what tables need of the records of an attempt, by kind; the attempt is a row of `bins.phases`.

    A message is sent when its call returns, and processed when the target counts its RECEIVE, by the target's clock.
    Where messages are counted they are in `processed`, and there are no RECEIVEs.

    The latency of an open loop is that of the calls intended to start in the window, whenever they returned. Otherwise
    a stall at its end would leave out the calls that waited longest. End to end it is that of messages sent in the
    window, whenever they were processed, from the send by the client's clock to the insert by the target's.
    """
    of_calls, end_to_end, course = Latencies(), Latencies(), Course(attempt)
    for calls in records["calls"]:
        intended_at_ns, latency_ns = (calls[name][calls["succeeded"]] for name in ("intended_at_ns", "latency_ns"))
        returned_at_ns = intended_at_ns + latency_ns
        course.add(returned_at_ns, sent=1)
        decides_ns = intended_at_ns if attempt["rate_per_s"] > 0 else returned_at_ns
        of_calls.add(latency_ns[_in_window(decides_ns, attempt)])
    for receives in records["receives"]:
        course.add(receives["received_at_ns"], processed=receives["messages"], receives=1)
    for processed in records["processed"]:
        course.add(processed["processed_at_ns"], processed=processed["messages"])
    for deliveries in records["deliveries"]:
        is_of_window = _in_window(deliveries["sent_at_ns"], attempt)
        end_to_end.add((deliveries["processed_at_ns"] - deliveries["sent_at_ns"])[is_of_window])
    latencies = [
        *(of_calls.quantile_us(quantile) for quantile in QUANTILES),
        of_calls.longest_us,
        *(end_to_end.quantile_us(quantile) for quantile in QUANTILES),
    ]
    return {
        **{name: attempt[name] for name in ATTEMPT},
        **dict(zip(_LATENCIES, latencies, strict=True)),
        "end_to_end_negative": end_to_end.negative,
        "course": course.rows(),
    }


class Course:
    """Messages sent and processed and the number of RECEIVEs, by second, by bin, and in the window or not."""

    def __init__(self, attempt: Mapping[str, Any]) -> None:
        self._attempt = attempt
        self._parts: list[pa.Table] = []

    def add(self, at_ns: NDArray[np.int64], **counts: Any) -> None:
        """Add what happened at each moment; a count is a number for each, or one for all."""
        place = {
            "second": (at_ns - self._attempt["started_at_ns"]) // NS_PER_S,
            "bin": bin_of(at_ns, self._attempt),
            "in_window": _in_window(at_ns, self._attempt),
        }
        each = {name: np.broadcast_to(counts.get(name, 0), len(at_ns)).astype(np.int64) for name in COUNTS}
        self._parts.append(_added_up(pa.table(place | each)))

    def rows(self) -> list[dict[str, Any]]:
        return _added_up(pa.concat_tables(self._parts)).to_pylist() if self._parts else []


def _added_up(rows: pa.Table) -> pa.Table:
    sums = rows.group_by(list(PLACE), use_threads=False).aggregate([(name, "sum") for name in COUNTS])
    return sums.rename_columns([*PLACE, *COUNTS])


def _in_window(at_ns: NDArray[np.int64], attempt: Mapping[str, Any]) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = (at_ns >= attempt["measured_from_ns"]) & (at_ns < attempt["measured_to_ns"])
    return inside


def read(kind: str, paths: Sequence[Path]) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Yield the columns of files of a kind, batch by batch; raises ResultsError for a damaged file."""
    for path in paths:
        try:
            with pq.ParquetFile(path, memory_map=True) as file:
                for batch in file.iter_batches(ROWS_PER_BATCH, columns=list(COLUMNS_READ[kind]), use_threads=False):
                    yield {
                        name: column.to_numpy(zero_copy_only=False)
                        for name, column in zip(batch.schema.names, batch.columns, strict=True)
                    }
        except (OSError, pa.ArrowException) as error:
            first_line = str(error).partition("\n")[0]
            raise ResultsError(f"raw/{kind}/{path.name} cannot be read: {first_line}") from error
