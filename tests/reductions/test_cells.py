import pytest

from harness.reductions.attempts import completed_attempts
from harness.reductions.cells import cells
from tests.reductions.conftest import COMPLETED, S

pytestmark = pytest.mark.spark


@pytest.fixture
def cell(spark, raw):
    """Return the row of an attempt that lasts from 10 s to 13.5 s, with a window of 2 s, and these counts."""

    def row(*, calls=None, processed=None, **moments):
        later = {name: moment + 10 * S for name, moment in COMPLETED.items() if name.endswith("_ns")}
        attempts = completed_attempts(raw("cells", [COMPLETED | later | {"processed_messages": 7} | moments]))

        def part(columns, *values):
            keys = attempts.select("cell_id", "attempt").first()
            schema = "cell_id string, attempt int, " + columns
            return spark.createDataFrame([] if values == (None,) else [(*keys, *values)], schema)

        latencies = ", ".join(f"latency_us_{name} double" for name in ("p50", "p95", "p99", "max"))
        ends = "end_to_end_us_p50 double, end_to_end_us_p95 double, end_to_end_us_p99 double, end_to_end_negative long"
        (found,) = cells(
            attempts,
            calls=part(
                f"calls_in_window long, {latencies}", *([None] if calls is None else [calls, 1.0, 2.0, 3.0, 4.0])
            ),
            processed=part(
                "processed_in_window long, receives_in_window long", *([None] if processed is None else [processed, 2])
            ),
            end_to_end=part(ends, None),
            processors=part("initiator_processor_percent double, target_processor_percent double", None),
            peaks=part("queue_depth_peak long, transmission_queue_depth_peak long", None),
            top_waits=part("initiator_top_waits string, target_top_waits string", None),
        ).collect()
        return found

    return row


def test_rates_are_counts_by_the_seconds_of_the_window(cell):
    row = cell(calls=5, processed=3)
    assert (row.sent_per_s, row.processed_per_s, row.until_drained_per_s) == (2.5, 1.5, 2.0)
    assert (row.settle_s, row.measured_s, row.load_s, row.drain_s) == (1.0, 2.0, 3.0, 0.5)
    assert (row.total_threads, row.calls_in_window, row.receives_in_window) == (2, 5, 2)


@pytest.mark.parametrize("processed, kept_up", [(9, True), (8, False), (None, False)])
def test_a_target_that_processes_nine_tenths_of_what_is_sent_keeps_up(cell, processed, kept_up):
    row = cell(calls=10, processed=processed)
    assert row.target_kept_up is kept_up
    assert row.processed_per_s == (processed or 0) / 2


def test_a_cell_without_calls_in_the_window_sent_nothing(cell):
    row = cell(processed=3)
    assert (row.sent_per_s, row.calls_in_window, row.target_kept_up, row.latency_us_p50) == (0, 0, True, None)


def test_a_cell_that_took_no_time_has_no_rate_until_drained(cell):
    assert cell(calls=1, processed=1, drained_at_ns=10 * S).until_drained_per_s is None
