"""A stand-in for the Docker engine and for Compose: the parts of both that `harness.lab.compose` uses.

It reads the real docker-compose.yml with the values it is called with. A container of SQL Server is an embedded instance
(see embedded_container.py) on its own loopback address; published ports are relayed to it, as by Docker's proxy. Data is
kept in folders named after the volumes. Everything ends with the process that started the engine.

    with docker_engine.running() as docker:          # docker.environment: for the code under test
        ...

An engine is forked from a process that has imported an embedded instance, and so are its containers, each of which would
take 0.4 s of a processor to import one.

Faults: `pull` (no image can be pulled), `memory:<GB>` (the machine has no more), `processors:<number>` and `kernel:<version>`
(the machine is another one), `desktop` (its network is not of this host), `rootless`, `firewall` (this host does not reach the
containers), `exit:<service>` (ends at once), `slow:<service>` (runs and never listens).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import gc
import hashlib
import json
import os
import platform
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import yaml

from harness.definitions.matrix import INITIATORS_MAX
from tests.processes import children_of, is_alive

if TYPE_CHECKING:
    from tests.stand_ins.embedded_container import Process

HERE = Path(__file__).parent
ROLES = ("TARGET", *(f"INITIATOR{number}" for number in range(1, INITIATORS_MAX + 1)))
MEMORY_GB = 64
_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?::(-|\?)([^}]*))?\})")


# -- for tests ---------------------------------------------------------------------------------------------------------


@dataclass
class StandIn:
    """A running engine, for a test."""

    folder: Path
    process: psutil.Process
    environment: dict[str, str]

    def requests(self) -> list[list[str]]:
        """The arguments of every call of `docker` so far."""
        path = self.folder / "requests"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def containers(self) -> list[psutil.Process]:
        """The processes that play containers and live. Each has the name of its host."""
        return [one for one in children_of(self.process.pid) if is_alive(one)]

    def volumes(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "volumes").glob("*"))


@contextlib.contextmanager
def running(*faults: str, images: Sequence[str] = ()) -> Iterator[StandIn]:
    """An engine with free ports for all that docker-compose.yml publishes; the containers end with it."""
    # The engine's own process imports this module too, and needs nothing of a lab.
    from harness.lab.embedded_instances import free_ports  # noqa: PLC0415

    # Not below pytest's folders: the path of a socket is limited to 108 characters.
    folder = Path(tempfile.mkdtemp(prefix="docker-"))
    engines = _engines()
    assert engines.stdin is not None and engines.stdout is not None
    engines.stdin.write(json.dumps([str(folder), faults, images]).encode() + b"\n")
    engines.stdin.flush()
    process = psutil.Process(int(engines.stdout.readline()))
    own_life = socket.socket(socket.AF_UNIX)
    try:
        own_life.connect(str(folder / "life"))
        with free_ports(2 * len(ROLES)) as ports:
            names = [f"MSSQL_{role}{kind}_PORT" for role in ROLES for kind in ("", "_ADMIN")]
            published = dict(zip(names, map(str, ports), strict=True))
            # The command runs in this Python: another one may belong to a version manager, which takes as long again.
            path = os.pathsep.join([str(HERE), str(Path(sys.executable).parent), os.environ["PATH"]])
            yield StandIn(folder, process, {"PATH": path, "DOCKER_STAND_IN": str(folder), **published})
    finally:
        own_life.close()
        try:
            process.wait(timeout=120)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def _engines() -> subprocess.Popen[bytes]:
    """The process from which the engines of this one are forked; it ends with this one."""
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent.parent)}
    words = [sys.executable, str(HERE / "docker_engine.py")]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


# -- compose files -----------------------------------------------------------------------------------------------------


class Refused(Exception):
    """Docker's answer on stderr, with exit code 1."""


def interpolated(text: str, values: Mapping[str, str]) -> str:
    """The text with `$$`, `${NAME}`, `${NAME:-default}` and `${NAME:?text}` replaced as by Compose."""

    def value(match: re.Match[str]) -> str:
        escaped, name, kind, rest = match.groups()
        if escaped:
            return "$"
        found = values.get(name, "")
        if not found and kind == "?":
            raise Refused(f"required variable {name} is missing a value: {rest}")
        return found or (rest if kind == "-" else "")

    return _VARIABLE.sub(value, text)


