"""`reduced/techniques.parquet`: one row per technique and block, from its raw records.

Numbers are those of `harness.definitions.measures`; a step that processes in batch receives nothing in the window, so
its rate processed, readers and messages per RECEIVE are those from when its clients have stopped until all messages are
processed. A row holds the step's settings, so that the scenario file is not needed to read it.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.definitions.load_model import CLOSED_LOOP
from harness.definitions.measures import NS_PER_S, Span
from harness.experiments.recorded_attempts import RecordedAttempt
from harness.experiments.technique_scenario import Scenario, Turn
from harness.files import records
from harness.observe.observers import INTERVAL_S

NAME = "techniques"

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


def write(results: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
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


def row(scenario: Scenario, turn: Turn, recorded: RecordedAttempt) -> dict[str, Any]:
    """Make the row of a completed turn, without the columns that all rows share."""
    technique, cell, arrangement = turn.technique, turn.cell, turn.technique.arrangement
    measures = recorded.measures(in_batch=arrangement.batch)
    readers = None if arrangement.outside_readers else _readers(recorded.table("samples"), measures.receiving)
    return {
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
        **measures.columns(),
        "state": recorded.cell["state"],
        "readers": readers,
        "messages_per_receive": round(measures.received / measures.receives, 2) if measures.receives else None,
        "sent_messages": recorded.cell["sent_messages"],
    }


def _readers(samples: pa.Table, receiving: Span) -> int | None:
    """Return the most readers that the target ran at once, or None without a sample.

    A sample holds the number of readers only while there are any, but it always holds the queue depth. The last sample
    before it counts too, since it is at most one interval old.
    """
    since_ns = receiving.begin_ns - int(INTERVAL_S * NS_PER_S)
    running: dict[int, float] = {}
    for sample in samples.to_pylist():
        at_ns = sample["sampled_at_ns"]
        if sample["instance"] != "target" or not since_ns <= at_ns < receiving.end_ns:
            continue
        if sample["metric"] in ("queue_depth", "activated_tasks"):
            tasks = sample["value"] if sample["metric"] == "activated_tasks" else 0.0
            running[at_ns] = max(running.get(at_ns, 0.0), tasks)
    return int(max(running.values())) if running else None
