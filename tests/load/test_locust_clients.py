"""The Locust processes against the echo server: cells, failures, and processes that die."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from harness.definitions.lab_kinds import SERVERS
from harness.definitions.matrix import Cell, Visit
from harness.files import records
from harness.load import locust_clients
from harness.load.locust_clients import LocustClients
from harness.load.messages import ServePage
from harness.load.plan import CellPlan, LoadError
from tests.load import echo_server
from tests.processes import Child, command_line, environment

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def clients(tmp_path_factory):
    with LocustClients(log_directory=tmp_path_factory.mktemp("logs"), stop_timeout_s=0.5) as clients:
        yield clients


def plan(results, echo, cell_id, *, run=1, databases=()):
    cell = Cell.parse(cell_id)
    strings = [echo.connection_string(database) for database in databases or ["Echo"] * cell.initiators]
    return CellPlan(Visit(cell), 1, run, strings, [echo_server.handles(cell.threads)] * cell.initiators, results)


def test_a_plan_with_fewer_dialogs_than_threads_is_refused(echo, tmp_path):
    cell = Cell.parse("i1-t3-r1-p100-v2008")
    with pytest.raises(LoadError, match="initiator 1 has 2 dialogs for 3 threads"):
        CellPlan(Visit(cell), 1, 1, [echo.connection_string()], [echo_server.handles(2)], tmp_path)


def test_a_port_of_the_web_page_that_another_process_took_a_moment_ago_is_an_error(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        page = ServePage(other.getsockname()[1], SERVERS.name, "echo", "Echo", 1)
        with LocustClients(log_directory=tmp_path, page=page) as clients, pytest.raises(LoadError) as refused:
            clients.launch(1)
    assert "Address already in use" in str(refused.value)


def play(clients, cell_plan, *, until_sent=200):
    """One cell: its report, after so many messages were reported sent."""
    clients.prepare(cell_plan)
    clients.start()
    deadline = time.monotonic() + 120
    while (progress := clients.progress()).sent + progress.failed_calls < until_sent and (
        progress.running_threads or not progress.counted_at_ns
    ):
        assert time.monotonic() < deadline, progress
        time.sleep(0.01)
    return clients.stop()


def received_in(echo, run):
    counts = {key: entry for key, entry in echo.received().items() if key.startswith(f"{run}/")}
    assert not any(entry["misordered"] for entry in counts.values())
    return {tuple(map(int, key.split("/")[1:])): entry["messages"] for key, entry in counts.items()}


@pytest.mark.parametrize(
    "run, cell_id",
    [
        (1001, "i1-t1-r150-p100-v2008"),
        (1002, "i3-t4-r1-p1024-v2008"),
        (1003, "i2-t50-r150-p8192-v2005"),
        (1004, "i1-t3-r150-p4096-v2008"),
        (1005, "i3-t2-r150-p100-v2008"),
    ],
)
def test_cells_follow_each_other_and_every_call_is_kept(clients, echo, tmp_path, run, cell_id):
    cell_plan = plan(tmp_path, echo, cell_id, run=run)
    report = play(clients, cell_plan)
    cell = cell_plan.cell
    assert set(report.sent) == {(i, t) for i in range(1, cell.initiators + 1) for t in range(1, cell.threads + 1)}
    assert report.sent == received_in(echo, run) | {key: 0 for key, sent in report.sent.items() if not sent}
    assert (report.failed_calls, report.errors, report.problems) == (0, [], [])
    assert report.started_at_ns < report.stopped_at_ns
    rows = Counter()
    for initiator in range(1, cell.initiators + 1):
        path = records.raw_path(tmp_path, "calls", Visit(cell), 1, f"i{initiator}")
        table = pq.read_table(path).to_pandas()
        # On a busy machine an initiator may have made no call yet.
        assert (table.started_at_ns >= report.started_at_ns).all()
        assert (table.started_at_ns + table.latency_ns <= report.stopped_at_ns).all()
        rows.update((initiator, int(thread)) for thread in table.thread)
    assert rows == Counter(report.sent)


def test_the_workers_of_an_initiator_divide_its_threads(echo, tmp_path):
    with LocustClients(log_directory=tmp_path / "logs", stop_timeout_s=0.5, per_initiator=2) as several:
        for run, cell_id, files in (
            (1007, "i2-t3-r150-p100-v2008", ["i1w1", "i1w2", "i2w1", "i2w2"]),
            (1008, "i2-t1-r150-p100-v2008", ["i1", "i2"]),
        ):
            cell_plan = plan(tmp_path, echo, cell_id, run=run)
            report = play(several, cell_plan)
            assert report.sent == received_in(echo, run) | {key: 0 for key, sent in report.sent.items() if not sent}
            assert [share.writer for share in report.barriers_at_ns] == files
            rows = Counter()
            for share in report.barriers_at_ns:
                path = records.raw_path(tmp_path, "calls", cell_plan.visit, 1, share.writer)
                rows.update((share.initiator, int(thread)) for thread in pq.read_table(path).to_pandas().thread)
            assert rows == Counter(report.sent)
        assert sorted(several.processes) == ["locust-master", *(f"locust-worker-{number}" for number in (1, 2, 3, 4))]


def test_a_worker_writes_its_calls_without_pandas(clients, echo, tmp_path):
    play(clients, plan(tmp_path, echo, "i1-t1-r150-p100-v2008", run=1006))
    process = clients.processes["locust-worker-1"]
    mapped = Path(f"/proc/{process}/maps").read_text()
    assert "/pyarrow/" in mapped and "/pandas/" not in mapped


def test_progress_grows_while_a_cell_runs(clients, echo, tmp_path):
    clients.prepare(plan(tmp_path, echo, "i2-t2-r150-p100-v2008"))
    progress = clients.progress()
    assert progress.sent == 0
    clients.start()
    seen = set()
    deadline = time.monotonic() + 120
    while len(seen) < 5 or not progress.calls_per_s or progress.running_threads < 4:
        assert time.monotonic() < deadline
        time.sleep(0.01)
        progress = clients.progress()
        seen.add(progress.sent)
    report = clients.stop()
    assert progress.running_threads == 4
    assert progress.calls_per_s > 0
    assert [health.initiator for health in report.health] == [1, 2]
    assert all(0 < health.round_trip_ms < health.call_ms * 100 for health in report.health)


def test_failed_calls_are_counted_with_the_servers_words(clients, echo, tmp_path):
    cell_plan = plan(tmp_path, echo, "i1-t2-r150-p100-v2008", databases=["Fail3"])
    report = play(clients, cell_plan)
    ((text, count),) = report.errors
    assert "The service queue is currently disabled" in text
    assert count == report.failed_calls > 0
    calls = pq.read_table(records.raw_path(tmp_path, "calls", cell_plan.visit, 1, "i1")).to_pandas()
    assert (~calls.succeeded).sum() == report.failed_calls
    assert calls.succeeded.sum() == report.sent_messages
    assert report.problems == []


def test_threads_that_give_up_are_named(clients, echo, tmp_path):
    report = play(
        clients, plan(tmp_path, echo, "i2-t2-r150-p100-v2008", databases=["Echo", "FailAll"]), until_sent=5000
    )
    assert len(report.problems) == 2
    assert report.problems[0].startswith("initiator 2, thread 1: gave up after 10 failed calls in a row: ")
    assert report.failed_calls == 20


def test_a_thread_stuck_in_a_call_is_reported_and_the_next_cell_does_without_it(clients, echo, tmp_path):
    report = play(clients, plan(tmp_path, echo, "i1-t2-r150-p100-v2008", databases=["Stuck5"]), until_sent=8)
    assert report.sent == {(1, 1): 4, (1, 2): 4}
    assert report.problems == [
        "initiator 1, thread 1: still in a call 0.5 s after the stop",
        "initiator 1, thread 2: still in a call 0.5 s after the stop",
    ]
    assert play(clients, plan(tmp_path, echo, "i1-t2-r150-p100-v2008")).problems == []


def test_clients_that_cannot_be_prepared_say_why_and_the_next_cell_can(clients, echo, tmp_path):
    with pytest.raises(LoadError, match=r"initiator 2: thread 1: .*Login failed for user 'sa'"):
        clients.prepare(plan(tmp_path, echo, "i2-t3-r150-p100-v2008", databases=["Echo", "Refuse"]))
    assert play(clients, plan(tmp_path, echo, "i2-t3-r150-p100-v2008")).problems == []


def connections(clients, echo):
    """How many connections to the server the clients have."""
    found = [one for pid in clients.processes.values() for one in psutil.Process(pid).net_connections()]
    return sum(bool(one.raddr) and one.raddr.port == echo.port for one in found)


def test_after_a_failure_the_processes_go_on_without_connections(echo, tmp_path, monkeypatch):
    cell_plan = plan(tmp_path, echo, "i1-t2-r150-p100-v2008")
    with LocustClients(log_directory=tmp_path / "logs", stop_timeout_s=0.5) as clients:
        clients.prepare(cell_plan)
        clients.start()
        before = dict(clients.processes)
        assert connections(clients, echo) == 2
        clients.end_cell()
        assert connections(clients, echo) == 0
        assert play(clients, cell_plan).problems == []
        assert clients.processes == before
        monkeypatch.setattr(locust_clients, "MARGIN_S", 0.5)
        os.kill(before["locust-worker-1"], signal.SIGSTOP)  # so it does not answer
        clients.end_cell()
        assert clients.processes == {}
        assert not any(psutil.pid_exists(pid) for pid in before.values())


@pytest.mark.parametrize("name", ["locust-worker-2", "locust-master"])
def test_a_process_killed_in_mid_cell_is_named_within_two_seconds(clients, echo, tmp_path, name):
    clients.prepare(plan(tmp_path, echo, "i2-t2-r150-p100-v2008"))
    clients.start()
    before = dict(clients.processes)
    os.kill(before[name], signal.SIGKILL)
    killed = time.monotonic()
    with pytest.raises(LoadError, match=rf"{name} .*signal 9 \(SIGKILL\)"):
        while time.monotonic() - killed < 2:
            clients.progress()
            time.sleep(0.01)
    with pytest.raises(LoadError, match=name):
        clients.stop()
    assert play(clients, plan(tmp_path, echo, "i2-t2-r150-p100-v2008")).problems == []
    assert not any(psutil.pid_exists(pid) for pid in before.values())


def test_no_secret_shows_in_a_command_line_or_a_log(clients, echo, tmp_path):
    play(clients, plan(tmp_path, echo, "i1-t1-r150-p100-v2008"))
    with pytest.raises(LoadError):
        clients.prepare(plan(tmp_path, echo, "i1-t1-r150-p100-v2008", databases=["Refuse"]))
    for pid in clients.processes.values():
        process = psutil.Process(pid)
        assert "Secret-word" not in " ".join([*command_line(process), *environment(process).values()])
    for log in clients._log_directory.iterdir():
        assert "Secret-word" not in log.read_text()


ORPHANS = """
import sys
from pathlib import Path
from harness.load.locust_clients import LocustClients
from harness.load.plan import CellPlan
from harness.definitions.matrix import Cell, Visit
from tests.load import echo_server
clients = LocustClients(log_directory=Path(sys.argv[1]))
clients.prepare(CellPlan(Visit(Cell.parse("i2-t2-r150-p100-v2008")), 1, 1, [sys.stdin.readline().strip()] * 2, [echo_server.handles(2)] * 2, Path(sys.argv[1])))
clients.start()
print(*clients.processes.values(), flush=True)
sys.stdin.read()
"""


def test_everything_ends_with_the_parent(echo: echo_server.EchoServer, tmp_path: Path):
    arguments = [sys.executable, "-c", ORPHANS, str(tmp_path)]
    with Child(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        parent.stdin.write(echo.connection_string() + "\n")
        parent.stdin.flush()
        children = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
        parent.kill()
    assert len(children) == 3
    gone, alive = psutil.wait_procs(children, timeout=120)
    assert not alive, gone
