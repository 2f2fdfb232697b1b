"""One attempt at one cell: prepare, start, settle, measure, stop, drain, account for every message, write.

Each phase is a function. What it returns is gathered, so that the record of a cell that failed says how far it came.
Every failure on the way is a `CellFailed` whose one line names the part: a dead process with its signal, failed calls
with the driver's text, stuck messages with the broker's own reason.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from harness.definitions.load_model import OpenLoop
from harness.definitions.matrix import Cell, Visit
from harness.definitions.measures import COLUMNS_READ, Measures
from harness.definitions.units import counted
from harness.files import records
from harness.files.records import State
from harness.files.settings import RunSettings
from harness.lab import dialog_pool, placement
from harness.lab.drivers import Connection
from harness.lab.error_remedies import explain, is_lasting
from harness.lab.instances import Instance, Lab, LabError
from harness.load.plan import CellPlan, GeneratorHealth, LoadError, LoadReport, Progress, Sending, Share
from harness.machine.clocks import ClockDifference
from harness.observe import dialog_pages, event_sessions, snapshots
from harness.observe.event_sessions import EventSessions
from harness.observe.machine_use import MachineTotals, MachineUse, machine_use
from harness.observe.observers import Observed, TargetProgress
from harness.output.reporting import Reporter
from harness.run import cell_clocks
from harness.run.accounting import Accounting
from harness.run.accounts import Accounts, Columns, CountAccounts, HeaderAccounts
from harness.run.arrangement import Arrangement
from harness.run.cell_clocks import CellClocks, Reading
from harness.run.cell_failures import FINAL, CellFailed, named_failures
from harness.run.leaks import Leaks, Sides
from harness.run.phases import Phases
from harness.run.punctuality import IN_TIME, Calls, Punctuality, punctuality
from harness.run.settling import Settling
from harness.run.steadiness import RATE_ERROR_AIM
from harness.run.validity import Evidence, judge

POLL_S = 0.02
WATCH_S = 0.1  # between checks that every process is alive
# The window grows up to so many times its length while the rate processed is not known well enough.
WINDOW_GROWTH_MAX = 4
SETTLE_OF_FIRST = 2  # times as long as the others, of the first cell on new dialogs
SNAPSHOT_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Measured:
    """The numbers of a cell that a user sees at once. Reductions compute all others."""

    sent_per_s: float
    processed_per_s: float
    sent: int
    window_s: float
    columns: Mapping[str, float | None]  # as tables have them: `harness.definitions.measures`
    punctuality: Punctuality = IN_TIME
    shortfall: str = ""  # of the rate that an open loop asks for
    state: State = State.VALID
    state_reason: str = ""
    is_counted: bool = False  # messages were counted, not matched one by one
    leak: str = ""  # conversations that the cell has left behind

    @property
    def accounted(self) -> str:
        """What became of the messages, in words."""
        fate = "each processed once and in order"
        if self.is_counted:
            fate = "none left in a queue (counted, not matched one by one)"
        return f"{counted(self.sent, 'message')} sent, {fate}{f'; but {self.leak}' if self.leak else ''}"


@dataclass
class Moments:
    """Nanoseconds since 1970, 0 until reached."""

    started_at_ns: int = 0
    measured_from_ns: int = 0
    measured_to_ns: int = 0
    stopped_at_ns: int = 0
    drained_at_ns: int = 0

    @property
    def window(self) -> range:
        """The measured window."""
        return range(self.measured_from_ns, self.measured_to_ns)


class Clients(Protocol):
    """The test clients: Locust's, or those of a simulated lab."""

    def prepare(self, plan: CellPlan) -> None: ...

    def start(self) -> None: ...

    def progress(self) -> Progress: ...

    def stop(self) -> LoadReport: ...

    def clocks(self) -> Mapping[str, ClockDifference]: ...