def project(folder: Path, file: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """A compose file with its values filled in: those of the environment, else those of .env."""
    dotenv = folder / ".env"
    lines = dotenv.read_text().splitlines() if dotenv.exists() else []
    values = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#")) | dict(environment)

    def fill(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: fill(value) for key, value in node.items()}
        if isinstance(node, list):
            return [fill(item) for item in node]
        return interpolated(node, values) if isinstance(node, str) else node

    filled: dict[str, Any] = fill(yaml.safe_load(file.read_text()))
    for service in filled["services"].values():
        # A key without a value has that of the environment, and is left out where that has none.
        if "environment" in service:
            named = {name: value or values.get(name) for name, value in service["environment"].items()}
            service["environment"] = {name: value for name, value in named.items() if value is not None}
    return filled


# -- the engine --------------------------------------------------------------------------------------------------------


@dataclass
class Container:
    service: str
    definition: dict[str, Any]
    project_name: str
    address: str
    network: dict[str, str]  # as `docker inspect` shows it
    log: Path
    state: str = "created"
    exit_code: int = 0
    process: Process | None = None
    relays: list[asyncio.Server] = field(default_factory=list)
    inside: dict[int, tuple[str, int]] = field(default_factory=dict)  # port of the container -> where it really is
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    watcher: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return f"{self.project_name}-{self.service}-1"

    @property
    def ports(self) -> list[tuple[int, int]]:
        """(published, the container's)"""
        return [
            (int(port), int(inner)) for _, port, inner in (one.split(":") for one in self.definition.get("ports", []))
        ]

    @property
    def volumes(self) -> list[str]:
        return [f"{self.project_name}_{one.split(':')[0]}" for one in self.definition["volumes"]]

    def inspected(self) -> dict[str, Any]:
        return {
            "Id": hashlib.sha256(self.name.encode()).hexdigest(),
            "Name": f"/{self.name}",
            "State": {"Pid": self.process.pid if self.process else 0},
            "HostConfig": {"CpusetCpus": self.definition.get("cpuset", "")},
            "NetworkSettings": {"Networks": {f"{self.project_name}_default": self.network}},
        }

    def row(self) -> dict[str, Any]:
        publishers = [
            {"URL": "127.0.0.1", "TargetPort": inner, "PublishedPort": port, "Protocol": "tcp"}
            for port, inner in (self.ports if self.state == "running" else [])
        ]
        return {
            "Service": self.service,
            "Name": self.name,
            "Image": self.definition["image"],
            "Project": self.project_name,
            "State": self.state,
            "Health": "healthy" if self.inside else "",
            "ExitCode": self.exit_code,
            "Publishers": publishers,
        }


class Engine:
    def __init__(self, folder: Path, faults: Sequence[str], images: Sequence[str]) -> None:
        self.folder = folder
        self.faults = set(faults)
        self.images = set(images)
        machine = dict(one.split(":") for one in faults if ":" in one)
        self.machine = {
            "MemTotal": int(machine.get("memory", MEMORY_GB)) * 1024**3,
            "NCPU": int(machine.get("processors", os.cpu_count() or 1)),
            "KernelVersion": machine.get("kernel", platform.release()),
            "DockerRootDir": "/var/lib/docker",
            "SecurityOptions": ["name=seccomp,profile=builtin", *["name=rootless"] * ("rootless" in faults)],
        }
        self.containers: dict[str, Container] = {}
        self.subnet = f"127.{random.randint(2, 254)}.{random.randint(1, 254)}"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = json.loads(await reader.readline())
        with (self.folder / "requests").open("a") as file:
            file.write(json.dumps(request["words"]) + "\n")
        try:
            reply = {"stdout": await self.run(request["words"], request["environment"]), "code": 0}
        except Refused as error:
            reply = {"stderr": f"{error}\n", "code": 1}
        with contextlib.suppress(ConnectionError):
            writer.write(json.dumps(reply).encode() + b"\n")
            await writer.drain()
            writer.close()

    async def run(self, words: list[str], environment: dict[str, str]) -> str:  # noqa: PLR0911, PLR0912
        match words:
            case ["version", *_]:
                return "28.2.2\n"
            case ["info", "--format", "{{json .}}"]:
                return json.dumps(self.machine) + "\n"
            case ["inspect", *names]:
                by_name = {one.name: one for one in self.containers.values()}
                return json.dumps([by_name[name].inspected() for name in names]) + "\n"
            case ["compose", "version"]:
                return "Docker Compose version v2.26.1\n"
            case ["image", "inspect", image]:
                if image not in self.images:
                    raise Refused(f"Error response from daemon: No such image: {image}")
                return "[{}]\n"
            case ["pull", "--quiet", image]:
                if "pull" in self.faults:
                    raise Refused('Error response from daemon: Get "https://mcr.microsoft.com/v2/": no such host')
                self.images.add(image)
                return f"{image}\n"
            case ["volume", "rm", "--force", *names]:
                used = {volume for one in self.containers.values() for volume in one.volumes}
                if in_use := used & set(names):
                    raise Refused(f"Error response from daemon: remove {min(in_use)}: volume is in use")
                for name in names:
                    shutil.rmtree(self.folder / "volumes" / name, ignore_errors=True)
                return ""
            case ["exec", name, "sh", "-c", script]:
                by_name = {one.name: one for one in self.containers.values()}
                if name not in by_name:
                    raise Refused(f"Error response from daemon: No such container: {name}")
                return await self.run_in(by_name[name], script)
            case ["wait", name]:
                container = next(one for one in self.containers.values() if one.name == name)
                await container.ended.wait()
                return f"{container.exit_code}\n"
            case ["compose", "--project-directory", folder, "--file", file, "--profile", profile, verb, *arguments]:
                return await self.compose(project(Path(folder), Path(file), environment), profile, verb, arguments)
        raise Refused(f"the stand-in for Docker does not support {' '.join(words)}")

    async def compose(self, given: dict[str, Any], profile: str, verb: str, arguments: list[str]) -> str:
        services = {
            name: one
            for name, one in given["services"].items()
            if profile == "*" or profile in one.get("profiles", [profile])
        }
        names = [word for word in arguments if not word.startswith("-")]
        match verb:
            case "config":
                return "".join(f"{one['image']}\n" for one in services.values())
            case "up":
                for name in names:
                    await self.start(given["name"], services, name)
                return ""
            case "ps":
                return "".join(json.dumps(one.row()) + "\n" for one in self.containers.values())
            case "logs":
                return self.containers[names[-1]].log.read_text() if names[-1] in self.containers else ""
            case "restart":
                for name in names:
                    await self.end(self.containers[name])
                    await self.run_process(self.containers[name])
                return ""
            case "rm" | "down":
                for name in names or list(self.containers):
                    if name in self.containers:
                        await self.end(self.containers.pop(name))
                if verb == "down" and "--volumes" in arguments:
                    shutil.rmtree(self.folder / "volumes", ignore_errors=True)
                return ""
        raise Refused(f"the stand-in for Compose does not support {verb}")

    async def run_in(self, container: Container, script: str) -> str:
        """Run a script on this machine, which sees the container's first volume and mounts like those of Docker."""
        mounts = self.folder / "mounts"
        mounts.write_text("overlay / overlay rw,relatime 0 0\n/dev/sdb1 /var/opt/mssql-log xfs rw,noatime 0 0\n")
        seen = {"/var/opt/mssql/": f"{self.folder / 'volumes' / container.volumes[0]}/", "/proc/mounts": str(mounts)}
        for inside, outside in seen.items():
            script = script.replace(inside, outside)
        environment = {"PATH": os.environ["PATH"], **container.definition["environment"]}
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec("sh", "-c", script, env=environment, stdout=pipe, stderr=pipe)
        stdout, stderr = await process.communicate()
        if process.returncode:
            raise Refused(stderr.decode())
        return stdout.decode()

    async def start(self, project_name: str, services: dict[str, Any], name: str) -> None:
        if name not in services:
            raise Refused(f"no such service: {name}")
        definition = services[name]
        for needed in definition.get("depends_on", {}):
            await self.start(project_name, services, needed)
        if name in self.containers and self.containers[name].state == "running":
            return
        if definition["image"] not in self.images:
            raise Refused(f"Error response from daemon: No such image: {definition['image']}")
        cpuset, available = definition.get("cpuset", ""), range(self.machine["NCPU"])
        if any(int(number) not in available for number in re.findall(r"\d+", cpuset)):
            raise Refused(
                f"Error response from daemon: Requested CPUs are not available - requested {cpuset}, "
                f"available: 0-{available[-1]}"
            )
        log = self.folder / f"{name}.log"
        address = self.hosts().get(definition.get("hostname", ""), "")
        network = {
            "IPAddress": f"{self.subnet}.250" if "firewall" in self.faults else address,
            "Gateway": "172.31.254.1" if "desktop" in self.faults else "127.0.0.1",
        }
        container = Container(name, definition, project_name, address, network, log)
        self.containers[name] = container
        await self.run_process(container)

    async def run_process(self, container: Container) -> None:
        """Run the process of the container."""
        container.log.touch()
        container.ended.clear()
        environment = container.definition.get("environment", {})
        hostname = container.definition.get("hostname")
        if hostname is None or f"exit:{container.service}" in self.faults or environment["ACCEPT_EULA"] != "Y":
            refused = "The SQL Server End-User License Agreement (EULA) must be accepted before SQL Server can start."
            container.exit_code = 0 if hostname is None else 1
            said = refused if environment.get("ACCEPT_EULA") != "Y" else "This program has encountered a fatal error."
            container.log.write_text("" if hostname is None else f"Starting.\n{said}\n")
            container.state = "exited"
            container.ended.set()
            return
        await self.publish(container)
        container.state = "running"
        if f"slow:{container.service}" in self.faults:
            return
        given = {
            "hostname": hostname,
            "address": container.address,
            "version": container.definition["image"].rpartition(":")[2].removesuffix("-latest"),
            "data": str(self.folder / "volumes" / container.volumes[0]),
            "hosts": self.hosts(),
        }
        from tests.stand_ins.embedded_container import Process  # noqa: PLC0415  only the engine plays containers

        container.process = Process(given, environment["MSSQL_SA_PASSWORD"], container.log)
        if line := await container.process.first_line():
            ready = json.loads(line)
            container.inside = {1433: (container.address, 1433), 1434: ("127.0.0.1", ready["admin_port"])}
        container.watcher = asyncio.create_task(self.watch(container))

    def hosts(self) -> dict[str, str]:
        """Addresses by name."""
        return {role.lower(): f"{self.subnet}.{number}" for number, role in enumerate(ROLES, start=1)}

    async def watch(self, container: Container) -> None:
        """Record the end of the container's process."""
        assert container.process is not None
        container.exit_code = abs(await container.process.wait())
        if container.exit_code == 9:
            container.exit_code = 137
        container.state, container.inside = "exited", {}
        await self.unpublish(container)
        container.ended.set()

    async def publish(self, container: Container) -> None:
        """Listen on the published ports, and for the administrator connection, which an embedded instance has on the
        loopback interface only, at the container's address."""
        for host, port, inner in [("127.0.0.1", *ports) for ports in container.ports] + [
            (container.address, 1434, 1434)
        ]:

            async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, inner: int = inner) -> None:
                await self.relay(container, inner, reader, writer)

            try:
                container.relays.append(await asyncio.start_server(relay, host, port))
            except OSError as error:
                await self.unpublish(container)
                assert error.errno == errno.EADDRINUSE
                raise Refused(
                    "Error response from daemon: failed to set up container networking: driver failed programming "
                    f"external connectivity on endpoint {container.name}: failed to bind host port for "
                    f"{host}:{port}:172.18.0.2:{inner}/tcp: address already in use"
                ) from None

    async def unpublish(self, container: Container) -> None:
        for server in container.relays:
            server.close()
        container.relays.clear()

    async def relay(
        self, container: Container, inner: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Relay bytes in both directions until either side ends."""
        try:
            if inner not in container.inside:
                return
            there, back = await asyncio.open_connection(*container.inside[inner])
            await asyncio.gather(_carry(reader, back), _carry(there, writer))
        except OSError:
            pass
        finally:
            writer.close()

    async def end(self, container: Container) -> None:
        await self.unpublish(container)
        process = container.process
        if process is not None and not container.ended.is_set():
            process.terminate()
            await container.ended.wait()
        container.state, container.inside = "exited", {}
        container.ended.set()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def _serve(folder: Path, faults: Sequence[str], images: Sequence[str]) -> None:
    """Be an engine until the other side of the first connection to the socket `life` has gone."""
    engine = Engine(folder, faults, images)
    parent_gone = asyncio.Event()

    async def live(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        parent_gone.set()

    async with (
        await asyncio.start_unix_server(engine.answer, str(folder / "socket")),
        await asyncio.start_unix_server(live, str(folder / "life")),
    ):
        print(os.getpid(), flush=True)
        await parent_gone.wait()
        await asyncio.gather(*(engine.end(one) for one in engine.containers.values()))


def _fork_engines() -> None:
    """Fork an engine for each line of standard input: its folder, faults and images in JSON."""
    from tests.stand_ins import embedded_container  # noqa: F401, PLC0415  once for all containers

    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for engines
    for line in sys.stdin:
        if os.fork():
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        folder, faults, images = json.loads(line)
        asyncio.run(_serve(Path(folder), faults, images))
        os._exit(0)


if __name__ == "__main__":
    _fork_engines()
