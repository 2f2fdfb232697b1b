"""`reduced/techniques.parquet`: one row per technique and block, from its raw records.

Numbers are computed like those of cells (`harness.reductions`), with one exception: processed messages are those that
the target stored, not those that its RECEIVEs returned, because a RECEIVE also returns the EndDialog message of each
dialog that carried one message. A row holds the step's settings, so that the scenario file is not needed to read it.

A step that processes in batch receives nothing in the window. Its rate processed, readers and messages per RECEIVE are
those from when its clients have stopped until all messages are processed.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from harness import records
from harness.load_model import CLOSED_LOOP
from harness.observe.observers import INTERVAL_S
from harness.reductions.latencies import QUANTILES, values_needed
from harness.techniques.technique_scenario import Scenario, Turn

NAME = "techniques"

Span = tuple[int, int]  # from the first moment until the last, in ns since 1970

_INTEGER, _FLOAT, _TEXT, _FLAG = pa.int64(), pa.float64(), pa.string(), pa.bool_()
SCHEMA = pa.schema(
    {
        "run_id": _TEXT,
        "lab": _TEXT,
        "load_model": _TEXT,  # always the closed loop: the scenario has no rate
        "server_version": _TEXT,
        "place": _INTEGER,  # in the scenario, from 1
        "kind": _TEXT,  # ladder | warning | variant
        "technique": _TEXT,
        "title": _TEXT,
        "compared_with": _TEXT,  # the technique that differs in one setting; null for the first
        "block": _INTEGER,  # 1, 2, ...: the pass over all techniques
        "initiators": _INTEGER,
        "threads": _INTEGER,  # per initiator
        "payload_bytes": _INTEGER,
        "conversations": _TEXT,  # one (an initiator) | one_per_thread | one_per_message
        "conversations_in_use": _INTEGER,  # of all initiators; null if each message has its own
        "dialog_ratio": _INTEGER,
        "warm_up": _FLAG,
        "receive_top": _INTEGER,
        "receive_timeout_ms": _INTEGER,
        "max_queue_readers": _INTEGER,
        "measured_s": _FLOAT,
        "sent_per_s": _FLOAT,  # calls that returned in the window
        "processed_per_s": _FLOAT,  # messages stored in the window
        "state": _TEXT,  # of its cell: valid | unsettled | behind | starved | disturbed
        "latency_us_p50": _FLOAT,  # of those calls; a percentile is null where too few values carry it
        "latency_us_p95": _FLOAT,
        "latency_us_p99": _FLOAT,
        "end_to_end_us_p50": _FLOAT,  # of messages sent in the window, whenever stored
        "end_to_end_us_p95": _FLOAT,
        "end_to_end_us_p99": _FLOAT,
        "readers": _INTEGER,  # most at once in the samples of the window; null without samples, and outside the server
        "messages_per_receive": _FLOAT,  # of all message types; null if no RECEIVE of the window returned any
        "sent_messages": _INTEGER,
    }
)


def write(results: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write `reduced/techniques.parquet` and `.csv`, each whole or not at all; return the path of the first."""
    folder = results / "reduced"
    folder.mkdir(exist_ok=True)
    table = pa.Table.from_pylist(list(rows), schema=SCHEMA)
    return records.write_table(table, folder, NAME)[0]


def copy(results: Path, other: Path) -> list[Path]:
    """Copy the table of a run into the folder of another."""
    (other / "reduced").mkdir(exist_ok=True)
    names = [Path("reduced") / f"{NAME}.{ending}" for ending in ("parquet", "csv")]
    return [Path(shutil.copy(results / name, other / name)) for name in names]


def row(results: Path, scenario: Scenario, turn: Turn, attempt: int, *, run_id: str, lab: str) -> dict[str, Any]:
    """Make the row of a completed turn."""
    technique, cell, arrangement = turn.technique, turn.cell, turn.technique.arrangement
    return {
        "run_id": run_id,
        "lab": lab,
        "load_model": CLOSED_LOOP,
        "server_version": cell.server_version,
        "place": scenario.techniques.index(technique) + 1,
        "kind": technique.kind,
        "technique": technique.key,
        "title": technique.title,
        "compared_with": technique.compared_with,
        "block": turn.block,
        "initiators": cell.initiators,
        "threads": cell.threads,
        "payload_bytes": cell.payload_bytes,
        "conversations_in_use": cell.initiators * arrangement.used_dialogs(cell.threads) or None,
        **arrangement.columns,
        **_measured(_Raw(turn.folder(results), turn, attempt)),
        **({"readers": None} if arrangement.outside_readers else {}),
    }


