"""The sqlserver lab in containers: SQL Server of one version, as docker-compose.yml describes it.

A lab removes the containers that it started, with their data. Containers that ran before (`harness lab up`) are used:
an earlier lab's databases are dropped first, and the containers keep running afterwards. All versions have the same
services, so containers of another version are removed first.

Each container has processors of its own (`cpuset`), where the machine has enough: a plan deals them out
(`placement.Machine.plan`) unless the user names them. Containers that ran before keep those that they have.

Published ports are for people. A process reaches them on 127.0.0.1 through docker-proxy, a process of Docker's that
copies every byte. So the lab connects to the containers' own addresses: a bridge network "allows unrestricted network
access to containers in the network from the host". Where the bridge is one of this host's, so is the gateway's address.
It is not with Docker Desktop, whose engine runs in a virtual machine, and with rootless Docker, whose networks lie in a
namespace of their own. There the published ports are used, and the doctor says so. Sources:
https://docs.docker.com/engine/network/drivers/bridge/, https://docs.docker.com/desktop/features/networking/,
https://docs.docker.com/engine/security/rootless/#networking-errors
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from harness.definitions.lab_kinds import CONTAINERS
from harness.definitions.matrix import INITIATORS, INITIATORS_MAX
from harness.definitions.units import counted, size_text
from harness.definitions.whitepaper import INITIATOR_SCHEDULERS
from harness.failures import MachineFailure, UsageFailure
from harness.files.script_text import ScriptError
from harness.lab import compose, drivers, error_remedies, placement, scripts
from harness.lab.compose import ComposeError, Container, Engine, EnvFileError, Inspected
from harness.lab.control_groups import ControlGroup
from harness.lab.drivers import Driver
from harness.lab.instances import SIDES, Instance, InstanceDied, Lab, LabError, Login, connections, in_parallel
from harness.lab.log_storage import LogStorage
from harness.lab.placement import Machine, Placement
from harness.lab.processes import Child

VERSIONS = ("2017", "2019", "2022", "2025")
SWEEP_VERSIONS = ("2022", "2025")
HOST = "127.0.0.1"
BROKER_PORT = 5114
# Each of the target's queue readers keeps a batch of 10,000 messages, up to 80 MB, in a table variable.
TEMPDB_SIZES_MB = {"target": 2048}
TEMPDB_SIZE_MB = 512
# An image's layers, and beside tempdb an instance's own files: system databases, a log of tempdb, small first files.
IMAGE_MB, OWN_FILES_MB = 2048, 1024

PAIR = 2  # a target and an initiator
_SQL_PORT, _ADMIN_PORT = 1433, 1434  # inside the container
_READY_TIMEOUT_S = 300.0
_KNOCK_TIMEOUT_S = 3.0  # at a container's address, which a firewall may keep from this host
# A server that starts may refuse every login for a while, until it has logged this line.
_REFUSED_S = 180.0
_STARTED = "Recovery is complete"
_POLL_S = 0.5
_CHECK_EVERY_S = 2.0
_KILLED = 137  # exit code: 128 and SIGKILL
# https://github.com/microsoft/mssql-docker/issues/868
_OLD_VERSION, _TOO_NEW_KERNEL = "2017", (6, 7)


@contextlib.contextmanager
def running(
    *,
    version: str,
    initiators: int,
    directory: Path,
    driver: Driver,
    watch: Callable[[], None],
    tell: Callable[[str], None],
) -> Iterator[Lab]:
    """Run a target and `initiators` initiators, ready and without databases. Call it from the main thread.

    Raises ComposeError, LabError, InstanceDied or ScriptError, and then stops what it started.
    """
    services = _services(initiators)
    room = _make_room(version, services, tell)
    lab: Lab | None = None
    try:
        instances = _bring_up(room, version, driver, watch=watch, tell=tell)
        _prepare(instances, services, watch, tell)
        lab = Lab(CONTAINERS, version, instances[0], instances[1:], directory)
        containers = compose.containers()
        # Containers that are restarted may get other addresses, so they are asked for afterwards.
        inspections = compose.inspected([containers[service] for service in services])
        proxied = _why_proxied(room.engine, inspections)
        if not proxied:
            for instance, inspection in zip(instances, inspections, strict=True):
                instance.host, instance.port, instance.admin_port = inspection.address, _SQL_PORT, _ADMIN_PORT
        lab.placement = _placement(room, inspections, proxied)
        _count_processor_time(instances, inspections, room.engine, tell)
        for instance, service in zip(instances, services, strict=True):
            _raise_if_ended(service, containers)
            instance.process = _Watched(service, containers[service].name, directory)
            instance.log_storage = LogStorage(containers[service].name, room.engine.kernel_version)
        yield lab
    finally:
        if lab is not None:
            lab.close()
        started = [service for service in services if service not in room.running]
        _take_down(started, bool(room.running), directory, tell)


def up(version: str, initiators: int, tell: Callable[[str], None]) -> None:
    """Start containers, wait until they are ready, and leave them running."""
    if version not in VERSIONS:
        raise UsageFailure(f"no container runs SQL Server {version!r}: choose one of {', '.join(VERSIONS)}")
    drivers.check_manager()
    services = _services(initiators)
    room = _make_room(version, services, tell)
    try:
        _bring_up(room, version, drivers.choose(), watch=lambda: None, tell=tell)
        containers = compose.containers()
        tell(str(_placement(room, compose.inspected([containers[service] for service in services]))))
    except BaseException:
        tell("containers that did start keep running: see harness lab status, remove them with harness lab down")
        raise
    for line in status():
        tell(line)


def down(tell: Callable[[str], None]) -> None:
    """Remove every container of the lab with its data."""
    containers = compose.containers()
    compose.down()
    tell(f"removed {', '.join(sorted(containers))}" if containers else "there were no containers to remove")


def status() -> list[str]:
    """Describe each container in a line (version, state, health, address), and how to sign in."""
    containers = compose.containers()
    if not containers:
        return ["no containers run: start them with harness lab up"]
    return [
        *(_line(containers[service]) for service in _services(INITIATORS_MAX) if service in containers),
        f"login: sa; its password is MSSQL_SA_PASSWORD in {compose.place()}",
    ]


def _line(container: Container) -> str:
    state = container.state if container.is_running else f"{container.state} ({container.exit_code})"
    health = f", {container.health}" if container.health else ""
    address = f", {HOST},{container.ports[_SQL_PORT]}" if _SQL_PORT in container.ports else ""
    return f"{container.service} SQL Server {container.version}: {state}{health}{address}"


# -- up and down -------------------------------------------------------------------------------------------------------


def _services(initiators: int) -> list[str]:
    """Return the names of target and initiators for Compose and for one another."""
    return [name.replace("-", "") for name, _ in SIDES[: initiators + 1]]


class _Room(NamedTuple):
    """The services of a lab, where they may run, and which of them, or others, run already."""

    services: Sequence[str]
    engine: Engine
    cpusets: Mapping[str, str]
    running: set[str]


def _make_room(version: str, services: Sequence[str], tell: Callable[[str], None]) -> _Room:
    """Remove containers of another version, and stopped ones if none runs.

    Removes nothing if the machine cannot carry the services, or lacks processors that the user names for them.
    """
    compose.check()
    engine = compose.engine()
    compose.require_memory(engine, len(services))
    cpusets = _cpusets(engine, services)
    if version == _OLD_VERSION and (kernel := engine.kernel_version) >= _TOO_NEW_KERNEL:
        new, runs_on = (".".join(map(str, version)) for version in (_TOO_NEW_KERNEL, kernel))
        tell(
            f"SQL Server {version} in a container is known to end at its start on Linux {new} and later, and Docker "
            f"runs on {runs_on}: if it does, choose another version"
        )
    containers = compose.containers()
    running = {name for name, container in containers.items() if container.is_running}
    if not running:
        _require_disk(engine, len(services), tell)
    if containers and (not running or any(container.version != version for container in containers.values())):
        tell(f"removing {', '.join(sorted(containers))}")
        compose.down()
        running = set()
    return _Room(services, engine, cpusets, running)


def own_disk_bytes(instances: int) -> int:
    """What containers of so many instances take before anything is measured, about."""
    tempdb_mb = sum(TEMPDB_SIZES_MB.values()) + (instances - len(TEMPDB_SIZES_MB)) * TEMPDB_SIZE_MB
    return (IMAGE_MB + instances * OWN_FILES_MB + tempdb_mb) * 1024**2


def machine_lines(instances: int) -> list[str]:
    """Say how many processors each container has here, and, if the engine answers, how much disk they need and find."""
    processors = processors_each(instances)
    text = f"processors: {processors} for each of {counted(instances, 'instance')}"
    if processors < INITIATOR_SCHEDULERS:
        text += f", and the paper's had {INITIATOR_SCHEDULERS}: gain, contention and threads will not be measured"
    lines = [text]
    with contextlib.suppress(ComposeError):
        lines.append(_disk_words(compose.engine(), instances))
    return lines


def _disk_words(engine: Engine, instances: int) -> str:
    free = engine.free_disk_bytes()
    needed = size_text(own_disk_bytes(instances))
    return (
        f"image and containers of {counted(instances, 'instance')} need {needed} of disk before any cell; "
        f"{'what' if free is None else size_text(free)} is free in {engine.root}{' is not known' * (free is None)}"
    )


def _require_disk(engine: Engine, instances: int, tell: Callable[[str], None]) -> None:
    """Say what the containers themselves need and what is free; raise ComposeError if that is less."""
    words, free = _disk_words(engine, instances), engine.free_disk_bytes()
    if free is not None and free < own_disk_bytes(instances):
        raise ComposeError(f"{words}: free some disk, or ask for fewer initiators")
    tell(words)


def initiators() -> int | None:
    """Return how many the user gives, or one where each of three would have fewer processors than the paper's."""
    return compose.initiators() or (1 if processors_each(len(INITIATORS) + 1) < INITIATOR_SCHEDULERS else None)


