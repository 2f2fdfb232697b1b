"""Rows of the table from raw records that are written here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from harness import records
from harness.techniques import table
from harness.techniques.scenario import Scenario, Turn, read, turns
from harness.techniques.stand import folder_of

S = 1_000_000_000
FROM, TO = 100 * S, 102 * S  # the window
CALLS_AT = [99 * S, 100 * S, 101 * S, 102 * S - 1_000]  # begun; the last returns behind the window


@pytest.fixture
def scenario() -> Scenario:
    return read()


def turn_of(scenario: Scenario, key: str) -> Turn:
    return next(turn for turn in turns(scenario, version="2008", repeats=1) if turn.technique.key == key)


def write_raw(results: Path, turn: Turn, *, readers: int | None = 3) -> None:
    folder, cell = folder_of(results, turn), turn.cell

    def write(kind: str, columns: dict[str, list[Any]], writer: str = "") -> None:
        records.write(folder, kind, cell, 1, columns, writer=writer)

    moments = {name: [0] for name in ("started_at_ns", "stopped_at_ns", "drained_at_ns")}
    counts = {f"{name}_messages": [12] for name in ("sent", "processed", "lost", "duplicated", "misordered")}
    write(
        "cells",
        {
            "outcome": ["completed"],
            "reason": [""],
            **moments,
            "measured_from_ns": [FROM],
            "measured_to_ns": [TO],
            "settled": [True],
            **counts,
            "failed_calls": [0],
        },
    )
    for initiator in range(1, cell.initiators + 1):
        calls = len(CALLS_AT)
        write(
            "calls",
            {
                "initiator": [initiator] * calls,
                "thread": [1] * calls,
                "sequence": list(range(calls)),
                "started_at_ns": CALLS_AT,
                "latency_ns": [2_000_000, 2_000_000, 4_000_000, 8_000_000],
                "succeeded": [True] * calls,
            },
            writer=f"i{initiator}",
        )
    write(
        "deliveries",
        {
            "initiator": [1, 1, 1],
            "thread": [1, 1, 1],
            "sequence": [0, 1, 2],
            "sent_at_ns": CALLS_AT[:3],
            "processed_at_ns": [FROM + S, FROM + S, TO + S],
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


def row_of(results: Path, scenario: Scenario, turn: Turn) -> dict[str, Any]:
    return table.row(results, scenario, turn, 1, run_id="a run", lab="embedded")


def test_a_row_counts_what_happened_in_the_window_and_says_what_its_step_did(
    tmp_path: Path, scenario: Scenario
) -> None:
    turn = turn_of(scenario, "receive_top_1")
    write_raw(tmp_path, turn)
    row = row_of(tmp_path, scenario, turn)
    assert row["sent_per_s"] == 3 * 2 / 2, "two calls an initiator returned in two seconds"
    assert row["processed_per_s"] == 2 / 2
    assert row["target_kept_up"] is False
    assert (row["latency_us_p50"], row["latency_us_p95"]) == (3000.0, 4000.0)
    assert row["end_to_end_us_p50"] == 1_500_000.0
    assert row["messages_per_receive"] == 1.5
    assert row["readers"] == 3, "the last sample before the window, not those of other instances or of later"
    assert (row["technique"], row["run"], row["kind"], row["compared_with"]) == (
        "receive_top_1",
        1,
        "warning",
        "baseline",
    )
    assert (row["receive_top"], row["receive_timeout_ms"], row["max_queue_readers"]) == (1, 3000, 16)
    assert (row["conversations"], row["conversations_in_use"], row["dialog_ratio"]) == ("one_per_thread", 150, 150)


@pytest.mark.parametrize(
    "key, mode, in_use",
    [("single_conversation", "one", 3), ("one_message_per_conversation", "one_per_message", None)],
)
def test_conversations_in_use_are_those_begun_beforehand(
    tmp_path: Path, scenario: Scenario, key: str, mode: str, in_use: int | None
) -> None:
    turn = turn_of(scenario, key)
    write_raw(tmp_path, turn)
    row = row_of(tmp_path, scenario, turn)
    assert (row["conversations"], row["conversations_in_use"]) == (mode, in_use)


@pytest.mark.parametrize("readers", [0, None])
def test_no_reader_is_zero_and_no_sample_is_nothing(tmp_path: Path, scenario: Scenario, readers: int | None) -> None:
    turn = turn_of(scenario, "reuse")
    write_raw(tmp_path, turn, readers=readers)
    assert row_of(tmp_path, scenario, turn)["readers"] == readers


def test_the_table_has_its_columns_whatever_is_missing(tmp_path: Path, scenario: Scenario) -> None:
    rows = []
    for key in ("dialog_per_message", "reuse"):
        turn = turn_of(scenario, key)
        write_raw(tmp_path, turn, readers=None)
        rows.append(row_of(tmp_path, scenario, turn))
    path = table.write(tmp_path, rows)
    written = pd.read_parquet(path)
    assert list(written.columns) == table.SCHEMA.names
    assert written.technique.tolist() == ["dialog_per_message", "reuse"]
    assert written.compared_with.tolist() == [None, "dialog_per_message"]
    assert written.readers.isna().all()
    assert (tmp_path / "reduced" / "techniques.csv").read_text().splitlines()[0].startswith('"run_id","lab"')
