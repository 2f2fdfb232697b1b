"""One attempt at one cell: prepare, start, settle, measure, stop, drain, account for every message, write.

Every failure on the way is a `CellFailed` whose one line names the part: a dead process with its signal, failed calls
with the driver's text, stuck messages with the broker's own reason.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow.parquet as pq

from harness import records
from harness.lab import dialog_pool, placement
from harness.lab.error_remedies import explain, is_lasting
from harness.lab.instances import Instance, Lab, LabError
from harness.load.plan import CellPlan, GeneratorHealth, LoadError, LoadReport, Progress, Sending, Share, WorkerClock
from harness.load_model import OpenLoop
from harness.matrix import Cell, Visit
from harness.measures import COLUMNS_READ, Measures
from harness.observe import dialog_pages, event_sessions, snapshots
from harness.observe.event_sessions import EventSessions
from harness.observe.machine_use import MachineTotals, MachineUse, machine_use
from harness.observe.observers import Observed, TargetProgress
from harness.records import State
from harness.run import worker_clocks
from harness.run.accounting import Accounting
from harness.run.accounts import Accounts, Columns, CountAccounts, HeaderAccounts
from harness.run.cell_failures import FINAL, CellFailed, named_failures
from harness.run.phases import Phases
from harness.run.punctuality import IN_TIME, Calls, Punctuality, punctuality
from harness.run.settling import Settling
from harness.run.validity import Evidence, judge
from harness.run.worker_clocks import ClockRow, Clocks
from harness.units import counted

if TYPE_CHECKING:
    import pyodbc

POLL_S = 0.02
WATCH_S = 0.1  # between checks that every process is alive
SNAPSHOT_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Measured:
    """The numbers of a cell that a user sees at once. Reductions compute all others."""

    sent_per_s: float
    processed_per_s: float
    sent: int
    window_s: float
    columns: Mapping[str, float | None]  # as tables have them: `harness.measures`
    punctuality: Punctuality = IN_TIME
    state: State = State.VALID
    state_reason: str = ""
    is_counted: bool = False  # messages were counted, not matched one by one

    @property
    def accounted(self) -> str:
        """What became of the messages, in words."""
        if self.is_counted:
            return f"{counted(self.sent, 'message')} sent, none left in a queue (counted, not matched one by one)"
        return f"{counted(self.sent, 'message')} sent, each processed once and in order"


@dataclass
class Moments:
    """Nanoseconds since 1970, 0 until reached."""

    started_at_ns: int = 0
    measured_from_ns: int = 0
    measured_to_ns: int = 0
    stopped_at_ns: int = 0
    drained_at_ns: int = 0


class Clients(Protocol):
    """The test clients: Locust's, or those of a simulated lab."""

    def prepare(self, plan: CellPlan) -> None: ...

    def start(self) -> None: ...

    def progress(self) -> Progress: ...

    def stop(self) -> LoadReport: ...

    def clocks(self) -> Sequence[WorkerClock]: ...


class Observers(Protocol):
    """Readers of the instances beside the load: `observe.Observers`, or those of a simulated lab."""

    def begin(self, count: int) -> None: ...

    def target_progress(self) -> TargetProgress: ...

    def window_begins(self) -> None: ...

    def window_ends(self) -> None: ...

    def changes(self, *, timeout_s: float) -> dict[str, dict[str, list[Any]]]: ...

    def end(self) -> Observed: ...

    def close(self) -> None: ...


class Times(Protocol):
    """Seconds of the lab's clock, and when clients send: `Settings`, or those of a simulated cell."""

    @property
    def settle(self) -> float: ...

    @property
    def measure(self) -> float: ...

    @property
    def drain(self) -> float: ...

    @property
    def open_loop(self) -> OpenLoop | None: ...


@dataclass
class Equipment:
    """The equipment of a cell, beside its dialogs."""

    lab: Lab
    clients: Clients
    observers: Observers
    target: pyodbc.Connection
    initiators: Sequence[pyodbc.Connection]


