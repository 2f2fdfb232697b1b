"""Observe the instances of a lab: an `Observer` and a `LatchWatch` for each.

An observer has one thread and one connection: samples at an interval, snapshots on demand.

Metrics of the record `samples`: `queue_depth` (label: queue), `transmission_queue_depth`, `queue_monitor` (label: queue
and state; value: sessions inside RECEIVE), `activated_tasks` (label: procedure), and the broker's counters as `counter`
(label: object, counter and instance, joined by `\\`). Counters whose name ends in `/sec` hold running totals. What the
schedulers show (`records.SCHEDULERS`) is recorded as counters too.
"""

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np

from harness.files import records
from harness.files.script_text import ScriptError
from harness.lab import interruption, scripts
from harness.lab.drivers import Connection
from harness.lab.error_remedies import error_text
from harness.lab.instances import Instance, LabError, ReconnectingConnection
from harness.observe import snapshots
from harness.observe.latch_watch import RESOLVE_WITHIN_S, SAMPLE_TIMEOUT_S, LatchWatch, Watched
from harness.observe.snapshots import Snapshot

Answer = TypeVar("Answer")


class Sample(NamedTuple):
    metric: str
    label: str
    value: float


Query = Callable[["Connection", str], list[Sample]]  # of a connection and the lab's queue there
Sampled = Callable[[str, int, Sequence[Sample]], None]  # of an instance's name, a moment in ns, and the samples


def _query(file: str, to_sample: Callable[[dict[str, Any]], Sample]) -> Query:
    def ask(connection: Connection, queue: str) -> list[Sample]:
        return [to_sample(row) for row in scripts.rows(connection, f"observe/{file}.sql", {"Queue": queue})]

    return ask


def _depth(file: str) -> Query:
    return _query(file, lambda row: Sample("queue_depth", row["queue_name"], row["messages"]))


def _schedulers(connection: Connection, queue: str) -> list[Sample]:
    [row] = scripts.rows(connection, "observe/schedulers.sql", {})
    return [Sample("counter", label, row[column]) for label, column in records.SCHEDULERS.items()]


SAMPLED: Sequence[Query] = (
    _depth("queue_depth"),
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
    _schedulers,
)


SAMPLED_WITH_RETENTION: Sequence[Query] = (_depth("queue_depth_retention"), *SAMPLED[1:])

# For who looks at waits each second; a cell takes them from snapshots. The value is the running total.
WAITS: Query = _query("waits", lambda row: Sample("wait_ms", row["wait_type"], row["wait_time_ms"]))


def _end_to_end(connection: Connection, queue: str) -> list[Sample]:
    latencies_ms = [row["latency_ns"] / 1e6 for row in scripts.rows(connection, "observe/newest_deliveries.sql", {})]
    return [Sample("end_to_end_ms", *point) for point in spread(latencies_ms).items()] if latencies_ms else []


def spread(latencies: Any) -> dict[str, float]:
    """Return median, 95th percentile and maximum by their names in charts."""
    median, high, longest = np.quantile(latencies, (0.5, 0.95, 1))
    return {"median": float(median), "95th percentile": float(high), "longest": float(longest)}


# Of the target, where it stores the messages.
END_TO_END: Query = _end_to_end


class TargetProgress(NamedTuple):
    """How far the target is at one moment: a row of sql/observe/target_progress.sql."""

    processed: int  # messages stored since its tables were emptied; 0 where messages are counted
    queue_depth: int  # messages in its queue
    readers: int  # queue readers that run
    untransmitted: int | None = None  # where messages are counted: those in the initiators' transmission queues


def target_progress(connection: Connection, queue: str, *, retention: bool = False) -> TargetProgress:
    path = f"observe/target_progress{'_retention' if retention else ''}.sql"
    [row] = scripts.rows(connection, path, {"Queue": queue})
    return TargetProgress(**{name: int(value or 0) for name, value in row.items()})


