"""Failures of a user's own servers, rehearsed: each gives one line that names server, step and cure, and a clean lab.

The servers are embedded ones that misbehave as told (`tests/stand_ins/faulty_server.py`); everything goes through the
command line, as it would for a user.
"""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.lab.cures import CURES
from harness.sweep.journal import Entry, read
from tests.stand_ins.own_servers import OwnServers, Server, Told, stop_all

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

SIDES = ("target", "initiator-1")
LAB = ("--lab-file", "lab.toml")
OPEN = ("lab", "open", *LAB)
TIMES = ("--measure", "300ms", "--settle", "200ms", "--drain", "5s")
CELL, OTHER_CELL = "i1-t2-r1-p100-v2022", "i1-t1-r1-p100-v2022"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    folder = tmp_path_factory.mktemp("servers")
    started = {side: Server(side, folder / side) for side in SIDES}
    try:
        for server in started.values():
            server.start(wait=False)
        for server in started.values():
            server.wait_until_ready()
        yield started
    finally:
        stop_all(started.values())


@pytest.fixture
def own(running: dict[str, Server], tmp_path: Path) -> Iterator[OwnServers]:
    """The servers, healthy, before and after each test: nothing that the harness made is left on them."""
    own = OwnServers(tmp_path, list(running.values()))
    own.lab_file()
    before = own.contents()
    yield own
    heal(own)
    after = own.contents()
    if after != before:
        own.harness("lab", "clean", *LAB, "--yes")
    assert after == before


def heal(own: OwnServers) -> None:
    """No fault any longer, and the dead are up again."""
    for server in own.servers:
        if server.is_running:
            server.plant()
        else:
            server.stop()
            server.start()


def clean_as_told(own: OwnServers, told: Told) -> None:
    """What an opening could not remove itself is removed by the command that it has named."""
    heal(own)
    if "harness lab clean removes it" in told.out:
        cleaned = own.harness("lab", "clean", *LAB, "--yes")
        assert cleaned.code == 0, cleaned


def entries(own: OwnServers) -> list[Entry]:
    [journal] = own.folder.glob("results/*/journal.jsonl")
    return list(read(journal))


# -- nothing has been created ------------------------------------------------------------------------------------------

REFUSALS = {
    "login=18456/sa": f"Login failed for user 'sa'. (error 18456): {CURES[18456]}",
    "login=18470/sa": "Login failed for user 'sa'. Reason: The account is disabled. (error 18470): ALTER LOGIN",
    "login=18401/sa": f"Only administrator can connect at this time. (error 18401): {CURES[18401]}",
    "login=4064": "Cannot open user default database. Login failed. (error 4064): ALTER LOGIN",
    "close-port": "something listens there and hangs up: is it SQL Server, and is it well?",
}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("fault", REFUSALS)
def test_a_server_that_lets_nobody_in_is_told(
    fault: str, side: str, running: dict[str, Server], own: OwnServers
) -> None:
    running[side].plant(fault)
    told = own.harness(*OPEN)
    assert told.code == 3
    assert told.line.startswith(f"{side} (127.0.0.1:{running[side].port})")
    assert REFUSALS[fault] in told.line


def test_a_server_that_is_not_there_is_told_at_once(own: OwnServers) -> None:
    own.lab_file(target_port=1)
    told = own.harness(*OPEN)
    assert (told.code, told.line) == (
        3,
        "target (127.0.0.1:1): nothing listens there: start the server, or check host and port",
    )
    own.lab_file(initiator_1_host="no-such-host.invalid", initiator_1_broker_host="127.0.0.1")
    told = own.harness(*OPEN)
    assert told.code == 3
    assert told.line.endswith(":" + f"{own.servers[1].port}): the host no-such-host.invalid is unknown: check its name")


@pytest.mark.parametrize("side", SIDES)
def test_a_server_of_another_version_or_that_starts_slowly_is_told(side: str, own: OwnServers, tmp_path: Path) -> None:
    others = [server for server in own.servers if server.role != side]
    other = Server(side, tmp_path.parent / f"{tmp_path.name}-{side}", version="2019")
    stranger = OwnServers(tmp_path, [other, *others] if side == "target" else [*others, other])
    stranger.lab_file()
    try:
        other.start("slow-start=3", wait=False)
        told = stranger.harness(*OPEN)
        assert (told.code, told.line) == (
            3,
            f"{side} (127.0.0.1:{other.port}): nothing listens there: start the server, or check host and port",
        )
        other.wait_until_ready()
        told = stranger.harness(*OPEN)
        assert told.code == 3
        assert told.line.startswith(f"{side} (127.0.0.1:{other.port}) is SQL Server 2019 (15.")
        assert told.line.endswith("lab.toml, line 1 says 2022")
    finally:
        other.stop()


# -- in the middle of opening ------------------------------------------------------------------------------------------

# What fails, and what its line has to hold beside the server's name. The paths name the step.
STEPS = {
    "statement:CREATE DATABASE=262/CREATE DATABASE/master": "CREATE DATABASE permission denied in database 'master'.",
    "statement:ALTER DATABASE=5061/ssbh_SSBTarget,5069": CURES[5061],
    "statement:ALTER DATABASE=5011/ssbh_SSBTarget,5069": CURES[5011],
    "statement:CREATE TABLE=1105/dbo.x//ssbh_SSBTarget/PRIMARY": CURES[1105],
    "statement:CREATE QUEUE=262/CREATE QUEUE/ssbh": "CREATE QUEUE permission denied",
    "statement:CREATE MASTER KEY=15247": f"link/master_key.sql, {CURES[15247]}",
    "statement:CREATE CERTIFICATE=15581": f"link/endpoint_certificate.sql, {CURES[15581]}",
    "statement:CREATE CERTIFICATE .* FROM BINARY=15297": f"link/import_endpoint_certificate.sql, {CURES[15297]}",
    "statement:CREATE ENDPOINT=15247": f"link/endpoint.sql, {CURES[15247]}",
    "statement:CREATE ENDPOINT=7862": f"link/endpoint.sql, {CURES[7862]}",
    "statement:CREATE LOGIN=15247": f"_login.sql, {CURES[15247]}",
    "statement:GRANT CONNECT ON ENDPOINT=15151/find/endpoint/ssbh": f"link/grant_connect.sql, {CURES[15151]}",
    "statement:CREATE ROUTE=9002/ssbh": f"link/route.sql, {CURES[9002]}",
    "drop:CREATE QUEUE": "queue.sql, the server closed the connection",
}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("fault", STEPS)
def test_a_step_that_fails_is_told_and_leaves_nothing(
    fault: str, side: str, running: dict[str, Server], own: OwnServers
) -> None:
    running[side].plant(fault)
    told = own.harness(*OPEN)
    assert told.code == 3
    assert told.line.startswith(side)
    for part in STEPS[fault].split(", "):
        assert part in told.line
    clean_as_told(own, told)
