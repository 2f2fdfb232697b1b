from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.definitions.lab_kinds import CONTAINERS, EMBEDDED
from harness.definitions.matrix import Cell, Visit
from harness.files import records
from harness.files import settings as settings_module
from harness.files.records import State
from harness.files.workload_file import Accounting
from harness.lab import dialog_pool, instance_clock
from harness.lab.error_remedies import REMEDIES
from harness.load.plan import SEND_MESSAGE_ON_NEW_DIALOG, LoadError, Sending
from harness.machine.clocks import ClockDifference
from harness.observe import event_sessions
from harness.observe.dialog_pages import DialogPage
from harness.observe.machine_use import MachineTotals
from harness.run import attempt as attempt_module
from harness.run.attempt import Attempt, Equipment, Measured, run
from harness.run.cell_failures import CellFailed
from harness.run.leaks import Leak
from harness.run.phases import Phases
from harness.run.validity import Evidence
from tests.noting import NotingReporter
from tests.run.fakes import CLOCK, FakeClients, FakeLab, FakeObservers, FakeServer, cell_row

CELL = Cell.parse("i2-t3-r1-p100-v2008")
RUN = 7
ON_NEW_DIALOGS = Sending(SEND_MESSAGE_ON_NEW_DIALOG, [["a broker instance"] * CELL.threads] * CELL.initiators)


