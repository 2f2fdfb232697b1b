"""Reduce raw records to the tables that figures, claims and comparisons read.

    raw/*.parquet + manifest.json + journal.jsonl  ->  reduced/{cells,seconds,gain,waits,...}.{parquet,csv}

Every table is a function `DataFrame -> DataFrame`. It begins with a `select` of the columns that it needs and ends
with a `select` or `agg` of the columns that it promises. `raw_files` decides which files count, `spark_session` starts
and stops Spark, `reduce` runs everything and writes the tables. `message_records` reads what a cell has per message, in
Spark's tasks. Of the other kinds Arrow first copies the records that count into a few large files.

Every table has its rows for each cell and block. The latest attempt of a cell in a block counts that both the journal
and the cell's own record call completed, if all its files can be read. Everything else is left out and named through
`progress`.

How numbers are computed:

* Rates and percentiles are those of `harness.definitions.measures`, which says what is counted. `calls_in_window` is
  the number of values of the percentiles of calls.
* Where a workload's messages are counted, the number of RECEIVEs and end-to-end latency are null.
* The clocks of two machines may differ: negative end-to-end latencies are kept and counted.
* In the closed loop each thread waits for its call, so latencies do not show how long calls of an open arrival stream
  would have waited. In an open loop latencies, end to end too, count from the intended start of a call and are those of
  the sends that were intended to start in the window; `late_calls` and `missed_calls` of them started late or never.
* The `state` of a cell says what it counts for; `harness.run.validity` decided it when the cell ended. Of every
  completed cell `until_drained_per_s` is known: all messages divided by the time from the first call until the last
  message was processed, which is less than what the target sustains.
* Page latch waits are counted in samples of the waiting tasks, not summed as times. A wait shorter than the pause
  between two samples is mostly missed, for all objects alike. `index_waits` has the instances' own totals beside them.
* `events` counts what the instances' sessions kept of three seconds after the window, beside `events_seen`, so its
  counts and sums are no totals of a cell.
* A missing number, such as the processor time of an instance that does not provide it, is null, never zero.
"""

import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyarrow import dataset
from pyarrow.fs import LocalFileSystem
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from harness.definitions.measures import COLUMNS_READ
from harness.definitions.units import counted
from harness.files.records import KEY, SCHEMAS, NotWritable, ResultsError, write_table
from harness.output.reporting import Reporter, TimeLeftByWork
from harness.reductions import bins, cells, circumstances, instance_activity, message_records, messages, raw_files
from harness.reductions.raw_files import SparkUnavailable
from harness.reductions.spark_failures import remedy, why_broken
from harness.reductions.spark_session import LOCAL, is_local, reach, session

__all__ = ["SparkUnavailable", "reduce"]

# Not every instance provides the records of these tables, or has any.
MAY_BE_EMPTY = ("page_spread", "latch_share", "index_waits", "latches", "spinlocks", "file_io", "counters", "events")
_CELLS_IN_ORDER = ("server_version", "initiators", "dialog_ratio", "threads", "payload_bytes", "block")
ORDER = {
    "cells": _CELLS_IN_ORDER,
    "seconds": (*_CELLS_IN_ORDER, "second"),
    "bins": (*_CELLS_IN_ORDER, "bin"),
    "gain": ("server_version", "initiators", "threads", "payload_bytes", "dialog_ratio", "block"),
    "waits": (*_CELLS_IN_ORDER, "role", "place"),
    "page_spread": (*_CELLS_IN_ORDER, "instance"),
    "latch_share": (*_CELLS_IN_ORDER, "instance", "object_name", "wait_type"),
    "index_waits": (*_CELLS_IN_ORDER, "instance", "object_name", "index_id"),
    "latches": (*_CELLS_IN_ORDER, "instance", "latch_class"),
    "spinlocks": (*_CELLS_IN_ORDER, "instance", "place"),
    "file_io": (*_CELLS_IN_ORDER, "instance", "database_name", "file_type", "file_name"),
    "counters": (*_CELLS_IN_ORDER, "instance", "counter"),
    "events": (*_CELLS_IN_ORDER, "instance", "event", "latch_class"),
    "leaks": (*_CELLS_IN_ORDER, "instance"),
}
# Of runs that have their records: runs with --events, and those whose cells leave conversations behind.
OPTIONAL = {"events": instance_activity.events, "leaks": instance_activity.leaks}
TABLES = tuple(name for name in ORDER if name not in OPTIONAL)  # of every run
NOTES_SHOWN = 10
SMALL_BYTES = 1024 * 1024  # of gathered records of a kind: reading more pays for compiling the query that begins there
BESIDE = 2  # threads that gather while the JVM starts, and then see to tables for which Spark has processors left
ROWS_PER_GROUP_MIN, ROWS_PER_GROUP_MAX = 128 * 1024, 1024 * 1024  # of gathered records
_PATTERN, _ESCAPED = re.compile(r"([\\*?\[\]{}])"), r"\\\1"

