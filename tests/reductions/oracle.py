"""The numbers of the reduction, from the same files, in plain Python: slow, short, and obviously right."""

import math
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from harness.definitions.matrix import Cell

NS = 1_000_000_000


def rows(folder: Path, kind: str, cell: Cell) -> list[dict[str, Any]]:
    files = sorted((folder / "raw" / kind).glob(f"{cell.id}-b1-a1*.parquet"))
    return [row for path in files for row in pq.read_table(path).to_pylist()]


def percentile(values: list[float], quantile: float) -> float:
    """Linear interpolation between the nearest ranks; NaN where fewer than ten values lie beyond the quantile."""
    if len(values) < {0.5: 20, 0.95: 200, 0.99: 1000}[quantile]:
        return math.nan
    ordered = sorted(values)
    rank = quantile * (len(ordered) - 1)
    below, above = ordered[math.floor(rank)], ordered[math.ceil(rank)]
    return below + (above - below) * (rank - math.floor(rank))


def cell_numbers(folder: Path, cell: Cell) -> dict[str, float]:
    (record,) = rows(folder, "cells", cell)
    start, end = record["measured_from_ns"], record["measured_to_ns"]
    window_s = (end - start) / NS
    latencies = [
        round(call["latency_ns"] / 1000)
        for call in rows(folder, "calls", cell)
        if start <= call["started_at_ns"] + call["latency_ns"] < end
    ]
    elapsed = [
        round((delivery["processed_at_ns"] - delivery["sent_at_ns"]) / 1000)
        for delivery in rows(folder, "deliveries", cell)
        if start <= delivery["sent_at_ns"] < end
    ]
    processed = sum(start <= delivery["processed_at_ns"] < end for delivery in rows(folder, "deliveries", cell))
    return {
        "sent_per_s": len(latencies) / window_s,
        "processed_per_s": processed / window_s,
        **{f"latency_us_p{name}": percentile(latencies, name / 100) for name in (50, 95, 99)},
        "latency_us_max": max(latencies),
        **{f"end_to_end_us_p{name}": percentile(elapsed, name / 100) for name in (50, 95, 99)},
        "drain_s": (record["drained_at_ns"] - record["stopped_at_ns"]) / NS,
    }


def page_spread(folder: Path, cell: Cell) -> dict[str, tuple[int, int, int, int, bool | None]]:
    """By instance: used dialogs, pages, dialogs on the fullest page, dialogs that share a page, handles sequential."""
    by_instance: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows(folder, "dialog_pages", cell):
        by_instance[row["instance"]].append(row)
    found = {}
    for instance, dialogs in by_instance.items():
        on_page = Counter((row["file_id"], row["page_id"]) for row in dialogs)
        ranks = [row["handle_rank"] for row in sorted(dialogs, key=lambda row: row["dialog_id"])]
        found[instance] = (
            len(dialogs),
            len(on_page),
            max(on_page.values()),
            sum(count for count in on_page.values() if count > 1),
            ranks == sorted(ranks) if len(ranks) > 1 else None,
        )
    return found


def latch_share(folder: Path, cell: Cell) -> dict[tuple[str, str, str], tuple[int, float]]:
    """By instance, object and wait type: how often a task was seen waiting, and its share of the instance in percent."""
    (record,) = rows(folder, "cells", cell)
    seen = Counter(
        (row["instance"], row["object_name"] or "not resolved", row["wait_type"])
        for row in rows(folder, "latch_waits", cell)
        if record["measured_from_ns"] <= row["sampled_at_ns"] < record["measured_to_ns"]
    )
    whole: Counter[str] = Counter()
    for (instance, _, _), times in seen.items():
        whole[instance] += times
    return {key: (times, 100 * times / whole[key[0]]) for key, times in seen.items()}


def log_writes(folder: Path, cell: Cell) -> dict[tuple[str, str], tuple[float, float]]:
    """By instance and file: writes a second, and the mean stall of one in milliseconds."""
    (record,) = rows(folder, "cells", cell)
    window_s = (record["measured_to_ns"] - record["measured_from_ns"]) / NS
    return {
        (row["instance"], row["file_name"]): (row["writes"] / window_s, row["write_stall_ms"] / row["writes"])
        for row in rows(folder, "file_io", cell)
        if row["writes"]
    }
