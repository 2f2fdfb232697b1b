import pytest
from pyspark.testing import assertDataFrameEqual

from harness.reductions import messages
from harness.reductions.cells import completed_attempts
from harness.reductions.message_records import course
from tests.reductions.conftest import CELL, COMPLETED, S

pytestmark = pytest.mark.spark


def test_calls_of_an_attempt_that_does_not_count_are_left_out(summaries, attempts):
    calls = [{"attempt": 2, "started_at_ns": 2 * S, "latency_ns": 7_000}]
    assert course(summaries(attempts, calls=calls)).isEmpty()


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
        ],
        processed=[{"processed_at_ns": 3 * S + 1, "messages": 7}],
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
    actual = table(attempts, processed=[{"processed_at_ns": 102 * S, "messages": 7}]).collect()
    assert {row.second: row.processed for row in actual} == {0: 0, 1: 0, 2: 7, 3: 0}
