"""What instances tell of pages, latches and files, for the synthetic runs of `results_fixture`.

Rows of sys.sysdesend lie in handle order, 144 a page, and handles ascend in the order in which dialogs are begun. In
the shape `paper`, senders that share a page are seen waiting for it; in the shape `flat`, nobody ever waits.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from harness.definitions.matrix import Cell
from harness.definitions.whitepaper import SYSDESEND_ROWS_PER_PAGE
from harness.files import records

NS = 1_000_000_000
LOOKS_PER_S = 20
QUEUE = "queue dbo.MySSBLabTestQueue"
# Object, wait type, and how many tasks wait for it at once, of those that could: by role and dialog ratio.
LATCHES: Mapping[tuple[str, int], Sequence[tuple[str, str, float]]] = {
    ("initiator", 1): (
        ("sys.sysdesend", "PAGELATCH_EX", 0.55),
        ("sys.sysdesend", "PAGELATCH_SH", 0.06),
        ("sys.sysxmitqueue", "PAGELATCH_EX", 0.05),
        ("sys.sysobjvalues", "PAGELATCH_SH", 0.02),
        ("", "PAGELATCH_EX", 0.02),
    ),
    ("initiator", 150): (("sys.sysxmitqueue", "PAGELATCH_EX", 0.06), ("sys.sysdesend", "PAGELATCH_EX", 0.02)),
    ("target", 1): ((QUEUE, "PAGELATCH_EX", 0.02), ("dbo.messageDrop", "PAGELATCH_EX", 0.03)),
    ("target", 150): ((QUEUE, "PAGELATCH_EX", 0.03), ("dbo.messageDrop", "PAGELATCH_EX", 0.04)),
}
CLASSES = ("LOG_MANAGER", "ACCESS_METHODS_HOBT_COUNT")

Columns = Mapping[str, list[Any]]


def instances(cell: Cell) -> list[str]:
    return ["target", *(f"initiator-{number}" for number in range(1, cell.initiators + 1))]


def role(instance: str) -> str:
    return "target" if instance == "target" else "initiator"


def columns(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Columns:
    return {name: [row[name] for row in rows] for name in names}


def dialog_pages(cell: Cell) -> Columns:
    rows = []
    for instance in instances(cell)[1:]:
        for dialog in range(1, cell.threads + 1):
            rank = dialog * cell.dialog_ratio - 1
            rows.append(
                {
                    "instance": instance,
                    "dialog_id": dialog,
                    "file_id": 1,
                    "page_id": 312 + rank // SYSDESEND_ROWS_PER_PAGE,
                    "slot": rank % SYSDESEND_ROWS_PER_PAGE,
                    "handle_rank": rank,
                    "handle": f"{rank:08X}-35B3-E011-8EED-001C25160E57",
                }
            )
    names = ("instance", "dialog_id", "file_id", "page_id", "slot", "handle_rank", "handle")
    return columns(rows, names)


def looks(measure_s: float) -> int:
    return max(1, int(measure_s * LOOKS_PER_S))


def seen(cell: Cell, instance: str, shape: str, measure_s: float) -> list[tuple[str, str, int]]:
    """Object, wait type and how often a task was seen waiting for it, in a cell and instance."""
    if shape == "flat":
        return []
    tasks = cell.total_threads if instance == "target" else cell.threads
    contended = min(1.0, max(0.0, (cell.total_threads - 5) / 60))
    found = [
        (name, wait_type, round(part * tasks * contended * looks(measure_s)))
        for name, wait_type, part in LATCHES[role(instance), 1 if cell.dialog_ratio == 1 else 150]
    ]
    return [each for each in found if each[2]]


def latch_waits(cell: Cell, shape: str, from_ns: int, measure_s: float) -> Columns:
    rows = []
    for instance in instances(cell):
        for name, wait_type, times in seen(cell, instance, shape, measure_s):
            for number in range(times):
                rows.append(
                    {
                        "instance": instance,
                        "sampled_at_ns": from_ns + number % looks(measure_s) * (NS // LOOKS_PER_S),
                        "session_id": 51 + number % 50,
                        "wait_type": wait_type,
                        "wait_duration_ms": number % 7,
                        "database_id": 5,
                        "file_id": 1,
                        "page_id": 312,
                        "object_name": name,
                        "index_id": 1,
                    }
                )
    names = (
        "instance",
        "sampled_at_ns",
        "session_id",
        "wait_type",
        "wait_duration_ms",
        "database_id",
        "file_id",
        "page_id",
        "object_name",
        "index_id",
    )
    return columns(rows, names)


def latches(cell: Cell) -> Columns:
    rows = [
        {"instance": instance, "latch_class": name, "waiting_requests": 3 * cell.threads, "wait_time_ms": cell.threads}
        for instance in instances(cell)
        for name in CLASSES
    ]
    return columns(rows, ("instance", "latch_class", "waiting_requests", "wait_time_ms"))


def index_waits(cell: Cell, shape: str, measure_s: float) -> Columns:
    """Each sample of a waiting task stands for 50 ms of waiting; the instances count what was not resolved as well."""
    rows = []
    for instance in instances(cell):
        for name, found in groupby(sorted(seen(cell, instance, shape, measure_s)), key=itemgetter(0)):
            times = sum(each[2] for each in found)
            rows.append((instance, name or "object 987", 1, 5 * times, 50 * times, 0, 0, 0, 0, 0))
        rows.append((instance, "dbo.locked", 1, 0, 0, 0, 0, 40, 2, 1))
    return records.columns("index_waits", rows)


def spinlocks(cell: Cell) -> Columns:
    rows = [(instance, "LOCK_HASH", 10, 1000 * cell.threads, 4, 0) for instance in instances(cell)]
    return records.columns("spinlocks", rows)


def file_io(cell: Cell, messages: float) -> Columns:
    """Two files of the lab's database and one of tempdb an instance; the log is written once for some commits."""
    rows = []
    for instance in instances(cell):
        share = messages if instance == "target" else messages / cell.initiators
        flushes = int(share / (3 if instance == "target" else 1 + cell.threads / 8)) + 1
        database = "SSBTarget" if instance == "target" else f"SSBInitiator{instance[-1]}"
        for name, kind, file, writes, stall_ms in (
            (database, "LOG", f"{database}_log", flushes, 1.2 + cell.payload_bytes / 8192),
            (database, "ROWS", database, flushes // 40, 3.0),
            ("tempdb", "LOG", "templog", flushes // 90, 1.0),
        ):
            rows.append(
                {
                    "instance": instance,
                    "database_name": name,
                    "file_name": file,
                    "file_type": kind,
                    "reads": 0,
                    "bytes_read": 0,
                    "read_stall_ms": 0,
                    "writes": writes,
                    "bytes_written": int(share * (cell.payload_bytes + 700)) if kind == "LOG" else writes * 65536,
                    "write_stall_ms": int(writes * stall_ms),
                    "growth_bytes": 0,
                }
            )
    return columns(rows, tuple(rows[0]))


def reduced(axes: Mapping[str, Any], cell: Cell, shape: str, messages: float) -> dict[str, list[Any]]:
    """The rows of the tables of one cell as the reduction of a window of one second leaves them."""
    shares = []
    for instance in instances(cell):
        found = seen(cell, instance, shape, 1.0)
        whole = sum(times for *_, times in found)
        for name, wait_type, times in found or [(None, None, 0)]:
            shares.append(
                {
                    "instance": instance,
                    "object_name": "not resolved" if name == "" else name,
                    "wait_type": wait_type,
                    "looks": looks(1.0),
                    "times_seen": times,
                    "share_percent": _percent(times, whole),
                    "waiting_tasks_mean": round(times / looks(1.0), 4),
                    "longest_wait_ms": min(times - 1, 6) if times else None,
                }
            )
    counters = [
        {
            "instance": instance,
            "counter": "Broker Statistics\\SQL SENDs/sec",
            "samples": 2,
            "mean": round(messages, 3),
            "change": round(messages / 2, 3),
            "change_per_s": round(messages, 3),
        }
        for instance in instances(cell)[1:]
    ]
    tables = {
        "page_spread": _page_spread(as_rows(dialog_pages(cell))),
        "latch_share": shares,
        "index_waits": _index_waits(as_rows(index_waits(cell, shape, 1.0))),
        "spinlocks": [
            row
            | {
                "place": 1,
                "spins_per_s": float(row["spins"]),
                "backoffs_per_s": float(row["backoffs"]),
                "spins_per_collision": row["spins"] / row["collisions"],
            }
            for row in as_rows(spinlocks(cell))
        ],
        "latches": [
            row
            | {"waiting_requests_per_s": float(row["waiting_requests"]), "wait_ms_per_s": float(row["wait_time_ms"])}
            for row in as_rows(latches(cell))
        ],
        "file_io": [row | _file_rates(row) for row in as_rows(file_io(cell, messages))],
        "counters": counters,
    }
    return {name: [dict(axes) | row for row in table] for name, table in tables.items()}


def as_rows(columns: Columns) -> list[dict[str, Any]]:
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 2) if whole else None


def _index_waits(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    whole = Counter[str]()
    for row in rows:
        whole[row["instance"]] += row["page_latch_wait_ms"]
    return [
        {
            **row,
            "page_latch_share_percent": _percent(row["page_latch_wait_ms"], whole[row["instance"]]),
            "page_latch_waits_per_s": float(row["page_latch_waits"]),
            "page_latch_wait_ms_mean": 10.0 if row["page_latch_waits"] else None,
        }
        for row in rows
    ]


def _page_spread(dialogs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    spread = []
    for instance, of_instance in groupby(dialogs, key=itemgetter("instance")):
        on_page = Counter((dialog["file_id"], dialog["page_id"]) for dialog in of_instance)
        used = on_page.total()
        spread.append(
            {
                "instance": instance,
                "used_dialogs": used,
                "pages": len(on_page),
                "dialogs_per_page_max": max(on_page.values()),
                "dialogs_sharing_a_page": sum(number for number in on_page.values() if number > 1),
                "handles_sequential": True if used > 1 else None,
            }
        )
    return spread


def _file_rates(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "reads_per_s": float(row["reads"]),
        "read_mib_per_s": row["bytes_read"] / 2**20,
        "read_stall_ms_mean": round(row["read_stall_ms"] / row["reads"], 3) if row["reads"] else math.nan,
        "writes_per_s": float(row["writes"]),
        "written_mib_per_s": round(row["bytes_written"] / 2**20, 3),
        "write_stall_ms_mean": round(row["write_stall_ms"] / row["writes"], 3) if row["writes"] else math.nan,
    }
