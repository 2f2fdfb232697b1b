"""Observe one instance with one thread and one connection: samples at an interval, snapshots on demand.

Metrics of the record `samples`: `queue_depth` (label: queue), `transmission_queue_depth`, `queue_monitor` (label: queue
and state; value: sessions inside RECEIVE), `activated_tasks` (label: procedure), and the broker's counters as `counter`
(label: object, counter and instance, joined by `\\`). Counters whose name ends in `/sec` hold running totals.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.lab import scripts
from harness.lab.error_remedies import error_text
from harness.lab.instances import Instance
from harness.lab.scripts import ScriptError
from harness.observe.snapshots import Snapshot, snapshot

if TYPE_CHECKING:
    import pyodbc


class ReconnectingConnection:
    """One thread's connection to an instance, opened on first use, and again after it broke."""

    def __init__(self, instance: Instance, *, query_timeout_s: int) -> None:
        self._instance = instance
        self._query_timeout_s = query_timeout_s
        self._connection: pyodbc.Connection | None = None

    def get(self) -> pyodbc.Connection:
        if self._connection is None:
            self._connection = self._instance.connect(query_timeout_s=self._query_timeout_s)
        return self._connection

    def drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()


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

INTERVAL_S = 1.0
QUERY_TIMEOUT_S = 10
FAILURE = "observer_failure"

Query = Callable[["pyodbc.Connection"], list[Sample]]


@dataclass
class Recording:
    """The samples of one cell, and why some are missing."""

    samples: list[tuple[int, Sample]] = field(default_factory=list)  # (sampled_at_ns, sample)
    failures: list[str] = field(default_factory=list)


class Observer:
    """Reads one instance in a thread of its own until `close`."""

    def __init__(self, instance: Instance, queries: Sequence[Query] = SAMPLED, interval_s: float = INTERVAL_S) -> None:
        self.instance = instance
        self._queries = queries
        self._interval_s = interval_s
        self._requests: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._recording: Recording | None = None
        self._connection = ReconnectingConnection(instance, query_timeout_s=QUERY_TIMEOUT_S)
        self._thread = threading.Thread(target=self._run, name=f"observer of {instance.name}", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """Keep samples from now on, the first one at once."""

        def begin() -> None:
            self._recording = Recording()

        self._requests.put(begin)

    def end(self) -> Future[Recording]:
        """Take one last sample and return everything since `begin`."""

        def take() -> Recording:
            self._sample()
            recording, self._recording = self._recording or Recording(), None
            return recording

        return self._ask(take)

    def snapshot(self) -> Future[Snapshot]:
        """Read waits, processor time, latches and file I/O now."""
        return self._ask(lambda: snapshot(self._connection.get()))

    def close(self) -> None:
        self._requests.put(None)
        self._thread.join(timeout=QUERY_TIMEOUT_S + 5)

    def _ask(self, action: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()

        def answer() -> None:
            try:
                future.set_result(action())
            except ScriptError as error:
                self._connection.drop()
                future.set_exception(ScriptError(f"{self.instance.name}: {error}"))
            except Exception as error:
                self._connection.drop()
                future.set_exception(error)

        self._requests.put(answer)
        return future

    def _run(self) -> None:
        due_s = time.monotonic() + self._interval_s
        while True:
            timeout_s = max(0.0, due_s - time.monotonic()) if self._recording else None
            try:
                request = self._requests.get(timeout=timeout_s)
            except queue.Empty:
                self._sample()
                due_s = max(due_s + self._interval_s, time.monotonic())
                continue
            if request is None:
                self._connection.drop()
                return
            before = self._recording
            request()
            if self._recording is not before:
                due_s = time.monotonic()

    def _sample(self) -> None:
        recording = self._recording
        if recording is None:
            return
        at_ns = time.time_ns()
        try:
            connection = self._connection.get()
            for query in self._queries:
                recording.samples += [(at_ns, sample) for sample in query(connection)]
        except Exception as error:
            self._connection.drop()
            text = error_text(error)
            recording.failures.append(text)
            recording.samples.append((at_ns, Sample(FAILURE, text, 1.0)))
