from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from harness.definitions.matrix import Cell
from harness.definitions.measures import COLUMNS_READ
from harness.files.records import SCHEMAS
from harness.reductions import gathered_schema, message_records, spark_schema
from harness.reductions.cells import ATTEMPT_KEY, completed_attempts
from harness.reductions.spark_session import context, session
from tests import warm_jvm

CELL = Cell.parse("i1-t2-r150-p100-v2008")
_EMPTY = {"string": "", "bool": True}


@pytest.fixture(scope="package")
def spark(gateway: Any) -> Iterator[SparkSession]:
    """One session for all modules, in the JVM that whole commands use after them."""
    with warm_jvm.contexts_in(gateway), context("local[1]"), session() as spark:
        yield spark


@pytest.fixture
def raw(spark):
    """Gathered records of a kind from the columns that matter: `raw("calls", [{"latency_ns": 5}, ...])`."""

    def make(kind: str, rows: list[dict[str, Any]], cell: Cell = CELL) -> DataFrame:
        key = {
            "cell_id": cell.id,
            "block": 1,
            "attempt": 1,
            "server_version": cell.server_version,
            "initiators": cell.initiators,
            "threads": cell.threads,
            "dialog_ratio": cell.dialog_ratio,
            "payload_bytes": cell.payload_bytes,
        }
        names = SCHEMAS[kind].names
        known = [
            {name: _EMPTY.get(str(SCHEMAS[kind].field(name).type), 0) for name in names}
            | key
            | {"intended_at_ns": row.get("started_at_ns", 0)}  # as in the closed loop
            | row
            for row in rows
        ]
        schema = gathered_schema(kind)
        numbered = [row | {ATTEMPT_KEY: _number(row)} for row in known]
        return spark.createDataFrame(
            [tuple(_typed(schema, row, name) for name in schema.names) for row in numbered], spark_schema(schema)
        )

    def _typed(schema: pa.Schema, row: dict[str, Any], name: str) -> Any:
        return float(row[name]) if str(schema.field(name).type) == "double" else row[name]

    return make


@pytest.fixture
def attempts(raw):
    """One completed attempt: clients start at 0 s, the window is [1 s, 3 s), drained at 3.5 s."""
    return completed_attempts(raw("cells", [COMPLETED]))


@pytest.fixture
def summaries(spark, tmp_path):
    """The attempts with what the records of their messages say: `summaries(attempts, calls=[{"latency_ns": 5}, ...])`.

    Records of the first block and attempt, unless they name another, and files as a recorder writes them.
    """

    def make(attempts: DataFrame, **rows_by_kind: list[dict[str, Any]]) -> DataFrame:
        files: dict[str, dict[int, list[Path]]] = {kind: {} for kind in COLUMNS_READ}
        for kind, rows in rows_by_kind.items():
            of_attempt: dict[int, list[dict[str, Any]]] = {}
            for row in rows:
                known = dict.fromkeys(COLUMNS_READ[kind], 0) | {"intended_at_ns": row.get("started_at_ns", 0)}
                of_attempt.setdefault(_number(row), []).append(known | row)
            for number, records in of_attempt.items():
                path = tmp_path / f"{kind}-{number}.parquet"
                schema = pa.schema([SCHEMAS[kind].field(name) for name in COLUMNS_READ[kind]])
                pq.write_table(pa.Table.from_pylist(records, schema), path)
                files[kind][number] = [path]
        return message_records.summaries(attempts, files)

    return make


def _number(row: dict[str, Any]) -> int:
    return int(row.get("block", 1) * 10 + row.get("attempt", 1))


S = 1_000_000_000
COMPLETED = {
    "outcome": "completed",
    "started_at_ns": 0,
    "measured_from_ns": 1 * S,
    "measured_to_ns": 3 * S,
    "stopped_at_ns": 3 * S,
    "drained_at_ns": 3 * S + S // 2,
    "state": "valid",
    "state_reason": "",
    "settled": True,
    "late_samples": 0,
    "readers_at_begin": 1,
    "readers_at_end": 1,
    "sent_messages": 9,
    "processed_messages": 9,
}
