import pytest
from pyspark.testing import assertDataFrameEqual

from harness.reductions import wait_times
from tests.reductions.conftest import CELL

pytestmark = pytest.mark.spark


def wait(instance, wait_type, wait_time_ms, waiting_tasks=1):
    return {
        "instance": instance,
        "wait_type": wait_type,
        "waiting_tasks": waiting_tasks,
        "wait_time_ms": wait_time_ms,
        "signal_wait_time_ms": 0,
    }


ROWS = [
    wait("target", "WRITELOG", 30),
    wait("target", "BROKER_RECEIVE_WAITFOR", 9000),  # a reader with nothing to do
    wait("target", "SLEEP_TASK", 9000),
    wait("target", "LCK_M_X", 0, waiting_tasks=0),  # nobody waited
    wait("initiator-1", "PAGELATCH_EX", 200),
    wait("initiator-2", "PAGELATCH_EX", 100),
    wait("initiator-1", "WRITELOG", 100),
]


def test_waits_are_summed_by_role_and_ranked_and_idle_ones_left_out(spark, raw, attempts):
    actual = wait_times.waits(raw("waits", ROWS), attempts).select(
        "role", "place", "wait_type", "wait_time_ms", "share_percent"
    )
    expected = spark.createDataFrame(
        [
            ("initiator", 1, "PAGELATCH_EX", 300, 75.0),
            ("initiator", 2, "WRITELOG", 100, 25.0),
            ("target", 1, "WRITELOG", 30, 100.0),
        ],
        "role string, place int, wait_type string, wait_time_ms long, share_percent double",
    )
    assertDataFrameEqual(actual, expected)


def test_a_wait_without_time_or_without_tasks_is_kept(raw, attempts):
    rows = [wait("target", "SHORT", 0), wait("target", "BEGUN_EARLIER", 5, waiting_tasks=0)]
    assert {row.wait_type for row in wait_times.waits(raw("waits", rows), attempts).collect()} == {
        "SHORT",
        "BEGUN_EARLIER",
    }


def test_only_the_longest_are_kept(raw, attempts):
    rows = [wait("target", f"WAIT_{number:02}", number) for number in range(1, 31)]
    kept = wait_times.waits(raw("waits", rows), attempts)
    assert sorted(row.wait_time_ms for row in kept.collect()) == list(range(21, 31))


def test_what_the_paper_names_is_kept_whatever_its_place_and_shares_are_of_all_waiting(raw, attempts):
    others = [wait("target", f"WAIT_{number:02}", 100) for number in range(1, 13)]
    named = [wait("target", "WRITELOG", 30), wait("target", "PAGELATCH_EX", 20), wait("target", "PAGELATCH_SH", 10)]
    kept = {row.wait_type: row for row in wait_times.waits(raw("waits", [*others, *named]), attempts).collect()}
    assert len(kept) == 10 + len(named)
    assert [(kept[each["wait_type"]].place, kept[each["wait_type"]].share_percent) for each in named] == [
        (13, 2.38),
        (14, 1.59),
        (15, 0.79),
    ]


def test_the_top_waits_of_a_cell_are_named_in_order(spark, raw, attempts):
    expected = spark.createDataFrame(
        [(CELL.id, 1, "PAGELATCH_EX 300 ms; WRITELOG 100 ms", "WRITELOG 30 ms")],
        "cell_id string, attempt int, initiator_top_waits string, target_top_waits string",
    )
    assertDataFrameEqual(wait_times.top_waits(wait_times.waits(raw("waits", ROWS), attempts)), expected)


def test_at_most_three_waits_are_named_and_none_without_time(raw, attempts):
    rows = [wait("target", f"WAIT_{number}", 10 * number) for number in range(5)]
    rows += [wait("initiator-1", "WRITELOG", 5), wait("initiator-1", "LCK_M_X", 0)]
    (row,) = wait_times.top_waits(wait_times.waits(raw("waits", rows), attempts)).collect()
    assert row.target_top_waits == "WAIT_4 40 ms; WAIT_3 30 ms; WAIT_2 20 ms"
    assert row.initiator_top_waits == "WRITELOG 5 ms"
