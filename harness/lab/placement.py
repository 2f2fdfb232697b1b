"""Which processors of this machine each instance and the clients have, and what instances share.

The paper's instances had a computer each. On one machine they can have processors of their own, but not a disk. A plan
deals out whole cores: the same number to each instance, all of one NUMA node and of one kind, and the rest to the
clients, which are Locust's master and workers, the observers and this process. What instances share is recorded, and
claims that rest on separate machines are then not measured (`harness.claims`).

The processors of a core stay together, for two reasons. Two instances on one core would share it. And SQL Server 2025
ends at its start where some of the cores that it sees have more processors than others:
https://github.com/microsoft/mssql-docker/issues/951 and /954.

The kernel lists processors as `0-3,8`: cpuset(7), "List format". The topology is that of
https://www.kernel.org/doc/html/latest/admin-guide/cputopology.html
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import socket
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from harness.definitions.units import counted
from harness.machine.linux import is_linux

SYSTEM = Path("/sys/devices")
CLIENTS = "clients"
FULL_SPEED = "performance"  # a governor
PROCESSORS, DISK = "processors", "disk"  # what instances may share
_LIST = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")


def parse(text: str) -> frozenset[int]:
    """Return the processors of a list such as `0-3,8`; raises ValueError."""
    if not text:
        return frozenset()
    if not _LIST.fullmatch(text):
        raise ValueError(f"{text!r} is no list of processors: write 0-3,8")
    processors: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        processors.update(range(int(first), int(last or first) + 1))
    return frozenset(processors)


def listed(processors: Iterable[int]) -> str:
    """Write processors as the kernel does: `0-3,8`."""
    runs: list[list[int]] = []
    for number in sorted(processors):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


@dataclass(frozen=True, slots=True)
class Core:
    processors: frozenset[int]  # several with SMT
    node: int  # of NUMA
    is_efficient: bool  # of a hybrid machine, slower than its others


@dataclass(frozen=True)
class Machine:
    """The cores of this machine that this process may use whole."""

    cores: tuple[Core, ...]
    online: frozenset[int]  # all processors of the machine

    @classmethod
    def here(cls) -> Machine:
        """Read the topology; without cores where the system does not show it as Linux does."""
        if not is_linux():
            return cls((), frozenset(range(os.cpu_count() or 1)))
        allowed = os.sched_getaffinity(0)
        efficient = _read_list(SYSTEM / "cpu_atom" / "cpus")
        folder = SYSTEM / "system"
        nodes = {
            processor: int(path.parent.name.removeprefix("node"))
            for path in sorted(folder.glob("node/node[0-9]*/cpulist"))
            for processor in _read_list(path)
        }
        online = _read_list(folder / "cpu" / "online")
        siblings = {
            _read_list(folder / "cpu" / f"cpu{number}" / "topology" / "thread_siblings_list") for number in online
        }
        cores = [
            Core(processors, nodes.get(min(processors), 0), processors <= efficient)
            for processors in siblings
            if processors and processors <= allowed
        ]
        return cls(tuple(sorted(cores, key=lambda core: min(core.processors))), online)

    def __str__(self) -> str:
        number, nodes = len(self.cores), len({core.node for core in self.cores})
        sizes = sorted({len(core.processors) for core in self.cores})
        smt = f" of {' or '.join(map(str, sizes))} processors" if sizes != [1] else ""
        return f"{counted(number, 'core')}{smt}, {counted(nodes, 'NUMA node')}"

    def touched(self, processors: frozenset[int]) -> frozenset[int]:
        """Return all processors of the cores of some of them."""
        return processors.union(*(core.processors for core in self.cores if core.processors & processors))

    def plan(self, instances: int) -> list[frozenset[int]]:
        """Deal out cores: the processors of each instance, or nothing if the cores are too few.

        The clients have what is left: a core for each initiator's worker if each instance has one too, else one core.
        """
        kinds = Counter((len(core.processors), core.is_efficient) for core in self.cores)
        kind = max(kinds, key=lambda kind_: (kinds[kind_], kind_[0]), default=None)
        by_node: dict[int, list[Core]] = defaultdict(list)
        for core in self.cores:
            if (len(core.processors), core.is_efficient) == kind:
                by_node[core.node].append(core)
        spare = max(1, min(instances - 1, len(self.cores) - instances))
        for cores_each in range((len(self.cores) - spare) // instances, 0, -1):
            if sum(len(cores) // cores_each for cores in by_node.values()) >= instances:
                return _dealt(by_node, instances, cores_each)
        return []


def _dealt(by_node: Mapping[int, list[Core]], instances: int, cores_each: int) -> list[frozenset[int]]:
    free = {node: list(cores) for node, cores in by_node.items()}
    dealt = []
    for _ in range(instances):
        cores = max(free.values(), key=len)  # the first node of those that have the most
        dealt.append(frozenset[int]().union(*(core.processors for core in cores[:cores_each])))
        del cores[:cores_each]
    return dealt


def is_here(host: str) -> bool:
    """Return whether a host is this machine, named by one of its addresses or by a name of one."""
    own_addresses = {address.address for addresses in psutil.net_if_addrs().values() for address in addresses}
    try:
        addresses = {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
    except OSError:  # nobody knows the name
        return False
    # No interface lists 127.0.1.1, which is what Debian makes a machine's own name mean.
    return any(address in own_addresses or ipaddress.ip_address(address).is_loopback for address in addresses)


def scaling_governor() -> str:
    """Return what sets the speed of this machine's processors, such as `performance`; several with commas.

    Empty where the system does not say, as in most virtual machines. Source:
    https://docs.kernel.org/admin-guide/pm/cpufreq.html
    """
    governors = set()
    for path in (SYSTEM / "system" / "cpu").glob("cpu[0-9]*/cpufreq/scaling_governor"):
        with contextlib.suppress(OSError):
            governors.add(path.read_text(encoding="ascii").strip())
    return ", ".join(sorted(governors))


def _read_list(path: Path) -> frozenset[int]:
    try:
        return parse(path.read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        return frozenset()


@dataclass(frozen=True)
class Placement:
    """Where the parts of a lab run, and what its instances share."""

    machine: str = ""  # on which all instances run, in words
    processors: Mapping[str, str] = field(default_factory=dict)  # of each instance and of `clients`, if they differ
    shared: Mapping[str, str] = field(default_factory=dict)  # PROCESSORS or DISK, and in which way
    proxied: str = ""  # why clients reach containers through Docker's proxy; empty: they do not

    def __str__(self) -> str:
        if PROCESSORS in self.shared:
            return f"processors: {self.shared[PROCESSORS]}"
        parts = ", ".join(f"{name} {processors}" for name, processors in self.processors.items())
        return (
            f"processors ({self.machine}): {parts}" if parts else "processors: each instance has a machine of its own"
        )

    @property
    def clients(self) -> frozenset[int]:
        """The processors of the clients; none if all are."""
        return parse(self.processors.get(CLIENTS, ""))

    @property
    def record(self) -> dict[str, Any]:
        """The entry in the manifest."""
        return asdict(self)


def of_containers(machine: Machine | None, cpusets: Mapping[str, str], *, disk: str, proxied: str = "") -> Placement:
    """Return the placement of containers with these cpusets; `machine` is None if Docker's is another one.

    Without options a volume lies in a folder of Docker, so all volumes are on one disk.
    Source: https://docs.docker.com/engine/storage/volumes/
    """
    shared = {DISK: f"the volumes of all instances lie in {disk}, on one disk"}
    if machine is None:
        why = (
            "Docker's containers run on another machine than the clients, or on a virtual one, and share its processors"
        )
        return Placement(shared={PROCESSORS: why} | shared, proxied=proxied)
    cores = [machine.touched(parse(cpuset)) for cpuset in cpusets.values()]
    clients = frozenset[int]().union(*(core.processors for core in machine.cores)).difference(*cores)
    why = ""
    if not any(cores) and not machine.plan(len(cores)):
        why = f"{machine} are too few for {len(cores)} instances and their clients, which share them"
    elif not all(cores):
        why = "not every container was started with processors of its own"
    elif sum(map(len, cores)) > len(frozenset[int]().union(*cores)):
        why = "two instances have processors of the same core"
    elif not clients:
        why = "the instances have all cores, which the clients share with them"
    if why:
        own_cpusets = {name: cpuset for name, cpuset in cpusets.items() if cpuset}
        return Placement(str(machine), own_cpusets, {PROCESSORS: why} | shared, proxied)
    return Placement(str(machine), {**cpusets, CLIENTS: listed(clients)}, shared, proxied)


def of_embedded() -> Placement:
    shared = {PROCESSORS: "instances and clients share all of them", DISK: "the instances' data lies in one folder"}
    return Placement(str(Machine.here()), {}, shared)


def of_servers(sides: Iterable[tuple[str, str, str]]) -> Placement:
    """Compare the machines of servers. A side is an instance's name, its host and its SERVERPROPERTY('ServerName')."""
    machines: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, host, server_name in sides:
        machine = server_name.partition("\\")[0]  # a named instance is MACHINE\NAME
        machines["name", machine.upper()].append(name)
        machines["host", "localhost" if is_here(host) else host.lower()].append(name)
    together = max(machines.values(), key=len)
    if len(together) == 1:
        return Placement()
    why = f"{', '.join(together)} run on one machine"
    return Placement(shared={PROCESSORS: why, DISK: why})


# -- pinning -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def pinned(processors: frozenset[int]) -> Iterator[None]:
    """Keep this process and its children, also later ones, on some processors; on all of them if there are none."""
    if not processors:
        yield
        return
    before = frozenset(os.sched_getaffinity(0))
    _pin_tree(processors)
    try:
        yield
    finally:
        _pin_tree(before)


def _pin_tree(processors: frozenset[int]) -> None:
    this_process = psutil.Process()
    for process in [this_process, *this_process.children(recursive=True)]:
        for thread in _threads(process.pid):
            # psutil's cpu_affinity and the kernel's call set those of a single thread, of which new ones inherit.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.sched_setaffinity(thread, processors)


def _threads(process: int) -> Sequence[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{process}/task")]
    except OSError:
        return []
