"""Totals of an instance, read before and after the measured window, whose differences are records; and its fingerprint.

What the login may not see is missing from a snapshot and from the records, and is reported once: the measurement itself
does not need it.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from harness.files import records
from harness.files.records import FIELDS
from harness.files.script_text import ScriptError
from harness.lab import scripts
from harness.lab.control_groups import ControlGroup
from harness.lab.drivers import Connection
from harness.lab.log_storage import LogStorage
from harness.lab.scripts import is_refusal
from harness.observe.latch_watch import local_name

# Of a container's processor time, the instance's own may differ by so much: by as much as rates and clients' shares may
# in a cell that counts (`run.validity`). The claims about processors would not turn on less.
PROCESSOR_TIME_TOLERANCE = 0.05
# Both are read within some milliseconds of each other, at both ends of the window, and where time is counted by clock
# ticks these are of up to 16 ms.
PROCESSOR_TIME_TICKS_MS = 50

PAGE_BYTES = 8192

Totals = Mapping[tuple[str | int, ...], tuple[int, ...]]

# Key in a fingerprint and file of sql/; one row each.
_FACTS = {
    "server": "observe/fingerprint_server",
    "system": "observe/fingerprint_system",
    "container": "observe/fingerprint_container",
    "host": "observe/fingerprint_host",
    "memory": "observe/fingerprint_memory",
    "service": "observe/fingerprint_service",
    "power": "doctor/power_plan",
    "log": "observe/fingerprint_log",
}
# The same with many rows each.
_LISTS = {"databases": "observe/fingerprint_databases", "files": "observe/fingerprint_files"}


@dataclass(frozen=True)
class Snapshot:
    """Totals of one instance at one moment. None: the instance does not show them."""

    taken_at_ns: int
    waits: Totals | None = None  # wait type → tasks, time in ms, signal time in ms
    processor_time_ms: int | None = None
    processors: int = 0
    latches: Totals | None = None  # class → requests, time in ms
    file_io: Totals | None = None  # database, file, type → the counts of the record, size in place of growth
    index_waits: Totals | None = None  # object and index id → the counts of the record
    spinlocks: Totals | None = None  # name → collisions, spins, backoffs, time asleep in ms
    refusals: Mapping[str, str] = field(default_factory=dict)  # record → why it is missing
    container_time_ms: int | None = None  # processor time of its container, by the kernel


def snapshot(
    connection: Connection, utc_ns: Callable[[], int] = time.time_ns, control_group: ControlGroup | None = None
) -> Snapshot:
    """Read all totals of an instance, and the processor time of its container, if there is one."""
    refusals: dict[str, str] = {}

    def totals(record: str, keys: int) -> Totals | None:
        rows = _rows(connection, record, f"observe/{record}", refusals)
        if rows is None:
            return None
        values = [tuple(row.values()) for row in rows]
        return {row[:keys]: tuple(int(value or 0) for value in row[keys:]) for row in values}

    waits = totals("waits", 1)
    processor = _rows(connection, "processors", "observe/processor_time", refusals)
    container_ms = control_group.processor_time_ms() if control_group else None
    latches = totals("latches", 1)
    file_io = totals("file_io", 3)
    indexes = _rows(connection, "index_waits", "observe/index_waits", refusals)
    spent, processors = processor[0].values() if processor else (None, 0)
    index_waits = None if indexes is None else _of_indexes(indexes)
    spinlocks = totals("spinlocks", 1)
    return Snapshot(
        utc_ns(), waits, spent, processors, latches, file_io, index_waits, spinlocks, refusals, container_ms
    )


def _of_indexes(rows: list[dict[str, Any]]) -> Totals:
    counts = FIELDS["index_waits"][3:]
    names = (local_name(row["object_id"], row) or f"object {row['object_id']}" for row in rows)
    return {
        (name, row["index_id"]): tuple(row[count] for count in counts) for name, row in zip(names, rows, strict=True)
    }


def _rows(connection: Connection, kind: str, file: str, refusals: dict[str, str]) -> list[dict[str, Any]] | None:
    """Read a file of sql/. If the instance refuses it, note why and return None."""
    try:
        return scripts.rows(connection, f"{file}.sql", {})
    except ScriptError as error:
        if not is_refusal(error):
            raise
        refusals[kind] = str(error)
        return None


def changes(before: Mapping[str, Snapshot], after: Mapping[str, Snapshot]) -> dict[str, dict[str, list[Any]]]:
    """Return the columns of each record: the differences between two snapshots of each instance."""
    rows_by_record = {
        "waits": _differences("waits", before, after),
        "processors": _processors(before, after),
        "containers": _containers(before, after),
        "latches": _differences("latches", before, after),
        "file_io": _differences("file_io", before, after),
        "index_waits": _differences("index_waits", before, after),
        "spinlocks": _differences("spinlocks", before, after),
    }
    return {record: records.columns(record, rows) for record, rows in rows_by_record.items() if rows is not None}


def _differences(
    record: str, before: Mapping[str, Snapshot], after: Mapping[str, Snapshot]
) -> list[tuple[Any, ...]] | None:
    """Return the rows that changed, None if no instance shows them."""
    rows: list[tuple[Any, ...]] = []
    is_shown = False
    for instance, last in after.items():
        now: Totals | None = getattr(last, record)
        then: Totals | None = getattr(before[instance], record)
        if now is None or then is None:
            continue
        is_shown = True
        for key, values in now.items():
            counts = len(FIELDS[record]) - len((instance, *key))  # what follows them is no total
            earlier = then.get(key, (0,) * counts)
            change = [value - value_before for value, value_before in zip(values[:counts], earlier, strict=False)]
            if any(change):
                rows.append((instance, *key, *change))
    return rows if is_shown else None


def _processors(before: Mapping[str, Snapshot], after: Mapping[str, Snapshot]) -> list[tuple[Any, ...]] | None:
    rows = [
        (name, last.taken_at_ns - before[name].taken_at_ns, last.processor_time_ms - first_ms, last.processors)
        for name, last in after.items()
        if last.processor_time_ms is not None and (first_ms := before[name].processor_time_ms) is not None
    ]
    return rows or None


def _containers(before: Mapping[str, Snapshot], after: Mapping[str, Snapshot]) -> list[tuple[Any, ...]] | None:
    """Return the processor time of containers with that of their instances beside it."""
    rows = [
        (name, last.container_time_ms - first.container_time_ms, last.processor_time_ms - first.processor_time_ms)
        for name, last in after.items()
        if last.container_time_ms is not None
        and last.processor_time_ms is not None
        and (first := before[name]).container_time_ms is not None
        and first.processor_time_ms is not None
    ]
    return rows or None


def at_odds(containers: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the instances whose processor time is not that of their containers, of the columns of that record."""
    rows = zip(*(containers[name] for name in FIELDS["containers"]), strict=True)
    return [
        name
        for name, container_ms, own_ms in rows
        if abs(own_ms - container_ms) > max(PROCESSOR_TIME_TOLERANCE * container_ms, PROCESSOR_TIME_TICKS_MS)
    ]


