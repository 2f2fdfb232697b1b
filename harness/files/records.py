"""The rows of `results/<run>/raw/`: every field with its type, unit and meaning.

Each kind of record has one flat folder. Files are Parquet, named `<cell id>-b<block>-a<attempt>[-<writer>].parquet`,
written under a temporary name and renamed. Every row begins with the columns of `KEY`, so that a file describes itself.
A row counts only if `cells` has a row with the same cell, block and attempt and outcome `completed`.

All `..._at_ns` are nanoseconds since 1970-01-01 UTC; all `..._ns` durations in nanoseconds.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from pyarrow.lib import StringBuilder

from harness.definitions.matrix import Visit
from harness.failures import MachineFailure, UsageFailure
from harness.output.safe_text import visible

REPORT = "report.html"  # of a run that was drawn
KEY = [
    pa.field("cell_id", pa.string(), nullable=False),
    pa.field("block", pa.int32(), nullable=False),  # 1.. the pass over the selected cells
    pa.field("attempt", pa.int32(), nullable=False),  # 1; 2 or 3 after a failure, or where the cell is measured again
    pa.field("server_version", pa.string(), nullable=False),
    pa.field("initiators", pa.int32(), nullable=False),
    pa.field("threads", pa.int32(), nullable=False),  # per initiator
    pa.field("dialog_ratio", pa.int32(), nullable=False),
    pa.field("payload_bytes", pa.int32(), nullable=False),
]


def _kind(*fields: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([*KEY, *(pa.field(name, type_, nullable=False) for name, type_ in fields)])


SCHEMAS: Mapping[str, pa.Schema] = {
    # One row per cell, block and attempt: the protocol's moments and the accounting. 0: the moment was never reached.
    "cells": _kind(
        ("outcome", pa.string()),  # completed | failed
        ("reason", pa.string()),  # why it failed, one line; empty if completed
        ("state", pa.string()),  # of a completed cell: a value of State; else empty
        ("state_reason", pa.string()),  # why it is not valid, one clause; empty if it is
        ("started_at_ns", pa.int64()),  # client threads begin
        ("measured_from_ns", pa.int64()),  # settled: the measured window is [from, to)
        ("measured_to_ns", pa.int64()),
        ("stopped_at_ns", pa.int64()),  # last client thread has returned
        ("drained_at_ns", pa.int64()),  # transmission queues and target queue empty
        ("settled", pa.bool_()),  # all that `run.settling` judges was steady when the window began
        ("readers_at_begin", pa.int32()),  # queue readers of the target when the window began, and when it ended
        ("readers_at_end", pa.int32()),
        ("late_samples", pa.int32()),  # samples that an observer took half an interval late or more
        ("sent_messages", pa.int64()),  # committed by clients, from first to last call
        (
            "processed_messages",
            pa.int64(),
        ),  # rows of dbo.messageDrop; where messages are counted, sent and not left over
        ("lost_messages", pa.int64()),  # this and the next two are 0 where messages are counted: nobody knows
        ("duplicated_messages", pa.int64()),
        ("misordered_messages", pa.int64()),
        ("failed_calls", pa.int64()),
        # The open loop; all are 0 in the closed loop.
        ("rate_per_s", pa.float64()),  # asked, of each initiator
        ("due_calls", pa.int64()),  # intended to start in the window
        ("late_calls", pa.int64()),  # of these, started more than load_model.LATE_NS after that
        ("missed_calls", pa.int64()),  # of these, never started
    ),
    # One row per worker, which drives one initiator: whether it was the bottleneck, from the first call to the last.
    "health": _kind(
        ("initiator", pa.int32()),
        ("processor_percent", pa.float64()),  # of one processor, user and kernel
        ("run_delay_percent", pa.float64()),  # of its threads' time: ready to run, without a processor; null: unknown
        ("hub_lag_ms_max", pa.float64()),  # how late its event loop woke from a short sleep
        ("between_calls_percent", pa.float64()),  # of its client threads' time: outside a call
        ("round_trip_ms", pa.float64()),  # to its initiator and back, before the cell
    ),
    # One row for the target, and one per worker of another machine: its clock minus that of the harness's machine,
    # before the first call and after the drain. All times of a cell but those of events are moved by it.
    "clocks": _kind(
        ("clock", pa.string()),  # target, or host and process of a worker
        ("before_ns", pa.int64()),
        ("after_ns", pa.int64()),
        ("uncertainty_ns", pa.int64()),
    ),
    # One row: what else the machine of harness and clients did in the window. None in virtual time.
    "machine": _kind(
        ("load_average_1m", pa.float64()),  # at the end of the window
        ("steal_percent", pa.float64()),  # of all processors' time: what the hypervisor gave to other machines
        ("others_percent", pa.float64()),  # of all processors' time: processes that do not belong to the run
        ("processors", pa.int32()),
    ),
    # One row per call of the send procedure.
    "calls": _kind(
        ("initiator", pa.int32()),  # 1..initiators
        ("thread", pa.int32()),  # 1..threads
        ("sequence", pa.int64()),  # 0.. within the thread
        ("intended_at_ns", pa.int64()),  # in the closed loop the call's start
        ("started_at_ns", pa.int64()),
        ("latency_ns", pa.int64()),  # intended start to return: committed, unless calls share a transaction
        ("succeeded", pa.bool_()),
    ),
    # One row per message that the target stored, from the header in its payload.
    "deliveries": _kind(
        ("initiator", pa.int32()),
        ("thread", pa.int32()),
        ("sequence", pa.int64()),
        ("sent_at_ns", pa.int64()),  # the call's intended start
        ("processed_at_ns", pa.int64()),  # read from the target's clock
    ),
    # One row per RECEIVE that returned messages: the target's count table.
    "receives": _kind(
        ("received_at_ns", pa.int64()),  # read from the target's clock
        ("messages", pa.int64()),
        ("session_id", pa.int32()),  # the queue reader
    ),
    # Where messages are counted, instead of `deliveries` and `receives`: one row per slot of 10 ms in which messages
    # were processed, from the calls and the queues' depths (`run.counting`).
    "processed": _kind(
        ("processed_at_ns", pa.int64()),  # harness's clock: the slot begins
        ("messages", pa.int64()),
    ),
    # One row per number that an observer read, about once a second.
    "samples": _kind(
        ("instance", pa.string()),  # target | initiator-1 ...
        ("sampled_at_ns", pa.int64()),  # harness's clock
        ("metric", pa.string()),  # queue_depth, transmission_queue_depth, queue_monitor, activated_tasks, counter names
        ("label", pa.string()),  # queue, state or counter instance of the metric; may be empty
        ("value", pa.float64()),
    ),
    # One row per wait type: difference over the measured window.
    "waits": _kind(
        ("instance", pa.string()),
        ("wait_type", pa.string()),
        ("waiting_tasks", pa.int64()),
        ("wait_time_ms", pa.int64()),
        ("signal_wait_time_ms", pa.int64()),
    ),
    # One row per instance: processor time over the measured window.
    "processors": _kind(
        ("instance", pa.string()),
        ("window_ns", pa.int64()),
        ("processor_time_ms", pa.int64()),  # user and kernel
        ("processors", pa.int32()),
    ),
    # One row per instance in a container, if this machine's kernel shows its control group: over the measured window.
    "containers": _kind(
        ("instance", pa.string()),
        ("container_time_ms", pa.int64()),  # processor time of the container, as the kernel counts it
        ("processor_time_ms", pa.int64()),  # of the instance, as it says itself
    ),
    # One row per used dialog: the page of its row of sys.sysdesend. Only with a dedicated administrator connection.
    "dialog_pages": _kind(
        ("instance", pa.string()),
        ("dialog_id", pa.int32()),  # of dbo.dialogs, in the order in which the dialogs were begun
        ("file_id", pa.int32()),
        ("page_id", pa.int64()),
        ("slot", pa.int32()),
        ("handle_rank", pa.int64()),  # place of its handle among all rows of sys.sysdesend in key order, from 0
        ("handle", pa.string()),
    ),
    # One row per task that was seen waiting for a page latch; `samples` has the number of samples (latch_looks).
    "latch_waits": _kind(
        ("instance", pa.string()),
        ("sampled_at_ns", pa.int64()),  # harness's clock
        ("session_id", pa.int32()),
        ("wait_type", pa.string()),
        ("wait_duration_ms", pa.int64()),
        ("database_id", pa.int32()),
        ("file_id", pa.int32()),
        ("page_id", pa.int64()),
        ("object_name", pa.string()),  # sys.sysdesend, dbo.messageDrop, ...; empty where the page could not be resolved
        ("index_id", pa.int32()),
    ),
    # One row per index of the lab's database: difference over the measured window.
    "index_waits": _kind(
        ("instance", pa.string()),
        ("object_name", pa.string()),  # as in `latch_waits`; `object 123` where it has no name
        ("index_id", pa.int32()),
        ("page_latch_waits", pa.int64()),
        ("page_latch_wait_ms", pa.int64()),
        ("page_io_latch_waits", pa.int64()),  # for pages that are read from disk
        ("page_io_latch_wait_ms", pa.int64()),
        ("row_locks", pa.int64()),  # requested
        ("row_lock_waits", pa.int64()),
        ("row_lock_wait_ms", pa.int64()),
    ),
    # One row per event that an instance's session kept after the measured window. Only with --events.
    "events": _kind(
        ("instance", pa.string()),
        ("occurred_at_ns", pa.int64()),  # instance's clock
        ("event", pa.string()),  # latch_suspend_end, broker_activation_task_started ...
        ("fields", pa.string()),  # JSON: the event's own, by the names and in the units of sys.dm_xe_object_columns
        ("events_seen", pa.int64()),  # of all kinds while the session ran; the buffer keeps the last ones
    ),
    # One row per instance on which a cell has left about a conversation a message.
    "leaks": _kind(
        ("instance", pa.string()),
        ("state", pa.string()),  # of most open conversations there: CONVERSING, DISCONNECTED_INBOUND ...
        ("conversations", pa.int64()),  # more than before the cell
        ("share", pa.float64()),  # of the open ones: those in that state
        ("messages", pa.int64()),  # sent by the clients in the cell
    ),
    # One row per latch class: difference over the measured window.
    "latches": _kind(
        ("instance", pa.string()),
        ("latch_class", pa.string()),
        ("waiting_requests", pa.int64()),
        ("wait_time_ms", pa.int64()),
    ),
    # One row per kind of spinlock: difference over the measured window.
    "spinlocks": _kind(
        ("instance", pa.string()),
        ("spinlock", pa.string()),
        ("collisions", pa.int64()),
        ("spins", pa.int64()),
        ("backoffs", pa.int64()),
        ("sleep_ms", pa.int64()),
    ),
    # One row per database file: difference over the measured window.
    "file_io": _kind(
        ("instance", pa.string()),
        ("database_name", pa.string()),
        ("file_name", pa.string()),
        ("file_type", pa.string()),  # ROWS | LOG
        ("reads", pa.int64()),
        ("bytes_read", pa.int64()),
        ("read_stall_ms", pa.int64()),
        ("writes", pa.int64()),
        ("bytes_written", pa.int64()),
        ("write_stall_ms", pa.int64()),
        ("growth_bytes", pa.int64()),
    ),
}


# Labels of the metric `counter` for all schedulers together, and their columns in sql/observe/schedulers.sql.
SCHEDULERS = {
    "Schedulers\\Online": "schedulers",
    "Schedulers\\Runnable Tasks": "runnable_tasks",
    "Schedulers\\Active Workers": "active_workers",
    "Schedulers\\Queued Tasks": "queued_tasks",
}

# The names of a kind's own fields, those behind KEY.
FIELDS: Mapping[str, tuple[str, ...]] = {kind: tuple(schema.names[len(KEY) :]) for kind, schema in SCHEMAS.items()}


def columns(kind: str, rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """The columns of rows of `kind`, whose values are in the order of its fields."""
    return {name: [row[place] for row in rows] for place, name in enumerate(FIELDS[kind])}


def raw_path(results: Path, kind: str, visit: Visit, attempt: int, writer: str = "") -> Path:
    suffix = f"-{writer}" if writer else ""
    return results / "raw" / kind / f"{visit.id}-b{visit.block}-a{attempt}{suffix}.parquet"


def write(
    results: Path, kind: str, visit: Visit, attempt: int, columns: Mapping[str, Sequence[Any]], *, writer: str = ""
) -> Path:
    """Write one file of `kind`, whole or not at all; `columns` are those behind KEY, of equal length."""
    path = raw_path(results, kind, visit, attempt, writer)
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as file:
        _write_table(_table(kind, visit, attempt, columns), file)
    return path


def _table(kind: str, visit: Visit, attempt: int, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    schema = SCHEMAS[kind]
    length = len(next(iter(columns.values())))
    cell = visit.cell
    key: dict[str, Any] = {
        "cell_id": cell.id,
        "block": visit.block,
        "attempt": attempt,
        "server_version": cell.server_version,
        "initiators": cell.initiators,
        "threads": cell.threads,
        "dialog_ratio": cell.dialog_ratio,
        "payload_bytes": cell.payload_bytes,
    }
    arrays = [
        pa.repeat(_array([key[field.name]], field.type)[0], length)
        if field.name in key
        else _array(columns[field.name], field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _write_table(table: pa.Table, file: Any) -> None:
    # Numbers hardly ever repeat: a dictionary of them makes the file larger.
    texts = [field.name for field in table.schema if field.type == pa.string()]
    pq.write_table(table, file, compression="zstd", use_dictionary=texts)


def _array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Make an Arrow array of its buffers; raises ValueError where a value does not fit the type.

    `pa.array` would import pandas, to know pandas' own objects: a third of a second in every process that writes.
    """
    if type_ == pa.string():
        builder = StringBuilder()
        builder.append_values(values)
        return builder.finish()
    array = np.asarray(values)
    numbers = array.astype(type_.to_pandas_dtype())
    if not np.array_equal(numbers, array, equal_nan=True):
        raise ValueError(f"a number does not fit {type_}")
    data = np.packbits(numbers, bitorder="little") if type_ == pa.bool_() else numbers
    return pa.Array.from_buffers(type_, len(numbers), [None, pa.py_buffer(data)])


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Give a file to write that becomes `path` at the end: `path` is whole, or as it was."""
    temporary = path.with_name(f"{path.name}.tmp")
    yield temporary
    os.replace(temporary, path)


def write_table(table: pa.Table, folder: Path, name: str) -> list[Path]:
    """Write a reduced table as Parquet and as CSV, each file whole or not at all; raises OSError."""
    paths = [folder / f"{name}.parquet", folder / f"{name}.csv"]
    with written_whole(paths[0]) as file:
        pq.write_table(table, file)
    with written_whole(paths[1]) as file:
        pyarrow.csv.write_csv(_visible(table), file)
    return paths


def _visible(table: pa.Table) -> pa.Table:
    """The table as people read it: `safe_text` of its texts, of which few differ."""
    for place, field in enumerate(table.schema):
        if field.type == pa.string():
            texts = table.column(place).combine_chunks().dictionary_encode()
            visible_texts = pa.array([visible(text) for text in texts.dictionary.to_pylist()], pa.string())
            table = table.set_column(place, field.name, visible_texts.take(texts.indices))
    return table


class State(StrEnum):
    """The state of a completed cell, which says what it counts for (`harness.run.validity`)."""

    VALID = "valid"
    SATURATED = "saturated"
    UNSETTLED = "unsettled"
    BEHIND = "behind"
    STARVED = "starved"
    DISTURBED = "disturbed"


# The states of cells whose rate processed, and so the gain of their pair, counts.
WITH_THROUGHPUT = frozenset({State.VALID, State.SATURATED})


class RecordedCalls(Protocol):
    """The calls of one client thread: `load.threads.CallLog`, or a simulated client's."""

    @property
    def count(self) -> int: ...

    @property
    def failures(self) -> Sequence[tuple[int, str]]:
        """Index of the call, text."""
        ...

    def intended_ns(self) -> npt.NDArray[np.int64]: ...

    def starts_ns(self) -> npt.NDArray[np.int64]: ...

    def latencies_ns(self, first: int, last: int) -> npt.NDArray[np.int64]: ...


