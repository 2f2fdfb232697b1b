"""Check that disk, log and memory have room for the largest planned cell.

Tables and queue are emptied between cells, so the largest cell decides. Its rate is unknown before it is measured, so
two rates are assumed. There must be space at the paper's rate (`whitepaper.PEAK_THROUGHPUT`). There should be space at
three times that rate, and no file should have to grow in the measured window. All messages may lie in a queue at the
same time. The log in use depends on checkpoints and open transactions: a quarter of what a cell writes is assumed. The
findings say that these are estimates. Databases of the lab begin small. Before a run their files get the size that its
largest cell needs at the paper's rate, if that leaves a fifth of the space that is free on disk (`file_sizes`).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from harness.definitions.matrix import Cell
from harness.definitions.units import counted, size_text
from harness.definitions.whitepaper import MESSAGE_DROP_BYTES, PEAK_THROUGHPUT
from harness.doctor.facts import Facts, Finding, Row
from harness.doctor.instance_settings import MAX_SERVER_MEMORY, UNLIMITED_MB
from harness.files.settings import Settings
from harness.lab.link import FileSizes

BOUND = 3  # times the paper's rate
_ROW_BYTES = 250  # rows of a queue or of the transmission queue and of dbo.messageDrop, without the message
_LOG_ROW_BYTES = 1_000  # a message's log records without the body: insert, delete, two indexes, begin and commit
_LOG_TIMES = 2  # a body is logged when it is stored; deleted rows become ghosts, and their pages are freed later
_LOG_SHARE = 0.25
TAKEN_SHARE_MAX = 0.8  # of what is free on a disk, by files that a run enlarges
_UNLIMITED = -1
_MEGABYTE = 1024**2


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes that a cell may need on an instance at the paper's rate."""

    cell: Cell
    data: int
    log: int

    @property
    def total(self) -> int:
        return self.data + self.log


def needs_of(cells: Sequence[Cell], settings: Settings, instances: int) -> list[Need | None]:
    """Return the largest need on the target, the first of the instances, and on each initiator."""
    return [largest(cells, settings, is_target=number == 0, number=number) for number in range(instances)]


def in_words(largest_needs: Sequence[Need | None]) -> str:
    """Say what data and log of the largest cells need: of the target, of an initiator, in all."""
    target, *initiators = [need.total for need in largest_needs if need is not None]
    sides = (
        f"the target {size_text(target)}, "
        f"{counted(len(initiators), 'initiator')} at most {size_text(max(initiators))} each"
    )
    in_all = size_text(target + sum(initiators))
    return f"data and log of the largest cells at the paper's rate need {in_all} ({sides})"


def largest(cells: Sequence[Cell], settings: Settings, *, is_target: bool, number: int = 0) -> Need | None:
    """Return the largest need of the cells in which the instance takes part; `number` is an initiator's, from 1."""
    needs = [_need(cell, settings, is_target) for cell in cells if is_target or cell.initiators >= number]
    return max(needs, key=lambda need: (need.total, need.cell.threads), default=None)


def _need(cell: Cell, settings: Settings, is_target: bool) -> Need:
    measured = min(cell.initiators, max(PEAK_THROUGHPUT))
    # More initiators than the paper's are taken to send as much each.
    of_initiator = PEAK_THROUGHPUT[measured].value / measured
    per_s = of_initiator * (cell.initiators if is_target else 1)
    messages = per_s * (settings.settle + settings.measure)
    body = cell.payload_bytes
    stored = min(body, MESSAGE_DROP_BYTES) if is_target else 0
    data = messages * (body + _ROW_BYTES)  # in the queue, or, no longer than there, in dbo.messageDrop
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
        estimates.append(f"{part} {size_text(wants[kind])} (free {_known(free)}, on disk {_known(room)})")
        if room is None or (free is None and has_data_files):
            continue
        total = room + (free or 0) if has_data_files else room
        more = (
            f"enlarge the {part} file of {side.instance.database} or its disk" if has_data_files else "free some disk"
        )
        remedy = f"{more}, or sweep smaller cells (--cells)"
        if total < wants[kind]:
            needed = f"{size_text(wants[kind])} of {part} at the paper's rate"
            text = f"{need.cell.id} needs {needed}, {size_text(total)} is free"
            yield side.error("space", text, remedy)
        elif total < BOUND * wants[kind]:
            text = f"{need.cell.id} may need {size_text(BOUND * wants[kind])} of {part}, {size_text(total)} is free"
            yield side.warning("space", text, remedy)
        elif has_data_files and (free or 0) < wants[kind]:
            text = f"the {part} file has {size_text(free or 0)} free"
            text += f" and {need.cell.id} may need {size_text(wants[kind])}"
            if side.instance.is_existing:
                remedy = f"ALTER DATABASE [{side.instance.database}] MODIFY FILE (NAME = ..., SIZE = ...) beforehand"
                yield side.warning("space", f"{text}: it would grow in the measured window", remedy)
            else:
                text += ": a run enlarges it first, if that leaves a fifth of what is free on disk"
                yield side.information("space", text)
    text = f"largest cell {need.cell.id} at the paper's rate, estimated: {', '.join(estimates)}"
    yield side.information("space", text)


def check_shared_disk(sides: Sequence[Facts], largest_needs: Sequence[Need | None]) -> Iterator[Finding]:
    """Compare what the files of all instances lack with the disk that they share."""
    growths = [_growth(side, need) for side, need in zip(sides, largest_needs, strict=True) if need is not None]
    lacking = [growth for growth in growths if growth is not None]
    more, room = sum(growth.more for growth in lacking), min((growth.room for growth in lacking), default=0)
    if more > room:
        text = f"{in_words(largest_needs)}: {size_text(more)} more than the files have, and {size_text(room)} is free"
        yield Finding("error", "lab", "space", text, "free some disk, or sweep smaller cells (--cells, --initiators)")


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

    Empty if that leaves less than a fifth of the space that is free, of all instances together if they share a disk.
    """
    sizes = {
        side.name: growth
        for side, need in zip(sides, needs, strict=True)
        if need is not None and (growth := _growth(side, need)) is not None
    }
    if not sizes:
        return {}
    together = sum(size.more for size in sizes.values())
    if any((together if on_one_disk else each.more) > TAKEN_SHARE_MAX * each.room for each in sizes.values()):
        room = min(each.room for each in sizes.values())
        lacking = f"the largest cells may need {size_text(together)} more, and {size_text(room)} is free"
        tell(f"files are not enlarged: {lacking}; a cell in which a file grows counts as disturbed")
        return {}
    parts = [
        f"{name} data {size_text(each.sizes.data * _MEGABYTE)}, log {size_text(each.sizes.log * _MEGABYTE)} "
        f"({each.cell.id})"
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
    text = f"the instance may use {size_text(allowed)} for {size_text(need.data)} of data of {need.cell.id}"
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
    return "unknown" if count is None else size_text(count)