def processors_each(instances: int) -> int:
    """How many processors of this machine each of so many instances has."""
    machine = Machine.here()
    if planned := _planned(machine, instances):
        return len(planned[0])
    return len(machine.online) // (1 if instances == PAIR else instances)


def _planned(machine: Machine, instances: int) -> list[frozenset[int]]:
    """Return processors for each instance; none where a target and an initiator are better off with all of them."""
    planned = machine.plan(instances)
    return [] if instances == PAIR and planned and len(planned[0]) < INITIATOR_SCHEDULERS else planned


def _cpusets(engine: Engine, services: Sequence[str]) -> dict[str, str]:
    """Return the processors of each service: those that the user names, else those of a plan, if there is one.

    Raises EnvFileError if the user names processors that the machine lacks.
    """
    machine = Machine.here()
    variables = {service: compose.cpuset_variable(service) for service in services}
    cpusets = {service: compose.value(variable) for service, variable in variables.items()}
    if not any(cpusets.values()):
        planned = _planned(machine, len(services)) if engine.is_on(machine) else []
        return dict(zip(services, map(placement.listed, planned), strict=False))
    processors = machine.online if engine.is_on(machine) else frozenset(range(engine.processors))
    for service, variable in variables.items():
        try:
            lacking = placement.parse(cpusets[service]) - processors
        except ValueError as error:
            raise EnvFileError(f"{variable} in {compose.place(variable)}: {error}") from None
        if lacking:
            raise EnvFileError(
                f"{variable} in {compose.place(variable)} is {cpusets[service]}, and Docker's machine has the "
                f"processors {placement.listed(processors)}: leave out {placement.listed(lacking)}"
            )
    return cpusets


