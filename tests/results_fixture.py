"""Plausible results folders without a lab: raw records as a sweep writes them, or the reduced tables themselves.

Two shapes: `flat`, where the 150 trick is worth nothing, as on a lab without page latches; and `paper`, with the
paper's throughput and gain. `scale` divides all rates, so that a whole matrix stays small.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harness.definitions.matrix import PAPER_VERSIONS, Cell, Visit
from harness.files import matrix_file, records
from harness.files.journal import Entry
from tests import instances_fixture
from tests.instances_fixture import instances

STARTED_AT_NS = 1_790_000_000_000_000_000
NS = 1_000_000_000
WAITS = {
    ("initiator", 1): {"PAGELATCH_EX": 0.62, "WRITELOG": 0.24, "PAGELATCH_SH": 0.09, "ASYNC_NETWORK_IO": 0.05},
    ("initiator", 150): {"WRITELOG": 0.81, "PAGELATCH_EX": 0.05, "ASYNC_NETWORK_IO": 0.09, "LCK_M_X": 0.05},
    ("target", 1): {"WRITELOG": 0.84, "LCK_M_X": 0.11, "PAGELATCH_EX": 0.05},
    ("target", 150): {"WRITELOG": 0.86, "LCK_M_X": 0.09, "PAGELATCH_EX": 0.05},
}
FLAT_WAITS = {"initiator": {"WRITELOG": 0.97, "LCK_M_X": 0.03}, "target": {"WRITELOG": 0.7, "LCK_M_X": 0.3}}


def quick_cells(versions: Sequence[str] = PAPER_VERSIONS) -> list[Cell]:
    """The 24 cells of `make quick`."""
    return matrix_file.read("quick").cells(versions, initiators_max=3)


def rate(cell: Cell, shape: str, block: int = 1) -> float:
    """Messages a second that a cell reaches in a block."""
    noise = random.Random(cell.id + " again" * (block - 1)).uniform(0.97, 1.03)
    size = {100: 1.0, 1024: 0.95, 4096: 0.8, 8192: 0.62}.get(cell.payload_bytes, 0.7)
    if shape == "flat":
        top = {1: 2600, 2: 2450, 3: 2300}[cell.initiators]
        return top * size * cell.total_threads / (cell.total_threads + 3) * noise
    top = {1: 5600, 2: 12900, 3: 20500}[cell.initiators] * (1 if cell.total_threads < 45 else size)
    reached = top * cell.threads / (cell.threads + 6) * noise
    contention = max(0.0, cell.total_threads - 15) / 135
    return reached / (1 + 3.15 * contention * size) if cell.dialog_ratio == 1 else reached


def manifest(run_id: str, *, lab: str = "embedded", **changes: Any) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "lab": lab,
        "started_at": "2026-11-21T09:00:00+00:00",
        "finished_at": "2026-11-21T09:23:41+00:00",
        "harness_version": "0.1.0",
        "git_commit": "0123456789abcdef0123456789abcdef01234567",
        "seed": 1,
        "cells": 0,
        "load_model": "closed loop",
        "settings": {"measure": 1.0, "lab": lab},
        "machine": {"processor": "A processor", "processors": 2, "memory_bytes": 25_000_000_000},
        "versions": {"python": "3.11.7"},
        "instances": [],
        "findings": {},
    } | changes


def write_manifest(folder: Path, **changes: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    run_id = changes.pop("run_id", folder.name)
    (folder / "manifest.json").write_text(json.dumps(manifest(run_id, **changes), indent=2))


def write_journal(folder: Path, entries: Sequence[tuple[str, int, str]], block: int = 1) -> None:
    with (folder / "journal.jsonl").open("a") as journal:
        for cell_id, attempt, outcome in entries:
            entry = Entry(cell_id, attempt, outcome, "", "2026-11-21T09:00:00+00:00", 1, block=block)  # type: ignore[arg-type]
            journal.write(f"{json.dumps(asdict(entry))}\n")


def write_raw(
    folder: Path,
    cells: Sequence[Cell],
    *,
    shape: str = "flat",
    scale: float = 1.0,
    settle_s: float = 0.5,
    measure_s: float = 1.0,
    drain_s: float = 0.4,
    blocks: int = 1,
) -> Path:
    """A run folder with raw records, journal and manifest of completed cells."""
    write_manifest(folder)
    started_at_ns = STARTED_AT_NS
    for block in range(1, blocks + 1):
        for cell in cells:
            write_cell(
                folder,
                cell,
                rate(cell, shape, block) / scale,
                shape=shape,
                started_at_ns=started_at_ns,
                settle_s=settle_s,
                measure_s=measure_s,
                drain_s=drain_s,
                block=block,
            )
            started_at_ns += int((settle_s + measure_s + drain_s + 1) * NS)
        write_journal(folder, [(cell.id, 1, "completed") for cell in cells], block)
    return folder


def write_cell(
    folder: Path,
    cell: Cell,
    per_s: float,
    *,
    shape: str = "flat",
    started_at_ns: int = STARTED_AT_NS,
    settle_s: float = 0.5,
    measure_s: float = 1.0,
    drain_s: float = 0.4,
    attempt: int = 1,
    block: int = 1,
) -> None:
    """All raw records of one completed cell whose clients reach `per_s` calls a second."""
    visit = Visit(cell, block)
    rng = np.random.default_rng(random.Random(f"{cell.id} {block}").getrandbits(32))
    measured_from_ns = started_at_ns + int(settle_s * NS)
    measured_to_ns = measured_from_ns + int(measure_s * NS)
    stopped_at_ns = measured_to_ns + NS // 50
    drained_at_ns = stopped_at_ns + int(drain_s * NS)
    sent: list[dict[str, np.ndarray]] = []
    for initiator in range(1, cell.initiators + 1):
        calls = _calls(cell, initiator, per_s / cell.initiators, (started_at_ns, measured_to_ns), rng)
        records.write(folder, "calls", visit, attempt, calls, writer=str(initiator))
        sent.append(calls)
    all_calls = {name: np.concatenate([calls[name] for calls in sent]) for name in sent[0]}
    returned = all_calls["started_at_ns"] + all_calls["latency_ns"]
    processed = np.minimum(returned + rng.gamma(2.0, 4e6, len(returned)).astype(np.int64), drained_at_ns)
    records.write(
        folder,
        "deliveries",
        visit,
        attempt,
        {
            "initiator": all_calls["initiator"],
            "thread": all_calls["thread"],
            "sequence": all_calls["sequence"],
            "sent_at_ns": all_calls["started_at_ns"],
            "processed_at_ns": processed,
        },
    )
    # A RECEIVE takes what came within some 10 ms, and the EndDialog of each message's own dialog.
    slots, counts = np.unique(processed // 10_000_000, return_counts=True)
    received = {"received_at_ns": (slots + 1) * 10_000_000, "messages": 2 * counts, "session_id": 51 + slots % 4}
    records.write(folder, "receives", visit, attempt, received)
    samples = _samples(cell, per_s, (started_at_ns, measured_from_ns, measured_to_ns, stopped_at_ns, drained_at_ns))
    records.write(folder, "samples", visit, attempt, samples)
    records.write(folder, "waits", visit, attempt, _waits(cell, per_s * measure_s, shape))
    columns_by_kind = {
        "dialog_pages": instances_fixture.dialog_pages(cell),
        "latch_waits": instances_fixture.latch_waits(cell, shape, measured_from_ns, measure_s),
        "index_waits": instances_fixture.index_waits(cell, shape, measure_s),
        "latches": instances_fixture.latches(cell),
        "spinlocks": instances_fixture.spinlocks(cell),
        "file_io": instances_fixture.file_io(cell, per_s * measure_s),
    }
    for kind, columns in columns_by_kind.items():
        records.write(folder, kind, visit, attempt, columns)
    records.write(
        folder,
        "processors",
        visit,
        attempt,
        {
            "instance": instances(cell),
            "window_ns": [int(measure_s * NS)] * len(instances(cell)),
            "processor_time_ms": [int(measure_s * 1000 * 0.9)] + [int(measure_s * 500)] * cell.initiators,
            "processors": [2] * len(instances(cell)),
        },
    )
    health = [(number, 40.0, 2.0, 3.5, 1.0, 0.2) for number in range(1, cell.initiators + 1)]
    records.write(folder, "health", visit, attempt, records.columns("health", health))
    records.write(folder, "machine", visit, attempt, records.columns("machine", [(1.5, 0.2, 3.0, 2)]))
    total = len(returned)
    records.write(
        folder,
        "cells",
        visit,
        attempt,
        {
            "outcome": ["completed"],
            "reason": [""],
            "started_at_ns": [started_at_ns],
            "measured_from_ns": [measured_from_ns],
            "measured_to_ns": [measured_to_ns],
            "stopped_at_ns": [stopped_at_ns],
            "drained_at_ns": [drained_at_ns],
            "state": ["valid"],
            "state_reason": [""],
            "settled": [True],
            "readers_at_begin": [1],
            "readers_at_end": [1],
            "late_samples": [0],
            "sent_messages": [total],
            "processed_messages": [total],
            "lost_messages": [0],
            "duplicated_messages": [0],
            "misordered_messages": [0],
            "failed_calls": [0],
            "rate_per_s": [0.0],
            "due_calls": [0],
            "late_calls": [0],
            "missed_calls": [0],
        },
    )


def _calls(
    cell: Cell, initiator: int, per_s: float, between_ns: tuple[int, int], rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Closed loop: each thread's calls one after another until the window is over."""
    from_ns, to_ns = between_ns
    mean_ns = cell.threads / per_s * NS
    per_thread = int((to_ns - from_ns) / mean_ns * 1.5) + 8
    latency = rng.gamma(4.0, mean_ns / 4, (cell.threads, per_thread)).astype(np.int64) + 1
    started = from_ns + np.cumsum(latency, axis=1) - latency
    inside = started < to_ns
    threads = np.broadcast_to(np.arange(1, cell.threads + 1)[:, None], inside.shape)
    sequences = np.broadcast_to(np.arange(per_thread)[None, :], inside.shape)
    count = int(inside.sum())
    return {
        "initiator": np.full(count, initiator),
        "thread": threads[inside],
        "sequence": sequences[inside],
        "intended_at_ns": started[inside],
        "started_at_ns": started[inside],
        "latency_ns": latency[inside],
        "succeeded": np.ones(count, dtype=bool),
    }


