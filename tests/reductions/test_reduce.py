import os
import shutil
import socket

import pandas as pd
import pytest

import harness
from harness import reductions
from harness.definitions.matrix import Cell, Visit
from harness.definitions.measures import COLUMNS_READ, Measures
from harness.failures import UsageFailure
from harness.files import records
from harness.files.records import NotWritable, ResultsError
from harness.reductions import TABLES, SparkUnavailable, reduce
from tests.noting import NotingReporter
from tests.reductions import oracle
from tests.results_fixture import NS, write_cell, write_journal, write_raw, write_reduced

pytestmark = pytest.mark.spark

CELLS = [Cell.parse(f"i{initiators}-t8-r{ratio}-p100-v2008") for initiators in (1, 2) for ratio in (1, 150)]


@pytest.fixture(scope="module")
def run(tmp_path_factory, spark):
    # The name has what Spark and Hadoop take for patterns and schemes.
    folder = write_raw(
        tmp_path_factory.mktemp("results") / "run [1] 09:00", CELLS, shape="paper", scale=10, measure_s=1.25
    )
    reported = NotingReporter()
    # Queries are compiled, as those of a large run; the queries of every other reduction of the tests are interpreted.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reductions, "SMALL_BYTES", 0)
        reduce(folder, progress=reported)
    assert reported.notes == []
    return folder


def table(run, name):
    return pd.read_parquet(run / "reduced" / f"{name}.parquet")


def test_the_tables_are_written_as_parquet_and_csv_and_nothing_else(run):
    names = (
        "cells",
        "gain",
        "seconds",
        "bins",
        "waits",
        "page_spread",
        "latch_share",
        "index_waits",
        "latches",
        "spinlocks",
        "file_io",
        "counters",
    )
    assert sorted(os.listdir(run / "reduced")) == sorted(
        f"{name}.{end}" for name in names for end in ("parquet", "csv")
    )
    for name in names:
        path = run / "reduced" / f"{name}.csv"
        csv = pd.read_csv(path, dtype={"server_version": str}, converters={"state_reason": str})
        pd.testing.assert_frame_equal(csv, table(run, name).fillna(float("nan")), check_dtype=False)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.id)
def test_a_cell_has_the_numbers_that_plain_python_computes(run, cell):
    cells = table(run, "cells").set_index("cell_id")
    assert len(cells) == len(CELLS)
    for name, value in oracle.cell_numbers(run, cell).items():
        # The longest call keeps its nanoseconds.
        tolerance = 0.51 if name.endswith("_max") else 0.006
        assert cells.loc[cell.id, name] == pytest.approx(value, abs=tolerance, nan_ok=True), name


def test_a_table_has_the_numbers_that_an_attempt_prints_of_the_same_records(run):
    for row in table(run, "cells").to_dict("records"):
        [attempt] = oracle.rows(run, "cells", Cell.parse(row["cell_id"]))
        measures = Measures(attempt)
        for kind in ("calls", "deliveries"):
            records = pd.DataFrame(oracle.rows(run, kind, Cell.parse(row["cell_id"])))
            measures.add(kind, {name: records[name].to_numpy() for name in COLUMNS_READ[kind]})
        columns = measures.columns()
        assert {name: None if pd.isna(row[name]) else row[name] for name in columns} == columns


@pytest.mark.parametrize("name", TABLES)
def test_every_row_says_which_lab_and_run_it_came_from(run, name):
    rows = table(run, name)
    assert set(rows.lab) == {"embedded"}
    assert set(rows.run_id) == {run.name}


def test_the_seconds_of_a_cell_add_up_to_its_message_counts(run):
    cells = table(run, "cells").set_index("cell_id")
    seconds = table(run, "seconds").groupby("cell_id")[["sent", "processed"]].sum()
    assert (seconds.sent == cells.sent_messages.reindex(seconds.index)).all()
    assert (seconds.processed <= cells.processed_messages.reindex(seconds.index)).all()


def test_the_bins_of_a_cell_add_up_to_its_messages_and_those_of_the_window_to_its_rate(run):
    cells = table(run, "cells").set_index("cell_id")
    bins = table(run, "bins")
    counts = ["sent_messages", "processed_messages"]
    assert (bins.groupby("cell_id")[counts].sum() == cells[counts]).all(axis=None)
    window = bins[bins.phase == "measure"].groupby("cell_id")[["length_s", *counts]].sum()
    assert window.length_s.to_numpy() == pytest.approx(cells.measured_s.to_numpy(), abs=1e-4)
    for count, rate in zip(counts, ("sent_per_s", "processed_per_s"), strict=True):
        assert (window[count] / window.length_s).to_numpy() == pytest.approx(cells[rate].to_numpy(), abs=0.1)


