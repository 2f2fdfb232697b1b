import json

import pytest
from pyspark.testing import assertDataFrameEqual

from harness.reductions import instance_activity
from harness.reductions.cells import KEY, completed_attempts
from harness.reductions.instance_activity import waits
from tests.reductions.conftest import CELL, COMPLETED, S

pytestmark = pytest.mark.spark

MIB = 1024 * 1024


def test_a_latch_class_has_its_rates_and_one_without_waits_has_no_row(spark, raw, attempts):
    rows = [
        {"instance": "target", "latch_class": "LOG_MANAGER", "waiting_requests": 5, "wait_time_ms": 3},
        {"instance": "target", "latch_class": "FGCB_ADD_REMOVE", "waiting_requests": 0, "wait_time_ms": 0},
        {"instance": "target", "latch_class": "BUFFER", "waiting_requests": 1, "wait_time_ms": 0},
        {"instance": "target", "latch_class": "ACCESS", "waiting_requests": 0, "wait_time_ms": 1},
    ]
    expected = spark.createDataFrame(
        [
            ("target", "LOG_MANAGER", 5, 3, 2.5, 1.5),
            ("target", "BUFFER", 1, 0, 0.5, 0.0),
            ("target", "ACCESS", 0, 1, 0.0, 0.5),
        ],
        "instance string, latch_class string, waiting_requests long, wait_time_ms long, "
        "waiting_requests_per_s double, wait_ms_per_s double",
    )
    assertDataFrameEqual(instance_activity.latches(raw("latches", rows), attempts).select(*expected.columns), expected)


def test_a_file_has_rates_of_the_window_and_the_mean_stall_of_one_write(spark, raw, attempts):
    # The window is two seconds.
    log = {
        "instance": "initiator-1",
        "database_name": "SSBInitiator1",
        "file_name": "log",
        "file_type": "LOG",
        "writes": 300,
        "bytes_written": 3 * MIB,
        "write_stall_ms": 450,
        "growth_bytes": 64 * MIB,
    }
    expected = spark.createDataFrame(
        [("log", 150.0, 1.5, 1.5, 0.0, 0.0, None, 64 * MIB)],
        "file_name string, writes_per_s double, written_mib_per_s double, write_stall_ms_mean double, "
        "reads_per_s double, read_mib_per_s double, read_stall_ms_mean double, growth_bytes long",
    )
    assertDataFrameEqual(instance_activity.file_io(raw("file_io", [log]), attempts).select(*expected.columns), expected)


def test_a_counter_has_its_change_between_the_samples_of_the_window_and_its_mean(spark, raw, attempts):
    def sample(at_s: float, label: str, value: float, metric: str = "counter") -> dict[str, object]:
        moment = int(at_s * 1_000_000_000)
        return {"instance": "target", "sampled_at_ns": moment, "metric": metric, "label": label, "value": value}

    rows = [
        sample(0.5, "SQL SENDs/sec", 1),  # before the window, [1 s, 3 s)
        sample(1.0, "SQL SENDs/sec", 100),
        sample(2.5, "SQL SENDs/sec", 400),
        sample(3.0, "SQL SENDs/sec", 9000),
        sample(2.0, "Tasks Running", 16),
        sample(2.0, "dbo.q", 7, metric="queue_depth"),
    ]
    expected = spark.createDataFrame(
        [("SQL SENDs/sec", 2, 250.0, 300.0, 200.0), ("Tasks Running", 1, 16.0, None, None)],
        "counter string, samples int, mean double, change double, change_per_s double",
    )
    assertDataFrameEqual(instance_activity.counters(raw("samples", rows), attempts).select(*expected.columns), expected)


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
        [(CELL.id, 1, 1, 37.5, 25.0)],
        "cell_id string, block int, attempt int, initiator_processor_percent double, target_processor_percent double",
    )
    assertDataFrameEqual(instance_activity.processor_use(processors, attempts), expected)


def test_processors_of_an_attempt_that_does_not_count_are_left_out_and_no_processor_is_null(raw, attempts):
    none = {"instance": "target", "window_ns": 2 * S, "processor_time_ms": 1000, "processors": 0}
    (row,) = instance_activity.processor_use(raw("processors", [none, none | {"attempt": 2}]), attempts).collect()
    assert (row.attempt, row.target_processor_percent) == (1, None)


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
    assertDataFrameEqual(
        instance_activity.page_spread(raw("dialog_pages", pages), attempts).select(*expected.columns), expected
    )