_SPARK_TYPES = {
    pa.string(): T.StringType(),
    pa.int32(): T.IntegerType(),
    pa.int64(): T.LongType(),
    pa.float64(): T.DoubleType(),
    pa.bool_(): T.BooleanType(),
}


def reduce(results: Path, *, master: str = LOCAL, progress: Reporter | None = None) -> list[Path]:
    """Write `reduced/` of a run from its raw records and return the files.

    The executors of `master` read and write in the folder, unless they are on this machine: their folder for what is
    computed is in `reduced/`, else in the system's temporary folder. `progress` counts the tables and notes everything
    that is left out. Raises ResultsError, or SparkUnavailable.
    """
    progress = progress or Reporter()
    results = Path(results).resolve()
    raw = raw_files.read(results)
    reach(master)
    for note in raw.notes[:NOTES_SHOWN]:
        progress.note(note)
    if len(raw.notes) > NOTES_SHOWN:
        progress.note(f"... and {len(raw.notes) - NOTES_SHOWN} more left out")
    target = results / "reduced"
    try:
        target.mkdir(exist_ok=True)
    except OSError as error:
        raise NotWritable(f"{target} cannot be written: {error.strerror}") from None
    recorded = [name for name in OPTIONAL if raw.files[name]]
    # Spark's start is no measure of what is left.
    left = TimeLeftByWork(dict.fromkeys([*TABLES, *recorded], 1.0))
    progress.begin(len(TABLES) + len(recorded), 0, left, unit="table")
    progress.phase(f"starting Spark for {counted(len(raw.files['cells']), 'cell')}")
    try:
        with _scratch(None if is_local(master) else target) as scratch, _threads() as threads:
            gathered = [kind for kind in raw.files if kind not in COLUMNS_READ]
            folders = {kind: threads.submit(gather, kind, raw.files, scratch) for kind in gathered}
            with session(master) as spark:
                tables = Tables(spark, raw.manifest, target, scratch, progress)
                compiling = spark.newSession()

                def rows(kind: str) -> DataFrame:
                    folder = folders[kind].result()
                    is_small = sum(path.stat().st_size for path in folder.iterdir()) <= SMALL_BYTES
                    return read_raw(spark if is_small else compiling, kind, folder)

                _reduce(rows, _by_attempt(raw.files), tables, threads, recorded)
    except (PySparkException, Py4JError) as error:
        reason = why_broken(error)
        _, is_of_a_file, text = reason.partition("harness.files.records.ResultsError: ")  # of a task
        raise ResultsError(text if is_of_a_file else f"Spark failed on {results}: {reason}{remedy(reason)}") from error
    if empty := [name for name in MAY_BE_EMPTY if tables.rows.get(name) == 0]:
        progress.note(f"empty tables, for which the instances recorded nothing: {', '.join(empty)}")
    return [target / f"{name}.{ending}" for name in ORDER if name in tables.rows for ending in ("parquet", "csv")]


@contextmanager
def _scratch(shared: Path | None) -> Iterator[Path]:
    """Yield a folder that is removed afterwards; in `shared` executors may write where they may write in that."""
    with tempfile.TemporaryDirectory(prefix="harness-reduction-", dir=shared) as scratch:
        if shared:
            Path(scratch).chmod(shared.stat().st_mode)
        yield Path(scratch)


