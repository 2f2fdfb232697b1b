import pytest
from pyspark.testing import assertDataFrameEqual

from harness.reductions.cells import gain

pytestmark = pytest.mark.spark

CELLS = (
    "server_version string, initiators int, threads int, payload_bytes int, "
    "total_threads int, dialog_ratio int, target_kept_up boolean, processed_per_s double, sent_per_s double, "
    "until_drained_per_s double"
)


def cell(threads, ratio, processed, *, sent=100.0, version="2008", kept_up=True):
    return (version, 3, threads, 100, 3 * threads, ratio, kept_up, processed, sent, processed + 10)


def test_a_pair_gives_the_factor_and_the_gain_in_percent(spark):
    cells = spark.createDataFrame(
        [
            cell(10, 1, 1000.0),
            cell(10, 150, 4150.0, sent=200.0),
            cell(20, 150, 9.0),  # has no partner
            cell(30, 1, 5.0, version="2005"),  # its partner is of another version
            cell(30, 150, 5.0),
            cell(40, 1, 0.0),  # no ratio to nothing
            cell(40, 150, 7.0),
            cell(45, 1, 1.0, sent=0.0),  # no factor of messages sent
            cell(45, 150, 2.0),
            cell(50, 1, 100.0),  # slower is a negative gain
            cell(50, 150, 90.0, kept_up=False),
        ],
        CELLS,
    )
    expected = spark.createDataFrame(
        [
            (30, 1000.0, 4150.0, 4.15, 315.0, 2.0, 4.1188, True),
            (135, 1.0, 2.0, 2.0, 100.0, None, 1.0909, True),
            (150, 100.0, 90.0, 0.9, -10.0, 1.0, 0.9091, False),
        ],
        "total_threads int, processed_per_s_ratio_1 double, processed_per_s_ratio_150 double, factor double, "
        "gain_percent double, sent_factor double, until_drained_factor double, target_kept_up boolean",
    )
    assertDataFrameEqual(gain(cells).select(*expected.columns), expected)
