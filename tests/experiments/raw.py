"""Raw records of a turn, as clients, observers and the target write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness import records
from harness.experiments.technique_scenario import Turn

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
    folder, cell = turn.folder(results), turn.cell

    def write(kind: str, columns: dict[str, list[Any]], writer: str = "") -> None:
        records.write(folder, kind, turn.visit, attempt, columns, writer=writer)

    moments = {"started_at_ns": [0], "stopped_at_ns": [drained[0]], "drained_at_ns": [drained[1]]}
    counts = {f"{name}_messages": [12] for name in ("sent", "processed", "lost", "duplicated", "misordered")}
    write(
        "cells",
        {
            "outcome": ["completed"],
            "reason": [""],
            **moments,
            "measured_from_ns": [FROM],
            "measured_to_ns": [TO],
            "state": ["valid"],
            "state_reason": [""],
            "settled": [True],
            "late_samples": [0],
            "readers_at_begin": [1],
            "readers_at_end": [1],
            **counts,
            "failed_calls": [0],
            "rate_per_s": [0.0],
            **{name: [0] for name in ("due_calls", "late_calls", "missed_calls")},
        },
    )
    for initiator in range(1, cell.initiators + 1):
        calls = len(CALLS_AT) * calls_at_once
        write(
            "calls",
            {
                "initiator": [initiator] * calls,
                "thread": [1] * calls,
                "sequence": list(range(calls)),
                "intended_at_ns": CALLS_AT * calls_at_once,
                "started_at_ns": CALLS_AT * calls_at_once,
                "latency_ns": [2_000_000, 2_000_000, 4_000_000, 8_000_000] * calls_at_once,
                "succeeded": [True] * calls,
            },
            writer=f"i{initiator}",
        )
    write(
        "deliveries",
        {
            "initiator": [1, 1, 1] * calls_at_once,
            "thread": [1, 1, 1] * calls_at_once,
            "sequence": list(range(3 * calls_at_once)),
            "sent_at_ns": CALLS_AT[:3] * calls_at_once,
            "processed_at_ns": [FROM + S, FROM + S, TO + S] * calls_at_once,
        },
    )
    write(
        "receives",
        {"received_at_ns": [FROM, FROM + S, TO], "messages": [2, 1, 50], "session_id": [51, 51, 52]},
    )
    samples: list[tuple[str, int, str, float]] = [
        ("target", FROM - S // 2, "queue_depth", 9.0),
        ("initiator-1", FROM, "activated_tasks", 99.0),
        ("target", TO + S, "activated_tasks", 16.0),
    ]
    if readers:
        samples.append(("target", FROM - S // 2, "activated_tasks", float(readers)))
    if readers is None:
        samples = samples[1:]
    write(
        "samples",
        {
            "instance": [row[0] for row in samples],
            "sampled_at_ns": [row[1] for row in samples],
            "metric": [row[2] for row in samples],
            "label": [""] * len(samples),
            "value": [row[3] for row in samples],
        },
    )