def _samples(cell: Cell, per_s: float, moments_ns: tuple[int, int, int, int, int]) -> Mapping[str, list[Any]]:
    from_ns, measured_from_ns, measured_to_ns, stopped_ns, drained_ns = moments_ns
    rows: list[tuple[str, int, str, str, float]] = []
    for at_ns in range(from_ns + NS // 4, drained_ns, NS // 2):
        backlog = per_s * 0.05 * min(1.0, (at_ns - from_ns) / NS) * (1.0 if at_ns < stopped_ns else 0.3)
        for instance in instances(cell):
            metric = "queue_depth" if instance == "target" else "transmission_queue_depth"
            depth = backlog if instance == "target" else backlog / 4 / cell.initiators
            rows.append((instance, at_ns, metric, "MySSBLabTestQueue", float(int(depth))))
            rows.append((instance, at_ns, "activated_tasks", "MySSBLabTestQueue", 2.0))
            sends = 0.0 if instance == "target" else per_s / cell.initiators * (at_ns - from_ns) / NS
            rows.append((instance, at_ns, "counter", "Broker Statistics\\SQL SENDs/sec", float(int(sends))))
    looks = instances_fixture.looks((measured_to_ns - measured_from_ns) / NS)
    for instance in instances(cell):
        rows += [
            (instance, measured_from_ns, "latch_looks", "", 1.0),
            (instance, measured_to_ns, "latch_looks", "", looks),
        ]
    names = ("instance", "sampled_at_ns", "metric", "label", "value")
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def wait_shares(cell: Cell, role: str, shape: str) -> Mapping[str, float]:
    return FLAT_WAITS[role] if shape == "flat" else WAITS[role, 1 if cell.dialog_ratio == 1 else 150]


def _waits(cell: Cell, messages: float, shape: str) -> Mapping[str, list[Any]]:
    rows: list[tuple[str, str, int, int, int]] = []
    for instance in instances(cell):
        role = "target" if instance == "target" else "initiator"
        each_ms = messages * 0.8 if role == "target" else messages * cell.threads * 0.3
        for wait_type, share in wait_shares(cell, role, shape).items():
            rows.append((instance, wait_type, int(messages) + 1, int(each_ms * share), int(each_ms * share / 20)))
        rows.append((instance, "BROKER_RECEIVE_WAITFOR", 12, 60_000, 0))
    names = ("instance", "wait_type", "waiting_tasks", "wait_time_ms", "signal_wait_time_ms")
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def write_reduced(
    folder: Path, cells: Sequence[Cell], *, shape: str = "flat", factor: float = 1.0, blocks: int = 1, **changes: Any
) -> Path:
    """A run folder with manifest and reduced tables, as a reduction of `shape` would leave them; no raw records."""
    write_manifest(folder, **changes)
    lab = str(changes.get("lab", "embedded"))
    visits = [Visit(cell, block) for block in range(1, blocks + 1) for cell in cells]
    tables = {
        "cells": pd.DataFrame([_reduced_cell(visit, shape, factor, folder.name, lab) for visit in visits]),
        "seconds": pd.DataFrame([row for visit in visits for row in _reduced_seconds(visit, shape, factor)]),
        "bins": pd.DataFrame([row for visit in visits for row in _reduced_bins(visit, shape, factor)]),
        "waits": pd.DataFrame([row for visit in visits for row in _reduced_waits(visit, shape, factor)]),
    }
    tables["gain"] = _reduced_gain(tables["cells"])
    reduced = [
        instances_fixture.reduced(_axes(visit), visit.cell, shape, rate(visit.cell, shape, visit.block) * factor)
        for visit in visits
    ]
    tables |= {name: pd.DataFrame([row for each in reduced for row in each[name]]) for name in reduced[0]}
    tables = {
        name: table.assign(run_id=folder.name, lab=lab, load_model="closed loop") for name, table in tables.items()
    }
    (folder / "reduced").mkdir(exist_ok=True)
    for name, table in tables.items():
        table.to_parquet(folder / "reduced" / f"{name}.parquet", index=False)
    return folder


def _axes(visit: Visit) -> dict[str, Any]:
    cell = visit.cell
    return {
        "cell_id": cell.id,
        "block": visit.block,
        "server_version": cell.server_version,
        "initiators": cell.initiators,
        "threads": cell.threads,
        "dialog_ratio": cell.dialog_ratio,
        "payload_bytes": cell.payload_bytes,
        "attempt": 1,
    }


def _reduced_cell(visit: Visit, shape: str, factor: float, run_id: str, lab: str) -> dict[str, Any]:
    cell = visit.cell
    per_s = rate(cell, shape, visit.block) * factor
    latency = cell.total_threads / per_s * 1e6
    axes = _axes(visit)
    return {
        "run_id": run_id,
        "lab": lab,
        "cell_id": axes.pop("cell_id"),
        "block": axes.pop("block"),
        "attempt": axes.pop("attempt"),
        "server_version": axes.pop("server_version"),
        "initiators": axes.pop("initiators"),
        "threads": axes.pop("threads"),
        "total_threads": cell.total_threads,
        **axes,
        "sent_per_s": round(per_s * 1.01, 2),
        "processed_per_s": round(per_s, 2),
        "state": "valid",
        "state_reason": "",
        "until_drained_per_s": round(per_s * 3.3 / 5.7, 2),
        **dict.fromkeys(("rate_per_s", "due_calls", "late_calls", "missed_calls")),
        "calls_in_window": int(per_s),
        "receives_in_window": int(per_s / 20),
        "latency_us_p50": latency * 0.92,
        "latency_us_p95": latency * 1.9,
        "latency_us_p99": latency * 2.6,
        "latency_us_max": latency * 4,
        "end_to_end_us_p50": latency + 8000,
        "end_to_end_us_p95": latency + 19000,
        "end_to_end_us_p99": latency + 27000,
        "end_to_end_negative": 0,
        "queue_depth_peak": int(per_s * 0.05),
        "transmission_queue_depth_peak": int(per_s * 0.0125),
        "initiator_processor_percent": 25.0,
        "target_processor_percent": 45.0,
        "initiator_top_waits": "WRITELOG 812 ms",
        "target_top_waits": "WRITELOG 412 ms",
        "settled": True,
        "readers_at_begin": 1,
        "readers_at_end": 1,
        "worker_processor_percent_max": 40.0,
        "worker_run_delay_percent_max": 2.0,
        "worker_hub_lag_ms_max": 3.5,
        "worker_between_calls_percent_max": 1.0,
        "late_samples": 0,
        "load_average_1m": 1.5,
        "steal_percent": 0.2,
        "others_percent": 3.0,
        "growth_bytes": 0,
        "settle_s": 2.2,
        "measured_s": 1.0,
        "load_s": 3.3,
        "drain_s": 2.4,
        "sent_messages": int(per_s * 3.3),
        "processed_messages": int(per_s * 3.3),
        "started_at_ns": STARTED_AT_NS,
        **dict.fromkeys(("rate_per_s", "due_calls", "late_calls", "missed_calls"), None),  # the closed loop
    }


def _reduced_seconds(visit: Visit, shape: str, factor: float) -> list[dict[str, Any]]:
    per_s = rate(visit.cell, shape, visit.block) * factor
    sent = [0.7, 1.0, 1.02, 0.3, 0.0, 0.0]
    processed = [0.5, 0.95, 1.0, 0.42, 0.13, 0.02]
    backlog = np.cumsum(np.array(sent) - np.array(processed)) * per_s
    return [
        _axes(visit)
        | {
            "second": second,
            "sent": int(sent[second] * per_s),
            "processed": int(processed[second] * per_s),
            "queue_depth": int(max(0.0, backlog[second] * 0.8)),
            "transmission_queue_depth": int(max(0.0, backlog[second] * 0.2)),
        }
        for second in range(len(sent))
    ]


def _reduced_bins(visit: Visit, shape: str, factor: float) -> list[dict[str, Any]]:
    """The bins of the lengths in `_reduced_cell`: the target is slower than the clients while these settle."""
    per_s = rate(visit.cell, shape, visit.block) * factor
    phases = (("settle", 0.0, 2.2, 4), ("measure", 2.2, 3.2, 2), ("stop", 3.2, 3.3, 1), ("drain", 3.3, 5.7, 5))
    cuts = [
        (phase, begin + part * (end - begin) / parts, (end - begin) / parts)
        for phase, begin, end, parts in phases
        for part in range(parts)
    ]
    return [
        _axes(visit)
        | {
            "bin": number,
            "phase": phase,
            "from_s": from_s,
            "length_s": length_s,
            "sent_messages": 0 if phase == "drain" else round(per_s * 1.01 * length_s),
            "processed_messages": round(per_s * {"settle": 0.9, "drain": 0.105}.get(phase, 1.0) * length_s),
        }
        for number, (phase, from_s, length_s) in enumerate(cuts)
    ]


def _reduced_waits(visit: Visit, shape: str, factor: float) -> list[dict[str, Any]]:
    cell = visit.cell
    per_s = rate(cell, shape, visit.block) * factor
    rows = []
    for role in ("initiator", "target"):
        whole = per_s * (0.8 if role == "target" else cell.total_threads * 0.3)
        shares = sorted(wait_shares(cell, role, shape).items(), key=lambda item: -item[1])
        for place, (wait_type, share) in enumerate(shares, start=1):
            rows.append(
                _axes(visit)
                | {
                    "role": role,
                    "place": place,
                    "wait_type": wait_type,
                    "waiting_tasks": int(per_s),
                    "wait_time_ms": int(whole * share),
                    "signal_wait_time_ms": int(whole * share / 20),
                    "share_percent": 100 * share,
                    "waits_per_s": per_s,
                    "wait_ms_per_s": whole * share,
                    "wait_ms_mean": whole * share / per_s,
                    "waiting_tasks_mean": whole * share / 1000 / (cell.initiators if role == "initiator" else 1),
                }
            )
    return rows


def _reduced_gain(cells: pd.DataFrame) -> pd.DataFrame:
    point = ["initiators", "threads", "payload_bytes"]
    pair = ["run_id", "lab", "block", "server_version", *point, "total_threads"]
    rates = ["processed_per_s", "sent_per_s", "until_drained_per_s", "state"]
    base = cells[cells.dialog_ratio == 1][[*pair, *rates]]
    both = cells[cells.dialog_ratio != 1].merge(base, on=pair, suffixes=("", "_1"))
    factor = both.processed_per_s / both.processed_per_s_1
    return both[[*pair, "dialog_ratio", "processed_per_s"]].assign(
        processed_per_s_ratio_1=both.processed_per_s_1,
        factor=factor,
        gain_percent=100 * (factor - 1),
        sent_factor=both.sent_per_s / both.sent_per_s_1,
        until_drained_factor=both.until_drained_per_s / both.until_drained_per_s_1,
        valid=(both.state == "valid") & (both.state_1 == "valid"),
    )
