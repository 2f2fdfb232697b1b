"""Check the machines: free space on disk for the largest planned cell, and the clocks.

Tables and queue are emptied between cells, so the largest cell decides. Its rate is unknown before it is measured, so
two rates are assumed. There must be space at the paper's rate (`whitepaper.PEAK_THROUGHPUT`). There should be space at
three times that rate, and no file should have to grow in the measured window. All messages may lie in a queue at the
same time. The log in use depends on checkpoints and open transactions: a quarter of what a cell writes is assumed. The
findings say that these are estimates. Before a run the files of the lab's own databases get the size that its largest
cell needs at the paper's rate, if that takes at most half of the space that is free on disk (`file_sizes`).

Delivery latencies are differences between the clocks of the instances and of this machine.

Instances that share processors or a disk slow each other down, which separate machines would not
(`harness.lab.placement`). In a container SQL Server may count processors that it cannot use.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.definitions import units
from harness.definitions.matrix import Cell
from harness.definitions.whitepaper import MESSAGE_DROP_BYTES, PEAK_THROUGHPUT
from harness.doctor.facts import Facts, Finding, Row
from harness.doctor.instance_settings import MAX_SERVER_MEMORY, UNLIMITED_MB
from harness.files.settings import Settings
from harness.lab import placement, scripts
from harness.lab.instances import Lab
from harness.lab.link import FileSizes
from harness.lab.placement import PROCESSORS, Placement

if TYPE_CHECKING:
    import pyodbc

BOUND = 3  # times the paper's rate
_ROW_BYTES = 250  # rows of a queue or of the transmission queue and of dbo.messageDrop, without the message
_LOG_ROW_BYTES = 1_000  # a message's log records without the body: insert, delete, two indexes, begin and commit
_LOG_TIMES = 2  # a body is logged when it is stored; deleted rows become ghosts, and their pages are freed later
_LOG_SHARE = 0.25
_UNLIMITED = -1
_MEGABYTE, _GIGABYTE = 1024**2, 1024**3


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes that a cell may need on an instance at the paper's rate."""

    cell: Cell
    data: int
    log: int


def largest(cells: Sequence[Cell], settings: Settings, *, is_target: bool, number: int = 0) -> Need | None:
    """Return the largest need of the cells in which the instance takes part; `number` is an initiator's, from 1."""
    needs = [_need(cell, settings, is_target) for cell in cells if is_target or cell.initiators >= number]
    return max(needs, key=lambda need: (need.data + need.log, need.cell.threads), default=None)


def _need(cell: Cell, settings: Settings, is_target: bool) -> Need:
    measured = min(cell.initiators, max(PEAK_THROUGHPUT))
    # More initiators than the paper's are taken to send as much each.
    of_initiator = PEAK_THROUGHPUT[measured].value / measured
    per_s = of_initiator * (cell.initiators if is_target else 1)
    messages = per_s * (settings.settle + settings.measure)
    body = cell.payload_bytes
    stored = min(body, MESSAGE_DROP_BYTES) if is_target else 0
    data = messages * (body + stored + _ROW_BYTES)
    log = messages * (_LOG_TIMES * body + stored + _LOG_ROW_BYTES) * _LOG_SHARE
    return Need(cell, int(data), int(log))


def check_space(side: Facts, need: Need, *, has_data_files: bool) -> Iterator[Finding]:
    if not side.knows("files"):
        return
    parts = {kind: [row for row in side.rows("files") if row["file_type"] == kind] for kind in ("ROWS", "LOG")}
    wants = {"ROWS": need.data, "LOG": need.log}
    estimates = []
    for kind, files in parts.items():
        part = "log" if kind == "LOG" else "data"
        free = _free_inside(side, files, kind)
        room = _room_to_grow(side, files)
        estimates.append(f"{part} {_size(wants[kind])} (free {_known(free)}, on disk {_known(room)})")
        if room is None or (free is None and has_data_files):
            continue
        total = room + (free or 0) if has_data_files else room
        remedy = f"enlarge the {part} file of {side.instance.database} or its disk, or sweep smaller cells (--cells)"
        if total < wants[kind]:
            text = f"{need.cell.id} needs {_size(wants[kind])} of {part} at the paper's rate, {_size(total)} is free"
            yield side.error("space", text, remedy)
        elif total < BOUND * wants[kind]:
            text = f"{need.cell.id} may need {_size(BOUND * wants[kind])} of {part}, {_size(total)} is free"
            yield side.warning("space", text, remedy)
        elif has_data_files and (free or 0) < wants[kind]:
            text = f"the {part} file has {_size(free or 0)} free and {need.cell.id} may need {_size(wants[kind])}"
            if side.instance.is_existing:
                remedy = f"ALTER DATABASE [{side.instance.database}] MODIFY FILE (NAME = ..., SIZE = ...) beforehand"
                yield side.warning("space", f"{text}: it would grow in the measured window", remedy)
            else:
                yield side.information("space", f"{text}: a run enlarges it first, if half of the free space suffices")
    text = f"largest cell {need.cell.id} at the paper's rate, estimated: {', '.join(estimates)}"
    yield side.information("space", text)