class Bench:
    """Attempts at CELL on fakes."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.lab = FakeLab(CELL.initiators)
        self.target = FakeServer(RUN)
        self.initiators = [FakeServer(RUN), FakeServer(RUN)]
        self.clients = FakeClients(self.target)
        self.phases = Phases()
        self.observers = FakeObservers()

    def run(self, how: Mapping[str, Any] | None = None, **settings: Any) -> Measured:
        """Run an attempt; `how` are fields of `Attempt`."""
        parts: Any = Equipment(self.lab, self.clients, self.observers, self.target, self.initiators)  # type: ignore[arg-type]
        chosen = settings_module.create({"measure": 0.1, "settle": 0.2, **settings}, environment={})
        return run(Attempt(Visit(CELL), 1, RUN, chosen, self.results, **(how or {})), parts, self.phases)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def failed(bench: Bench, **settings: Any) -> str:
    with pytest.raises(CellFailed) as failure:
        bench.run(**settings)
    row = cell_row(bench.results)
    assert (row["outcome"], row["reason"]) == ("failed", str(failure.value))
    return str(failure.value)


def test_a_faultless_cell_leaves_every_record(bench: Bench) -> None:
    measured = bench.run()
    assert measured.sent == 2 * 3 * 5
    row = cell_row(bench.results)
    assert row["outcome"] == "completed"
    assert row["sent_messages"] == row["processed_messages"] == 30
    assert row["started_at_ns"] <= row["measured_from_ns"] < row["measured_to_ns"] <= row["drained_at_ns"]
    kinds = {path.parent.name for path in bench.results.rglob("*.parquet")}
    assert kinds == {"cells", "calls", "deliveries", "receives", "samples", "waits", "file_io", "health"}
    assert list(bench.phases.seconds) == ["prepare", "settle", "measure", "stop", "drain", "accounting", "write"]


def test_a_duplicate_fails_the_cell_however_fast_it_was(bench: Bench) -> None:
    bench.clients.deliver = lambda rows: bench.target.stored.extend([*rows, rows[-1]])
    assert "2 duplicated" in failed(bench)
    assert cell_row(bench.results)["duplicated_messages"] == 2


def test_messages_on_a_dialog_each_have_no_order(bench: Bench) -> None:
    bench.clients.deliver = lambda rows: bench.target.stored.extend(reversed(rows))
    assert "misordered" in failed(bench)
    bench.target.stored.clear()
    bench.run({"sending": ON_NEW_DIALOGS})
    assert cell_row(bench.results)["outcome"] == "completed"
    assert bench.clients.plan is not None
    assert bench.clients.plan.client == SEND_MESSAGE_ON_NEW_DIALOG
    assert bench.clients.plan.handles == ON_NEW_DIALOGS.handles


def test_a_lost_message_stops_the_drain_and_fails_the_cell(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialog_pool, "_STANDSTILL_S", 0.2)
    bench.clients.deliver = lambda rows: bench.target.stored.extend(rows[1:])
    reason = failed(bench)
    assert reason.startswith("not drained: 28 of 30 messages processed, 0 in the target's queue; its procedure has not")


@pytest.fixture
def counting(bench: Bench) -> Bench:
    """A bench whose workload stores nothing for the harness."""
    bench.lab.workload = bench.lab.workload.model_copy(update={"accounting": Accounting(by="count")})

    def sent(rows: Sequence[tuple[int, ...]]) -> None:
        for row in rows:
            bench.initiators[row[0] - 1].sent += 1

    bench.clients.deliver = sent
    return bench


def test_messages_that_are_counted_leave_a_course_instead_of_deliveries_and_receives(counting: Bench) -> None:
    measured = counting.run()
    assert measured.accounted == "30 messages sent, none left in a queue (counted, not matched one by one)"
    row = cell_row(counting.results)
    assert (row["outcome"], row["sent_messages"], row["processed_messages"]) == ("completed", 30, 30)
    kinds = {path.parent.name for path in counting.results.rglob("*.parquet")}
    assert kinds == {"cells", "calls", "processed", "samples", "waits", "file_io", "health"}
    [file] = (counting.results / "raw" / "processed").glob("*.parquet")
    assert sum(pq.read_table(file)["messages"].to_pylist()) == 30


def test_a_procedure_that_does_not_send_what_it_gets_fails_a_cell_whose_messages_are_counted(counting: Bench) -> None:
    counting.clients.deliver = lambda rows: None
    reason = "30 calls sent 0 messages: a call must send its body once"
    assert failed(counting) == reason
    counting.run({"sending": ON_NEW_DIALOGS})  # dialogs of a message each are gone after the cell: nobody knows


def test_messages_that_are_counted_and_left_over_fail_the_cell(counting: Bench) -> None:
    counting.target.queued, counting.target.queue_enabled = 7, False
    assert failed(counting, drain=0.2) == (
        "not drained: 23 of 30 messages processed, 7 in the target's queue; its queue is disabled, after five "
        "rollbacks in a row; the target's error log says why"
    )


def test_the_targets_own_transmission_queue_must_be_empty_where_messages_are_counted(counting: Bench) -> None:
    counting.target.untransmitted = 2
    assert failed(counting, drain=0.2).endswith("2 in the transmission queue of target: The route has no address")


@pytest.mark.parametrize("unprocessed, processed", [(None, 29), (4, 26)])
def test_a_received_message_is_not_processed_before_the_commit(
    counting: Bench, unprocessed: int | None, processed: int
) -> None:
    counting.target.unprocessed = unprocessed
    assert failed(counting, drain=0.2) == (
        f"not drained: {processed} of 30 messages processed, 0 in the target's queue; "
        "its procedure does not commit what it has received"
    )


def test_a_conversation_that_the_target_ended_by_an_error_fails_a_cell_whose_messages_are_counted(
    counting: Bench,
) -> None:
    body = "\ufeff<Error><Code>7</Code><Description>No such order &amp; no customer.</Description></Error>"
    counting.initiators[1].error_messages = [(body.encode("utf-16-le"), 3)]
    assert failed(counting) == "initiator-2: 3 conversations ended by an error: 7 No such order & no customer."


def test_messages_that_the_procedure_does_not_store_fail_the_cell_with_the_remedy(bench: Bench) -> None:
    bench.clients.deliver = lambda rows: None
    assert failed(bench, drain=0.2) == (
        "not drained: 0 of 30 messages processed, 0 in the target's queue; its procedure has not stored the others in "
        'dbo.messageDrop: INSERT all of them there, or count messages (by = "count" under [accounting])'
    )


def test_stuck_messages_fail_the_cell_with_the_brokers_reason(bench: Bench) -> None:
    bench.initiators[1].untransmitted = 4
    assert failed(bench, drain=0.2) == (
        "not drained: 30 of 30 messages processed, 0 in the target's queue; "
        "4 in the transmission queue of initiator-2: The route has no address"
    )


def test_messages_left_in_the_targets_queue_fail_the_cell_with_the_targets_reason(bench: Bench) -> None:
    bench.target.queued = bench.target.unprocessed = 7
    bench.target.queue_enabled = False
    bench.target.errors = [(5, 9002, "The transaction log for database 'SSBTarget' is full.")]
    assert failed(bench, drain=0.2) == (
        "not drained: 30 of 30 messages processed, 7 in the target's queue; its queue is disabled, after five "
        "rollbacks in a row; the activation procedure recorded 5 errors: The transaction log for database 'SSBTarget' is "
        f"full. (error 9002): {REMEDIES[9002]}"
    )
    bench.target.queue_enabled, bench.target.errors = True, []
    assert failed(bench, drain=0.2).endswith(
        "7 in the target's queue; no procedure receives them; the target's error log says why"
    )


def test_a_dead_worker_is_the_reason_and_the_clients_are_stopped(bench: Bench) -> None:
    bench.clients.trouble = LoadError("locust-worker-1 (process 5) was killed by signal 9 (SIGKILL)")
    assert failed(bench) == "locust-worker-1 (process 5) was killed by signal 9 (SIGKILL)"
    assert bench.clients.stopped == 1


def test_a_dead_instance_explains_whatever_failed_because_of_it(bench: Bench) -> None:
    def die(_: object) -> None:
        bench.lab.death = "initiator-2 (process 6) was killed by signal 9 (SIGKILL)"
        raise LoadError("stop: connection refused")

    bench.clients.deliver = die
    assert failed(bench) == "initiator-2 (process 6) was killed by signal 9 (SIGKILL)"


def test_failed_calls_fail_the_cell_with_the_drivers_text(bench: Bench) -> None:
    bench.clients.failed_calls = 2
    assert failed(bench) == "2 calls failed: [HYT00] timeout"


@pytest.mark.parametrize(
    "sent, error, is_final",
    [
        (0, "[22012] Divide by zero error encountered.", True),
        (0, "[HYT00] timeout", False),
        (5, "[22012] Divide by zero error encountered.", False),
    ],
)
def test_calls_that_the_server_refuses_from_the_first_on_would_fail_again(
    bench: Bench, sent: int, error: str, is_final: bool
) -> None:
    bench.clients.messages, bench.clients.failed_calls, bench.clients.error = sent, 2, error
    with pytest.raises(CellFailed) as failure:
        bench.run()
    assert (str(failure.value), failure.value.is_final) == (f"2 calls failed: {error}", is_final)


@pytest.mark.parametrize(
    "text, is_final",
    [
        ("Invalid object name 'dbo.orders'.", True),
        ("Transaction (Process ID 57) was deadlocked on lock resources with another process", False),
    ],
)
def test_a_target_whose_procedure_fails_from_the_first_message_on_would_fail_again(
    bench: Bench, text: str, is_final: bool
) -> None:
    bench.clients.deliver = lambda rows: None
    bench.target.queued, bench.target.queue_enabled, bench.target.errors = 30, False, [(5, None, text)]
    with pytest.raises(CellFailed) as failure:
        bench.run(drain=0.2)
    assert text in str(failure.value)
    assert failure.value.is_final == is_final


def test_an_error_that_the_activation_procedure_noted_fails_the_cell(bench: Bench) -> None:
    bench.target.errors = [(3, 8115, "Arithmetic overflow")]
    assert failed(bench) == "the activation procedure recorded 3 errors: Arithmetic overflow (error 8115)"


def test_pages_are_recorded_of_the_dialogs_that_the_cell_uses(bench: Bench) -> None:
    pages = {
        name: [DialogPage(number, 1, 16 + number, 0, 150 * number, f"handle {number}") for number in range(1, 6)]
        for name in ("initiator-1", "initiator-2")
    }
    bench.run({"pages": pages})
    [file] = (bench.results / "raw" / "dialog_pages").glob("*.parquet")
    rows = pq.read_table(file).to_pylist()
    assert [(row["instance"], row["dialog_id"], row["page_id"], row["handle_rank"]) for row in rows] == [
        (f"initiator-{initiator}", number, 16 + number, 150 * number) for initiator in (1, 2) for number in (1, 2, 3)
    ]


def test_what_the_target_shows_at_both_ends_of_the_window_is_recorded_and_evidence(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[Evidence] = []
    monkeypatch.setattr(attempt_module, "judge", lambda evidence: judged.append(evidence) or (State.VALID, ""))
    bench.observers.readers = [2, 3, 4]  # while it settles, at the begin and at the end; a hundred messages for each
    bench.run(settle=0)
    assert judged[0].queue_growth == 100
    row = cell_row(bench.results)
    assert (row["readers_at_begin"], row["readers_at_end"]) == (3, 4)


def test_a_cell_that_had_no_time_to_settle_is_not_settled(bench: Bench) -> None:
    bench.run(settle=0)
    assert cell_row(bench.results)["settled"] is False


def test_the_state_stands_with_its_reason_in_record_and_measurement(bench: Bench) -> None:
    file = ("target", "SSBTarget", "SSBTarget_log", "LOG", 0, 0, 0, 9, 9, 9, 3 * 2**20)
    grown = {"file_io": records.columns("file_io", [file])}
    bench.observers.changes = lambda *, timeout_s: grown  # type: ignore[method-assign]
    measured = bench.run()
    row = cell_row(bench.results)
    assert (row["state"], row["state_reason"]) == (measured.state, measured.state_reason)
    assert (row["state"], row["state_reason"]) == (State.DISTURBED, "database files grew (target, SSBTarget 3.0 MiB)")


def test_pages_that_an_instance_read_from_disk_disturb_a_cell(bench: Bench) -> None:
    file = ("target", "target", "data", "ROWS", 900, 900 * 8192, 90, 0, 0, 0, 0)
    bench.observers.changes = lambda *, timeout_s: {"file_io": records.columns("file_io", [file])}  # type: ignore[method-assign]
    measured = bench.run()
    assert measured.state is State.DISTURBED
    assert measured.state_reason.startswith("pages were read from disk (target 900): give more memory")


def test_a_failed_cell_has_no_state(bench: Bench) -> None:
    bench.clients.failed_calls = 2
    failed(bench)
    assert cell_row(bench.results)["state"] == ""


def test_the_generators_health_is_recorded_by_worker(bench: Bench) -> None:
    bench.run()
    [file] = (bench.results / "raw" / "health").glob("*.parquet")
    [row] = pq.read_table(file).to_pylist()
    assert (row["initiator"], row["processor_percent"], row["hub_lag_ms_max"]) == (1, 10.0, 1.0)
    assert (row["run_delay_percent"], row["between_calls_percent"]) == (2.5, pytest.approx(1.0))
    assert row["round_trip_ms"] == 0.2


@pytest.fixture
def _no_conversations(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bench has none to count."""
    monkeypatch.setattr(attempt_module, "Leaks", lambda *_: SimpleNamespace(after=lambda messages: []))


