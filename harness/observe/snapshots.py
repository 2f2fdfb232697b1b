"""Totals of an instance since its start, read before and after the measured window; the records are differences.

What the login may not see is missing from a snapshot and from the records, and is reported once: the measurement itself
does not need it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.lab import scripts
from harness.lab.scripts import is_refusal

if TYPE_CHECKING:
    import pyodbc

Totals = Mapping[tuple[str, ...], tuple[int, ...]]

WAITS = ("instance", "wait_type", "waiting_tasks", "wait_time_ms", "signal_wait_time_ms")
PROCESSORS = ("instance", "window_ns", "processor_time_ms", "processors")
LATCHES = ("instance", "latch_class", "waiting_requests", "wait_time_ms")
FILE_IO = (
    "instance",
    "database_name",
    "file_name",
    "file_type",
    "reads",
    "bytes_read",
    "read_stall_ms",
    "writes",
    "bytes_written",
    "write_stall_ms",
    "growth_bytes",
)


@dataclass(frozen=True)
class Snapshot:
    """Totals of one instance at one moment. None: the instance does not show them."""

    taken_at_ns: int
    waits: Totals | None = None  # wait type → tasks, time in ms, signal time in ms
    processor_time_ms: int | None = None
    processors: int = 0
    latches: Totals | None = None  # class → requests, time in ms
    file_io: Totals | None = None  # database, file, type → the counts of FILE_IO, size in place of growth
    refusals: Mapping[str, str] = field(default_factory=dict)  # record → why it is missing


def snapshot(connection: pyodbc.Connection, utc_ns: Callable[[], int] = time.time_ns) -> Snapshot:
    """Read all totals of an instance."""
    refusals: dict[str, str] = {}

    def totals(record: str, file: str, keys: int) -> Totals | None:
        rows = _rows(connection, record, file, refusals)
        if rows is None:
            return None
        return {tuple(row[:keys]): tuple(int(value or 0) for value in row[keys:]) for row in rows}

    waits = totals("waits", "waits", 1)
    processor = _rows(connection, "processors", "processor_time", refusals)
    latches = totals("latches", "latches", 1)
    file_io = totals("file_io", "file_io", 3)
    spent, processors = processor[0] if processor else (None, 0)
    return Snapshot(utc_ns(), waits, spent, processors, latches, file_io, refusals)


def _rows(
    connection: pyodbc.Connection, record: str, file: str, refusals: dict[str, str]
) -> list[tuple[Any, ...]] | None:
    try:
        return [tuple(row.values()) for row in scripts.rows(connection, f"observe/{file}.sql", {})]
    except scripts.ScriptError as error:
        if not is_refusal(error):
            raise
        refusals[record] = str(error)
        return None


def changes(before: Mapping[str, Snapshot], after: Mapping[str, Snapshot]) -> dict[str, dict[str, list[Any]]]:
    """Return the columns of each record: the differences between two snapshots of each instance."""
    found = {
        "waits": _differences(WAITS, before, after, lambda one: one.waits, 3),
        "processors": _processors(before, after),
        "latches": _differences(LATCHES, before, after, lambda one: one.latches, 2),
        "file_io": _differences(FILE_IO, before, after, lambda one: one.file_io, 7),
    }
    return {record: columns for record, columns in found.items() if columns is not None}


def _differences(
    names: tuple[str, ...],
    before: Mapping[str, Snapshot],
    after: Mapping[str, Snapshot],
    totals: Callable[[Snapshot], Totals | None],
    counts: int,
) -> dict[str, list[Any]] | None:
    """Return the rows that changed, None if no instance shows them."""
    rows: list[tuple[Any, ...]] = []
    is_shown = False
    for instance, last in after.items():
        now, then = totals(last), totals(before[instance])
        if now is None or then is None:
            continue
        is_shown = True
        for key, values in now.items():
            earlier = then.get(key, (0,) * counts)
            change = [value - value_before for value, value_before in zip(values, earlier, strict=False)]
            if any(change[:counts]):
                rows.append((instance, *key, *change[:counts]))
    return {name: [row[place] for row in rows] for place, name in enumerate(names)} if is_shown else None


def _processors(before: Mapping[str, Snapshot], after: Mapping[str, Snapshot]) -> dict[str, list[Any]] | None:
    rows = [
        (
            name,
            last.taken_at_ns - before[name].taken_at_ns,
            last.processor_time_ms - first_ms,
            last.processors,
        )
        for name, last in after.items()
        if last.processor_time_ms is not None and (first_ms := before[name].processor_time_ms) is not None
    ]
    return {name: [row[place] for row in rows] for place, name in enumerate(PROCESSORS)} if rows else None
