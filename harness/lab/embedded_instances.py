"""The embedded lab: every instance is a child process `harness serve` on this machine.

Each lab has its own random password, passed to the children in the environment. An instance keeps its data in a folder
below the lab's directory. The data is deleted when the lab closes, the log is kept.

The instances share this machine's processors, which the paper's did not. The initiators yield to the target, else the
target falls behind as soon as all processors are busy, and what is measured is how the kernel shares them out.
"""

import contextlib
import json
import random
import secrets
import shutil
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.definitions.lab_kinds import EMBEDDED
from harness.definitions.matrix import PAPER_VERSIONS
from harness.embedded.versions import PRODUCTS
from harness.lab import placement
from harness.lab.drivers import Driver, Secret
from harness.lab.instances import SIDES, Instance, Lab, LabError, Login
from harness.lab.processes import Child, ChildError, stop_all

HOST = "127.0.0.1"
VERSIONS = tuple(PRODUCTS)
SWEEP_VERSIONS = PAPER_VERSIONS
_INITIATOR_NICENESS = 5  # a third of the target's weight where both want a processor
_READY_TIMEOUT_S = 30.0
# LISTENER_PORT must be within 1024 to 32767; from 32768 on the kernel assigns ports to clients.
_BROKER_PORTS = range(20000, 32000)


@contextlib.contextmanager
def running(*, version: str, initiators: int, directory: Path, driver: Driver) -> Iterator[Lab]:
    """Run a target and `initiators` initiators, empty. Call it from the main thread (see `processes`)."""
    with free_ports(initiators + 1) as ports:
        lab = _start(version, ports, directory, driver)
        try:
            yield lab
        finally:
            lab.close()
            shutil.rmtree(directory / "data", ignore_errors=True)


def _start(version: str, ports: Sequence[int], directory: Path, driver: Driver) -> Lab:
    sides = SIDES[: len(ports)]
    password = Secret(secrets.token_urlsafe(24))
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
    return Lab(EMBEDDED, version, instances[0], instances[1:], directory, placement=placement.of_embedded())


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
        environment={"HARNESS_PASSWORD": password},
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


@contextlib.contextmanager
def free_ports(count: int) -> Iterator[list[int]]:
    """Find TCP ports on which nothing listens, and keep them from other labs as long as the block lasts.

    An instance listens on its port only when its endpoint is created, seconds after the port was chosen. So whoever has
    chosen a port holds the UDP port of the same number, for which Service Broker has no use.
    """
    ports: list[int] = []
    with contextlib.ExitStack() as held:
        for port in random.sample(_BROKER_PORTS, len(_BROKER_PORTS)):
            if (holder := _hold(port)) is not None:
                held.enter_context(holder)
                ports.append(port)
            if len(ports) == count:
                break
        else:
            range_words = f"{_BROKER_PORTS[0]} and {_BROKER_PORTS[-1]}"
            raise LabError(f"fewer than {count} ports between {range_words} are free: stop what listens there")
        yield ports


def _hold(port: int) -> socket.socket | None:
    """Return the port's UDP socket, or None if the port is held or something listens on it."""
    holder = socket.socket(type=socket.SOCK_DGRAM)
    try:
        holder.bind((HOST, port))
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
    except OSError:
        holder.close()
        return None
    return holder