class Observers(Protocol):
    """Readers of the instances beside the load: `observe.Observers`, or those of a simulated lab."""

    def begin(self, count: int) -> None: ...

    def target_progress(self) -> TargetProgress: ...

    def window_begins(self) -> None: ...

    def window_ends(self) -> None: ...

    def changes(self, *, timeout_s: float) -> dict[str, dict[str, list[Any]]]: ...

    def end(self) -> Observed: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Times:
    """How long the phases of a cell last, in seconds of the lab's clock, and when its clients send."""

    settle: float
    measure: float
    drain: float = 60.0
    open_loop: OpenLoop | None = None

    @classmethod
    def of(
        cls, settings: RunSettings, open_loop: OpenLoop | None, attempt: int, *, is_first_of_group: bool = False
    ) -> Self:
        """Return the times of an attempt: the second and third settle and measure two and three times as long.

        The first cell on new dialogs may settle twice as long too: nothing is in memory yet, and the sixteen queue
        readers of the paper take 80 s and more to start.
        """
        settle_times = max(attempt, SETTLE_OF_FIRST if is_first_of_group else 1)
        return cls(settle_times * settings.settle, attempt * settings.measure, settings.drain, open_loop)


@dataclass
class Equipment:
    """The equipment of a cell, beside its dialogs."""

    lab: Lab
    clients: Clients
    observers: Observers
    target: Connection
    initiators: Sequence[Connection]


@dataclass(frozen=True)
class Attempt:
    """What is attempted, and how."""

    visit: Visit
    number: int
    run_number: int  # in the payloads
    times: Times
    results: Path
    settles_in_full: bool = False  # measuring begins after the longest settling, even if the cell is steady before
    while_sending: Callable[[], None] = lambda: None  # called after the window
    on_stopped: Callable[[], None] = lambda: None  # called when clients have stopped and messages are still processed
    events: EventSessions | None = None  # None: none are recorded
    sending: Sending | None = None  # None: that of the lab's workload
    in_batch: bool = False  # the target receives once the clients have stopped
    pages: dialog_pages.Spread = field(default_factory=dict)  # of the pool's dialogs, where they are known
    others_before_percent: float = 0.0  # of the processors' time: what other processes used before the run
    stolen_before_percent: float = 0.0  # likewise: what the hypervisor took in the run until now

    def taking_part(self, lab: Lab) -> list[Instance]:
        return lab.initiators[: self.visit.cell.initiators]


@dataclass(frozen=True)
class Window:
    """What was found at both ends of the measured window and over it."""

    readers_at_begin: int = 0  # queue readers of the target
    readers_at_end: int = 0
    queue_growth: int = 0  # messages that the target's queue gained
    changes: Mapping[str, dict[str, list[Any]]] = field(default_factory=dict)  # records of the instances
    machine: MachineUse | None = None  # None in virtual time, and where the system does not say


@dataclass
class Reached:
    """How far an attempt has come: what its phases have returned, or what holds until they do."""

    moments: Moments = field(default_factory=Moments)
    unsteady: Sequence[str] = ()  # what had not settled when the window began
    clocks_set: Sequence[str] = ()  # from before the cell until after it, in words
    window: Window = Window()
    report: LoadReport | None = None
    observed: Observed | None = None
    accounting: Accounting = field(default_factory=Accounting)
    punctuality: Punctuality = IN_TIME

    def row(self) -> dict[str, Any]:
        """Return the row of the record `cells`, without outcome and state."""
        report, counts = self.report, self.accounting
        return {
            **asdict(self.moments),
            "settled": self.moments.measured_from_ns > 0 and not self.unsteady,
            "readers_at_begin": self.window.readers_at_begin,
            "readers_at_end": self.window.readers_at_end,
            "late_samples": self.observed.late_samples if self.observed else 0,
            "sent_messages": report.sent_messages if report else 0,
            "processed_messages": counts.processed,
            "lost_messages": counts.lost,
            "duplicated_messages": counts.duplicated,
            "misordered_messages": counts.misordered,
            "failed_calls": report.failed_calls if report else 0,
            **self.punctuality.columns(),
        }


