import pytest
from pyspark.testing import assertDataFrameEqual

from harness.reductions import messages
from harness.reductions.cells import completed_attempts
from tests.reductions.conftest import CELL, COMPLETED, S

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
        [(CELL.id, 1, 1, None, None, None, 2, 7.0)],
        "cell_id string, block int, attempt int, latency_us_p50 double, latency_us_p95 double, latency_us_p99 double, "
        "calls_in_window long, latency_us_max double",
    )
    assertDataFrameEqual(messages.calls_in_window(calls, attempts), expected)


def test_the_latency_of_an_open_loop_is_that_of_the_calls_due_in_the_window(spark, raw):
    attempts = completed_attempts(raw("cells", [COMPLETED | {"rate_per_s": 2.0, "due_calls": 3, "missed_calls": 1}]))
    calls = raw(
        "calls",
        [
            {"intended_at_ns": 1 * S - 1, "started_at_ns": 1 * S - 1, "latency_ns": 500 * US},  # due before the window
            {"intended_at_ns": 2 * S, "started_at_ns": 2 * S, "latency_ns": 7 * US},
            {"intended_at_ns": 3 * S - 1, "started_at_ns": 3 * S + S, "latency_ns": 2 * S},  # returns long after it
        ]
        * 10,
    )
    (row,) = messages.calls_in_window(calls, attempts).collect()
    assert row.calls_in_window == 20, "the rate counts what returned in the window"
    assert (row.latency_us_p50, row.latency_us_max) == ((7 + 2_000_000) / 2, 2_000_000)


def test_a_percentile_needs_ten_values_beyond_it(spark, raw):
    expected = {
        19: (None, None, None),
        20: (10.5, None, None),
        199: (100, None, None),
        200: (100.5, 190.05, None),
        999: (500, 949.1, None),
        1000: (500.5, 950.05, 990.01),
    }
    # The block of a cell is its number of values.
    attempts = completed_attempts(raw("cells", [COMPLETED | {"block": values} for values in expected]))
    each = [({"block": values}, 2 * S, us * US) for values in expected for us in range(1, values + 1)]
    calls = [block | {"started_at_ns": at_ns, "latency_ns": took_ns} for block, at_ns, took_ns in each]
    deliveries = [block | {"sent_at_ns": at_ns, "processed_at_ns": at_ns + took_ns} for block, at_ns, took_ns in each]
    for prefix, found in (
        ("latency_us", messages.calls_in_window(raw("calls", calls), attempts)),
        ("end_to_end_us", messages.end_to_end(raw("deliveries", deliveries), attempts)),
    ):
        names = [f"{prefix}_{quantile}" for quantile in ("p50", "p95", "p99")]
        assert {row.block: tuple(row[name] for name in names) for row in found.collect()} == expected, prefix


def test_calls_of_an_attempt_that_does_not_count_are_left_out(spark, raw, attempts):
    calls = raw("calls", [{"attempt": 2, "started_at_ns": 2 * S, "latency_ns": 7 * US}])
    assert messages.calls_in_window(calls, attempts).isEmpty()


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
        [(CELL.id, 1, 1, 17, 2)],
        "cell_id string, block int, attempt int, processed_in_window long, receives_in_window long",
    )
    assertDataFrameEqual(messages.processed_in_window(receives, attempts), expected)


def test_a_target_that_counted_nothing_in_the_window_processed_zero(spark, raw, attempts):
    receives = raw("receives", [{"received_at_ns": 5 * S, "messages": 100}])
    expected = spark.createDataFrame(
        [(CELL.id, 1, 1, 0, 0)],
        "cell_id string, block int, attempt int, processed_in_window long, receives_in_window long",
    )
    assertDataFrameEqual(messages.processed_in_window(receives, attempts), expected)


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
        [(CELL.id, 1, 1, None, None, None, 1)],
        "cell_id string, block int, attempt int, end_to_end_us_p50 double, end_to_end_us_p95 double, end_to_end_us_p99 double, "
        "end_to_end_negative long",
    )
    assertDataFrameEqual(messages.end_to_end(deliveries, attempts), expected)


def table(raw, attempts, *, calls=(), receives=(), samples=()):
    return messages.seconds(
        attempts,
        messages.sent_by_second(raw("calls", list(calls)), attempts),
        messages.processed_by_second(raw("receives", list(receives)), attempts),
        messages.depth_by_second(raw("samples", list(samples)), attempts),
    )


def test_every_second_until_drained_has_a_row_and_missing_depths_stay_missing(spark, raw, attempts):
    actual = table(
        raw,
        attempts,
        calls=[
            {"started_at_ns": 0, "latency_ns": S // 2},
            {"started_at_ns": S // 2, "latency_ns": S},  # counted in the second in which it returns
            {"started_at_ns": S, "latency_ns": S // 4, "succeeded": False},
        ],
        receives=[{"received_at_ns": 3 * S + 1, "messages": 7}],
        samples=[{"instance": "target", "metric": "queue_depth", "sampled_at_ns": 2 * S, "value": 5}],
    ).select("cell_id", "second", "sent", "processed", "queue_depth", "transmission_queue_depth")
    expected = spark.createDataFrame(
        [
            (CELL.id, 0, 1, 0, None, None),
            (CELL.id, 1, 1, 0, None, None),
            (CELL.id, 2, 0, 0, 5, None),
            (CELL.id, 3, 0, 7, None, None),
        ],
        "cell_id string, second int, sent long, processed long, queue_depth long, transmission_queue_depth long",
    )
    assertDataFrameEqual(actual, expected)


def test_depths_are_the_deepest_sample_and_initiators_add_up(spark, raw, attempts):
    def sample(instance, metric, at_s, value):
        return {"instance": instance, "metric": metric, "sampled_at_ns": int(at_s * S), "value": value}

    samples = [
        sample("target", "queue_depth", 1.1, 5),
        sample("target", "queue_depth", 1.9, 8),
        sample("target", "transmission_queue_depth", 1.9, 99),  # the target sends nothing that is measured
        sample("initiator-1", "transmission_queue_depth", 1.2, 3),
        sample("initiator-1", "transmission_queue_depth", 1.8, 2),
        sample("initiator-2", "transmission_queue_depth", 1.3, 10),
        sample("initiator-2", "queue_depth", 1.3, 77),
        sample("target", "activated_tasks", 1.3, 4),
    ]
    actual = table(raw, attempts, samples=samples)
    expected = spark.createDataFrame(
        [(CELL.id, 1, 1, 8, 13)],
        "cell_id string, block int, attempt int, queue_depth_peak long, transmission_queue_depth_peak long",
    )
    assertDataFrameEqual(messages.peaks(actual), expected)


def test_seconds_are_counted_from_the_start_of_the_clients(raw):
    later = {name: moment + 100 * S for name, moment in COMPLETED.items() if name.endswith("_ns")}
    attempts = completed_attempts(raw("cells", [COMPLETED | later]))
    actual = table(raw, attempts, receives=[{"received_at_ns": 102 * S, "messages": 7}]).collect()
    assert {row.second: row.processed for row in actual} == {0: 0, 1: 0, 2: 7, 3: 0}