class RecordedThread(Protocol):
    @property
    def number(self) -> int:
        """From 1."""
        ...

    @property
    def log(self) -> RecordedCalls: ...


def calls_file(
    threads: Sequence[RecordedThread], *, visit: Visit, attempt: int, initiator: int, clock_offset_ns: int
) -> memoryview:
    """A worker's file for one attempt at a cell, once its threads have finished or are abandoned.

    `write_calls` writes it to the results, which may lie on another machine.
    """
    counts = [thread.log.count for thread in threads]
    succeeded = np.ones(sum(counts), dtype=bool)
    base = 0
    for thread, count in zip(threads, counts, strict=True):
        for sequence, _ in thread.log.failures:
            if sequence < count:
                succeeded[base + sequence] = False
        base += count

    def joined(pieces: Iterable[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
        return np.concatenate([np.empty(0, dtype=np.int64), *pieces])

    logs = [(thread.log, count) for thread, count in zip(threads, counts, strict=True)]
    columns: dict[str, Any] = {
        "initiator": np.full(len(succeeded), initiator, dtype=np.int32),
        "thread": np.repeat(np.array([thread.number for thread in threads], dtype=np.int32), counts),
        "sequence": joined(np.arange(count, dtype=np.int64) for count in counts),
        "intended_at_ns": clock_offset_ns + joined(log.intended_ns()[:count] for log, count in logs),
        "started_at_ns": clock_offset_ns + joined(log.starts_ns()[:count] for log, count in logs),
        "latency_ns": joined(log.latencies_ns(0, count) for log, count in logs),
        "succeeded": succeeded,
    }
    stream = pa.BufferOutputStream()
    _write_table(_table("calls", visit, attempt, columns), stream)
    return memoryview(stream.getvalue())


def write_calls(results: Path, visit: Visit, attempt: int, writer: str, pieces: Iterable[bytes | memoryview]) -> Path:
    """Write the pieces of a worker's file, whole or not at all."""
    path = raw_path(results, "calls", visit, attempt, writer)
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as unfinished, unfinished.open("wb") as file:
        file.writelines(pieces)
    return path


class ResultsError(UsageFailure):
    """A results folder cannot be reduced, drawn or compared; the message is one line and says what to do."""


class NotWritable(MachineFailure):
    """A results folder cannot be written."""