@contextmanager
def _threads() -> Iterator[ThreadPoolExecutor]:
    """Yield threads for what can be done beside the rest; what has not begun when the block is left never does."""
    threads = ThreadPoolExecutor(BESIDE, "reduction")
    try:
        yield threads
    finally:
        threads.shutdown(cancel_futures=True)


def gather(kind: str, files: Mapping[str, Sequence[Path]], scratch: Path) -> Path:
    """Make a folder with the columns that tables read of all files of a kind that count, in a few large files.

    To open a file costs Spark 4 ms of a processor, as much as 10,000 rows, and a sweep has thousands of files. A row
    has the number of its attempt, and only that of a cell has id and axes.
    """
    keys = _keys(files)
    folder = scratch / "raw" / kind
    folder.mkdir(parents=True)
    schema = gathered_schema(kind)
    strings = [field.name for field in schema if field.type == pa.string()]
    options = dataset.ParquetFileFormat().make_write_options(use_dictionary=strings, compression="lz4")
    try:
        if files[kind]:
            dataset.write_dataset(
                dataset.FileSystemDataset.from_paths(
                    [str(path) for path in files[kind]],
                    schema,
                    dataset.ParquetFileFormat(),
                    LocalFileSystem(),
                    [dataset.field(cells.ATTEMPT_KEY) == keys[raw_files.attempt_of(path)] for path in files[kind]],
                ),
                folder,
                format="parquet",
                file_options=options,
                min_rows_per_group=ROWS_PER_GROUP_MIN,
                max_rows_per_group=ROWS_PER_GROUP_MAX,
                preserve_order=True,
            )
    except (OSError, pa.ArrowException) as error:
        first_line = str(error).partition("\n")[0]
        raise ResultsError(f"the raw records '{kind}' cannot be gathered: {first_line}") from error
    return folder


def gathered_schema(kind: str) -> pa.Schema:
    """Return the columns of gathered records: the number of the attempt, and all but those of `KEY`."""
    own_fields = (field for field in SCHEMAS[kind] if field not in KEY or kind == "cells")
    return pa.schema([pa.field(cells.ATTEMPT_KEY, pa.int32()), *own_fields])


def _keys(files: Mapping[str, Sequence[Path]]) -> dict[raw_files.Attempt | None, int]:
    """Return the number of each attempt, that of its cell's file."""
    return {raw_files.attempt_of(path): key for key, path in enumerate(files["cells"])}


def _by_attempt(files: Mapping[str, Sequence[Path]]) -> dict[str, dict[int, list[Path]]]:
    """Return the files of the kinds with a record per message, by kind and number of the attempt."""
    keys = _keys(files)
    files_of: dict[str, dict[int, list[Path]]] = {kind: {} for kind in COLUMNS_READ}
    for kind, of_kind in files_of.items():
        for path in files[kind]:
            of_kind.setdefault(keys[raw_files.attempt_of(path)], []).append(path)
    return files_of


class Tables:
    """Tables as they are computed. What is made of one reads its rows: Spark neither plans nor computes it again."""

    def __init__(
        self, spark: SparkSession, manifest: Mapping[str, Any], target: Path, scratch: Path, progress: Reporter
    ) -> None:
        # A table that is copied elsewhere still names its run, lab and load model.
        self._origin = {name: str(manifest.get(name, "unknown")) for name in ("run_id", "lab", "load_model")}
        self._spark = spark
        self._target = target
        self._scratch = scratch
        self._progress = progress
        self._one_counts = threading.Lock()
        self.rows: dict[str, int] = {}

    def compute(self, table: DataFrame, name: str) -> DataFrame:
        parts = self._scratch / name
        table.write.parquet(f"file://{parts}")
        return self._spark.read.schema(table.schema).parquet(readable(parts))

    def write(self, name: str, table: DataFrame) -> DataFrame:
        """Write `<name>.parquet` and `<name>.csv`: one ordered file each, whole or absent."""
        computed = self.compute(table.coalesce(1).sortWithinPartitions(*ORDER[name]), name)
        whole = pq.read_table(next((self._scratch / name).glob("part-*.parquet"))).replace_schema_metadata()
        for place, (column, value) in enumerate(self._origin.items()):
            whole = whole.add_column(place, pa.field(column, pa.string(), nullable=False), pa.repeat(value, len(whole)))
        try:
            write_table(whole, self._target, name)
        except OSError as error:
            raise NotWritable(f"{self._target} cannot be written: {error.strerror or error}") from None
        with self._one_counts:
            self.rows[name] = len(whole)
            self._progress.phase("")
            self._progress.cell_done(len(self.rows), name, "completed", counted(len(whole), "row"))
        return computed

    def plan_and_write(self, name: str, table: Callable[[], DataFrame]) -> None:
        self.write(name, table())