def test_each_pair_of_cells_has_a_gain(run):
    gain, cells = table(run, "gain"), table(run, "cells").set_index("cell_id").processed_per_s
    assert len(gain) == 2
    one = gain.set_index("initiators").loc[1]
    assert one.factor == pytest.approx(cells["i1-t8-r150-p100-v2008"] / cells["i1-t8-r1-p100-v2008"], abs=1e-4)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.id)
def test_pages_latches_and_files_of_a_cell_are_those_that_plain_python_computes(run, cell):
    def of_cell(name):
        found = table(run, name)
        return found[found.cell_id == cell.id]

    spread = of_cell("page_spread").set_index("instance")
    expected = oracle.page_spread(run, cell)
    assert sorted(spread.index) == sorted(expected)
    for instance, numbers in expected.items():
        columns = ["used_dialogs", "pages", "dialogs_per_page_max", "dialogs_sharing_a_page", "handles_sequential"]
        assert tuple(spread.loc[instance, columns]) == numbers
    seen = of_cell("latch_share").query("times_seen > 0").set_index(["instance", "object_name", "wait_type"])
    shares = oracle.latch_share(run, cell)
    assert sorted(seen.index) == sorted(shares)
    for key, (times, share) in shares.items():
        assert seen.loc[key, "times_seen"] == times
        assert seen.loc[key, "share_percent"] == pytest.approx(share, abs=0.006)
    files = of_cell("file_io").set_index(["instance", "file_name"])
    for key, (writes_per_s, stall_ms) in oracle.log_writes(run, cell).items():
        assert files.loc[key, "writes_per_s"] == pytest.approx(writes_per_s, abs=0.001)
        assert files.loc[key, "write_stall_ms_mean"] == pytest.approx(stall_ms, abs=0.001)


def measured_from_ns(run, cell):
    [path] = (run / "raw" / "cells").glob(f"{cell.id}-b1-a1*")
    return pd.read_parquet(path).measured_from_ns[0]


