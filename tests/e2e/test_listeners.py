"""What listens where: the table in harness/README.md against the sockets of running processes."""

import ipaddress
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import psutil
import pyodbc
import pytest

from harness.lab import drivers
from harness.load.pages import openmetrics, sweep
from harness.load.pages.openmetrics import LabMetrics
from harness.output.reporting import Reporter
from harness.reductions.spark_session import context
from tests.processes import Child, children_of, free_port

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
PASSWORD = "Listeners!1"
ENDPOINT = """
CREATE ENDPOINT broker STATE = STARTED AS TCP (LISTENER_PORT = %d, LISTENER_IP = ALL)
    FOR SERVICE_BROKER (AUTHENTICATION = WINDOWS, ENCRYPTION = DISABLED);
"""
BROKER_PORTS = range(20000, 32000)


def table() -> list[tuple[str, str, str, str]]:
    """Command, what listens, address, port."""
    text = (ROOT / "harness" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", text.split("## What listens where", 1)[1], re.MULTILINE
    )
    return rows[
        : next(place for place, row in enumerate(rows) if row[0].startswith("any command with the containers")) + 1
    ]


def listening(*pids: int) -> list[tuple[str, int]]:
    """Addresses and ports of all listening sockets of these processes."""
    found = []
    for pid in pids:
        with suppress(psutil.Error):  # a process that ends shows its sockets to root alone
            for each in psutil.Process(pid).net_connections("inet"):
                if each.status == psutil.CONN_LISTEN:
                    address = ipaddress.ip_address(each.laddr.ip)
                    found.append((str(getattr(address, "ipv4_mapped", None) or address), each.laddr.port))
    return sorted(found)


@contextmanager
def harness(*words: str, until: str) -> Iterator[tuple[subprocess.Popen, list[str]]]:
    """A command, and what it printed until a line contains a text."""
    process = Child(
        [sys.executable, "-m", "harness", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "HARNESS_PASSWORD": PASSWORD},
    )
    with process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if until in line:
                break
        else:
            pytest.fail(f"harness {words[0]} ended: {said}")
        try:
            yield process, said
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=120)


def connect(port: int) -> pyodbc.Connection:
    text = drivers.choose("auto").connection_string(
        host="127.0.0.1",
        port=port,
        user="sa",
        password=PASSWORD,
        database="master",
        program="tests",
        encrypt="mandatory",
    )
    return pyodbc.connect(text, autocommit=True, timeout=120)


def test_the_table_has_the_addresses_that_are_checked_here():
    here = "127.0.0.1"
    assert [(command, address) for command, _, address, _ in table()[1:]] == [
        ("`harness serve`", f"{here}, or `--host` (then only with TLS)"),
        ("`harness serve --admin-port`", here),
        ("`harness serve`, after CREATE ENDPOINT", "`--host` at most"),
        ("any command with the embedded lab", here),
        (
            "`harness run`, `matrix`, `techniques`, `rates`",
            f"{here}, or `--master-bind-host` (encrypted, with a token)",
        ),
        ("`harness ui`", here),
        ("`harness matrix --web`", here),
        ("`harness monitors`, `matrix`, `ui` with `--metrics`", here),
        ("`locust -f .../locustfile.py`", f"{here}, or `--web-host` (then only with TLS and a token)"),
        ("reductions, `harness simulate`", f"{here}, or the address that reaches `--master`"),
        ("any command with the containers", here),
    ]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_an_instance_listens_where_the_table_says(host, tmp_path):
    words = ["serve", "--host", host, "--port", "0", "--admin-port", "0", "--data", str(tmp_path / "data")]
    with harness(*words, until="{") as (process, said):
        ready = json.loads(said[-1])
        expected = {(host, ready["port"]), ("127.0.0.1", ready["admin_port"])}
        assert set(listening(process.pid)) == expected
        if host == "127.0.0.1":
            connection = connect(ready["port"])
            port = next(
                one for one in BROKER_PORTS if one not in {each.laddr.port for each in psutil.net_connections()}
            )
            connection.execute(ENDPOINT % port)
            connection.close()
            assert set(listening(process.pid)) == expected | {(host, port)}


def test_the_embedded_lab_listens_on_this_machine_alone():
    with harness("lab", "open", "--lab", "embedded", until="Ctrl-C ends") as (process, _):
        instances = children_of(process.pid)
        assert listening(process.pid) == []
        assert len(instances) == 2
        for instance in instances:
            found = listening(instance.pid)
            assert [address for address, _ in found] == ["127.0.0.1"] * 3
            assert sum(port in BROKER_PORTS for _, port in found) >= 1


def test_locust_and_its_web_page_listen_on_this_machine_alone():
    free = free_port()
    with harness("ui", "--lab", "embedded", "--initiators", "1", "--port", str(free), until=f":{free}") as (process, _):
        found = listening(process.pid, *(child.pid for child in children_of(process.pid)))
        assert {address for address, _ in found} == {"127.0.0.1"}
        assert ("127.0.0.1", free) in found


@pytest.mark.parametrize(
    "serving", [partial(sweep.serving, Reporter()), partial(openmetrics.serving, collector=LabMetrics())]
)
def test_the_page_of_a_sweep_and_the_numbers_listen_on_this_machine_alone(serving):
    free = free_port()
    with serving(port=free):
        assert {place for place in listening(os.getpid()) if place[1] == free} == {("127.0.0.1", free)}


@pytest.mark.spark
def test_spark_listens_on_this_machine_alone():
    with context("local[1]") as started:
        assert started.parallelize(range(10)).count() == 10
        found = listening(*(child.pid for child in children_of(os.getpid())))
    assert found and {address for address, _ in found} == {"127.0.0.1"}


def test_docker_publishes_the_containers_on_this_machine_alone():
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    published = re.findall(r"\"([^\"]+:\$\{MSSQL_[A-Z0-9_]*PORT[^\"]*)\"", text)
    assert published and all(one.startswith("127.0.0.1:") for one in published)