def _placement(room: _Room, containers: Sequence[Inspected], proxied: str = "") -> Placement:
    """Return where containers really run, whatever was planned for them."""
    machine = Machine.here()
    return placement.of_containers(
        machine if room.engine.is_on(machine) else None,
        {name: container.cpuset for (name, _), container in zip(SIDES, containers, strict=False)},
        disk=room.engine.root,
        proxied=proxied,
    )


def _count_processor_time(
    instances: Sequence[Instance], containers: Sequence[Inspected], engine: Engine, tell: Callable[[str], None]
) -> None:
    """Have the kernel count the containers' processor time too, beside what the instances say of theirs."""
    if engine.is_on(Machine.here()):
        for instance, container in zip(instances, containers, strict=True):
            instance.control_group = ControlGroup.of(container.process, container.id)
    if uncounted := [instance.name for instance in instances if instance.control_group is None]:
        tell(
            f"the processor time of {', '.join(uncounted)} is not compared with that of the containers: this machine "
            "does not show their control groups"
        )


def _why_proxied(engine: Engine, containers: Sequence[Inspected]) -> str:
    """Return why this host cannot reach the containers at their own addresses, "" if it can.

    Nobody else must have these addresses, because whoever has them is sent the password: only those of a network that
    is one of this host's are tried.
    """
    if engine.is_rootless:
        return "Docker runs rootless"
    own_addresses = {address.address for addresses in psutil.net_if_addrs().values() for address in addresses}
    for container in containers:
        if not container.address or container.gateway not in own_addresses:
            return "their network is not one of this machine, as with Docker Desktop"
        if reason := error_remedies.out_of_reach(container.address, _SQL_PORT, _KNOCK_TIMEOUT_S):
            return f"{container.address}:{_SQL_PORT}: {reason}"
    return ""


