"""From the answers of `sql/observe` to the rows of `samples`, `waits` and `processors`.

Metrics: `queue_depth` (label: queue), `transmission_queue_depth`, `queue_monitor` (label: queue and state; value:
sessions inside RECEIVE), `activated_tasks` (label: procedure), and the broker's counters as `counter` (label: object,
counter and instance, joined by `\\`); counters named per second hold running totals.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.lab import scripts

if TYPE_CHECKING:
    import pyodbc


class Sample(NamedTuple):
    metric: str
    label: str
    value: float


def _question(file: str, to_sample: Callable[[dict[str, Any]], Sample]) -> Callable[[pyodbc.Connection], list[Sample]]:
    def ask(connection: pyodbc.Connection) -> list[Sample]:
        return [to_sample(row) for row in scripts.rows(connection, f"observe/{file}.sql", {})]

    return ask


SAMPLED: Sequence[Callable[[pyodbc.Connection], list[Sample]]] = (
    _question("queue_depth", lambda row: Sample("queue_depth", row["queue_name"], row["messages"])),
    _question("transmission_queue", lambda row: Sample("transmission_queue_depth", "", row["messages"])),
    _question(
        "queue_monitors",
        lambda row: Sample("queue_monitor", f"{row['queue_name']}\\{row['state']}", row["tasks_waiting"] or 0),
    ),
    _question("activated_tasks", lambda row: Sample("activated_tasks", row["procedure_name"] or "", row["tasks"])),
    _question(
        "counters",
        lambda row: Sample(
            "counter",
            "\\".join(filter(None, (row["counter_object"], row["counter_name"], row["instance_name"]))),
            row["counter_value"],
        ),
    ),
)


@dataclass(frozen=True)
class Snapshot:
    """Totals of one instance at one moment, since it started."""

    taken_at_ns: int
    waits: Mapping[str, tuple[int, int, int]]  # wait type → tasks, time in ms, signal time in ms
    processor_time_ms: int
    processors: int


def snapshot(connection: pyodbc.Connection) -> Snapshot:
    waits = scripts.rows(connection, "observe/waits.sql", {})
    processor = scripts.rows(connection, "observe/processor_time.sql", {})[0]
    return Snapshot(
        time.time_ns(),
        {row["wait_type"]: (row["waiting_tasks"], row["wait_time_ms"], row["signal_wait_time_ms"]) for row in waits},
        processor["processor_time_ms"],
        processor["cpu_count"],
    )


def wait_columns(before: Mapping[str, Snapshot], after: Mapping[str, Snapshot]) -> dict[str, list[Any]]:
    """The columns of the `waits` record: what was waited for between two snapshots of each instance."""
    names = ("instance", "wait_type", "waiting_tasks", "wait_time_ms", "signal_wait_time_ms")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for instance, last in after.items():
        first = before[instance]
        for wait_type, totals in last.waits.items():
            earlier = first.waits.get(wait_type, (0, 0, 0))
            change = [now - then for now, then in zip(totals, earlier, strict=True)]
            if any(change):
                for name, value in zip(names, (instance, wait_type, *change), strict=True):
                    columns[name].append(value)
    return columns


def processor_columns(before: Mapping[str, Snapshot], after: Mapping[str, Snapshot]) -> dict[str, list[Any]]:
    """The columns of the `processors` record."""
    return {
        "instance": list(after),
        "window_ns": [last.taken_at_ns - before[name].taken_at_ns for name, last in after.items()],
        "processor_time_ms": [last.processor_time_ms - before[name].processor_time_ms for name, last in after.items()],
        "processors": [last.processors for last in after.values()],
    }
