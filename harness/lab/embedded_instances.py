"""The embedded lab: every instance is a child process `harness serve` on this machine.

Each lab has its own random password, passed to the children in the environment. An instance keeps its data in a folder
below the lab's directory. The data is deleted when the lab closes, the log is kept.

The instances share this machine's processors, which the paper's did not. The initiators yield to the target, else the
target falls behind as soon as all processors are busy, and what is measured is how the kernel shares them out.
"""

from __future__ import annotations

import contextlib
import json
import random
import secrets
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.lab import placement
from harness.lab.drivers import Driver, Secret
from harness.lab.instances import SIDES, Instance, Lab, LabError, Login
from harness.lab.processes import Child, ChildError, stop_all

HOST = "127.0.0.1"
VERSIONS = ("2005", "2008")
_INITIATOR_NICENESS = 5  # a third of the target's weight where both want a processor
_READY_TIMEOUT_S = 30.0
# LISTENER_PORT must be within 1024 to 32767; from 32768 on the kernel assigns ports to clients.
_BROKER_PORTS = range(20000, 32000)


@contextlib.contextmanager
def running(*, version: str, initiators: int, directory: Path, driver: Driver) -> Iterator[Lab]:
    """Run a target and `initiators` initiators, empty. Call it from the main thread (see `processes`)."""
    lab = _start(version, initiators, directory, driver)
    try:
        yield lab
    finally:
        lab.close()
        shutil.rmtree(directory / "data", ignore_errors=True)


def _start(version: str, initiators: int, directory: Path, driver: Driver) -> Lab:
    sides = SIDES[: initiators + 1]
    password = Secret(secrets.token_urlsafe(24))
    ports = free_ports(len(sides))
    children: list[Child] = []
    try:
        for name, _ in sides:
            children.append(_serve(name, version, directory, password))
        instances = []
        for (name, database), child, port in zip(sides, children, ports, strict=True):
            ready = read_ready_line(child)
            instances.append(
                Instance(
                    name,
                    database,
                    ready["host"],
                    ready["port"],
                    port,
                    driver,
                    Login("sa", password),
                    child,
                    listener_ip=f"({HOST})",
                    admin_port=ready["admin_port"],
                )
            )
    except (ChildError, OSError) as error:
        stop_all(children)
        raise LabError(f"the embedded lab did not start: {error}") from None
    except BaseException:
        stop_all(children)
        raise
    return Lab("embedded", version, instances[0], instances[1:], directory, placement=placement.of_embedded())


def _serve(name: str, version: str, directory: Path, password: Secret) -> Child:
    data = directory / "data" / name
    shutil.rmtree(data, ignore_errors=True)  # the instance makes it anew, readable by this user alone
    options = {"--name": name, "--host": HOST, "--data": str(data), "--version": version}
    words = [word for option in options.items() for word in option]
    words += ["--port", "0", "--admin-port", "0"]
    return Child(
        name,
        [sys.executable, "-m", "harness", "serve", *words, "--with-parent", "--throwaway"],
        log=directory / "logs" / f"{name}.log",
        environment={"HARNESS_SA_PASSWORD": password},
        pipe_stdout=True,
        niceness=0 if name == SIDES[0][0] else _INITIATOR_NICENESS,
    )


def read_ready_line(child: Child) -> dict[str, Any]:
    """Read a child's ready line, which says where it listens, and skip the lines before it."""
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while True:
        line = child.read_line(deadline - time.monotonic())
        if line.startswith("{"):
            ready: dict[str, Any] = json.loads(line)
            return ready


def free_ports(count: int) -> list[int]:
    """Find ports on which nothing listens now."""
    found: list[int] = []
    for port in random.sample(_BROKER_PORTS, len(_BROKER_PORTS)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise LabError(
        f"fewer than {count} ports between {_BROKER_PORTS[0]} and {_BROKER_PORTS[-1]} are free: stop what listens there"
    )