@pytest.fixture(scope="module")
def master():
    """The URL of a master that is reached, and whose executors are those of the Spark that runs."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"spark://127.0.0.1:{server.getsockname()[1]}"


class Counting(NotingReporter):
    """Keeps the tables that were counted, and what was in their folder meanwhile."""

    def __init__(self, folder):
        super().__init__()
        self.folder, self.tables, self.total, self.meanwhile = folder, [], 0, set()
        self.left_s = []

    def begin(self, total, done, left=None, *, unit="cell", every=1):
        assert (done, unit) == (0, "table")
        self.total, self.left = total, left

    def cell_done(self, number, cell, outcome, text):
        self.tables.append(cell)
        self.left.cell_done(number * 2.0, cell)  # as if each table took two seconds
        self.left_s.append(self.left.left_s(self.total - number))
        assert (number, outcome) == (len(self.tables), "completed")
        self.meanwhile.update(os.listdir(self.folder))


@pytest.fixture(scope="module")
def incomplete(tmp_path_factory, spark, master):
    """A run with a retried cell and without some records, and what its reduction by a master reported."""
    cell = CELLS[0]
    run = write_raw(tmp_path_factory.mktemp("incomplete") / "run [1] {a,b}*?", CELLS[:2], scale=40)
    for kind in ("cells", "calls", "receives", "deliveries"):
        for path in (run / "raw" / kind).glob(f"{cell.id}-b1-a1*"):
            path.unlink()
    write_cell(run, cell, 50, attempt=2)
    for kind in ("processors", "waits", "samples", "receives"):
        for path in (run / "raw" / kind).glob(f"{cell.id}-b1-a2*"):
            path.unlink()
    write_journal(run, [(cell.id, 1, "failed"), (cell.id, 2, "completed")])
    # In the other cell messages were counted.
    for kind in ("receives", "deliveries"):
        for path in (run / "raw" / kind).glob(f"{CELLS[1].id}-*"):
            path.unlink()
    slots = {
        "processed_at_ns": [measured_from_ns(run, CELLS[1]) + shift for shift in (-1, 0, NS)],
        "messages": [5, 7, 9],
    }
    records.write(run, "processed", Visit(CELLS[1]), 1, slots)
    latch = ("target", 5, "latch_suspend_end", '{"class": "BUF", "duration": "118", "page_id": "367"}', 8)
    records.write(run, "events", Visit(CELLS[1]), 1, records.columns("events", [latch]))
    left = ("target", "CONVERSING", 40, 0.9, 42)
    records.write(run, "leaks", Visit(CELLS[1]), 1, records.columns("leaks", [left]))
    shutil.rmtree(run / "raw" / "dialog_pages")
    shutil.rmtree(run / "raw" / "file_io")
    reported = Counting(run / "reduced")
    harness.Run(run.as_uri()).reduce(master=master, progress=reported)
    return run, reported


def test_missing_records_leave_empty_tables_and_one_line(incomplete):
    run, reported = incomplete
    assert "empty tables, for which the instances recorded nothing: page_spread, file_io" in reported.notes
    for name in ("page_spread", "file_io"):
        assert table(run, name).empty and "instance" in table(run, name).columns
        assert (run / "reduced" / f"{name}.csv").read_text().startswith('"run_id"')
    assert len(table(run, "latches")) > 0


def test_messages_that_were_counted_have_a_rate_and_a_course_but_no_receives_and_no_latency(incomplete):
    run, _ = incomplete
    row = table(run, "cells").set_index("cell_id").loc[CELLS[1].id]
    assert row.processed_per_s == pytest.approx(7 / row.measured_s, rel=1e-3)
    assert pd.isna(row.receives_in_window) and pd.isna(row.end_to_end_us_p50) and pd.isna(row.end_to_end_negative)
    assert row.latency_us_p50 > 0
    for name, column in (("seconds", "processed"), ("bins", "processed_messages")):
        of_cell = table(run, name)[table(run, name).cell_id == CELLS[1].id]
        assert of_cell[column].sum() == 21, name


def test_a_retry_replaces_the_failed_attempt_and_missing_kinds_leave_nulls(incomplete):
    run, _ = incomplete
    row = table(run, "cells").set_index("cell_id").loc[CELLS[0].id]
    assert row.attempt == 2
    assert row.sent_per_s > 0
    assert pd.isna(row.target_processor_percent) and pd.isna(row.receives_in_window) and pd.isna(row.queue_depth_peak)


def test_events_are_a_table_of_the_run_that_recorded_them(incomplete):
    run, reported = incomplete
    assert sorted(reported.tables) == sorted((*TABLES, "events", "leaks")) and reported.total == len(reported.tables)
    [row] = table(run, "events").itertuples()
    assert (row.run_id, row.cell_id, row.instance, row.event) == (run.name, CELLS[1].id, "target", "latch_suspend_end")
    kept = (row.latch_class, row.events_kept, row.total_duration_us, row.longest_duration_us, row.events_seen)
    assert kept == ("BUF", 1, 118, 118, 8)
    [row] = table(run, "leaks").itertuples()
    assert (row.cell_id, row.instance, row.state, row.conversations) == (CELLS[1].id, "target", "CONVERSING", 40)


def test_the_start_of_spark_is_no_measure_of_the_time_left(incomplete):
    _, reported = incomplete
    assert reported.left_s == [None, *(2.0 * left for left in reversed(range(reported.total - 1)))]


def test_executors_elsewhere_read_and_write_in_the_folder_of_the_run(incomplete):
    run, reported = incomplete
    assert any(name.startswith("harness-reduction-") for name in reported.meanwhile)
    assert {name.partition(".")[0] for name in os.listdir(run / "reduced")} == {*TABLES, "events", "leaks"}


def test_synthetic_reduced_tables_have_the_columns_of_real_ones(run, tmp_path):
    synthetic = write_reduced(tmp_path / "synthetic", CELLS)
    for name in TABLES:
        assert set(table(synthetic, name).columns) == set(table(run, name).columns), name


@pytest.mark.parametrize(
    "kind, text",
    [
        ("samples", r"^the raw records 'samples' cannot be gathered: .+$"),
        ("calls", r"^raw/calls/i1-t8-r1-p100-v2008-b1-a1.*\.parquet cannot be read: .+$"),
    ],
)
def test_records_that_are_damaged_behind_a_whole_footer_are_an_error_of_one_line(tmp_path, spark, kind, text):
    run = write_raw(tmp_path / "run", CELLS[:1], scale=40)
    path = next((run / "raw" / kind).iterdir())
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size // 4))
    with pytest.raises(ResultsError, match=text):
        reduce(run)


@pytest.mark.parametrize(
    "master, kind, text",
    [
        ("lokal", UsageFailure, "--master: invalid Spark master 'lokal'"),
        (
            "spark://127.0.0.1:1",
            SparkUnavailable,
            r"no Spark master answers at spark://127.0.0.1:1 \(Connection refused\)",
        ),
    ],
)
def test_a_master_that_is_none_or_does_not_answer_is_an_error_of_one_line(tmp_path, master, kind, text):
    folder = write_raw(tmp_path / "run", CELLS[:1], scale=40)
    with pytest.raises(kind, match=text):
        harness.Run(folder).reduce(master=master)
    assert not (folder / "reduced").exists()


def test_a_results_folder_that_cannot_be_written_is_an_error_of_one_line(tmp_path):
    run = write_raw(tmp_path / "run", CELLS[:1], scale=40)
    (run / "reduced").write_text("in the way")
    with pytest.raises(NotWritable, match="reduced cannot be written"):
        reduce(run)
