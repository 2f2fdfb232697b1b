"""Workers that others start: they join a master on another address of this machine, as from another machine."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.definitions.matrix import Cell, Visit
from harness.failures import UsageFailure
from harness.files import records
from harness.files import settings as settings_module
from harness.load import locust_clients
from harness.load.locust_clients import Elsewhere, LocustClients
from harness.load.plan import CellPlan, LoadError
from harness.machine.clocks import ClockDifference
from harness.machine.places import LOCUSTFILE
from tests import commands
from tests.load.echo_server import EchoServer, handles
from tests.processes import Child

pytestmark = pytest.mark.process

MASTER = "127.0.0.2"
TOKEN = "a token of 24 characters"
HOUR_NS = 3600 * 10**9


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_TOKEN", TOKEN)


class Run:
    """Clients whose master waits for workers, and what they told the user."""

    def __init__(self, logs: Path) -> None:
        with socket.create_server((MASTER, 0)) as free:
            self.port = free.getsockname()[1]
        self.told: list[str] = []
        self.clients = LocustClients(
            log_directory=logs,
            stop_timeout_s=0.5,
            join_timeout_s=120,
            elsewhere=Elsewhere(MASTER, self.port),
            tell=self.told.append,
        )

    def play(self, plan: CellPlan, until_sent: int = 200) -> dict[tuple[int, int], int]:
        """Run a cell until so many messages were reported sent; how many each thread has sent."""
        self.clients.prepare(plan)
        self.clients.start()
        deadline = time.monotonic() + 120
        while self.clients.progress().sent < until_sent:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        report = self.clients.stop()
        assert (report.failed_calls, report.problems) == (0, [])
        return report.sent


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path / "logs")
    with run.clients:
        yield run


def plan(echo: EchoServer, results: Path, initiators: int, run: int = 1) -> CellPlan:
    cell = Cell.parse(f"i{initiators}-t3-r150-p100-v2008")
    strings = [echo.connection_string()] * initiators
    return CellPlan(Visit(cell), 1, run, strings, [handles(cell.threads)] * initiators, results)


def worker(*words: str, **environment: str) -> Child:
    """A command on the other machine, in a session of its own; its output in one stream."""
    variables = {key: value for key, value in os.environ.items() if key != "LOCUST_SKIP_MONKEY_PATCH"} | environment
    return Child(
        [sys.executable, "-m", *words],
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def by_harness(run: Run, *words: str, **environment: str) -> Child:
    return worker("harness", "worker", f"{MASTER}:{run.port}", *words, **environment)


def by_locust(run: Run, *locustfiles: Path) -> Child:
    files = ",".join(map(str, [*locustfiles, LOCUSTFILE]))
    where = ["--master-host", MASTER, "--master-port", str(run.port)]
    return worker("locust", "-f", files, "--worker", *where)


def test_workers_join_by_locusts_command_and_by_the_short_form_and_end_with_the_run(
    run: Run, echo: EchoServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with by_locust(run) as first, by_harness(run) as second:
        for number, initiators in ((2001, 2), (2002, 1), (2003, 2)):
            cell_plan = plan(echo, tmp_path, initiators, number)
            sent = run.play(cell_plan)
            received = {
                key: entry["messages"] for key, entry in echo.received().items() if key.startswith(f"{number}/")
            }
            # On a busy machine the others may have sent enough before a thread sends at all.
            assert received == {f"{number}/{i}/{t}": messages for (i, t), messages in sent.items() if messages}
            for initiator in range(1, initiators + 1):
                file = records.raw_path(tmp_path, "calls", cell_plan.visit, 1, f"i{initiator}")
                assert pq.read_table(file).num_rows == sum(sent[initiator, thread] for thread in (1, 2, 3))
            clocks = run.clients.clocks()
            assert list(clocks) == sorted(clocks)
            assert len(clocks) == initiators
            # It is one clock.
            assert all(abs(one.difference_ns) <= one.uncertainty_ns + 1_000_000 for one in clocks.values())
        monkeypatch.setattr(locust_clients, "compare", lambda read: ClockDifference(HOUR_NS, 1000))
        run.clients.clocks()
        cell_plan = plan(echo, tmp_path, 2, 2004)
        run.play(cell_plan)
        starts = pq.read_table(records.raw_path(tmp_path, "calls", cell_plan.visit, 1, "i2"))["started_at_ns"]
        assert 0 < time.time_ns() - HOUR_NS - max(starts.to_pylist()) < HOUR_NS // 60
        assert run.told[0].startswith("waiting for 2 workers, 1 per initiator: ")
        run.clients.close()
        assert [first.wait(timeout=60), second.wait(timeout=60)] == [0, 0]


LISTENER = """
from locust import events
counts = {}
@events.request.add_listener
def count(name, response_time, exception, context, **more):
    key = name, context["initiator"], context["thread"], exception
    counts[key] = counts.get(key, 0) + 1
@events.quit.add_listener
def show(**more):
    print("heard", counts, flush=True)
