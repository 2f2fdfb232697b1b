"""`harness serve`: its refusals to start, its line when ready, and its end."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pyodbc
import pytest

from harness.lab import drivers

pytestmark = pytest.mark.process

PASSWORD = "Lifetime!1"
Serve = Callable[..., subprocess.Popen]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts `harness serve` with these arguments; ends it after the test."""
    started: list[subprocess.Popen] = []

    def start(*words: str, password: str = PASSWORD, data: Path = tmp_path / "data", **options) -> subprocess.Popen:
        environment = {**os.environ, "HARNESS_SA_PASSWORD": password}
        command = [sys.executable, "-m", "harness", "serve", "--port", "0", "--data", str(data), *words]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, **options
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()


def ready(process: subprocess.Popen) -> dict:
    line = process.stdout.readline()
    assert line, process.stderr.read().decode()
    return json.loads(line)


def refusal(process: subprocess.Popen, exit_code: int = 3) -> str:
    """The last line of a process that refused to start: the only one outside the log."""
    _, errors = process.communicate(timeout=120)
    assert process.returncode == exit_code
    return errors.decode().strip().splitlines()[-1]


def test_it_prints_its_address_in_one_line_and_admits_sa_alone(serve):
    process = serve("--name", "target")
    address = ready(process)
    assert address["name"] == "target"
    assert address["host"] == "127.0.0.1"
    text = drivers.choose("microsoft").connection_string(
        host="127.0.0.1", port=address["port"], user="sa", password=PASSWORD, database="master", program="tests"
    )
    connection = pyodbc.connect(text, autocommit=True, timeout=120)
    assert connection.execute("SELECT 1 AS one").fetchone().one == 1
    connection.close()
    with pytest.raises(pyodbc.Error, match="4060"):
        pyodbc.connect(text.replace("DATABASE=master", "DATABASE=nowhere"), timeout=120)
    with pytest.raises(pyodbc.Error, match="18456"):
        pyodbc.connect(text.replace("UID=sa", "UID=somebody"), timeout=120)


def test_sigterm_ends_it_with_exit_code_0(serve):
    process = serve()
    ready(process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0


def test_with_parent_it_ends_when_standard_input_ends(serve):
    process = serve("--with-parent")
    ready(process)
    process.communicate(timeout=120)  # closes it
    assert process.returncode == 0


def test_with_parent_it_ends_when_its_parent_is_killed(serve, tmp_path):
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)\n"
        "child.stdout.readline(); print(child.pid, flush=True); time.sleep(60)\n"
    )
    words = ["-m", "harness", "serve", "--port", "0", "--data", str(tmp_path / "data"), "--with-parent"]
    parent = subprocess.Popen(
        [sys.executable, "-c", script, sys.executable, *words],
        stdout=subprocess.PIPE,
        env={**os.environ, "HARNESS_SA_PASSWORD": PASSWORD},
    )
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.communicate()
    _, alive = psutil.wait_procs([child], timeout=120)
    assert not alive


def test_a_port_in_use_is_an_error_that_names_the_port_and_the_option(serve):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = refusal(serve("--port", str(port)))
    assert f"port {port} on 127.0.0.1 is in use" in message
    assert "--port" in message


def test_two_servers_cannot_share_a_folder(serve):
    first = serve()
    ready(first)
    message = refusal(serve())
    assert f"in use by process {first.pid}" in message


def test_it_does_not_start_without_a_password(serve):
    assert "HARNESS_SA_PASSWORD is not set" in refusal(serve(password=""), exit_code=2)


def test_a_folder_that_cannot_be_used_is_an_error_that_names_it(serve, tmp_path):
    (tmp_path / "file").touch()
    message = refusal(serve(data=tmp_path / "file"))
    assert str(tmp_path / "file") in message and "--data" in message


def test_the_password_is_neither_in_the_log_nor_in_the_command_line(serve):
    process = serve()
    ready(process)
    assert PASSWORD not in Path(f"/proc/{process.pid}/cmdline").read_text()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert PASSWORD not in errors.decode()