def run(attempt: Attempt, equipment: Equipment, phases: Phases) -> Measured:
    """Attempt a cell once and write its records; raises CellFailed."""
    reached = Reached()
    try:
        with named_failures(equipment.lab):
            return _run(attempt, equipment, phases, reached)
    except CellFailed as failure:
        _write_cell(attempt, reached, "failed", reason=str(failure))
        raise


def _run(attempt: Attempt, equipment: Equipment, phases: Phases, reached: Reached) -> Measured:
    lab, observers, events = equipment.lab, equipment.observers, None
    with phases.phase("prepare"):
        accounts = _prepare(attempt, equipment)
        clocks_before = _clocks(equipment)
        leaks = None if lab.kind.can.virtual_time else Leaks(partial(_sides, attempt, equipment), lab.clock)
    observers.begin(1 + attempt.visit.cell.initiators)
    try:
        with phases.phase("settle"):
            equipment.clients.start()
            reached.moments.started_at_ns = lab.clock.utc_ns()
            settling = _settle(attempt, equipment, accounts, reached.moments)
            reached.unsteady = settling.unsteady()
        with phases.phase("measure"):
            reached.window = _measure(
                attempt, equipment, accounts, settling, reporter=phases.reporter, moments=reached.moments
            )
        if attempt.events is not None:
            with phases.phase("events"):
                events = _collect(attempt.events, attempt, lab)
        attempt.while_sending()
    finally:
        with phases.phase("stop"):
            report = reached.report = _stop(equipment.clients, reached.moments)
    assert report is not None  # else the block above has raised
    with phases.phase("drain"):
        attempt.on_stopped()
        reached.moments.drained_at_ns = _drain(attempt, equipment, report)
    clocks = CellClocks(clocks_before, _clocks(equipment))
    reached.clocks_set = clocks.set_meanwhile()
    with phases.phase("accounting"):
        observed = reached.observed = observers.end()
        reached.accounting = accounts.account(report)
        _require_faultless(report, reached.accounting, equipment.target)
        left_behind = leaks.after(report.sent_messages) if leaks else []
    with phases.phase("write"):
        moments, calls = reached.moments, _calls(attempt, report.barriers_at_ns)
        processed = accounts.records(
            np.concatenate([call.returned for call in calls.values()]),
            observed.records["samples"],
            (moments.started_at_ns, moments.measured_from_ns, moments.measured_to_ns, moments.drained_at_ns),
        )
        processed = clocks.moved(processed)
        records_of_cell: dict[str, Columns] = {**processed, **observed.records, **reached.window.changes}
        if events:
            records_of_cell["events"] = events
        if clock_rows := clocks.rows():
            records_of_cell["clocks"] = records.columns("clocks", clock_rows)
        if left_behind:
            records_of_cell["leaks"] = records.columns("leaks", left_behind)
        _write(attempt, records_of_cell, report, reached.window)
        phases.reporter.recorded({**records_of_cell, "calls": _of_all(calls)}, moments.window)
        measured = _measured(attempt, equipment.lab, reached, calls, processed)
        _write_cell(attempt, reached, "completed", state=measured.state, state_reason=measured.state_reason)
    leak = "; ".join(map(str, left_behind))
    for complaint in (*observed.failures, *filter(None, [measured.shortfall, leak])):
        phases.reporter.note(f"{phases.cell}: {complaint}")
    return replace(measured, leak=leak)


def _sides(attempt: Attempt, equipment: Equipment) -> Sides:
    initiators = zip(attempt.taking_part(equipment.lab), equipment.initiators, strict=False)
    return [(equipment.lab.target, equipment.target), *initiators]


def _clocks(equipment: Equipment) -> Reading:
    if equipment.lab.kind.can.virtual_time:  # one clock
        return Reading(0, 0, {})
    return cell_clocks.read(equipment.target, equipment.clients.clocks())