def _bring_up(
    room: _Room, version: str, driver: Driver, *, watch: Callable[[], None], tell: Callable[[str], None]
) -> list[Instance]:
    began = time.monotonic()
    services = room.services
    tell(f"starting {', '.join(services)}")
    compose.up(services, version=version, cpusets=room.cpusets, watch=watch, tell=tell)
    containers = compose.containers()
    for service in services:
        _raise_if_ended(service, containers)
    login = Login("sa", compose.password())
    instances = [
        Instance(
            name=name,
            database=database,
            host=HOST,
            port=containers[service].ports[_SQL_PORT],
            broker_port=BROKER_PORT,
            driver=driver,
            login=login,
            broker_host=service,
            admin_port=containers[service].ports[_ADMIN_PORT],
        )
        for (name, database), service in zip(SIDES, services, strict=False)
    ]
    _wait_until_ready(instances, services, watch, tell)
    tell(f"{len(services)} instances are ready after {time.monotonic() - began:.0f} s")
    return instances


def _wait_until_ready(
    instances: Sequence[Instance], services: Sequence[str], watch: Callable[[], None], tell: Callable[[str], None]
) -> None:
    """Wait until each instance answers and all its databases are online. LabError names the first that does not."""
    began = time.monotonic()
    deadline = began + _READY_TIMEOUT_S
    check_at = 0.0
    waiting = dict(zip(services, instances, strict=True))
    while True:
        watch()
        answers = dict(zip(waiting, in_parallel(_why_not_ready, list(waiting.values())), strict=True))
        for service in [service for service, why in answers.items() if not why]:
            tell(f"{service} is ready")
            del waiting[service]
        if not waiting:
            return
        now = time.monotonic()
        if now >= check_at:
            containers, check_at = compose.containers(), now + _CHECK_EVERY_S
            for service in services:
                _raise_if_ended(service, containers)
        for service in [name for name, why in answers.items() if "(error 18456)" in why]:
            if now > began + _REFUSED_S or _STARTED in compose.log(service):
                raise LabError(
                    f"{service} was created with another password than the one in {compose.place()}: "
                    "remove it and its data with harness lab down"
                )
        if now > deadline:
            service = next(iter(waiting))
            raise LabError(
                f"{service} was not ready after {_READY_TIMEOUT_S:.0f} s ({answers[service]}); "
                f"last line of its log: {compose.last_line(service)}"
            )
        time.sleep(_POLL_S)