INTERVAL_S = 1.0
QUERY_TIMEOUT_S = 10
FAILURE = "observer_failure"  # the metric of a failure, with its reason as label
LATCH_SAMPLES = "latch_looks"  # the metric of the latch watch: how often it has sampled


@dataclass
class Recording:
    """The samples of one cell, and why some are missing."""

    samples: list[tuple[int, Sample]] = field(default_factory=list)  # (sampled_at_ns, sample)
    failures: list[str] = field(default_factory=list)
    late: int = 0  # samples that were taken half an interval late or more


class Observer:
    """Reads one instance in a thread of its own until `close`."""

    def __init__(
        self,
        instance: Instance,
        queries: Sequence[Query] | None = None,
        interval_s: float = INTERVAL_S,
        *,
        also: Sequence[Query] = (),
        sampled: Sampled = lambda instance, at_ns, samples: None,
    ) -> None:
        self.instance = instance
        self._sampled = sampled
        self._queries = queries
        self._also = also
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

    def sample(self) -> Future[Recording]:
        """Take one sample now and return it, outside of `begin` and `end`."""

        def take() -> Recording:
            self._recording = Recording()
            self._sample()
            recording, self._recording = self._recording, None
            return recording

        return self._ask(take)

    def snapshot(self) -> Future[Snapshot]:
        """Read waits, processor time, latches and file I/O now."""
        return self._ask(lambda: snapshots.snapshot(self._connection.get(), control_group=self.instance.control_group))

    def progress(self) -> Future[TargetProgress]:
        """Read now how far the instance is, as the target of a cell."""
        instance = self.instance
        return self._ask(lambda: target_progress(self._connection.get(), instance.queue, retention=instance.retention))

    def close(self) -> None:
        self._requests.put(None)
        self._thread.join(timeout=0 if self.instance.silence else QUERY_TIMEOUT_S + 5)

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
                if self._recording and time.monotonic() - due_s >= self._interval_s / 2:
                    self._recording.late += 1
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
        samples: list[Sample] = []
        try:
            connection = self._connection.get()
            queries = self._queries
            if queries is None:  # whether the queue retains messages may change from cell to cell
                queries = SAMPLED_WITH_RETENTION if self.instance.retention else SAMPLED
            for query in (*queries, *self._also):
                samples += query(connection, self.instance.queue)
        except Exception as error:
            self._connection.drop()
            text = error_text(error)
            recording.failures.append(text)
            samples.append(Sample(FAILURE, text, 1.0))
        recording.samples += [(at_ns, sample) for sample in samples]
        self._sampled(self.instance.name, at_ns, samples)


Columns = dict[str, list[Any]]


@dataclass(frozen=True)
class Observed:
    """Records of the observers in a cell, apart from the differences over its window."""

    records: Mapping[str, Columns]  # samples; latch_waits, if any instance shows them
    failures: Sequence[str]
    late_samples: int = 0