def _prepare(attempt: Attempt, equipment: Equipment) -> Accounts:
    """Empty the target's tables and tell the clients what to send; return the accounts of their messages."""
    lab, visit = equipment.lab, attempt.visit
    lab.check()
    dialog_pool.empty_tables(lab, equipment.target)
    sending = attempt.sending or sending_of(lab, equipment.initiators, visit.cell)
    accounts = _accounts_of(sending, attempt, equipment)
    equipment.clients.prepare(
        CellPlan(
            visit,
            attempt.number,
            attempt.run_number,
            [instance.client_connection_string() for instance in attempt.taking_part(lab)],
            sending.handles,
            attempt.results,
            sending.client,
            attempt.times.open_loop,
            sending.bodies,
        )
    )
    return accounts


def sending_of(
    lab: Lab, initiators: Sequence[Connection], cell: Cell, arrangement: Arrangement | None = None
) -> Sending:
    """Return the call of a workload, the lab's without an arrangement, with the dialogs of the pool or the target's
    broker instance."""
    workload = arrangement.workload if arrangement else lab.workload
    share_one = arrangement is not None and arrangement.used_dialogs(cell.threads) == 1
    used = 1 if share_one else cell.threads
    handles = dialog_pool.identifiers(lab, initiators[: cell.initiators], workload.client, cell.dialog_ratio, used)
    if share_one:
        handles = [handles[:1] * cell.threads for handles in handles]
    return Sending(workload.client, handles, workload.bodies)


def _accounts_of(sending: Sending, attempt: Attempt, equipment: Equipment) -> Accounts:
    lab, progress = equipment.lab, equipment.observers.target_progress
    has_dialogs = not sending.client.begins_dialogs
    if lab.workload.is_counted:
        initiators = list(zip(attempt.taking_part(lab), equipment.initiators, strict=False))
        return CountAccounts(lab, initiators, progress, has_dialogs=has_dialogs)
    return HeaderAccounts(lambda: equipment.target, attempt.run_number, progress, has_order=has_dialogs)


def _settle(attempt: Attempt, equipment: Equipment, accounts: Accounts, moments: Moments) -> Settling:
    """Wait until rates are steady, at most as long as a cell may settle; return the readings."""
    settling = Settling(attempt.times.settle)
    lab, last_watch = equipment.lab, 0.0
    while True:
        at_s = _read(settling, equipment, accounts, moments)
        is_over = not attempt.settles_in_full and (not settling.unsteady() or settling.cannot_keep_up())
        if is_over or at_s >= settling.longest_s:
            return settling
        if at_s - last_watch > WATCH_S:
            last_watch = at_s
            lab.check()
        lab.clock.sleep(POLL_S)


def _read(settling: Settling, equipment: Equipment, accounts: Accounts, moments: Moments) -> float:
    """Add what was sent, and when it is time what was processed; return the seconds since the clients started."""
    progress = equipment.clients.progress()
    at_s = (equipment.lab.clock.utc_ns() - moments.started_at_ns) / 1e9
    if progress.counted_at_ns:
        settling.add_sent((progress.counted_at_ns - moments.started_at_ns) / 1e9, progress.sent)
    if settling.is_due(at_s):
        settling.add_target(at_s, accounts.progress())
    return at_s


def _measure(
    attempt: Attempt,
    equipment: Equipment,
    accounts: Accounts,
    settling: Settling,
    *,
    reporter: Reporter,
    moments: Moments,
) -> Window:
    lab, observers = equipment.lab, equipment.observers
    at_begin = accounts.progress()
    machine_before = None if lab.kind.can.virtual_time else MachineTotals.now()
    observers.window_begins()
    moments.measured_from_ns = lab.clock.utc_ns()
    first_s = (moments.measured_from_ns - moments.started_at_ns) / 1e9

    def look() -> None:
        _read(settling, equipment, accounts, moments)
        reporter.rate(equipment.clients.progress().calls_per_s)

    for _ in range(WINDOW_GROWTH_MAX):
        _watch(lab, attempt.times.measure, look)
        # Where no reader runs, as in a batch, time makes the rate no better known.
        if not settling.readers or settling.processed_error(first_s) <= RATE_ERROR_AIM:
            break
    moments.measured_to_ns = lab.clock.utc_ns()
    observers.window_ends()
    machine_after = MachineTotals.now() if machine_before else None
    at_end = accounts.progress()
    changes = observers.changes(timeout_s=SNAPSHOT_TIMEOUT_S)
    machine = None
    if machine_before and machine_after:
        machine = machine_use(machine_before, machine_after, instances_s=_processor_s_elsewhere(lab, changes))
    return Window(at_begin.readers, at_end.readers, at_end.queue_depth - at_begin.queue_depth, changes, machine)


