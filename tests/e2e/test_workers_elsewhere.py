"""A run whose test clients are started by others, on another address of this machine."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import Child

pytestmark = [pytest.mark.process, pytest.mark.thorough]

MASTER = "127.0.0.3"


def test_workers_of_another_address_carry_a_run_and_end_with_it(tmp_path: Path) -> None:
    with socket.create_server((MASTER, 0)) as free:
        port = str(free.getsockname()[1])
    environment = {**os.environ, "HARNESS_TOKEN": "a token of 24 characters"}
    command = [sys.executable, "-m", "harness"]
    with Child([*command, "worker", f"{MASTER}:{port}", "--processes", "2"], env=environment) as workers:
        where = ["--master-bind-host", MASTER, "--master-bind-port", port]
        cell = ["i2-t2-r1-p100-v2008", "--lab", "embedded", "--measure", "200ms", "--settle", "500ms"]
        done = subprocess.run(
            [*command, "run", *cell, *where, "--results", str(tmp_path)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert workers.wait(timeout=60) == 0
    [run] = tmp_path.iterdir()
    assert sorted(path.name[-11:-8] for path in (run / "raw" / "calls").iterdir()) == ["-i1", "-i2"]
    assert not any(environment["HARNESS_TOKEN"] in path.read_text() for path in run.glob("*.json*"))
