"""Raw records of an attempt, as clients, observers and the target write them."""

from pathlib import Path
from typing import Any

from harness.definitions.matrix import Visit
from harness.experiments.technique_scenario import Turn
from harness.files import records

S = 1_000_000_000
FROM, TO = 100 * S, 102 * S  # the window
CALLS_AT = [99 * S, 100 * S, 101 * S, 102 * S - 1_000]  # begun; the last returns behind the window


def write_raw(
    results: Path,
    turn: Turn,
    *,
    attempt: int = 1,
    readers: int | None = 3,
    calls_at_once: int = 1,
    drained: tuple[int, int] = (0, 0),
) -> None:
    """`drained`: when the clients have stopped, and when all messages were processed."""
    folder, visit = turn.folder(results), turn.visit
    write_cell(folder, visit, attempt, stopped_at_ns=drained[0], drained_at_ns=drained[1])
    for initiator in range(1, turn.cell.initiators + 1):
        latencies_ns = [2_000_000, 2_000_000, 4_000_000, 8_000_000] * calls_at_once
        write_calls(folder, visit, attempt, initiator, CALLS_AT * calls_at_once, latencies_ns)
    write_deliveries(folder, visit, attempt, CALLS_AT[:3] * calls_at_once, [FROM + S, FROM + S, TO + S] * calls_at_once)
    received = {"received_at_ns": [FROM, FROM + S, TO], "messages": [2, 1, 50], "session_id": [51, 51, 52]}
    records.write(folder, "receives", visit, attempt, received)
    samples: list[tuple[str, int, str, float]] = [
        ("target", FROM - S // 2, "queue_depth", 9.0),
        ("initiator-1", FROM, "activated_tasks", 99.0),
        ("target", TO + S, "activated_tasks", 16.0),
    ]
    if readers:
        samples.append(("target", FROM - S // 2, "activated_tasks", float(readers)))
    if readers is None:
        samples = samples[1:]
    sampled = {
        "instance": [row[0] for row in samples],
        "sampled_at_ns": [row[1] for row in samples],
        "metric": [row[2] for row in samples],
        "label": [""] * len(samples),
        "value": [row[3] for row in samples],
    }
    records.write(folder, "samples", visit, attempt, sampled)


def write_cell(folder: Path, visit: Visit, attempt: int, **columns: Any) -> None:
    counts = [f"{name}_messages" for name in ("sent", "processed", "lost", "duplicated", "misordered")]
    row = {
        "outcome": "completed",
        "reason": "",
        **dict.fromkeys(("started_at_ns", "stopped_at_ns", "drained_at_ns"), 0),
        "measured_from_ns": FROM,
        "measured_to_ns": TO,
        "state": "valid",
        "state_reason": "",
        "settled": True,
        "late_samples": 0,
        **dict.fromkeys(("readers_at_begin", "readers_at_end"), 1),
        **dict.fromkeys(counts, 12),
        "rate_per_s": 0.0,
        **dict.fromkeys(("failed_calls", "due_calls", "late_calls", "missed_calls"), 0),
        **columns,
    }
    records.write(folder, "cells", visit, attempt, {name: [value] for name, value in row.items()})


def write_calls(  # noqa: PLR0917
    folder: Path, visit: Visit, attempt: int, initiator: int, intended_at_ns: list[int], latencies_ns: list[int]
) -> None:
    count = len(intended_at_ns)
    columns: dict[str, list[Any]] = {
        "initiator": [initiator] * count,
        "thread": [1] * count,
        "sequence": list(range(count)),
        "intended_at_ns": intended_at_ns,
        "started_at_ns": intended_at_ns,
        "latency_ns": latencies_ns,
        "succeeded": [True] * count,
    }
    records.write(folder, "calls", visit, attempt, columns, writer=f"i{initiator}")


def write_deliveries(
    folder: Path, visit: Visit, attempt: int, sent_at_ns: list[int], processed_at_ns: list[int]
) -> None:
    count = len(sent_at_ns)
    columns: dict[str, list[Any]] = {
        "initiator": [1] * count,
        "thread": [1] * count,
        "sequence": list(range(count)),
        "sent_at_ns": sent_at_ns,
        "processed_at_ns": processed_at_ns,
    }
    records.write(folder, "deliveries", visit, attempt, columns)