def _watch(lab: Lab, seconds: float, look: Callable[[], None] = lambda: None) -> None:
    """Let time pass; raises LabError if an instance ends meanwhile."""
    end_s = lab.clock.now_s() + seconds
    while (left := end_s - lab.clock.now_s()) > 0:
        lab.clock.sleep(min(WATCH_S, left))
        lab.check()
        look()


def _collect(events: EventSessions, attempt: Attempt, lab: Lab) -> Columns | None:
    """Record events while the clients still send, after the window, which they would disturb."""
    try:
        runs = events.begin([lab.target, *attempt.taking_part(lab)])
        _watch(lab, event_sessions.COLLECT_S * runs)
    finally:
        columns = events.end()
    return columns


def _stop(clients: Clients, moments: Moments) -> LoadReport | None:
    """Stop the clients, after a failure too. The first failure is the one to report."""
    if not moments.measured_to_ns:
        with contextlib.suppress(LoadError):
            return clients.stop()
        return None
    report = clients.stop()
    moments.started_at_ns, moments.stopped_at_ns = report.started_at_ns, report.stopped_at_ns
    return report


def _drain(attempt: Attempt, equipment: Equipment, report: LoadReport) -> int:
    """Wait until everything sent has been processed; return when it was, in nanoseconds since 1970."""
    lab = equipment.lab
    try:
        dialog_pool.wait_until_drained(
            lab,
            attempt.taking_part(lab),
            equipment.initiators[: attempt.visit.cell.initiators],
            equipment.target,
            expected=report.sent_messages,
            timeout_s=attempt.times.drain,
        )
    except LabError as error:
        lab.check()
        raise CellFailed(f"not drained: {error}", is_final=isinstance(error, FINAL)) from None
    return lab.clock.utc_ns()


def _require_faultless(report: LoadReport, accounting: Accounting, target: Connection) -> None:
    if report.problems or report.failed_calls:
        calls = counted(report.failed_calls, "call")
        reason = report.problems[0] if report.problems else f"{calls} failed: {report.errors[0][0]}"
        errors = [is_lasting(text) for text, _ in report.errors]
        raise CellFailed(explain(reason), is_final=not report.sent_messages and bool(errors) and all(errors))
    if not accounting.is_exact:
        raise CellFailed(accounting.reason())
    if noted := dialog_pool.recorded_errors(target):
        raise CellFailed(noted)


def _write(attempt: Attempt, rows_by_kind: dict[str, Columns], report: LoadReport, window: Window) -> None:
    """Write all records but that of the cell."""
    if attempt.pages:
        cell = attempt.visit.cell
        rows_by_kind["dialog_pages"] = dialog_pages.columns(
            dialog_pages.used(attempt.pages, cell.dialog_ratio, cell.threads)
        )
    rows_by_kind["health"] = _health_columns(report.health)
    if window.machine:
        rows_by_kind["machine"] = {name: [value] for name, value in asdict(window.machine).items()}
    for kind, columns in rows_by_kind.items():
        records.write(attempt.results, kind, attempt.visit, attempt.number, columns)


def _write_cell(
    attempt: Attempt, reached: Reached, outcome: str, *, reason: str = "", state: str = "", state_reason: str = ""
) -> None:
    row = {"outcome": outcome, "reason": reason, "state": state, "state_reason": state_reason, **reached.row()}
    columns = {name: [value] for name, value in row.items()}
    records.write(attempt.results, "cells", attempt.visit, attempt.number, columns)