"""


def test_a_listener_of_another_locustfile_hears_every_call(run: Run, echo: EchoServer, tmp_path: Path) -> None:
    listener = tmp_path / "listener.py"
    listener.write_text(LISTENER)
    with by_locust(run, listener) as process:
        sent = run.play(plan(echo, tmp_path, 1))
        run.clients.close()
        [heard] = [line for line in output(process) if line.startswith("heard ")]
    assert heard == f"heard { ({('dbo.SendMessage', *thread, None): count for thread, count in sent.items()}) }"


def test_a_worker_that_leaves_fails_the_cell_with_its_name_and_another_takes_its_place(
    run: Run, echo: EchoServer, tmp_path: Path
) -> None:
    with by_harness(run, "--processes", "2") as pair, by_harness(run) as third:
        run.clients.prepare(plan(echo, tmp_path, 3))
        run.clients.start()
        third.send_signal(signal.SIGTERM)
        name = rf"worker {socket.gethostname()} \(process {third.pid}\) has left"
        with pytest.raises(LoadError, match=name):
            wait_for_failure(run)
        run.clients.end_cell()
        with by_harness(run):
            assert sum(run.play(plan(echo, tmp_path, 3)).values()) >= 200
        assert pair.poll() is None


def test_a_worker_whose_machine_falls_silent_is_lost(
    run: Run, echo: EchoServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with by_harness(run) as only:
        run.clients.prepare(plan(echo, tmp_path, 1))
        run.clients.start()
        only.send_signal(signal.SIGSTOP)
        with pytest.raises(LoadError, match=rf"\(process {only.pid}\) has not been heard of for 10 s"):
            wait_for_failure(run)


def wait_for_failure(run: Run) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        run.clients.progress()
        time.sleep(0.01)


def listen(run: Run) -> None:
    """Start the master."""
    run.clients._join_timeout_s = 0
    with pytest.raises(LoadError, match=f"0 of 1 worker joined at {MASTER}:{run.port}: start the others"):
        run.clients.launch(1)


def output(process: Child) -> list[str]:
    """What it printed until its end."""
    said, _ = process.communicate(timeout=120)
    return said.splitlines()


def test_a_worker_with_another_token_ends_with_one_line(run: Run) -> None:
    listen(run)
    with by_harness(run, HARNESS_TOKEN="another of 24 characters") as stranger:
        assert output(stranger) == [
            f"joining the run at {MASTER}:{run.port}, or waiting until one listens there; Ctrl-C ends this",
            f"harness: the master at {MASTER}:{run.port} refuses this worker: its HARNESS_TOKEN is another one",
        ]
        assert stranger.returncode == 2


def test_a_worker_of_another_version_ends_with_one_line_and_the_user_sees_why(run: Run, tmp_path: Path) -> None:
    old = tmp_path / "old.py"
    old.write_text("from harness.load import worker\nworker.version = lambda: '0.1.0 (old)'\n")
    with by_locust(run, old) as process:
        run.clients._join_timeout_s = 1
        deadline = time.monotonic() + 120
        while not any("its harness is 0.1.0 (old)" in line for line in run.told):
            assert time.monotonic() < deadline, run.told
            with contextlib.suppress(LoadError):
                run.clients.launch(1)
        lines = [line for line in output(process) if line.startswith("harness: ")]
        assert len(lines) == 1 and "this worker 0.1.0 (old): install the same on both" in lines[0]
        assert process.returncode == 2


def test_a_worker_without_a_token_does_not_begin(run: Run) -> None:
    with by_harness(run, HARNESS_TOKEN="short") as process:
        assert output(process) == [
            'harness: HARNESS_TOKEN has 5 characters: export HARNESS_TOKEN="$(openssl rand -hex 16)", '
            "the same on all machines"
        ]
        assert process.returncode == 2


@pytest.mark.parametrize(
    "words, code, reason",
    [
        (["127.0.0.1:65536"], 2, "'127.0.0.1:65536' is no address: write 10.0.0.5 or 10.0.0.5:5557"),
        (["nobody.invalid"], 3, "the host nobody.invalid is unknown: check its name"),
        (["127.0.0.1", "--processes", "0"], 2, "0 is not in the range x>=1"),
    ],
)
def test_a_worker_that_could_never_join_does_not_begin(
    tmp_path: Path, words: list[str], code: int, reason: str
) -> None:
    done = commands.harness(tmp_path, "worker", *words)
    assert done.code == code and reason in done.line


def test_an_address_of_another_machine_is_refused_before_anything_starts() -> None:
    settings = settings_module.create({"lab": "embedded", "master_bind_host": "192.0.2.1"}, environment={})
    with pytest.raises(UsageFailure, match=r"the master cannot listen on 192\.0\.2\.1 port 5557 \(.+\): choose"):
        Elsewhere.of(settings)


def test_the_token_is_required_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_TOKEN")
    settings = settings_module.create({"lab": "embedded", "master_bind_host": MASTER}, environment={})
    with pytest.raises(UsageFailure, match="HARNESS_TOKEN is not set"):
        Elsewhere.of(settings)
