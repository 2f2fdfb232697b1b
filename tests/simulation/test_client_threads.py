"""The closed loop of clients in virtual time."""

import shutil
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.definitions.matrix import Cell, Visit
from harness.files import workload_file
from harness.files.workload_file import FOLDER
from harness.lab import dialog_pool, link, scripts
from harness.lab.instances import connections
from harness.load.plan import CellPlan
from harness.simulation import forks, simulated_lab
from harness.simulation.client_threads import FAILURES_IN_A_ROW_MAX, SimulatedClients
from harness.simulation.parameters import ClientParameters, read
from harness.simulation.simulated_lab import SimulatedInstance, SimulatedLab

pytestmark = pytest.mark.process

CELL = Cell.parse("i1-t2-r1-p100-v2008")
PAPER = read("paper")
UNKNOWN = "00000000-0000-0000-0000-000000000001"


@pytest.fixture(scope="module")
def lab() -> SimulatedLab:
    lab = simulated_lab.open(PAPER, version="2008", initiators=1, seed=1)
    link.link(lab)
    dialog_pool.build(lab, initiators=1, dialogs=2)
    return lab


def prepared(
    lab: SimulatedLab, results: Path, handles: list[str] | None = None, *, costs: ClientParameters = PAPER.client
) -> SimulatedClients:
    if handles is None:
        with lab.initiators[0].connect() as connection:
            [handles] = dialog_pool.used([connection], 1, 2)
    lab.world.parameters = PAPER.model_copy(update={"client": costs})
    clients = SimulatedClients(lab)
    clients.prepare(CellPlan(Visit(CELL), 1, 1, [""], [handles], results, lab.workload.client))
    return clients


def test_each_client_calls_again_when_its_call_has_returned(lab: SimulatedLab, tmp_path: Path) -> None:
    clients = prepared(lab, tmp_path)
    clients.start()
    lab.clock.sleep(0.2)
    progress = clients.progress()
    assert progress.sent > 10 and progress.running_threads == 2
    report = clients.stop()
    assert (report.failed_calls, report.problems) == (0, [])
    [path] = (tmp_path / "raw" / "calls").iterdir()
    calls = pq.read_table(path).to_pylist()
    assert len(calls) == report.sent_messages == sum(report.sent.values())
    for thread in (1, 2):
        own = [call for call in calls if call["thread"] == thread]
        assert [call["sequence"] for call in own] == list(range(report.sent[1, thread]))
        ends = [call["started_at_ns"] + call["latency_ns"] for call in own]
        assert [call["started_at_ns"] for call in own[1:]] == ends[:-1], "no think time"
    # There and back, the procedure, and one write of the log at least.
    floor_us = PAPER.client.round_trip_us + PAPER.processors.send_us + PAPER.log.flush_latency_us / 2
    assert min(call["latency_ns"] for call in calls) > floor_us * 1000


SEND = """\
CREATE TABLE dbo.got (region nvarchar(10) NOT NULL, thread int NOT NULL);
GO

CREATE OR ALTER PROCEDURE dbo.SendOrder
    @Region nvarchar(10),
    @thread int,
    @body varbinary(max),
    @handle uniqueidentifier
WITH EXECUTE AS OWNER
AS
BEGIN
    INSERT INTO dbo.got (region, thread) VALUES (@Region, @thread);
    SEND ON CONVERSATION @handle MESSAGE TYPE [$(MessageType)] (@body);
END;
GO

GRANT EXECUTE ON OBJECT::dbo.SendOrder TO [$(Prefix)Client];
GO
"""