def test_conversations_that_are_left_behind_are_a_record_and_a_note(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Leak("target", "CONVERSING", 40, 0.9, 42)
    monkeypatch.setattr(attempt_module, "Leaks", lambda *_: SimpleNamespace(after=lambda messages: [left]))
    bench.lab.kind, reporter = EMBEDDED, NotingReporter()
    bench.phases = Phases(CELL.id, reporter)
    assert bench.run().leak == str(left)
    assert any(str(left) in note for note in reporter.notes)
    [file] = (bench.results / "raw" / "leaks").glob("*.parquet")
    [row] = pq.read_table(file).to_pylist()
    assert (row["instance"], row["state"], row["conversations"], row["messages"]) == ("target", "CONVERSING", 40, 42)


@pytest.mark.usefixtures("_no_conversations")
def test_a_machine_of_real_time_is_recorded(bench: Bench) -> None:
    bench.lab.kind = EMBEDDED
    bench.run()
    [file] = (bench.results / "raw" / "machine").glob("*.parquet")
    [row] = pq.read_table(file).to_pylist()
    assert row["processors"] >= 1 and row["others_percent"] >= 0 and row["load_average_1m"] >= 0


@pytest.mark.usefixtures("_no_conversations")
def test_instances_in_containers_of_this_machine_are_no_other_processes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are reached at addresses of their own."""
    bench.lab.kind = CONTAINERS
    for instance in bench.lab.instances:
        instance.host, instance.control_group = "172.18.0.2", object()
    used = [("target", 8000, 4000), ("initiator-1", 1000, 1000), ("initiator-2", 1000, 1000)]
    changes = {"file_io": records.columns("file_io", []), "containers": records.columns("containers", used)}
    bench.observers.changes = lambda *, timeout_s: changes  # type: ignore[method-assign]
    totals = iter([MachineTotals(0.0, 0.0, 0.0, 0.0), MachineTotals(10.0, 10.0, 0.0, 0.0)])
    monkeypatch.setattr(MachineTotals, "now", lambda: next(totals))
    bench.run()
    [file] = (bench.results / "raw" / "machine").glob("*.parquet")
    [row] = pq.read_table(file).to_pylist()
    assert row["others_percent"] == 0


class FakeEvents:
    """One event, while the clients send."""

    def __init__(self) -> None:
        self.began_at_ns = 0

    def begin(self, instances: Sequence[Any]) -> bool:
        assert [one.name for one in instances] == ["target", "initiator-1", "initiator-2"]
        self.began_at_ns = CLOCK.utc_ns()
        return True

    def end(self) -> dict[str, list[Any]]:
        assert self.began_at_ns
        return records.columns("events", [("target", 5, "latch_suspend_end", '{"page_id": "367"}', 8)])


def test_events_are_recorded_behind_the_window(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_sessions, "COLLECT_S", 0.01)
    events = FakeEvents()
    bench.run({"events": events})
    assert list(bench.phases.seconds)[2:5] == ["measure", "events", "stop"]
    row = cell_row(bench.results)
    assert row["measured_to_ns"] <= events.began_at_ns <= row["stopped_at_ns"]
    [file] = (bench.results / "raw" / "events").glob("*.parquet")
    [event] = pq.read_table(file).to_pylist()
    assert (event["event"], event["fields"], event["events_seen"]) == ("latch_suspend_end", '{"page_id": "367"}', 8)


@pytest.mark.usefixtures("_no_conversations")
def test_the_targets_times_become_this_machines_and_a_clock_that_was_set_disturbs_the_cell(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.lab.kind = EMBEDDED
    hour_ns = 3600 * 10**9
    ahead_ns = iter([hour_ns, hour_ns, hour_ns, hour_ns + 10**9])
    monkeypatch.setattr(instance_clock, "measure", lambda connection: ClockDifference(next(ahead_ns), 1000))
    bench.clients.worker_clocks = {"client-7 (process 4)": ClockDifference(50_000_000, 2000)}
    assert "clock" not in bench.run().state_reason
    [file] = (bench.results / "raw" / "clocks").glob("*.parquet")
    rows = [(row["clock"], row["before_ns"], row["after_ns"]) for row in pq.read_table(file).to_pylist()]
    assert rows == [("target", hour_ns, hour_ns), ("client-7 (process 4)", 50_000_000, 50_000_000)]
    [file] = (bench.results / "raw" / "deliveries").glob("*.parquet")
    assert {row["processed_at_ns"] - row["sent_at_ns"] for row in pq.read_table(file).to_pylist()} == {1000 - hour_ns}
    bench.target.stored.clear()
    disturbed = bench.run()
    assert (disturbed.state, disturbed.state_reason.partition(";")[0]) == (
        State.DISTURBED,
        "the target's clock was set by +1.000 s",
    )