def growth_bytes(file_io: Mapping[str, Sequence[Any]]) -> Mapping[str, int]:
    """Return by how much the files of each database grew, of the columns of the record `file_io`."""
    grown: Counter[str] = Counter()
    columns = (file_io[name] for name in ("instance", "database_name", "growth_bytes"))
    for instance, database, growth in zip(*columns, strict=True):
        grown[f"{instance}, {database or 'a database hidden from this login'}"] += growth
    return grown


def pages_read(file_io: Mapping[str, Sequence[Any]], databases: Mapping[str, str]) -> dict[str, int]:
    """Return how many pages each instance read from its disk, of the columns of the record `file_io`.

    Data files of the lab's database count, which `databases` has by instance, and those of tempdb, where the broker
    keeps state of dialogs. Logs do not: rollbacks and backups read them, and the buffer pool does not hold them.
    Instances that do not show their files are missing. Source:
    https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-io-virtual-file-stats-transact-sql
    """
    pages: dict[str, int] = {}
    columns = (file_io[name] for name in ("instance", "database_name", "file_type", "bytes_read"))
    for instance, database, kind, count in zip(*columns, strict=True):
        name = (database or "").casefold()  # NULL for what the login may not see; servers ignore the case by default
        if kind == "ROWS" and name in (databases[instance].casefold(), "tempdb"):
            pages[instance] = pages.get(instance, 0) + count // PAGE_BYTES
    return pages


def fingerprint(connection: Connection, log_storage: LogStorage | None = None) -> dict[str, Any]:
    """Return the facts about an instance on which results depend: plain values for JSON, the same keys for each.

    They hold no secrets, and only the lab's database and tempdb. A value that the instance does not show is None, with
    the reason in `refused`. `log_storage` is None where it is not known.
    """
    refused: dict[str, str] = {}

    def ask(key: str, file: str) -> list[dict[str, Any]] | None:
        rows = _rows(connection, key, file, refused)
        return None if rows is None else [_plain(row) for row in rows]

    facts: dict[str, Any] = {}
    for key, file in _FACTS.items():
        rows = ask(key, file)
        facts[key] = rows[0] if rows else None
    for key, file in _LISTS.items():
        facts[key] = ask(key, file)
    options = ask("configuration", "observe/fingerprint_configuration")
    facts["configuration"] = None if options is None else {row.pop("name"): row for row in options}
    flags = ask("trace_flags", "observe/fingerprint_trace_flags")
    facts["trace_flags"] = None if flags is None else sorted(row["TraceFlag"] for row in flags if row["Status"])
    flushing = log_storage.flushing if log_storage else None
    facts["log_storage"] = asdict(flushing) if flushing else None
    facts["refused"] = refused
    return facts


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value if isinstance(value, int | float | str | None) else str(value) for name, value in row.items()}