def test_handles_that_do_not_ascend_with_the_dialogs_are_not_sequential(spark, raw, attempts):
    pages = [
        dialog(1, 300, 700),
        dialog(2, 301, 10),
        dialog(3, 302, 900),
        dialog(1, 300, 5, "initiator-2"),  # a single dialog has no order
    ]
    expected = spark.createDataFrame([("initiator-1", 3, 3, 1, 0, False), ("initiator-2", 1, 1, 1, 0, None)], SPREAD)
    assertDataFrameEqual(
        instance_activity.page_spread(raw("dialog_pages", pages), attempts).select(*expected.columns), expected
    )


def test_pages_of_the_same_number_in_two_files_are_two_pages(raw, attempts):
    pages = [dialog(1, 300, 1), dialog(2, 300, 2) | {"file_id": 3}]
    (row,) = instance_activity.page_spread(raw("dialog_pages", pages), attempts).collect()
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
    actual = instance_activity.latch_share(raw("latch_waits", waits), raw("samples", samples), attempts)
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
    actual = instance_activity.latch_share(
        raw("latch_waits", [waiting("sys.sysdesend", "PAGELATCH_EX")]), raw("samples", [looks("target", 1)]), attempts
    )
    (row,) = actual.where("instance = 'initiator-1'").collect()
    assert (row.looks, row.times_seen, row.waiting_tasks_mean) == (None, 1, None)


def test_an_index_has_its_share_of_the_time_for_which_tasks_waited_for_pages(spark, raw, attempts):
    def index(instance, name, waits, wait_ms):
        return {
            "instance": instance,
            "object_name": name,
            "index_id": 1,
            "page_latch_waits": waits,
            "page_latch_wait_ms": wait_ms,
        }

    rows = [
        index("initiator-1", "sys.sysdesend", 10, 75),
        index("initiator-1", "sys.sysxmitqueue", 5, 25),
        index("target", "dbo.messageDrop", 0, 0),
    ]
    expected = spark.createDataFrame(
        [("sys.sysdesend", 75.0, 5.0, 7.5), ("sys.sysxmitqueue", 25.0, 2.5, 5.0), ("dbo.messageDrop", None, 0.0, None)],
        "object_name string, page_latch_share_percent double, page_latch_waits_per_s double, "
        "page_latch_wait_ms_mean double",
    )
    assertDataFrameEqual(
        instance_activity.index_waits(raw("index_waits", rows), attempts).select(*expected.columns), expected
    )


def test_the_spinlocks_with_the_most_spins_are_kept_with_their_rates(spark, raw, attempts):
    rows = [
        {
            "instance": "target",
            "spinlock": f"LOCK_{number:02}",
            "collisions": 4,
            "spins": 10 * number,
            "backoffs": number,
        }
        for number in range(1, 13)
    ]
    kept = instance_activity.spinlocks(raw("spinlocks", rows), attempts)
    assert {row.spinlock for row in kept.collect()} == {f"LOCK_{number:02}" for number in range(3, 13)}
    expected = spark.createDataFrame(
        [(1, "LOCK_12", 60.0, 6.0, 30.0)],
        "place int, spinlock string, spins_per_s double, backoffs_per_s double, spins_per_collision double",
    )
    assertDataFrameEqual(kept.where("place = 1").select(*expected.columns), expected)


def test_events_are_counted_by_latch_class_and_their_durations_summed(spark, raw, attempts):
    def event(name, fields, instance="target"):
        return {"instance": instance, "event": name, "fields": json.dumps(fields), "events_seen": 5321}

    latch, started = "latch_suspend_end", "broker_activation_task_started"
    rows = [
        event(latch, {"class": "BUF", "duration": "118", "page_id": "367"}),
        event(latch, {"class": "BUF", "duration": "7"}),
        event(latch, {"class": "LOG_MANAGER", "duration": str(2**64 - 1)}),  # no number of microseconds
        event(latch, {}, "initiator-1"),
        event(started, {"class": "no latch", "duration": "9"}),
    ]
    expected = spark.createDataFrame(
        [
            ("target", latch, "BUF", 2, 125, 118, 5321),
            ("target", latch, "LOG_MANAGER", 1, None, None, 5321),
            ("initiator-1", latch, None, 1, None, None, 5321),
            ("target", started, None, 1, None, None, 5321),
        ],
        "instance string, event string, latch_class string, events_kept long, total_duration_us long, "
        "longest_duration_us long, events_seen long",
    )
    actual = instance_activity.events(raw("events", rows), attempts)
    assertDataFrameEqual(actual.select(*expected.columns), expected)
    assert actual.columns == [*KEY, *expected.columns]


def wait(instance, wait_type, wait_time_ms, waiting_tasks=1):
    return {
        "instance": instance,
        "wait_type": wait_type,
        "waiting_tasks": waiting_tasks,
        "wait_time_ms": wait_time_ms,
        "signal_wait_time_ms": 0,
    }