@dataclass(frozen=True, slots=True)
class Growth:
    """What the files of an instance lack for its largest cell."""

    cell: Cell
    sizes: FileSizes  # that they should have
    more: int  # bytes
    room: int  # bytes by which they may grow


def _growth(side: Facts, need: Need) -> Growth | None:
    """Return what the files of a database of the lab lack; None if nothing, or if sizes are unknown."""
    if side.instance.is_existing:
        return None
    sizes_mb, more, rooms = [], 0, []
    for kind, size in (("ROWS", need.data), ("LOG", need.log)):
        files = [row for row in side.rows("files") if row["file_type"] == kind]
        free, room = _free_inside(side, files, kind), _room_to_grow(side, files)
        if free is None or room is None or any(row["size_bytes"] is None for row in files):
            return None
        lacks = max(0, size - free)
        sizes_mb.append(math.ceil((sum(int(row["size_bytes"]) for row in files) + lacks) / _MEGABYTE))
        more += lacks
        rooms.append(room)
    return Growth(need.cell, FileSizes(*sizes_mb), more, min(rooms)) if more else None


def file_sizes(
    sides: Sequence[Facts], needs: Sequence[Need | None], *, on_one_disk: bool, tell: Callable[[str], None]
) -> dict[str, FileSizes]:
    """Return the sizes of the files that are too small for the largest cells, by the names of instances, and tell them.

    Empty if that takes more than half of the space that is free, of all instances together if they share a disk.
    """
    sizes = {
        side.name: growth
        for side, need in zip(sides, needs, strict=True)
        if need is not None and (growth := _growth(side, need)) is not None
    }
    if not sizes:
        return {}
    together = sum(size.more for size in sizes.values())
    if any(2 * (together if on_one_disk else each.more) > each.room for each in sizes.values()):
        room = min(each.room for each in sizes.values())
        text = f"files are not enlarged: the largest cells may need {_size(together)} more, and {_size(room)} is free"
        tell(f"{text}; a cell in which a file grows counts as disturbed")
        return {}
    parts = [
        f"{name} data {_size(each.sizes.data * _MEGABYTE)}, log {_size(each.sizes.log * _MEGABYTE)} ({each.cell.id})"
        for name, each in sizes.items()
    ]
    tell(f"files are enlarged for the largest cells: {'; '.join(parts)}")
    return {name: each.sizes for name, each in sizes.items()}


def check_memory(side: Facts, need: Need) -> Iterator[Finding]:
    """Compare the memory that the instance may use with the data of a cell, which may all wait in queues."""
    edition = side.row("edition")
    options = {row["name"]: row["value_in_use"] for row in side.rows("configuration")}
    if edition is None:
        return
    allowed = min(
        int(edition["physical_memory_kb"]) * 1024, int(options.get(MAX_SERVER_MEMORY, UNLIMITED_MB)) * _MEGABYTE
    )
    text = f"the instance may use {_size(allowed)} for {_size(need.data)} of data of {need.cell.id}"
    if need.data <= allowed:
        yield side.information("memory", text)
        return
    text += ": if its messages queue up, pages are written and read again while it is measured"
    containers = "MSSQL_MEMORY_LIMIT_MB and MSSQL_CONTAINER_MEMORY of containers"
    remedy = f"give it more memory ({containers}), or sweep smaller cells (--cells)"
    yield side.warning("memory", text, remedy)


def _free_inside(side: Facts, files: Sequence[Row], kind: str) -> int | None:
    """Return the free bytes inside the files, None if that is unknown."""
    if kind == "LOG":
        row = side.row("log_space")
        return None if row is None or row["total_bytes"] is None else int(row["total_bytes"] - row["used_bytes"])
    if any(row["used_bytes"] is None or row["size_bytes"] is None for row in files):
        return None
    return sum(int(row["size_bytes"] - row["used_bytes"]) for row in files)


def _room_to_grow(side: Facts, files: Sequence[Row]) -> int | None:
    """Return by how much the files may grow, limited by their maximum size and their disks; None if unknown."""
    volumes = {row["file_id"]: row for row in side.rows("volumes")}
    disks: dict[str, int] = {}
    for file in files:
        volume = volumes.get(file["file_id"])
        if volume is None or volume["available_bytes"] is None:
            return None
        if file["growth"] == 0:
            continue
        room = int(volume["available_bytes"])
        if file["max_size"] not in (None, _UNLIMITED) and file["size_bytes"] is not None:
            room = min(room, int(file["max_size"]) * 8192 - int(file["size_bytes"]))
        disk = str(volume["volume"])
        disks[disk] = max(disks.get(disk, 0), room)
    return sum(disks.values())


def _known(count: int | None) -> str:
    return "unknown" if count is None else _size(count)


