import pytest
from pyspark.testing import assertDataFrameEqual

from harness.reductions.page_latches import latch_share, page_spread
from tests.reductions.conftest import S

pytestmark = pytest.mark.spark


def dialog(dialog_id, page_id, handle_rank, instance="initiator-1"):
    return {"instance": instance, "dialog_id": dialog_id, "file_id": 1, "page_id": page_id, "handle_rank": handle_rank}


SPREAD = "instance string, used_dialogs long, pages long, dialogs_per_page_max long, dialogs_sharing_a_page long, handles_sequential boolean"


def test_dialogs_with_a_neighbour_on_their_page_share_it(spark, raw, attempts):
    pages = [
        dialog(1, 300, 10),
        dialog(2, 300, 11),
        dialog(3, 300, 12),
        dialog(4, 301, 200),
        dialog(5, 302, 400),
        dialog(6, 302, 401),
    ]
    expected = spark.createDataFrame([("initiator-1", 6, 3, 3, 5, True)], SPREAD)
    assertDataFrameEqual(page_spread(raw("dialog_pages", pages), attempts).select(*expected.columns), expected)


def test_handles_that_do_not_ascend_with_the_dialogs_are_not_sequential(spark, raw, attempts):
    pages = [
        dialog(1, 300, 700),
        dialog(2, 301, 10),
        dialog(3, 302, 900),
        dialog(1, 300, 5, "initiator-2"),  # a single dialog has no order
    ]
    expected = spark.createDataFrame([("initiator-1", 3, 3, 1, 0, False), ("initiator-2", 1, 1, 1, 0, None)], SPREAD)
    assertDataFrameEqual(page_spread(raw("dialog_pages", pages), attempts).select(*expected.columns), expected)


def test_pages_of_the_same_number_in_two_files_are_two_pages(raw, attempts):
    pages = [dialog(1, 300, 1), dialog(2, 300, 2) | {"file_id": 3}]
    (row,) = page_spread(raw("dialog_pages", pages), attempts).collect()
    assert (row.pages, row.dialogs_sharing_a_page) == (2, 0)


def waiting(object_name, wait_type, at_s=2.0, instance="initiator-1", duration_ms=1):
    return {
        "instance": instance,
        "object_name": object_name,
        "wait_type": wait_type,
        "sampled_at_ns": int(at_s * S),
        "wait_duration_ms": duration_ms,
    }


def looks(instance, value):
    return {"instance": instance, "metric": "latch_looks", "value": value, "sampled_at_ns": 2 * S}


def test_shares_are_of_all_waiting_of_an_instance_and_exclusive_is_apart_from_shared(spark, raw, attempts):
    waits = [
        *[waiting("sys.sysdesend", "PAGELATCH_EX", duration_ms=number) for number in range(6)],
        waiting("sys.sysdesend", "PAGELATCH_SH"),
        waiting("", "PAGELATCH_EX"),
        waiting("sys.sysdesend", "PAGELATCH_EX", at_s=0.5),  # before the measured window
        waiting("dbo.messageDrop", "PAGELATCH_EX", instance="target"),
    ]
    samples = [looks("initiator-1", 3), looks("initiator-1", 4), looks("target", 8), looks("initiator-2", 5)]
    actual = latch_share(raw("latch_waits", waits), raw("samples", samples), attempts)
    expected = spark.createDataFrame(
        [
            ("initiator-1", "sys.sysdesend", "PAGELATCH_EX", 4, 6, 75.0, 1.5, 5),
            ("initiator-1", "sys.sysdesend", "PAGELATCH_SH", 4, 1, 12.5, 0.25, 1),
            ("initiator-1", "not resolved", "PAGELATCH_EX", 4, 1, 12.5, 0.25, 1),
            ("target", "dbo.messageDrop", "PAGELATCH_EX", 8, 1, 100.0, 0.125, 1),
            ("initiator-2", None, None, 5, 0, None, 0.0, None),  # sampled five times, and no task waited
        ],
        "instance string, object_name string, wait_type string, looks long, times_seen long, share_percent double, "
        "waiting_tasks_mean double, longest_wait_ms long",
    )
    assertDataFrameEqual(actual.select(*expected.columns), expected)


def test_without_samples_there_is_no_mean(raw, attempts):
    actual = latch_share(
        raw("latch_waits", [waiting("sys.sysdesend", "PAGELATCH_EX")]), raw("samples", [looks("target", 1)]), attempts
    )
    (row,) = actual.where("instance = 'initiator-1'").collect()
    assert (row.looks, row.times_seen, row.waiting_tasks_mean) == (None, 1, None)
