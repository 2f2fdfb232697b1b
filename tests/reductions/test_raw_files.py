import json

import pytest

from harness.definitions.matrix import Cell
from harness.failures import UsageFailure
from harness.files import records
from harness.files.records import ResultsError
from harness.reductions import raw_files
from tests.results_fixture import write_journal, write_raw

CELLS = [Cell.parse(f"i1-t2-r{ratio}-p100-v2008") for ratio in (1, 150)]


@pytest.fixture
def run(tmp_path):
    return write_raw(tmp_path / "run", CELLS, scale=40, measure_s=0.3, settle_s=0.1)


def cells_of(raw):
    return {path.name.split("-b")[0] for path in raw.files["cells"]}


def test_all_files_of_completed_cells_count(run):
    raw = raw_files.read(run)
    assert cells_of(raw) == {cell.id for cell in CELLS}
    # Of a cell whose messages are counted, one with workers of other machines, one on containers, and one with --events.
    by_header = dict.fromkeys(records.SCHEMAS, 2) | {
        "processed": 0,
        "clocks": 0,
        "containers": 0,
        "events": 0,
        "leaks": 0,
    }
    assert {kind: len(files) for kind, files in raw.files.items()} == by_header
    assert raw.notes == ()


def test_temporary_and_foreign_files_are_ignored(run):
    (run / "raw" / "calls" / f"{CELLS[0].id}-b1-a1.tmp").write_bytes(b"PAR1 half a file")
    (run / "raw" / "calls" / "notes.txt").write_text("mine")
    (run / "raw" / "novelties").mkdir()
    raw = raw_files.read(run)
    assert cells_of(raw) == {cell.id for cell in CELLS}
    assert raw.notes == ("raw/calls/notes.txt is not a raw record and is ignored",)


@pytest.mark.parametrize("kind", ["calls", "receives", "samples"])
def test_a_cell_with_a_truncated_file_is_left_out_and_named(run, kind):
    path = next((run / "raw" / kind).glob(f"{CELLS[0].id}-b1-a1*.parquet"))
    path.write_bytes(path.read_bytes()[:-20])
    raw = raw_files.read(run)
    assert cells_of(raw) == {CELLS[1].id}
    assert raw.notes == (f"{CELLS[0].id} (block 1, attempt 1) is left out: raw/{kind}/{path.name} cannot be read",)


def test_a_completed_cell_without_calls_is_left_out_and_named(run):
    next((run / "raw" / "calls").glob(f"{CELLS[0].id}-b1-a1*.parquet")).unlink()
    raw = raw_files.read(run)
    assert cells_of(raw) == {CELLS[1].id}
    assert raw.notes == (f"{CELLS[0].id} (block 1, attempt 1) is left out: it has no calls",)


def test_an_attempt_without_a_line_in_the_journal_does_not_count(run):
    (run / "journal.jsonl").write_text("")
    write_journal(run, [(CELLS[1].id, 1, "completed"), (CELLS[0].id, 1, "failed")])
    assert cells_of(raw_files.read(run)) == {CELLS[1].id}


def test_an_attempt_that_the_journal_calls_failed_after_completed_does_not_count(run):
    write_journal(run, [(CELLS[0].id, 1, "completed"), (CELLS[0].id, 1, "failed"), (CELLS[1].id, 1, "completed")])
    assert cells_of(raw_files.read(run)) == {CELLS[1].id}


def test_a_torn_last_line_of_the_journal_is_ignored(run):
    with (run / "journal.jsonl").open("a") as journal:
        journal.write('{"cell": "i1-t2-r1-p100-v2008", "attempt": 1, "outco')
    assert cells_of(raw_files.read(run)) == {cell.id for cell in CELLS}


def test_without_a_journal_cells_count_by_their_own_record(run):
    (run / "journal.jsonl").unlink()
    raw = raw_files.read(run)
    assert cells_of(raw) == {cell.id for cell in CELLS}
    assert raw.notes == ("there is no journal.jsonl: cells count by their own record",)


def break_folder(run):
    for path in run.rglob("*"):
        if path.is_file():
            path.unlink()


def break_manifest(run):
    (run / "manifest.json").write_text("{")


def break_manifest_shape(run):
    (run / "manifest.json").write_text(json.dumps([1]))


def break_raw(run):
    (run / "raw").rename(run / "cooked")


def break_cells(run):
    for path in (run / "raw" / "cells").iterdir():
        path.unlink()


@pytest.mark.parametrize(
    "damage, words",
    [
        (break_folder, "has no manifest.json"),
        (break_manifest, r"manifest.json, line 1: no JSON"),
        (break_manifest_shape, r"manifest.json, line 1: should be an object"),
        (break_raw, "has no raw records"),
        (break_cells, "holds no completed cell"),
    ],
)
def test_a_folder_that_cannot_be_reduced_is_an_error_of_one_line(run, damage, words):
    damage(run)
    with pytest.raises(UsageFailure, match=words) as caught:
        raw_files.read(run)
    assert "\n" not in str(caught.value)
    assert str(run) in str(caught.value)


def test_a_missing_folder_is_an_error_of_one_line(tmp_path):
    with pytest.raises(ResultsError, match="does not exist: name the folder of a run"):
        raw_files.read(tmp_path / "absent")