def _measured(
    attempt: Attempt, lab: Lab, reached: Reached, calls: Mapping[Share, Calls], processed: Mapping[str, Columns]
) -> Measured:
    """Return the numbers of the cell; `reached` gets its punctuality."""
    open_loop, report, changes = attempt.times.open_loop, reached.report, reached.window.changes
    assert report is not None
    if open_loop:
        reached.punctuality = punctuality(
            open_loop, calls, report.barriers_at_ns, attempt.visit.block, reached.moments.window
        )
    moments = {**asdict(reached.moments), **reached.punctuality.columns()}
    measures = Measures(moments, in_batch=attempt.in_batch)
    for of_worker in calls.values():
        latencies_ns = of_worker.returned - of_worker.intended
        measures.add("calls", {"intended_at_ns": of_worker.intended, "latency_ns": latencies_ns})
    for kind, columns in processed.items():
        measures.add(kind, {name: np.asarray(columns[name], np.int64) for name in COLUMNS_READ[kind]})
    window_s, cell = measures.window.length_s, attempt.visit.cell
    shortfall = reached.punctuality.complaint(measures.calls, window_s, cell.initiators)
    state, state_reason = judge(
        Evidence(
            window_s=window_s,
            in_batch=attempt.in_batch,
            sent=measures.calls_by_part,
            processed=measures.processed_by_part,
            readers_at_begin=reached.window.readers_at_begin,
            readers_at_end=reached.window.readers_at_end,
            queue_growth=reached.window.queue_growth,
            growth_bytes=snapshots.growth_bytes(changes.get("file_io", records.columns("file_io", []))),
            pages_read=_pages_read(lab, changes),
            health=report.health,
            shortfall=shortfall,
            machine=reached.window.machine,
            others_before_percent=attempt.others_before_percent,
            stolen_before_percent=attempt.stolen_before_percent,
            clocks_set=reached.clocks_set,
        )
    )
    return Measured(
        sent_per_s=measures.sent_per_s,
        processed_per_s=measures.processed_per_s,
        sent=report.sent_messages,
        window_s=window_s,
        columns=measures.columns(),
        punctuality=reached.punctuality,
        shortfall=shortfall,
        state=state,
        state_reason=state_reason,
        is_counted=lab.workload.is_counted,
    )


def _pages_read(lab: Lab, changes: Mapping[str, dict[str, list[Any]]]) -> dict[str, int]:
    databases = {instance.name: instance.database for instance in lab.instances}
    return snapshots.pages_read(changes.get("file_io", records.columns("file_io", [])), databases)


def _calls(attempt: Attempt, shares: Iterable[Share]) -> dict[Share, Calls]:
    """Read the calls of each worker's clients from its file."""
    by_share = {}
    for share in shares:
        path = records.raw_path(attempt.results, "calls", attempt.visit, attempt.number, share.writer)
        # A simulated cell is a process of its own and would start threads for three columns.
        names = ["intended_at_ns", "started_at_ns", "latency_ns"]
        table = pq.ParquetFile(path).read(names, use_threads=False)
        # `to_numpy` would import pandas.
        columns = (np.from_dlpack(table[name].combine_chunks()) for name in names)
        intended, started, latency = (np.asarray(column, dtype=np.int64) for column in columns)
        by_share[share] = Calls(intended, started, intended + latency)
    return by_share


def _of_all(calls: Mapping[Share, Calls]) -> dict[str, npt.NDArray[np.int64]]:
    """The latencies of all workers' calls, with their intended starts."""
    intended = np.concatenate([of_worker.intended for of_worker in calls.values()])
    return {
        "intended_at_ns": intended,
        "latency_ns": np.concatenate([of_worker.returned for of_worker in calls.values()]) - intended,
    }


def _health_columns(workers: Sequence[GeneratorHealth]) -> dict[str, list[Any]]:
    rows = [
        (
            worker.initiator,
            worker.processor_percent,
            worker.run_delay_percent,
            worker.hub_lag_ms_max,
            100 * (1 - worker.time_in_calls),
            worker.round_trip_ms,
        )
        for worker in workers
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
    on_this_machine = [
        instance.name
        for instance in lab.instances
        if instance.control_group is not None or placement.is_here(instance.host)
    ]
    return sum(spent_ms.get(name, 0) for name in on_this_machine) / 1000
