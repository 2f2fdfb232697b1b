"""The records that a cell has per message: Spark's tasks read each of them once, and keep of a cell what tables need.

They are nearly all records of a run, and the tables need a few hundred numbers of each cell. numpy adds them up file by
file, without the shuffles and second readings of a query that groups and ranks them.
"""

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

from harness.definitions.measures import COLUMNS_READ, NS_PER_S, QUANTILES, Columns, Measures, moments
from harness.files.records import ResultsError
from harness.reductions.bins import bin_of, phases
from harness.reductions.cells import ATTEMPT, ATTEMPT_KEY

ROWS_PER_BATCH = 1024 * 1024
TASKS_PER_PROCESSOR = 4  # cells differ in size
COUNTS = ("sent", "processed")
PLACE = ("second", "bin")
MEASURES = {
    **dict.fromkeys(("measured_s", "sent_per_s", "processed_per_s"), pa.float64()),
    **dict.fromkeys(("calls_in_window", "receives_in_window", "end_to_end_negative"), pa.int64()),
    **{f"latency_us_{name}": pa.float64() for name in (*QUANTILES, "max")},
    **{f"end_to_end_us_{name}": pa.float64() for name in QUANTILES},
}
_COURSE = {**dict.fromkeys(PLACE, pa.int32()), **dict.fromkeys(COUNTS, pa.int64())}
_SUMMARY = pa.schema(
    {
        **{"cell_id": pa.string(), "block": pa.int32(), "attempt": pa.int32()},
        **MEASURES,
        "course": pa.list_(pa.struct(_COURSE)),
    }
)

Records = Iterable[Columns]  # batch by batch


def summaries(attempts: DataFrame, files: Mapping[str, Mapping[int, Sequence[Path]]]) -> DataFrame:
    """Return one row per attempt: its measures, and its course as an array.

    `files` has the files of each kind by the number of their attempt.
    """
    tasks = TASKS_PER_PROCESSOR * attempts.sparkSession.sparkContext.defaultParallelism

    def summarize(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for attempt in batch.to_pylist():
                records = {kind: read(kind, files[kind].get(attempt[ATTEMPT_KEY], ())) for kind in COLUMNS_READ}
                yield pa.RecordBatch.from_pylist([summary(attempt, records)], _SUMMARY)

    return phases(attempts).repartition(tasks).mapInArrow(summarize, from_arrow_schema(_SUMMARY))


def course(summaries: DataFrame) -> DataFrame:
    """Return messages sent and processed by second and by bin: tables of the course add these few rows up."""
    return summaries.select(*ATTEMPT, F.inline("course"))


def measures(summaries: DataFrame) -> DataFrame:
    """Return one row per attempt: its measures, as `harness.definitions.measures` defines them."""
    return summaries.select(*ATTEMPT, *MEASURES)


def summary(attempt: Mapping[str, Any], records: Mapping[str, Records]) -> dict[str, Any]:
    """Return what tables need of the records of an attempt, by kind; the attempt is a row of `bins.phases`."""
    measures, course = Measures(attempt), Course(attempt)
    for kind, batches in records.items():
        for columns in batches:
            measures.add(kind, columns)
            if kind == "calls":
                course.add(moments(kind, columns), sent=1)
            elif kind != "receives":
                course.add(moments(kind, columns), processed=columns.get("messages", 1))
    return {
        **{name: attempt[name] for name in ATTEMPT},
        **measures.columns(),
        "calls_in_window": measures.calls,
        "receives_in_window": measures.receives,
        "latency_us_max": measures.latencies.longest_us,
        "end_to_end_negative": measures.end_to_end.negative,
        "course": course.rows(),
    }


class Course:
    """Messages sent and processed by second and by bin."""

    def __init__(self, attempt: Mapping[str, Any]) -> None:
        self._attempt = attempt
        self._parts: list[pa.Table] = []

    def add(self, at_ns: NDArray[np.int64], **counts: Any) -> None:
        """Add what happened at each moment; a count is a number for each, or one for all."""
        place = {"second": (at_ns - self._attempt["started_at_ns"]) // NS_PER_S, "bin": bin_of(at_ns, self._attempt)}
        columns = {name: np.broadcast_to(counts.get(name, 0), len(at_ns)).astype(np.int64) for name in COUNTS}
        self._parts.append(_added_up(pa.table(place | columns)))

    def rows(self) -> list[dict[str, Any]]:
        return _added_up(pa.concat_tables(self._parts)).to_pylist() if self._parts else []


def _added_up(rows: pa.Table) -> pa.Table:
    sums = rows.group_by(list(PLACE), use_threads=False).aggregate([(name, "sum") for name in COUNTS])
    return sums.rename_columns([*PLACE, *COUNTS])


def read(kind: str, paths: Sequence[Path]) -> Iterator[Columns]:
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
