import pytest
from pyspark.testing import assertDataFrameEqual

from harness.reductions.instance_activity import counters, file_io, latches

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
    assertDataFrameEqual(latches(raw("latches", rows), attempts).select(*expected.columns), expected)


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
    assertDataFrameEqual(file_io(raw("file_io", [log]), attempts).select(*expected.columns), expected)


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
    assertDataFrameEqual(counters(raw("samples", rows), attempts).select(*expected.columns), expected)
