"""Rows of the table from raw records."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from harness.experiments import techniques_table
from harness.experiments.recorded_attempts import RecordedAttempt
from harness.experiments.technique_scenario import Scenario, Turn, read, turns
from tests.experiments.raw import TO, S, write_raw


@pytest.fixture
def scenario() -> Scenario:
    return read()


def turn_of(scenario: Scenario, key: str) -> Turn:
    return next(turn for turn in turns(scenario, version="2008", repeats=1, seed=1) if turn.technique.key == key)


def row_of(results: Path, scenario: Scenario, turn: Turn) -> dict[str, Any]:
    return techniques_table.row(scenario, turn, RecordedAttempt(turn.folder(results), turn.visit, 1))


def test_a_row_counts_the_measured_window_and_holds_the_settings_of_its_step(
    tmp_path: Path, scenario: Scenario
) -> None:
    turn = turn_of(scenario, "receive_top_1")
    write_raw(tmp_path, turn)
    row = row_of(tmp_path, scenario, turn)
    assert row["sent_per_s"] == 3 * 2 / 2, "two calls an initiator returned in two seconds"
    assert row["processed_per_s"] == 2 / 2
    assert row["state"] == "valid", "as the cell's record says"
    latencies = [name for name in row if "_us_p" in name]
    assert len(latencies) == 6
    assert all(row[name] is None for name in latencies), "six calls carry no percentile"
    assert row["messages_per_receive"] == 1.5
    assert row["readers"] == 3, "the last sample before the window, not those of other instances or of later"
    assert (row["technique"], row["block"], row["kind"], row["compared_with"]) == (
        "receive_top_1",
        1,
        "warning",
        "baseline",
    )
    assert (row["receive_top"], row["receive_timeout_ms"], row["max_queue_readers"]) == (1, 3000, 16)
    assert (row["conversations"], row["conversations_in_use"], row["dialog_ratio"]) == ("one_per_thread", 150, 150)


def test_percentiles_are_those_that_enough_calls_carry(tmp_path: Path, scenario: Scenario) -> None:
    turn = turn_of(scenario, "receive_top_1")
    write_raw(tmp_path, turn, calls_at_once=50)
    row = row_of(tmp_path, scenario, turn)
    assert (row["latency_us_p50"], row["latency_us_p95"], row["latency_us_p99"]) == (3000.0, 4000.0, None)
    assert (row["end_to_end_us_p50"], row["end_to_end_us_p95"]) == (1_500_000.0, None)


@pytest.mark.parametrize(
    "key, mode, in_use", [("single_conversation", "one", 3), ("one_message_per_conversation", "one_per_message", None)]
)
def test_conversations_in_use_are_those_that_were_begun_beforehand(
    tmp_path: Path, scenario: Scenario, key: str, mode: str, in_use: int | None
) -> None:
    turn = turn_of(scenario, key)
    write_raw(tmp_path, turn)
    row = row_of(tmp_path, scenario, turn)
    assert (row["conversations"], row["conversations_in_use"]) == (mode, in_use)


def test_what_a_step_in_batch_receives_is_counted_from_the_end_of_its_clients_to_the_end_of_draining(
    tmp_path: Path, scenario: Scenario
) -> None:
    turn = turn_of(scenario, "baseline")
    arrangement = turn.technique.arrangement.model_copy(update={"batch": True})
    turn = turn.model_copy(update={"technique": turn.technique.model_copy(update={"arrangement": arrangement})})
    write_raw(tmp_path, turn, drained=(TO, TO + 2 * S))
    row = row_of(tmp_path, scenario.model_copy(update={"techniques": (turn.technique,)}), turn)
    assert (row["sent_per_s"], row["processed_per_s"]) == (3 * 2 / 2, 1 / 2)
    assert (row["messages_per_receive"], row["readers"]) == (50, 16)


def test_calls_of_an_initiator_count_whichever_of_its_workers_made_them(tmp_path: Path, scenario: Scenario) -> None:
    turn = turn_of(scenario, "reuse")
    write_raw(tmp_path, turn)
    before = row_of(tmp_path, scenario, turn)
    for path in turn.folder(tmp_path).glob("raw/calls/*-i1.parquet"):
        path.rename(path.with_stem(f"{path.stem}w2"))
    assert row_of(tmp_path, scenario, turn) == before


@pytest.mark.parametrize("readers", [0, None])
def test_no_reader_is_zero_and_no_sample_is_null(tmp_path: Path, scenario: Scenario, readers: int | None) -> None:
    turn = turn_of(scenario, "reuse")
    write_raw(tmp_path, turn, readers=readers)
    assert row_of(tmp_path, scenario, turn)["readers"] == readers


def test_the_table_has_all_columns_whatever_is_missing(tmp_path: Path, scenario: Scenario) -> None:
    rows = []
    for key in ("dialog_per_message", "reuse"):
        turn = turn_of(scenario, key)
        write_raw(tmp_path, turn, readers=None)
        rows.append(row_of(tmp_path, scenario, turn))
    path = techniques_table.write(tmp_path, rows)
    written = pd.read_parquet(path)
    assert list(written.columns) == techniques_table.SCHEMA.names
    assert written.technique.tolist() == ["dialog_per_message", "reuse"]
    assert written.compared_with.tolist() == [None, "dialog_per_message"]
    assert written.readers.isna().all()
    assert (tmp_path / "reduced" / "techniques.csv").read_text().splitlines()[0].startswith('"run_id","lab"')
