import pytest
from pyspark.testing import assertDataFrameEqual

from harness.reductions import measured_window
from tests.reductions.conftest import CELL, S

pytestmark = pytest.mark.spark
US = 1_000


def test_a_call_belongs_to_the_window_in_which_it_returns(spark, raw, attempts):
    calls = raw(
        "calls",
        [
            {"started_at_ns": 1 * S - 5 * US, "latency_ns": 4 * US},  # returns before the window
            {"started_at_ns": 1 * S - 5 * US, "latency_ns": 5 * US},  # returns with its first nanosecond
            {"started_at_ns": 2 * S, "latency_ns": 7 * US},
            {"started_at_ns": 2 * S, "latency_ns": 9 * US, "succeeded": False},
            {"started_at_ns": 3 * S - 5 * US, "latency_ns": 6 * US},  # returns when the window is over
        ],
    )
    expected = spark.createDataFrame(
        [(CELL.id, 1, 6.0, 6.9, 6.98, 2, 7.0)],
        "cell_id string, attempt int, latency_us_p50 double, latency_us_p95 double, latency_us_p99 double, "
        "calls_in_window long, latency_us_max double",
    )
    assertDataFrameEqual(measured_window.calls_in_window(calls, attempts), expected)


def test_calls_of_an_attempt_that_does_not_count_are_left_out(spark, raw, attempts):
    calls = raw("calls", [{"attempt": 2, "started_at_ns": 2 * S, "latency_ns": 7 * US}])
    assert measured_window.calls_in_window(calls, attempts).isEmpty()


def test_messages_are_processed_when_their_receive_is_counted(spark, raw, attempts):
    receives = raw(
        "receives",
        [
            {"received_at_ns": 1 * S - 1, "messages": 100},
            {"received_at_ns": 1 * S, "messages": 10},
            {"received_at_ns": 3 * S - 1, "messages": 7},
            {"received_at_ns": 3 * S, "messages": 1000},
        ],
    )
    expected = spark.createDataFrame(
        [(CELL.id, 1, 17, 2)], "cell_id string, attempt int, processed_in_window long, receives_in_window long"
    )
    assertDataFrameEqual(measured_window.processed_in_window(receives, attempts), expected)


def test_a_target_that_counted_nothing_in_the_window_processed_zero(spark, raw, attempts):
    receives = raw("receives", [{"received_at_ns": 5 * S, "messages": 100}])
    expected = spark.createDataFrame(
        [(CELL.id, 1, 0, 0)], "cell_id string, attempt int, processed_in_window long, receives_in_window long"
    )
    assertDataFrameEqual(measured_window.processed_in_window(receives, attempts), expected)


def test_end_to_end_is_of_messages_sent_in_the_window_and_keeps_negatives(spark, raw, attempts):
    deliveries = raw(
        "deliveries",
        [
            {"sent_at_ns": 1 * S - 1, "processed_at_ns": 2 * S},
            {"sent_at_ns": 2 * S, "processed_at_ns": 2 * S + 30 * US},
            {"sent_at_ns": 2 * S, "processed_at_ns": 2 * S - 10 * US},  # the target's clock is behind
            {"sent_at_ns": 3 * S - 1, "processed_at_ns": 3 * S - 1 + 50 * US},  # processed after the window
        ],
    )
    expected = spark.createDataFrame(
        [(CELL.id, 1, 30.0, 48.0, 49.6, 1)],
        "cell_id string, attempt int, end_to_end_us_p50 double, end_to_end_us_p95 double, end_to_end_us_p99 double, "
        "end_to_end_negative long",
    )
    assertDataFrameEqual(measured_window.end_to_end(deliveries, attempts), expected)


def test_processor_use_is_of_all_processors_that_an_instance_had(spark, raw, attempts):
    processors = raw(
        "processors",
        [
            {"instance": "target", "window_ns": 2 * S, "processor_time_ms": 1000, "processors": 2},
            {"instance": "initiator-1", "window_ns": 2 * S, "processor_time_ms": 2000, "processors": 2},
            {"instance": "initiator-2", "window_ns": 2 * S, "processor_time_ms": 1000, "processors": 2},
        ],
    )
    expected = spark.createDataFrame(
        [(CELL.id, 1, 37.5, 25.0)],
        "cell_id string, attempt int, initiator_processor_percent double, target_processor_percent double",
    )
    assertDataFrameEqual(measured_window.processor_use(processors, attempts), expected)


def test_processors_of_an_attempt_that_does_not_count_are_left_out_and_no_processor_is_null(raw, attempts):
    none = {"instance": "target", "window_ns": 2 * S, "processor_time_ms": 1000, "processors": 0}
    (row,) = measured_window.processor_use(raw("processors", [none, none | {"attempt": 2}]), attempts).collect()
    assert (row.attempt, row.target_processor_percent) == (1, None)
