"""`reduced/rates.parquet`: one row per step and block, the closed loop first."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.experiments.rate_steps import Step
from harness.experiments.recorded_attempts import RecordedAttempt
from harness.files import records
from harness.run.punctuality import Punctuality

NAME = "rates"

_INTEGER, _FLOAT, _TEXT, _FLAG = pa.int64(), pa.float64(), pa.string(), pa.bool_()
SCHEMA = pa.schema(
    {
        "run_id": _TEXT,
        "lab": _TEXT,
        "cell_id": _TEXT,
        "server_version": _TEXT,
        "initiators": _INTEGER,
        "threads": _INTEGER,  # per initiator
        "dialog_ratio": _INTEGER,
        "payload_bytes": _INTEGER,
        "block": _INTEGER,  # 1, 2, ...: the pass over all steps
        "percent": _INTEGER,  # of the closed loop's rate; null for the closed loop
        "load_model": _TEXT,
        "asked_per_s": _FLOAT,  # by all initiators; null for the closed loop
        "measured_s": _FLOAT,
        "sent_per_s": _FLOAT,  # calls that returned in the window
        "processed_per_s": _FLOAT,  # messages stored in the window
        # From the intended start; of the calls due in the window, in the closed loop of those that returned in it. Null
        # where too few calls carry the percentile.
        "latency_us_p50": _FLOAT,
        "latency_us_p95": _FLOAT,
        "latency_us_p99": _FLOAT,
        "due_calls": _INTEGER,  # null for the closed loop, as the next two
        "late_calls": _INTEGER,
        "missed_calls": _INTEGER,
        "was_made": _FLAG,  # the rate: `Punctuality.is_kept`
    }
)


def write(results: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write `reduced/rates.parquet` and `.csv`, each whole or not at all; return the path of the first."""
    folder = results / "reduced"
    folder.mkdir(exist_ok=True)
    return records.write_table(pa.Table.from_pylist(list(rows), schema=SCHEMA), folder, NAME)[0]


def row(step: Step, recorded: RecordedAttempt, load_model: str) -> dict[str, Any]:
    """Make the row of a completed step, without the columns that all rows share."""
    cell, is_open = step.cell, step.percent is not None
    attempt_row, measures = recorded.cell, recorded.measures()
    return {
        "cell_id": cell.id,
        "server_version": cell.server_version,
        "initiators": cell.initiators,
        "threads": cell.threads,
        "dialog_ratio": cell.dialog_ratio,
        "payload_bytes": cell.payload_bytes,
        "block": step.block,
        "percent": step.percent,
        "load_model": load_model,
        "asked_per_s": attempt_row["rate_per_s"] * cell.initiators if is_open else None,
        **measures.columns(),
        **{name: attempt_row[name] if is_open else None for name in ("due_calls", "late_calls", "missed_calls")},
        "was_made": Punctuality.of(attempt_row).is_kept(measures.calls),
    }
