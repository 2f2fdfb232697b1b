"""Bodies and values of a workload of one's own, through both drivers and the embedded broker into tables."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from harness.files import workload_file
from harness.files.workload_file import Workload
from harness.lab import dialog_pool, drivers, link, scripts
from harness.lab.instances import Lab, connections
from harness.lab.opening import Topology
from harness.lab.opening import open as open_lab
from harness.load.bodies import SIZES_MAX, composer
from harness.load.threads import CellRun, ClientThread, ThreadState
from harness.machine.places import SQL_ROOT
from tests.thorough import one_of_each

pytestmark = pytest.mark.process

PAPER = SQL_ROOT / "workloads" / "paper"
TARGET = '[target]\nscripts = ["receive_procedure.sql"]\nactivation_procedure = "dbo.SRPerf_Queue_LabTest"\n'


def workload(folder: Path, body: str, *, body_type: str = "varbinary") -> Workload:
    """A workload of the paper's procedures, whose clients' procedure takes a body of this type."""
    folder.mkdir()
    shutil.copy(PAPER / "receive_procedure.sql", folder)
    text = (PAPER / "send_message.sql").read_text()
    (folder / "send.sql").write_text(text.replace("@body varbinary(max)", f"@body {body_type}(max)"))
    (folder / "workload.toml").write_text(f'[initiator]\nscripts = ["send.sql"]\n{TARGET}[body]\n{body}\n')
    return workload_file.read(str(folder))


@pytest.fixture(scope="module", params=one_of_each(["microsoft", "freetds"]))
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    try:
        drivers.choose(request.param)
    except drivers.NoDriver as error:
        pytest.skip(str(error))
    directory = tmp_path_factory.mktemp("lab")
    with open_lab(Topology(), version="2008", directory=directory, driver=request.param) as lab:
        yield lab


def send(lab: Lab, workload: Workload, calls: int) -> list[tuple[Any, Any]]:
    """Let one client send at least so many messages; what it composed and what the target stored of each."""
    lab.workload = workload
    link.link(lab)
    dialog_pool.build(lab, initiators=1, dialogs=1)
    [instance] = lab.initiators
    bodies = workload.bodies
    assert bodies is not None and bodies.mean_bytes is not None
    run = CellRun(
        connection_string=instance.client_connection_string(),
        initiator=1,
        run=1,
        payload_bytes=bodies.mean_bytes,
        client=workload.client,
        bodies=bodies,
    )
    thread = ClientThread()
    with connections(lab.initiators) as opened, connections([lab.target]) as (target,):
        [[handle]] = dialog_pool.identifiers(lab, opened, workload.client, 1, 1)
        dialog_pool.empty_tables(lab, target)
        thread.prepare(run, 1, handle)
        wait_for(thread, ThreadState.READY)
        thread.start()
        while thread.log.count < calls and thread.state is ThreadState.RUNNING:
            time.sleep(0.001)
        run.stopping = True
        wait_for(thread, ThreadState.FINISHED)
        thread.retire()
        assert not thread.log.failures
        sent = thread.log.count
        dialog_pool.wait_until_drained(lab, lab.initiators, opened, target, expected=sent, timeout_s=120)
        stored = scripts.values(target, "SELECT messageVal FROM dbo.messageDrop ORDER BY id;")
    compose = composer(bodies, run=run.run, initiator=1, thread=1, threads=1)
    assert len(stored) == sent
    return [(compose(sequence, 0), body) for sequence, body in enumerate(stored)]


def wait_for(thread: ClientThread, state: ThreadState) -> None:
    deadline = time.monotonic() + 120
    while thread.state is not state:
        assert time.monotonic() < deadline and not thread.reason, (thread.state, thread.reason)
        time.sleep(0.001)


VALUES = {
    "Region": "nørth",
    "Urgent": True,
    "Amount": 12.5,
    "Customers": 2**40,
    "Due": "2026-11-23T10:00:00",
    "Shop": "0A0B0C0D-0000-0000-0000-000000000001",
}
TAKEN = """
    @Region nvarchar(20),
    @body varbinary(max),
    @Urgent bit,
    @Amount decimal(9, 2),
    @Customers bigint,
    @Due datetime,
    @Shop uniqueidentifier
"""
STORE = """
    INSERT INTO dbo.got SELECT CONCAT(@Region, N' ', @Urgent, N' ', @Amount, N' ', @Customers, N' ', @Due, N' ', @Shop);
"""


def test_values_arrive_in_the_types_of_the_procedures_parameters(lab: Lab, tmp_path: Path) -> None:
    folder = tmp_path / "orders"
    workload(folder, "size = {uniform = [40, 41]}")
    file, script = folder / "workload.toml", folder / "send.sql"
    names = ", ".join(f'"{name}"' for name in ("handle", "Region", "body", *[*VALUES][1:]))
    values = "\n".join(f"{name} = {json.dumps(value)}" for name, value in VALUES.items())
    file.write_text(f"[client]\nparameters = [{names}]\n[client.values]\n{values}\n{file.read_text()}")
    table = (
        "IF OBJECT_ID(N'dbo.got') IS NULL CREATE TABLE dbo.got (call nvarchar(200) NOT NULL);\nGO\n\nCREATE OR ALTER"
    )
    text = script.read_text().replace("CREATE OR ALTER", table).replace("\n    @body varbinary(max)\n", TAKEN)
    script.write_text(text.replace("SEND ON", f"{STORE}    SEND ON"))
    pairs = send(lab, workload_file.read(str(folder)), 3)
    with connections(lab.initiators) as [initiator]:
        stored = scripts.values(initiator, "SELECT call FROM dbo.got;")
    one = "nørth 1 12.50 1099511627776 Nov 23 2026 10:00AM 0A0B0C0D-0000-0000-0000-000000000001"
    assert stored == [one] * len(pairs)


def test_bytes_arrive_with_the_sizes_of_their_distribution(lab: Lab, tmp_path: Path) -> None:
    pairs = send(lab, workload(tmp_path / "orders", "size = {uniform = [40, 1899]}"), SIZES_MAX)
    sizes = [len(stored) for _, stored in pairs]
    assert sizes == [len(sent) for sent, _ in pairs]
    turn = sizes[:SIZES_MAX]
    assert fmean(turn) == pytest.approx(970, abs=8)
    quarters = [sum(low <= size < low + 465 for size in turn) for low in (40, 505, 970, 1435)]
    assert quarters == [SIZES_MAX // 4] * 4


def test_text_arrives_as_it_was_composed(lab: Lab, tmp_path: Path) -> None:
    folder = tmp_path / "orders"
    chosen = workload(folder, "size = {histogram = [[300, 1], [1800, 1]]}", body_type="nvarchar")
    (folder / "order.json").write_text(
        '{"order": "${run}-${initiator}-${thread}-${sequence}", "note": "ü€😀", "filler": "${filler}"}'
    )
    # Such a workload counts its messages; here the target stores them, to see what arrives.
    chosen = chosen.model_copy(update={"body": chosen.body.model_copy(update={"template": "order.json"})})
    pairs = send(lab, chosen, SIZES_MAX)
    assert [stored.decode("utf-16-le") for _, stored in pairs] == [sent for sent, _ in pairs]
    assert {len(stored) for _, stored in pairs} == {300, 1800}
