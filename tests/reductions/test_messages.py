import pytest
from pyspark.testing import assertDataFrameEqual

from harness.reductions import messages
from harness.reductions.cells import completed_attempts
from harness.reductions.message_records import course
from tests.reductions.conftest import CELL, COMPLETED, S

pytestmark = pytest.mark.spark

US = 1_000


COUNTS = (
    "cell_id string, block int, attempt int, calls_in_window long, processed_in_window long, receives_in_window long"
)


def test_a_call_belongs_to_the_window_in_which_it_returns(spark, summaries, attempts):
    calls = [
        {"started_at_ns": 1 * S - 5 * US, "latency_ns": 4 * US},  # returns before the window
        {"started_at_ns": 1 * S - 5 * US, "latency_ns": 5 * US},  # returns with its first nanosecond
        {"started_at_ns": 2 * S, "latency_ns": 7 * US},
        {"started_at_ns": 2 * S, "latency_ns": 9 * US, "succeeded": False},
        {"started_at_ns": 3 * S - 5 * US, "latency_ns": 6 * US},  # returns when the window is over
    ]
    expected = spark.createDataFrame([(CELL.id, 1, 1, 2, 0, None)], COUNTS)
    assertDataFrameEqual(messages.counts(course(summaries(attempts, calls=calls))), expected)


def test_calls_of_an_attempt_that_does_not_count_are_left_out(summaries, attempts):
    calls = [{"attempt": 2, "started_at_ns": 2 * S, "latency_ns": 7 * US}]
    assert course(summaries(attempts, calls=calls)).isEmpty()


def test_messages_are_processed_when_their_receive_is_counted(spark, summaries, attempts):
    receives = [
        {"received_at_ns": 1 * S - 1, "messages": 100},
        {"received_at_ns": 1 * S, "messages": 10},
        {"received_at_ns": 3 * S - 1, "messages": 7},
        {"received_at_ns": 3 * S, "messages": 1000},
    ]
    expected = spark.createDataFrame([(CELL.id, 1, 1, 0, 17, 2)], COUNTS)
    assertDataFrameEqual(messages.counts(course(summaries(attempts, receives=receives))), expected)


def test_a_target_that_counted_nothing_in_the_window_processed_zero(spark, summaries, attempts):
    receives = [{"received_at_ns": 5 * S, "messages": 100}]
    expected = spark.createDataFrame([(CELL.id, 1, 1, 0, 0, 0)], COUNTS)
    assertDataFrameEqual(messages.counts(course(summaries(attempts, receives=receives))), expected)


def test_messages_that_are_counted_have_no_receives(spark, summaries, attempts):
    processed = [{"processed_at_ns": 2 * S, "messages": 30}, {"processed_at_ns": 3 * S, "messages": 5}]
    expected = spark.createDataFrame([(CELL.id, 1, 1, 0, 30, None)], COUNTS)
    assertDataFrameEqual(messages.counts(course(summaries(attempts, processed=processed))), expected)


@pytest.fixture
def table(raw, summaries):
    def make(attempts, *, samples=(), **records):
        depths = messages.depth_by_second(raw("samples", list(samples)), attempts)
        return messages.seconds(attempts, course(summaries(attempts, **records)), depths)

    return make


def test_every_second_until_drained_has_a_row_and_missing_depths_stay_missing(spark, table, attempts):
    actual = table(
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


def test_depths_are_the_deepest_sample_and_initiators_add_up(spark, table, attempts):
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
    actual = table(attempts, samples=samples)
    expected = spark.createDataFrame(
        [(CELL.id, 1, 1, 8, 13)],
        "cell_id string, block int, attempt int, queue_depth_peak long, transmission_queue_depth_peak long",
    )
    assertDataFrameEqual(messages.peaks(actual), expected)


def test_seconds_are_counted_from_the_start_of_the_clients(raw, table):
    later = {name: moment + 100 * S for name, moment in COMPLETED.items() if name.endswith("_ns")}
    attempts = completed_attempts(raw("cells", [COMPLETED | later]))
    actual = table(attempts, receives=[{"received_at_ns": 102 * S, "messages": 7}]).collect()
    assert {row.second: row.processed for row in actual} == {0: 0, 1: 0, 2: 7, 3: 0}