class _Raw:
    """Read the raw records of one attempt."""

    def __init__(self, folder: Path, turn: Turn, attempt: int) -> None:
        self._folder, self._visit, self._attempt = folder, turn.visit, attempt
        names = ("measured_from_ns", "measured_to_ns", "stopped_at_ns", "drained_at_ns", "sent_messages", "state")
        moments = self.table("cells", *names).to_pylist()[0]
        self.window: Span = (moments["measured_from_ns"], moments["measured_to_ns"])
        self.receiving = self.window
        if turn.technique.arrangement.batch:
            self.receiving = (moments["stopped_at_ns"], moments["drained_at_ns"])
        self.sent_messages, self.state = moments["sent_messages"], moments["state"]

    def table(self, kind: str, *columns: str, writer: str = "") -> pa.Table:
        path = records.raw_path(self._folder, kind, self._visit, self._attempt, writer)
        return pq.read_table(path, columns=list(columns))

    def numbers(self, kind: str, *columns: str, writer: str = "") -> list[npt.NDArray[Any]]:
        table = self.table(kind, *columns, writer=writer)
        return [table[column].to_numpy() for column in columns]

    def calls(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return the moment at which each call of all initiators' clients returned, and its latency."""
        pieces = [
            self.numbers("calls", "intended_at_ns", "latency_ns", writer=f"i{number}")
            for number in range(1, self._visit.cell.initiators + 1)
        ]
        intended, latency = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
        return intended + latency, latency


def _inside(span: Span, moments_ns: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    inside: npt.NDArray[np.bool_] = (moments_ns >= span[0]) & (moments_ns < span[1])
    return inside


def _seconds(span: Span) -> float:
    return (span[1] - span[0]) / 1e9


def _measured(raw: _Raw) -> dict[str, Any]:
    returned, latency = raw.calls()
    sent_at, processed_at = raw.numbers("deliveries", "sent_at_ns", "processed_at_ns")
    received_at, messages = raw.numbers("receives", "received_at_ns", "messages")
    calls, processed = _inside(raw.window, returned), _inside(raw.receiving, processed_at)
    received = messages[_inside(raw.receiving, received_at)]
    return {
        "measured_s": round(_seconds(raw.window), 3),
        "sent_per_s": round(int(calls.sum()) / _seconds(raw.window), 2),
        "processed_per_s": round(int(processed.sum()) / _seconds(raw.receiving), 2),
        "state": raw.state,
        **_quantiles(latency[calls], "latency_us"),
        **_quantiles((processed_at - sent_at)[_inside(raw.window, sent_at)], "end_to_end_us"),
        "readers": _readers(raw),
        "messages_per_receive": round(float(received.mean()), 2) if len(received) else None,
        "sent_messages": raw.sent_messages,
    }


def _quantiles(nanoseconds: npt.NDArray[Any], prefix: str) -> dict[str, float | None]:
    values_us = np.round(nanoseconds / 1000)
    return {
        f"{prefix}_p{round(100 * quantile)}": (
            round(float(np.quantile(values_us, quantile)), 3) if len(values_us) >= values_needed(quantile) else None
        )
        for quantile in QUANTILES
    }


def _readers(raw: _Raw) -> int | None:
    """Return the most readers that the target ran at once, or None without a sample.

    A sample holds the number of readers only while there are any, but it always holds the queue depth. The last sample
    before it counts too, since it is at most one interval old.
    """
    first_ns, last_ns = raw.receiving
    since_ns = first_ns - int(INTERVAL_S * 1e9)
    running: dict[int, float] = {}
    for sample in raw.table("samples", "instance", "sampled_at_ns", "metric", "value").to_pylist():
        at_ns = sample["sampled_at_ns"]
        if sample["instance"] != "target" or not since_ns <= at_ns < last_ns:
            continue
        if sample["metric"] in ("queue_depth", "activated_tasks"):
            tasks = sample["value"] if sample["metric"] == "activated_tasks" else 0.0
            running[at_ns] = max(running.get(at_ns, 0.0), tasks)
    return int(max(running.values())) if running else None
