"""One attempt at one cell: prepare, start, settle, measure, stop, drain, balance the books, write.

Everything that can go wrong on the way is `CellFailed` with one line that names the part: a dead process with its
signal, calls that failed with the driver's text, messages that got stuck with the broker's own account of why.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow.parquet as pq

from harness import records
from harness.lab import dialog_pool, reset, scripts
from harness.lab.error_remedies import error_text, explain
from harness.lab.instances import Instance, Lab, LabError
from harness.lab.scripts import ScriptError
from harness.load.plan import SEND_MESSAGE, CellPlan, LoadError, LoadReport, Progress, Sending
from harness.matrix import Cell
from harness.observe import dialog_pages
from harness.observe.observers import Observed
from harness.sweep import accounting
from harness.sweep.accounting import Books
from harness.sweep.phases import Phases
from harness.sweep.settling import Settling

if TYPE_CHECKING:
    import pyodbc

POLL_S = 0.02
# How often the state of health of processes is looked at while nothing else is to do.
WATCH_S = 0.1
SNAPSHOT_TIMEOUT_S = 20.0
PERCENTILES = (50, 95, 99)


class CellFailed(Exception):
    """This attempt gives no numbers; the message says why, in one line."""


class NotReady(CellFailed):
    """The stand could not be made ready: lab, dialogs or clients do not come up."""


@dataclass(frozen=True)
class Measured:
    """The numbers of a cell that a user sees at once; the reductions compute all others."""

    sent_per_s: float
    processed_per_s: float
    sent: int
    window_s: float
    latencies_us: Mapping[str, float]  # p50, p95, p99 of the calls that returned in the window
    complaints: Sequence[str] = ()


@dataclass
class Moments:
    """Nanoseconds since 1970, 0 until reached."""

    started_at_ns: int = 0
    measured_from_ns: int = 0
    measured_to_ns: int = 0
    stopped_at_ns: int = 0
    drained_at_ns: int = 0
    settled: bool = False


class Clients(Protocol):
    """The test clients: `load.clients.Clients`, or those of a simulated lab."""

    def prepare(self, plan: CellPlan) -> None: ...

    def start(self) -> None: ...

    def progress(self) -> Progress: ...

    def stop(self) -> LoadReport: ...


class Observers(Protocol):
    """What reads the instances beside the load: `observe.Observers`, or those of a simulated lab."""

    def begin(self, count: int) -> None: ...

    def window_begins(self) -> None: ...

    def window_ends(self) -> None: ...

    def changes(self, *, timeout_s: float) -> dict[str, dict[str, list[Any]]]: ...

    def end(self) -> Observed: ...

    def close(self) -> None: ...


class Times(Protocol):
    """In seconds of the lab's clock: `Settings`, or those of a simulated cell."""

    @property
    def settle(self) -> float: ...

    @property
    def measure(self) -> float: ...

    @property
    def drain(self) -> float: ...


@dataclass
class Surroundings:
    """What a cell runs on; it stays while its parts are well."""

    lab: Lab
    clients: Clients
    observers: Observers
    target: pyodbc.Connection
    initiators: Sequence[pyodbc.Connection]