WAITS = [
    wait("target", "WRITELOG", 30),
    wait("target", "BROKER_RECEIVE_WAITFOR", 9000),  # a reader with nothing to do
    wait("target", "SLEEP_TASK", 9000),
    wait("target", "LCK_M_X", 0, waiting_tasks=0),  # nobody waited
    wait("initiator-1", "PAGELATCH_EX", 200),
    wait("initiator-2", "PAGELATCH_EX", 100),
    wait("initiator-1", "WRITELOG", 100),
]


def test_waits_are_summed_by_role_and_ranked_and_idle_ones_left_out(spark, raw, attempts):
    actual = waits(raw("waits", WAITS), attempts).select("role", "place", "wait_type", "wait_time_ms", "share_percent")
    expected = spark.createDataFrame(
        [
            ("initiator", 1, "PAGELATCH_EX", 300, 75.0),
            ("initiator", 2, "WRITELOG", 100, 25.0),
            ("target", 1, "WRITELOG", 30, 100.0),
        ],
        "role string, place int, wait_type string, wait_time_ms long, share_percent double",
    )
    assertDataFrameEqual(actual, expected)


def test_a_wait_has_its_rates_its_mean_and_how_many_tasks_of_an_instance_wait_at_a_time(spark, raw):
    # The window is two seconds; two initiators have 50 threads each, the target 16 readers.
    rows = [wait(f"initiator-{number}", "PAGELATCH_EX", 20_000, waiting_tasks=4000) for number in (1, 2)]
    rows.append(wait("target", "WRITELOG", 3000, waiting_tasks=1000))
    actual = waits(raw("waits", rows), completed_attempts(raw("cells", [COMPLETED | {"initiators": 2}])))
    expected = spark.createDataFrame(
        [("PAGELATCH_EX", 4000.0, 20_000.0, 5.0, 10.0), ("WRITELOG", 500.0, 1500.0, 3.0, 1.5)],
        "wait_type string, waits_per_s double, wait_ms_per_s double, wait_ms_mean double, waiting_tasks_mean double",
    )
    assertDataFrameEqual(actual.select(*expected.columns), expected)


def test_a_wait_without_time_or_without_tasks_is_kept(raw, attempts):
    rows = [wait("target", "SHORT", 0), wait("target", "BEGUN_EARLIER", 5, waiting_tasks=0)]
    assert {row.wait_type for row in waits(raw("waits", rows), attempts).collect()} == {"SHORT", "BEGUN_EARLIER"}


def test_only_the_longest_are_kept(raw, attempts):
    rows = [wait("target", f"WAIT_{number:02}", number) for number in range(1, 31)]
    kept = waits(raw("waits", rows), attempts)
    assert sorted(row.wait_time_ms for row in kept.collect()) == list(range(21, 31))


def test_what_the_paper_names_is_kept_whatever_its_place_and_shares_are_of_all_waiting(raw, attempts):
    others = [wait("target", f"WAIT_{number:02}", 100) for number in range(1, 13)]
    named = [wait("target", "WRITELOG", 30), wait("target", "PAGELATCH_EX", 20), wait("target", "PAGELATCH_SH", 10)]
    kept = {row.wait_type: row for row in waits(raw("waits", [*others, *named]), attempts).collect()}
    assert len(kept) == 10 + len(named)
    assert [(kept[each["wait_type"]].place, kept[each["wait_type"]].share_percent) for each in named] == [
        (13, 2.38),
        (14, 1.59),
        (15, 0.79),
    ]


def test_the_top_waits_of_a_cell_are_named_in_order(spark, raw, attempts):
    expected = spark.createDataFrame(
        [(CELL.id, 1, 1, "PAGELATCH_EX 300 ms; WRITELOG 100 ms", "WRITELOG 30 ms")],
        "cell_id string, block int, attempt int, initiator_top_waits string, target_top_waits string",
    )
    assertDataFrameEqual(instance_activity.top_waits(waits(raw("waits", WAITS), attempts)), expected)


def test_at_most_three_waits_are_named_and_none_without_time(raw, attempts):
    rows = [wait("target", f"WAIT_{number}", 10 * number) for number in range(5)]
    rows += [wait("initiator-1", "WRITELOG", 5), wait("initiator-1", "LCK_M_X", 0)]
    (row,) = instance_activity.top_waits(waits(raw("waits", rows), attempts)).collect()
    assert row.target_top_waits == "WAIT_4 40 ms; WAIT_3 30 ms; WAIT_2 20 ms"
    assert row.initiator_top_waits == "WRITELOG 5 ms"