def _reduce(
    rows: Callable[[str], DataFrame],
    message_files: Mapping[str, Mapping[int, Sequence[Path]]],
    tables: Tables,
    threads: ThreadPoolExecutor,
    recorded: Sequence[str],
) -> None:
    """Write the tables. What needs no records of messages is made beside these, first what `cells` needs."""
    counting = tables.compute(cells.completed_attempts(rows("cells")), "attempts")
    if counting.isEmpty():
        raise ResultsError("no cell was completed: nothing to reduce")

    waits_made = threads.submit(lambda: tables.write("waits", instance_activity.waits(rows("waits"), counting)))
    other_tables: dict[str, Callable[[], DataFrame]] = {
        "page_spread": lambda: instance_activity.page_spread(rows("dialog_pages"), counting),
        "latch_share": lambda: instance_activity.latch_share(rows("latch_waits"), rows("samples"), counting),
        "index_waits": lambda: instance_activity.index_waits(rows("index_waits"), counting),
        "latches": lambda: instance_activity.latches(rows("latches"), counting),
        "spinlocks": lambda: instance_activity.spinlocks(rows("spinlocks"), counting),
        "file_io": lambda: instance_activity.file_io(rows("file_io"), counting),
        "counters": lambda: instance_activity.counters(rows("samples"), counting),
    }
    for name in recorded:
        other_tables[name] = partial(_optional, name, rows, counting)
    others_made = [threads.submit(tables.plan_and_write, name, table) for name, table in other_tables.items()]
    summaries = tables.compute(message_records.summaries(counting, message_files), "summaries")
    course = message_records.course(summaries)
    others_made.append(threads.submit(tables.plan_and_write, "bins", lambda: bins.bins(counting, course)))
    depths = messages.depth_by_second(rows("samples"), counting)
    seconds = tables.write("seconds", messages.seconds(counting, course, depths))
    by_cell = tables.write(
        "cells",
        cells.cells(
            counting,
            measures=message_records.measures(summaries),
            processors=instance_activity.processor_use(rows("processors"), counting),
            peaks=messages.peaks(seconds),
            top_waits=instance_activity.top_waits(waits_made.result()),
            health=circumstances.workers(rows("health"), counting),
            machine=circumstances.machine(rows("machine"), counting),
            growth=circumstances.growth(rows("file_io"), counting),
        ),
    )
    tables.write("gain", cells.gain(by_cell))
    for table_made in others_made:
        table_made.result()


def _optional(name: str, rows: Callable[[str], DataFrame], counting: DataFrame) -> DataFrame:
    return OPTIONAL[name](rows(name), counting)


def read_raw(spark: SparkSession, kind: str, folder: Path) -> DataFrame:
    """Read the gathered records of one kind in a folder, with the types of `harness.files.records`."""
    return spark.read.schema(spark_schema(gathered_schema(kind))).parquet(readable(folder))


def readable(path: Path) -> str:
    """The path as Spark reads it: no name is a pattern, and none lies in the file system of a cluster."""
    return f"file://{_PATTERN.sub(_ESCAPED, str(path))}"


def raw_schema(kind: str) -> T.StructType:
    return spark_schema(SCHEMAS[kind])


def spark_schema(schema: pa.Schema) -> T.StructType:
    return T.StructType([T.StructField(field.name, _SPARK_TYPES[field.type]) for field in schema])