def _size(count: int) -> str:
    return f"{count / _GIGABYTE:.1f} GB" if count >= _GIGABYTE else f"{count / _MEGABYTE:.0f} MB"


CLOCK_SAMPLES = 9
CLOCK_TOLERANCE_NS = 5_000_000  # for a difference beyond its uncertainty; a larger one makes latencies misleading


@dataclass(frozen=True, slots=True)
class ClockDifference:
    """The instance's clock minus this machine's. The uncertainty is half the duration of the query."""

    difference_ns: int
    uncertainty_ns: int


def measure_clock(connection: pyodbc.Connection) -> ClockDifference:
    """Measure several times and return the median. It is assumed that a query reads the clock halfway through."""
    answers: list[tuple[int, int]] = []
    for _ in range(CLOCK_SAMPLES):
        before_ns, began_ns = time.time_ns(), time.monotonic_ns()
        there_ns = int(scripts.rows(connection, "doctor/clock.sql", {})[0]["utc_ns"])
        half_ns = (time.monotonic_ns() - began_ns) // 2
        answers.append((there_ns - before_ns - half_ns, half_ns))
    middle = statistics.median_low(difference for difference, _ in answers)
    return ClockDifference(*next(pair for pair in answers if pair[0] == middle))


def check_clock(side: Facts, measured: ClockDifference) -> Iterator[Finding]:
    difference_ns, uncertainty_ns = measured.difference_ns, measured.uncertainty_ns
    text = f"the clock differs from this machine's by {difference_ns / 1e6:+z.2f} ms, ± {uncertainty_ns / 1e6:.2f} ms"
    if abs(difference_ns) - uncertainty_ns > CLOCK_TOLERANCE_NS:
        remedy = "synchronise both (chrony, w32tm): delivery latencies are wrong by that much, rates are not"
        yield side.warning("clock", text, remedy)
    else:
        yield side.information("clock", text)


NOT_MEASURED = "claims about processors, linear growth and the bottleneck are not measured"
_REMEDIES = {
    placement.PROCESSORS: "use a machine with a core for each instance and one for the clients, or a server for each "
    "instance (lab.toml); remove containers that run already (harness lab down)",
    placement.DISK: "use a server for each instance (lab.toml)",
}


def check_placement(lab: Lab) -> Iterator[Finding]:
    """Check that no instance takes processors or a disk from another."""
    if PROCESSORS not in lab.placement.shared:
        yield Finding("information", "lab", PROCESSORS, str(lab.placement).partition(": ")[2])
    for shared_part, why in lab.placement.shared.items():
        text = f"{why}: {NOT_MEASURED}"
        if not lab.kind.can.is_measurement:  # as it is meant to be, and told with every number of it
            yield Finding("information", "lab", shared_part, text)
        else:
            yield Finding("warning", "lab", shared_part, text, _REMEDIES[shared_part])
    if lab.placement.proxied:
        text = "clients reach the containers through Docker's proxy, which takes processor time and adds to latencies"
        remedy = "run Docker's engine on this machine, as root, and let this host reach the addresses of its networks"
        yield Finding("warning", "lab", "proxy", f"{text}: {lab.placement.proxied}", remedy)


def check_governor(lab: Lab) -> Iterator[Finding]:
    """Check that this machine's processors do not follow the load with their speed.

    Microsoft advises the governor `performance` for SQL Server on Linux, with the profile of tuned for it. Source:
    https://learn.microsoft.com/sql/linux/sql-server-linux-performance-best-practices
    """
    governor = placement.scaling_governor()
    if governor in ("", placement.FULL_SPEED):
        return
    text = f"the speed of this machine's processors is governed by {governor}: it follows the load, from cell to cell"
    if not lab.kind.can.is_measurement:  # for trying the harness, on any machine
        yield Finding("information", "lab", "power", text)
    else:
        remedy = f"sudo cpupower frequency-set --governor {placement.FULL_SPEED}"
        yield Finding("warning", "lab", "power", text, remedy)


def check_processors(side: Facts, where: Placement) -> Iterator[Finding]:
    """Check that an instance with processors of its own counts these and no others.

    With a limit of cgroup v2 SQL Server goes on counting all processors of the machine, and has a scheduler for each.
    Nothing says so of a cpuset. Source:
    https://learn.microsoft.com/sql/linux/sql-server-linux-docker-container-configure
    """
    cpus, row = where.processors.get(side.name, ""), side.row("edition")
    if not cpus or row is None:
        return
    number, counted, schedulers = len(placement.parse(cpus)), row["cpu_count"], row["scheduler_count"]
    text = f"has {units.counted(number, 'processor')} ({cpus}), counts {counted} and schedules on {schedulers}"
    if counted != number:
        text += f": its processor time is in percent of {counted}"
    if schedulers == number:
        yield side.information(PROCESSORS, text)
        return
    affinity = cpus.replace("-", " TO ").replace(",", ", ")
    yield side.warning(PROCESSORS, text, f"ALTER SERVER CONFIGURATION SET PROCESS AFFINITY CPU = {affinity};")