class Observers:
    """Call for each cell: `begin`, `window_begins`, `window_ends`, `changes`, `end`; `target_progress` at any time.

    `tell` gets a line about each record that an instance does not show to this login. `sampled` gets each sample, in
    the thread of its observer.
    """

    def __init__(
        self,
        instances: Sequence[Instance],
        tell: Callable[[str], None] = lambda text: None,
        sampled: Sampled = lambda instance, at_ns, samples: None,
    ) -> None:
        self._observers = [Observer(instance, sampled=sampled) for instance in instances]
        self._watches = [LatchWatch(instance) for instance in instances]
        self._tell = tell

    def begin(self, count: int) -> None:
        """Begin a cell in which the first `count` instances take part."""
        self._taking_part, self._watching = self._observers[:count], self._watches[:count]
        for observer in self._taking_part:
            observer.begin()
        for watch in self._watching:
            watch.prepare()

    def target_progress(self) -> TargetProgress:
        """Read how far the target is; wait behind a sample that is being taken."""
        observer = self._observers[0]
        return _answer(observer.instance.name, observer.progress(), 2 * QUERY_TIMEOUT_S)

    def window_begins(self) -> None:
        self._before = self._snapshot()
        for watch in self._watching:
            watch.begin()

    def window_ends(self) -> None:
        self._watched = [watch.end() for watch in self._watching]
        self._after = self._snapshot()

    def changes(self, *, timeout_s: float) -> dict[str, Columns]:
        """Return the records that are differences over the window.

        Raises LabError, or another error of an instance that has ended.
        """
        before = {name: _answer(name, one, timeout_s) for name, one in self._before.items()}
        after = {name: _answer(name, one, timeout_s) for name, one in self._after.items()}
        for name, snapshot in after.items():
            for record, reason in snapshot.refusals.items():
                self._tell(f"{name} does not show {record} to this login, so they are not recorded: {reason}")
        differences = snapshots.changes(before, after)
        for name in snapshots.at_odds(differences["containers"]) if "containers" in differences else ():
            self._tell(
                f"{name} does not count the processor time that the kernel counts for its container: more than "
                f"{snapshots.PROCESSOR_TIME_TOLERANCE:.0%} apart in a cell; raw/containers has both of each"
            )
        return differences

    def end(self) -> Observed:
        recordings = {observer.instance.name: observer.end() for observer in self._taking_part}
        recorded = {name: _answer(name, answer, 2 * QUERY_TIMEOUT_S) for name, answer in recordings.items()}
        watched = {
            watch.instance.name: _answer(watch.instance.name, outcome, SAMPLE_TIMEOUT_S + RESOLVE_WITHIN_S)
            for watch, outcome in zip(self._watching, self._watched, strict=True)
        }
        for name, answer in watched.items():
            self._tell_refusals(name, answer)
        return observed(recorded, watched)

    def close(self) -> None:
        for watch in self._watches:
            watch.close()
        for observer in self._observers:
            observer.close()

    def _snapshot(self) -> dict[str, Future[Snapshot]]:
        return {observer.instance.name: observer.snapshot() for observer in self._taking_part}

    def _tell_refusals(self, name: str, watched: Watched) -> None:
        if watched.refusal:
            self._tell(f"{name} does not show waits for pages, so they are not recorded: {watched.refusal}")
        if watched.unresolved:
            self._tell(f"{name} does not show a page's object, so waits are recorded without it: {watched.unresolved}")


def _answer(name: str, answer: Future[Answer], timeout_s: float) -> Answer:
    try:
        return interruption.result(answer, timeout_s)
    except TimeoutError:
        raise LabError(f"{name} did not answer its observer within {timeout_s:g} s") from None


def observed(recorded: Mapping[str, Recording], watched: Mapping[str, Watched]) -> Observed:
    """Return the records of all instances."""
    failures: list[str] = []
    samples: list[tuple[Any, ...]] = []
    waits: list[tuple[Any, ...]] = []
    for name, recording in recorded.items():
        failures += [f"observer of {name}: {text}" for text in recording.failures]
        samples += [(name, at_ns, *sample) for at_ns, sample in recording.samples]
    for name, watch in watched.items():
        failures += [f"latches of {name}: {watch.failure}"] if watch.failure else []
        if times_ns := watch.sampled_at_ns:  # the number of samples taken, at the first one and at the last
            samples.append((name, times_ns[0], LATCH_SAMPLES, "", 1.0))
            samples.append((name, times_ns[-1], LATCH_SAMPLES, "", float(len(times_ns))))
        waits += [(name, *wait[:4], *wait.page, *watch.object_of(wait)) for wait in watch.waits]
    kept = {"samples": records.columns("samples", samples)}
    if any(not watch.refusal for watch in watched.values()):
        kept["latch_waits"] = records.columns("latch_waits", waits)
    return Observed(kept, failures, sum(recording.late for recording in recorded.values()))
