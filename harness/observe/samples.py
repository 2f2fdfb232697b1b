"""Results of `sql/observe` as rows of the record `samples`.

Metrics: `queue_depth` (label: queue), `transmission_queue_depth`, `queue_monitor` (label: queue and state; value:
sessions inside RECEIVE), `activated_tasks` (label: procedure), and the broker's counters as `counter` (label: object,
counter and instance, joined by `\\`). Counters whose name ends in `/sec` hold running totals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.lab import scripts

if TYPE_CHECKING:
    import pyodbc


class Sample(NamedTuple):
    metric: str
    label: str
    value: float


def _query(file: str, to_sample: Callable[[dict[str, Any]], Sample]) -> Callable[[pyodbc.Connection], list[Sample]]:
    def ask(connection: pyodbc.Connection) -> list[Sample]:
        return [to_sample(row) for row in scripts.rows(connection, f"observe/{file}.sql", {})]

    return ask


SAMPLED: Sequence[Callable[[pyodbc.Connection], list[Sample]]] = (
    _query("queue_depth", lambda row: Sample("queue_depth", row["queue_name"], row["messages"])),
    _query("transmission_queue", lambda row: Sample("transmission_queue_depth", "", row["messages"])),
    _query(
        "queue_monitors",
        lambda row: Sample("queue_monitor", f"{row['queue_name']}\\{row['state']}", row["tasks_waiting"] or 0),
    ),
    _query("activated_tasks", lambda row: Sample("activated_tasks", row["procedure_name"] or "", row["tasks"])),
    _query(
        "counters",
        lambda row: Sample(
            "counter",
            "\\".join(filter(None, (row["counter_object"], row["counter_name"], row["instance_name"]))),
            row["counter_value"],
        ),
    ),
)