def _why_not_ready(instance: Instance) -> str:
    """Return why an instance is not ready, or "" if it is."""
    try:
        with connections([instance], "master") as (connection,):
            [row] = scripts.rows(connection, "container/ready.sql", {})
    except (LabError, ScriptError) as error:
        return str(error)
    count = int(row["databases_not_online"])
    return f"{counted(count, 'database')} not online yet" if count else ""


def _raise_if_ended(service: str, containers: dict[str, Container]) -> None:
    container = containers.get(service)
    if container is None or not container.is_running:
        raise InstanceDied(_death(service, container))


def _death(service: str, container: Container | None) -> str:
    if container is None:
        return f"the container {service} no longer exists"
    if container.state not in ("exited", "dead"):
        return f"the container {service} does not run: it is {container.state}"
    text = f"the container {container.service} ended with exit code {container.exit_code}"
    if container.exit_code == _KILLED:
        text += " (killed, usually for lack of memory: raise MSSQL_CONTAINER_MEMORY in .env)"
    line = compose.last_line(container.service)
    return f"{text}; last line of its log: {line}" if line else text


def _take_down(services: Sequence[str], others_stay: bool, directory: Path, tell: Callable[[str], None]) -> None:
    """Keep the logs and remove the containers. A failure here must not hide why the lab ends."""
    if not services:
        return
    try:
        if existing := sorted(set(services) & set(compose.containers())):
            tell(f"removing {', '.join(existing)}")
            _keep_logs(existing, directory)
        if others_stay:
            compose.remove(services)
        else:
            compose.down()
    except ComposeError as error:
        tell(f"containers may still exist ({error}): remove them with harness lab down")


def _keep_logs(services: Sequence[str], directory: Path) -> None:
    folder = directory / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    for service in services:
        with contextlib.suppress(ComposeError):
            (folder / f"{service}.log").write_text(compose.log(service), encoding="utf-8")


# -- preparing a new instance ------------------------------------------------------------------------------------------


def _prepare(
    instances: Sequence[Instance], services: Sequence[str], watch: Callable[[], None], tell: Callable[[str], None]
) -> None:
    """Drop old databases, lay out tempdb and make the administrator connection reachable."""

    def lay_out(instance: Instance) -> bool:
        size_mb = TEMPDB_SIZES_MB.get(instance.name, TEMPDB_SIZE_MB)
        with connections([instance], "master") as (connection,):
            scripts.run(connection, "container/drop_database.sql", {"Database": instance.database})
            scripts.run(connection, "container/tempdb.sql", {"TempdbSizeMb": str(size_mb)})
            scripts.run(connection, "container/remote_admin_connections.sql", {})
        return _admin_connection_answers(instance)

    answers = in_parallel(lay_out, instances)
    # By the manual the option needs no restart. It does not say whether the listener on Linux leaves the loopback
    # interface at once.
    unreachable = [service for service, answer in zip(services, answers, strict=True) if not answer]
    if unreachable:
        tell(f"restarting {', '.join(unreachable)} for the administrator connection")
        compose.restart(unreachable)
        _wait_until_ready(instances, services, watch, tell)


def _admin_connection_answers(instance: Instance) -> bool:
    try:
        instance.connect_admin("master").close()
    except MachineFailure:
        return False
    return True


class _Watched:
    """Knows cheaply whether a container has ended: `docker wait` returns when it has."""

    def __init__(self, service: str, container: str, directory: Path) -> None:
        self._service = service
        self._wait = Child(
            service, ["docker", "wait", container], log=directory / "logs" / f"{service}.wait", pipe_stdout=True
        )
        self._stopping = False
        self._death: str | None = None

    def death(self) -> str | None:
        """Return how the container ended, in one line; None while it runs or after `stop`."""
        if self._stopping or self._wait.is_alive():
            return None
        if self._death is None:
            self._death = _death(self._service, compose.containers().get(self._service))
        return self._death

    def request_stop(self) -> None:
        self._stopping = True
        self._wait.request_stop()

    def stop(self, grace_s: float = 5.0) -> None:
        self._stopping = True
        self._wait.stop(grace_s)