@dataclass
class Attempt:
    """The protocol. `run` once."""

    cell: Cell
    number: int
    run_number: int
    surroundings: Surroundings
    settings: Times
    results: Path
    phases: Phases
    on_rate: Any = lambda rate: None
    settle_share_min: float = 0.5  # of the longest settling, which passes in any case
    on_stopped: Callable[[], None] = lambda: None  # the clients send no more; what they sent is still to be processed
    sending: Sending | None = None  # None: each thread on the dialog of the pool that bears its number
    moments: Moments = field(default_factory=Moments)
    report: LoadReport | None = None
    books: Books | None = None
    pages: dialog_pages.Spread = field(default_factory=dict)  # where the pool's used dialogs lie, as far as it is known
    changes: Mapping[str, dict[str, list[Any]]] = field(default_factory=dict)  # records of what changed over the window

    def run(self) -> Measured:
        try:
            with _named_failures(self.surroundings.lab):
                return self._run()
        except CellFailed as failure:
            self._write_cell("failed", str(failure))
            raise

    def _run(self) -> Measured:
        parts = self.surroundings
        with self.phases.phase("prepare"):
            parts.lab.check()
            reset.messages(parts.lab, parts.target)
            own = dialog_pool.used(parts.initiators[: self.cell.initiators]) if self.sending is None else ()
            sending = self.sending or Sending(SEND_MESSAGE, own)
            parts.clients.prepare(
                CellPlan(
                    self.cell,
                    self.number,
                    self.run_number,
                    [instance.client_connection_string() for instance in self._taking_part()],
                    sending.handles,
                    self.results,
                    sending.procedure,
                )
            )
        parts.observers.begin(1 + self.cell.initiators)
        try:
            with self.phases.phase("settle"):
                parts.clients.start()
                self.moments.started_at_ns = parts.lab.clock.utc_ns()
                self._settle()
            with self.phases.phase("measure"):
                self._measure()
        finally:
            with self.phases.phase("stop"):
                self.report = self._stop()
        with self.phases.phase("drain"):
            self.on_stopped()
            self._drain()
        with self.phases.phase("books"):
            observed = parts.observers.end()
            deliveries = self._balance()
            self._require_faultless(self.report)
        with self.phases.phase("write"):
            self._write(observed.records, deliveries)
            measured = self._measured(deliveries, [*observed.failures, *self._complaints()])
            self._write_cell("completed", "")
        return measured

    def _taking_part(self) -> list[Instance]:
        return self.surroundings.lab.initiators[: self.cell.initiators]

    def _settle(self) -> None:
        settling = Settling(self.settings.settle * self.settle_share_min, self.settings.settle)
        clock = self.surroundings.lab.clock
        began, last_watch = clock.now_s(), 0.0
        while True:
            progress = self.surroundings.clients.progress()
            at_s = clock.now_s() - began
            if progress.counted_at_ns:
                settling.add((progress.counted_at_ns - self.moments.started_at_ns) / 1e9, progress.sent)
            if settling.is_over(at_s):
                break
            if at_s - last_watch > WATCH_S:
                last_watch = at_s
                self.surroundings.lab.check()
            clock.sleep(POLL_S)
        self.moments.settled = settling.is_steady()

    def _measure(self) -> None:
        parts = self.surroundings
        parts.observers.window_begins()
        clock = parts.lab.clock
        self.moments.measured_from_ns = clock.utc_ns()
        until = clock.now_s() + self.settings.measure
        while (left := until - clock.now_s()) > 0:
            clock.sleep(min(WATCH_S, left))
            parts.lab.check()
            self.on_rate(parts.clients.progress().calls_per_s)
        self.moments.measured_to_ns = clock.utc_ns()
        parts.observers.window_ends()
        try:
            self.changes = parts.observers.changes(timeout_s=SNAPSHOT_TIMEOUT_S)
        except TimeoutError:
            raise CellFailed(f"waits and processor time could not be read within {SNAPSHOT_TIMEOUT_S:g} s") from None

    def _stop(self) -> LoadReport | None:
        """Also after a failure: the clients must not go on sending. The first failure is the one to be told."""
        if not self.moments.measured_to_ns:
            with contextlib.suppress(LoadError):
                return self.surroundings.clients.stop()
            return None
        report = self.surroundings.clients.stop()
        self.moments.started_at_ns, self.moments.stopped_at_ns = report.started_at_ns, report.stopped_at_ns
        return report

    def _drain(self) -> None:
        assert self.report is not None
        parts = self.surroundings
        clients = parts.initiators[: self.cell.initiators]
        try:
            dialog_pool.wait_until_drained(
                parts.lab,
                self._taking_part(),
                clients,
                parts.target,
                expected=self.report.sent_messages,
                timeout_s=self.settings.drain,
            )
        except LabError as error:
            parts.lab.check()
            raise CellFailed(f"not drained: {error}") from None
        self.moments.drained_at_ns = parts.lab.clock.utc_ns()

    def _balance(self) -> dict[str, list[Any]]:
        assert self.report is not None
        variables = {"Run": str(self.run_number)}
        deliveries = scripts.columns(self.surroundings.target, "observe/deliveries.sql", variables)
        has_order = self.sending is None or not self.sending.begins_dialogs
        self.books = accounting.balance(self.report.sent, accounting.stored(deliveries), has_order=has_order)
        return deliveries

    def _require_faultless(self, report: LoadReport | None) -> None:
        assert report is not None and self.books is not None
        if report.problems:
            raise CellFailed(explain(report.problems[0]))
        if report.failed_calls:
            raise CellFailed(f"{report.failed_calls} calls failed: {explain(report.errors[0][0])}")
        if not self.books.balance:
            raise CellFailed(self.books.reason())
        if noted := dialog_pool.noted_errors(self.surroundings.target):
            raise CellFailed(noted)

    def _complaints(self) -> list[str]:
        assert self.report is not None
        return [text for health in self.report.health for text in health.complaints()]

    def _write(self, observed: Mapping[str, dict[str, list[Any]]], deliveries: dict[str, list[Any]]) -> None:
        receives = scripts.columns(self.surroundings.target, "observe/receives.sql", {})
        found = {"deliveries": deliveries, "receives": receives, **observed, **self.changes}
        if self.pages:
            found["dialog_pages"] = dialog_pages.columns(self.pages, self.cell.threads)
        for kind, columns in found.items():
            records.write(self.results, kind, self.cell, self.number, columns)

    def _write_cell(self, outcome: str, reason: str) -> None:
        moments, report, books = self.moments, self.report, self.books or Books(0, 0, 0, 0, 0)
        values = {
            "outcome": outcome,
            "reason": reason,
            "started_at_ns": moments.started_at_ns,
            "measured_from_ns": moments.measured_from_ns,
            "measured_to_ns": moments.measured_to_ns,
            "stopped_at_ns": moments.stopped_at_ns,
            "drained_at_ns": moments.drained_at_ns,
            "settled": moments.settled,
            "sent_messages": report.sent_messages if report else 0,
            "processed_messages": books.processed,
            "lost_messages": books.lost,
            "duplicated_messages": books.duplicated,
            "misordered_messages": books.misordered,
            "failed_calls": report.failed_calls if report else 0,
        }
        records.write(self.results, "cells", self.cell, self.number, {name: [value] for name, value in values.items()})

    def _measured(self, deliveries: dict[str, list[Any]], complaints: Sequence[str]) -> Measured:
        assert self.report is not None
        first, last = self.moments.measured_from_ns, self.moments.measured_to_ns
        window_s = (last - first) / 1e9
        returned, latencies = self._calls()
        inside = (returned >= first) & (returned < last)
        processed = np.asarray(deliveries["processed_at_ns"], dtype=np.int64)
        shares = np.percentile(latencies[inside], PERCENTILES) / 1000 if inside.any() else [float("nan")] * 3
        return Measured(
            sent_per_s=int(inside.sum()) / window_s,
            processed_per_s=int(((processed >= first) & (processed < last)).sum()) / window_s,
            sent=self.report.sent_messages,
            window_s=window_s,
            latencies_us={f"p{p}": float(value) for p, value in zip(PERCENTILES, shares, strict=True)},
            complaints=complaints,
        )

    def _calls(self) -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.int64]]]:
        """When each call returned, and its latency, from the workers' files."""
        returned, latencies = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for number in range(1, self.cell.initiators + 1):
            path = records.raw_path(self.results, "calls", self.cell, self.number, f"i{number}")
            # No threads for two columns: a simulated cell is a process of its own and would start them.
            table = pq.ParquetFile(path).read(["started_at_ns", "latency_ns"], use_threads=False)
            latency = table["latency_ns"].to_numpy()
            latencies.append(latency)
            returned.append(table["started_at_ns"].to_numpy() + latency)
        return np.concatenate(returned), np.concatenate(latencies)


@contextlib.contextmanager
def _named_failures(lab: Lab) -> Iterator[None]:
    """Turns what parts raise into CellFailed; a dead instance explains whatever failed because of it."""
    try:
        yield
    except (LoadError, LabError, ScriptError) as error:
        raise CellFailed(_cause(lab, explain(str(error)))) from None
    except Exception as error:
        # pyodbc is imported only where it is used; its errors are told apart by their module.
        if type(error).__module__ != "pyodbc":
            raise
        raise CellFailed(_cause(lab, error_text(error))) from None


def _cause(lab: Lab, symptom: str) -> str:
    deadline = lab.clock.now_s() + 0.5  # a connection may break before its process has ended
    while True:
        try:
            lab.check()
        except LabError as death:
            return str(death)
        if "connect" not in symptom.lower() and "link" not in symptom.lower():
            return symptom
        if lab.clock.now_s() > deadline:
            # A server of the user's own is no process of ours.
            gone = [reason for instance in lab.instances if (reason := instance.out_of_reach())]
            return f"{gone[0]} ({symptom})" if gone else symptom
        lab.clock.sleep(POLL_S)