@dataclass
class Attempt:
    """The protocol of a cell. Call `run` once."""

    visit: Visit
    number: int
    run_number: int
    equipment: Equipment
    settings: Times
    results: Path
    phases: Phases
    settles_in_full: bool = False  # measuring begins after the longest settling, even if the cell is steady before
    on_stopped: Callable[[], None] = lambda: None  # called when clients have stopped and messages are still processed
    events: EventSessions | None = None  # None: none are recorded
    sending: Sending | None = None  # None: that of the lab's workload
    moments: Moments = field(default_factory=Moments)
    unsteady: Sequence[str] = ()  # what had not settled when the window began
    readers_at_begin: int = 0  # queue readers of the target when the window began
    readers_at_end: int = 0
    machine: MachineUse | None = None  # None in virtual time, and where the system does not say
    observed: Observed | None = None
    report: LoadReport | None = None
    accounts: Accounts = field(init=False)
    accounting: Accounting = field(default_factory=Accounting)
    punctuality: Punctuality = IN_TIME
    shortfall: str = ""  # of the rate that an open loop asks for
    pages: dialog_pages.Spread = field(default_factory=dict)  # of the pool's dialogs, where they are known
    changes: Mapping[str, dict[str, list[Any]]] = field(default_factory=dict)  # records of changes over the window
    clock_rows: Sequence[ClockRow] = ()  # of the record `clocks`
    event_columns: Columns | None = None  # of the record `events`

    @property
    def cell(self) -> Cell:
        return self.visit.cell

    def run(self) -> Measured:
        try:
            with named_failures(self.equipment.lab):
                return self._run()
        except CellFailed as failure:
            self._write_cell("failed", str(failure))
            raise

    def _run(self) -> Measured:
        parts = self.equipment
        with self.phases.phase("prepare"):
            parts.lab.check()
            dialog_pool.empty_tables(parts.lab, parts.target)
            sending = self.sending = self.sending or self._of_workload()
            self.accounts = self._accounts_of(sending)
            parts.clients.prepare(
                CellPlan(
                    self.visit,
                    self.number,
                    self.run_number,
                    [instance.client_connection_string() for instance in self._taking_part()],
                    sending.handles,
                    self.results,
                    sending.client,
                    self.settings.open_loop,
                    sending.bodies,
                )
            )
            clocks_before = self._clocks()
        parts.observers.begin(1 + self.cell.initiators)
        try:
            with self.phases.phase("settle"):
                parts.clients.start()
                self.moments.started_at_ns = parts.lab.clock.utc_ns()
                self._settle()
            with self.phases.phase("measure"):
                self._measure()
            if self.events is not None:
                with self.phases.phase("events"):
                    self._collect(self.events)
        finally:
            with self.phases.phase("stop"):
                report = self.report = self._stop()
        assert report is not None  # else the block above has raised
        self.clock_rows = worker_clocks.rows(clocks_before, self._clocks())
        with self.phases.phase("drain"):
            self.on_stopped()
            self._drain(report)
        with self.phases.phase("accounting"):
            observed = self.observed = parts.observers.end()
            self.accounting = self.accounts.account(report)
            self._require_faultless(report)
        with self.phases.phase("write"):
            calls = self._calls(report.barriers_at_ns)
            measured = self._measured(report, calls, self._write(observed.records, calls))
            self._write_cell("completed", "", measured)
        clocks = worker_clocks.complaints(self.clock_rows)
        for complaint in (*observed.failures, *clocks, *filter(None, [self.shortfall])):
            self.phases.reporter.note(f"{self.phases.cell}: {complaint}")
        return measured

    def _clocks(self) -> Clocks:
        return worker_clocks.against_target(self.equipment.clients.clocks(), self.equipment.target)

    def _of_workload(self) -> Sending:
        """Return the call of the lab's workload, with the dialogs of the pool or the target's broker instance."""
        lab, cell = self.equipment.lab, self.cell
        initiators = self.equipment.initiators[: cell.initiators]
        client = lab.workload.client
        handles = dialog_pool.identifiers(lab, initiators, client, cell.dialog_ratio, cell.threads)
        return Sending(client, handles, lab.workload.bodies)

    def _accounts_of(self, sending: Sending) -> Accounts:
        parts, progress = self.equipment, self.equipment.observers.target_progress
        has_dialogs = not sending.client.begins_dialogs
        if parts.lab.workload.is_counted:
            initiators = list(zip(self._taking_part(), parts.initiators, strict=False))
            return CountAccounts(parts.lab, initiators, progress, has_dialogs=has_dialogs)
        return HeaderAccounts(parts.target, self.run_number, progress, has_order=has_dialogs)

    def _taking_part(self) -> list[Instance]:
        return self.equipment.lab.initiators[: self.cell.initiators]

    def _settle(self) -> None:
        settling = Settling(self.settings.settle)
        parts = self.equipment
        clock = parts.lab.clock
        began, last_watch = clock.now_s(), 0.0
        while True:
            progress = parts.clients.progress()
            at_s = clock.now_s() - began
            if progress.counted_at_ns:
                settling.add_sent((progress.counted_at_ns - self.moments.started_at_ns) / 1e9, progress.sent)
            if settling.is_due(at_s):
                settling.add_target(at_s, self.accounts.progress())
            is_over = not self.settles_in_full and (not settling.unsteady() or settling.cannot_keep_up())
            if is_over or at_s >= settling.longest_s:
                break
            if at_s - last_watch > WATCH_S:
                last_watch = at_s
                parts.lab.check()
            clock.sleep(POLL_S)
        self.unsteady = settling.unsteady()

    def _measure(self) -> None:
        parts = self.equipment
        self.readers_at_begin = self.accounts.progress().readers
        is_real = not parts.lab.kind.can.virtual_time
        machine_before = MachineTotals.now() if is_real else None
        parts.observers.window_begins()
        clock = parts.lab.clock
        self.moments.measured_from_ns = clock.utc_ns()
        until = clock.now_s() + self.settings.measure
        while (left := until - clock.now_s()) > 0:
            clock.sleep(min(WATCH_S, left))
            parts.lab.check()
            self.phases.reporter.rate(parts.clients.progress().calls_per_s)
        self.moments.measured_to_ns = clock.utc_ns()
        parts.observers.window_ends()
        machine_after = MachineTotals.now() if machine_before else None
        self.readers_at_end = self.accounts.progress().readers
        self.changes = parts.observers.changes(timeout_s=SNAPSHOT_TIMEOUT_S)
        if machine_before and machine_after:
            instances_s = _processor_s_elsewhere(parts.lab, self.changes)
            self.machine = machine_use(machine_before, machine_after, instances_s=instances_s)

    def _collect(self, events: EventSessions) -> None:
        """Record events while the clients still send, after the window, which they would disturb."""
        clock = self.equipment.lab.clock
        try:
            runs = events.begin([self.equipment.lab.target, *self._taking_part()])
            until = clock.now_s() + event_sessions.COLLECT_S * runs
            while (left := until - clock.now_s()) > 0:
                clock.sleep(min(WATCH_S, left))
                self.equipment.lab.check()
        finally:
            self.event_columns = events.end()

    def _stop(self) -> LoadReport | None:
        """Stops the clients, after a failure too. The first failure is the one to report."""
        if not self.moments.measured_to_ns:
            with contextlib.suppress(LoadError):
                return self.equipment.clients.stop()
            return None
        report = self.equipment.clients.stop()
        self.moments.started_at_ns, self.moments.stopped_at_ns = report.started_at_ns, report.stopped_at_ns
        return report

    def _drain(self, report: LoadReport) -> None:
        parts = self.equipment
        clients = parts.initiators[: self.cell.initiators]
        try:
            dialog_pool.wait_until_drained(
                parts.lab,
                self._taking_part(),
                clients,
                parts.target,
                expected=report.sent_messages,
                timeout_s=self.settings.drain,
            )
        except LabError as error:
            parts.lab.check()
            raise CellFailed(f"not drained: {error}", is_final=isinstance(error, FINAL)) from None
        self.moments.drained_at_ns = parts.lab.clock.utc_ns()

    def _require_faultless(self, report: LoadReport) -> None:
        if report.problems or report.failed_calls:
            calls = counted(report.failed_calls, "call")
            reason = report.problems[0] if report.problems else f"{calls} failed: {report.errors[0][0]}"
            errors = [is_lasting(text) for text, _ in report.errors]
            raise CellFailed(explain(reason), is_final=not report.sent_messages and bool(errors) and all(errors))
        if not self.accounting.is_exact:
            raise CellFailed(self.accounting.reason())
        if noted := dialog_pool.recorded_errors(self.equipment.target):
            raise CellFailed(noted)

    def _write(
        self, observed: Mapping[str, dict[str, list[Any]]], calls: Mapping[Share, Calls]
    ) -> Mapping[str, Columns]:
        """Write all records but that of the cell; return those of processed messages."""
        moments = self.moments
        processed = self.accounts.records(
            np.concatenate([one.returned for one in calls.values()]),
            observed["samples"],
            (moments.started_at_ns, moments.measured_from_ns, moments.measured_to_ns, moments.drained_at_ns),
        )
        found: dict[str, Columns] = {**processed, **observed, **self.changes}
        if self.pages:
            found["dialog_pages"] = dialog_pages.columns(
                dialog_pages.used(self.pages, self.cell.dialog_ratio, self.cell.threads)
            )
        if self.event_columns:
            found["events"] = self.event_columns
        if self.clock_rows:
            found["clocks"] = records.columns("clocks", self.clock_rows)
        found["health"] = _health_columns(self.report.health if self.report else ())
        if self.machine:
            found["machine"] = {name: [value] for name, value in asdict(self.machine).items()}
        for kind, columns in found.items():
            records.write(self.results, kind, self.visit, self.number, columns)
        self.phases.reporter.recorded(found, range(moments.measured_from_ns, moments.measured_to_ns))
        return processed

    def _write_cell(self, outcome: str, reason: str, measured: Measured | None = None) -> None:
        moments, report, counts = self.moments, self.report, self.accounting
        values = {
            "outcome": outcome,
            "reason": reason,
            "state": measured.state if measured else "",
            "state_reason": measured.state_reason if measured else "",
            "started_at_ns": moments.started_at_ns,
            "measured_from_ns": moments.measured_from_ns,
            "measured_to_ns": moments.measured_to_ns,
            "stopped_at_ns": moments.stopped_at_ns,
            "drained_at_ns": moments.drained_at_ns,
            "settled": moments.measured_from_ns > 0 and not self.unsteady,
            "readers_at_begin": self.readers_at_begin,
            "readers_at_end": self.readers_at_end,
            "late_samples": self.observed.late_samples if self.observed else 0,
            "sent_messages": report.sent_messages if report else 0,
            "processed_messages": counts.processed,
            "lost_messages": counts.lost,
            "duplicated_messages": counts.duplicated,
            "misordered_messages": counts.misordered,
            "failed_calls": report.failed_calls if report else 0,
            **self.punctuality.columns(),
        }
        records.write(self.results, "cells", self.visit, self.number, {name: [value] for name, value in values.items()})

    def _measured(self, report: LoadReport, calls: Mapping[Share, Calls], processed: Mapping[str, Columns]) -> Measured:
        open_loop = self.settings.open_loop
        measures = Measures({**asdict(self.moments), "rate_per_s": open_loop.rate_per_s if open_loop else 0.0})
        for own in calls.values():
            measures.add("calls", {"intended_at_ns": own.intended, "latency_ns": own.returned - own.intended})
        for kind, columns in processed.items():
            measures.add(kind, {name: np.asarray(columns[name], np.int64) for name in COLUMNS_READ[kind]})
        window, window_s = measures.window, measures.window.length_s
        if open_loop:
            self.punctuality = punctuality(
                open_loop, calls, report.barriers_at_ns, self.visit.block, range(window.begin_ns, window.end_ns)
            )
        self.shortfall = self.punctuality.complaint(measures.calls, window_s, self.cell.initiators)
        state, state_reason = judge(
            Evidence(
                window_s=window_s,
                sent_in_window=measures.calls,
                processed_in_window=measures.processed,
                unsteady=self.unsteady,
                readers_at_begin=self.readers_at_begin,
                readers_at_end=self.readers_at_end,
                growth_bytes=sum(self.changes.get("file_io", {}).get("growth_bytes", ())),
                pages_read=self._pages_read(),
                health=report.health,
                shortfall=self.shortfall,
                machine=self.machine,
            )
        )
        return Measured(
            sent_per_s=measures.sent_per_s,
            processed_per_s=measures.processed_per_s,
            sent=report.sent_messages,
            window_s=window_s,
            columns=measures.columns(),
            punctuality=self.punctuality,
            state=state,
            state_reason=state_reason,
            is_counted=self.equipment.lab.workload.is_counted,
        )

    def _pages_read(self) -> dict[str, int]:
        databases = {instance.name: instance.database for instance in self.equipment.lab.instances}
        return snapshots.pages_read(self.changes.get("file_io", records.columns("file_io", [])), databases)

    def _calls(self, shares: Iterable[Share]) -> dict[Share, Calls]:
        """Read the calls of each worker's clients from its file."""
        found = {}
        for share in shares:
            path = records.raw_path(self.results, "calls", self.visit, self.number, share.writer)
            # A simulated cell is a process of its own and would start threads for three columns.
            names = ["intended_at_ns", "started_at_ns", "latency_ns"]
            table = pq.ParquetFile(path).read(names, use_threads=False)
            # `to_numpy` would import pandas.
            columns = (np.from_dlpack(table[name].combine_chunks()) for name in names)
            intended, started, latency = (np.asarray(column, dtype=np.int64) for column in columns)
            found[share] = Calls(intended, started, intended + latency)
        return found


def _health_columns(workers: Sequence[GeneratorHealth]) -> dict[str, list[Any]]:
    rows = [
        (one.initiator, one.processor_percent, one.run_delay_percent, one.hub_lag_ms_max, 100 * (1 - one.time_in_calls))
        for one in workers
    ]
    return records.columns("health", rows)


def _processor_s_elsewhere(lab: Lab, changes: Mapping[str, dict[str, list[Any]]]) -> float:
    """Processor time in the window of those instances on this machine that are not descendants of this process."""
    if lab.kind.can.instances_are_children:
        return 0.0
    spent_ms: dict[str, int] = {}
    # A container's own count, where it is known, includes what runs in it beside the instance.
    for record, column in (("processors", "processor_time_ms"), ("containers", "container_time_ms")):
        used = changes.get(record, {"instance": [], column: []})
        spent_ms |= zip(used["instance"], used[column], strict=True)
    here = [one.name for one in lab.instances if one.control_group is not None or placement.is_here(one.host)]
    return sum(spent_ms.get(name, 0) for name in here) / 1000