def test_clients_pass_the_parameters_of_their_workload_with_its_values(tmp_path: Path) -> None:
    folder = tmp_path / "orders"
    folder.mkdir()
    (folder / "send.sql").write_text(f"USE [$(Database)];\nGO\n\n{SEND}")
    shutil.copy(FOLDER / "paper" / "receive_procedure.sql", folder)
    (folder / "workload.toml").write_text(
        '[client]\nprocedure = "dbo.SendOrder"\nparameters = ["Region", "thread", "body", "handle"]\n'
        'values = {Region = "north"}\n[initiator]\nscripts = ["send.sql"]\n'
        '[target]\nscripts = ["receive_procedure.sql"]\n'
        'activation_procedure = "dbo.SRPerf_Queue_LabTest"\n'
    )
    lab = simulated_lab.open(PAPER, version="2008", initiators=1, seed=1)
    lab.workload = workload_file.read(str(folder))
    link.link(lab)
    dialog_pool.build(lab, initiators=1, dialogs=2)
    clients = prepared(lab, tmp_path)
    clients.start()
    lab.clock.sleep(0.05)
    report = clients.stop()
    assert report.failed_calls == 0, report.errors
    with connections(lab.initiators) as [initiator]:
        stored = scripts.values(initiator, "SELECT CONCAT(region, N' ', thread) FROM dbo.got;")
    assert Counter(stored) == {f"north {thread}": report.sent[1, thread] for thread in (1, 2)}


def test_a_client_that_cannot_send_gives_up_with_the_reason(lab: SimulatedLab, tmp_path: Path) -> None:
    clients = prepared(lab, tmp_path, [UNKNOWN, UNKNOWN])
    clients.start()
    lab.clock.sleep(0.5)
    assert clients.progress().running_threads == 0
    report = clients.stop()
    assert report.failed_calls == 2 * FAILURES_IN_A_ROW_MAX
    assert report.sent_messages == 0
    assert len(report.problems) == 2 and "gave up after 10 failed calls in a row" in report.problems[0]
    assert "8426" in report.errors[0][0]


def test_clients_that_have_finished_leave_no_sessions(lab: SimulatedLab, tmp_path: Path) -> None:
    [initiator] = lab.initiators
    assert isinstance(initiator, SimulatedInstance)
    sessions = initiator.server.instance.sessions
    clients = prepared(lab, tmp_path)
    theirs = list(sessions)[-2:]
    clients.start()
    lab.clock.sleep(0.05)
    clients.stop()
    assert not set(theirs) & set(sessions)


def test_a_client_whose_instance_is_gone_does_not_return(lab: SimulatedLab, tmp_path: Path) -> None:
    def stop_after_crash() -> list[str]:
        clients = prepared(lab, tmp_path)
        clients.start()
        lab.clock.sleep(0.05)
        lab.world.servers["initiator-1"].crash()
        return list(clients.stop().problems)

    problems = forks.in_fork(stop_after_crash)
    assert problems[0] == "initiator 1 thread 1 has not returned from its last call"


def test_a_client_computer_makes_no_more_calls_than_its_processors_can(lab: SimulatedLab, tmp_path: Path) -> None:
    costs = PAPER.client.model_copy(update={"call_us": 20_000, "processors": 1})
    clients = prepared(lab, tmp_path, costs=costs)
    clients.start()
    lab.clock.sleep(1.0)
    assert clients.stop().sent_messages == pytest.approx(1e6 / 20_000, abs=3)  # of two threads


def test_on_one_machine_calls_take_processor_time_from_everybody(tmp_path: Path) -> None:
    """One processor, of which a call takes half in the client and nearly half in the procedure: two clients are no
    faster than one."""
    shared = {"are_shared": 1, "count": 1, "call_us": 600, "send_us": 600, "flush_latency_us": 500}
    one_machine = PAPER.model_copy(
        update={
            "declared": {
                name: one.model_copy(
                    update={"low": 0, "high": 1e9, "free": False, "value": shared.get(name, one.value)}
                )
                for name, one in PAPER.declared.items()
            }
        }
    ).with_values({})
    lab = simulated_lab.open(one_machine, version="2008", initiators=1, seed=1)
    link.link(lab)
    dialog_pool.build(lab, initiators=1, dialogs=2)
    clients = prepared(lab, tmp_path, costs=one_machine.client)
    clients.start()
    lab.clock.sleep(0.5)
    sent = clients.stop().sent_messages
    assert 0.5e6 / 2100 < sent < 0.5e6 / 1200
