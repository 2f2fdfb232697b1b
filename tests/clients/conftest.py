"""A server with a database for the clients: tables, procedures, and two services that talk to each other."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.clients.server import PASSWORD, Server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    data = tmp_path_factory.mktemp("clients") / "data"
    command = [sys.executable, "-m", "harness", "serve", "--port", "0", "--data", str(data), "--version", "2022"]
    process = subprocess.Popen(
        command,
        env=os.environ | {"HARNESS_PASSWORD": PASSWORD},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    server = Server(json.loads(line)["port"])
    server.prepare()
    yield server
    process.terminate()
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0 and "Traceback" not in errors, errors
