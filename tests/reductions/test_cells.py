import pytest
from pyspark.testing import assertDataFrameEqual

from harness.reductions.cells import MACHINE, WORKERS, cells, completed_attempts, gain
from harness.reductions.message_records import MEASURES
from tests.reductions.conftest import COMPLETED, S

pytestmark = pytest.mark.spark


def counting(raw, rows):
    return completed_attempts(raw("cells", rows)).select("attempt")


def expect(spark, *numbers):
    return spark.createDataFrame([(number,) for number in numbers], "attempt int")


def test_the_latest_completed_attempt_counts(spark, raw):
    rows = [COMPLETED | {"attempt": 1}, COMPLETED | {"attempt": 2}]
    assertDataFrameEqual(counting(raw, rows), expect(spark, 2))


def test_each_block_has_its_own_attempt_that_counts(spark, raw):
    rows = [COMPLETED | {"block": 1, "attempt": 2}, COMPLETED | {"block": 2, "attempt": 1}]
    assertDataFrameEqual(counting(raw, rows), expect(spark, 2, 1))


def test_a_failed_attempt_does_not_count(spark, raw):
    rows = [COMPLETED | {"attempt": 1, "outcome": "failed"}, COMPLETED | {"attempt": 2}]
    assertDataFrameEqual(counting(raw, rows), expect(spark, 2))
    assertDataFrameEqual(counting(raw, rows[:1]), expect(spark))


def test_an_attempt_without_a_measured_window_does_not_count(spark, raw):
    assertDataFrameEqual(counting(raw, [COMPLETED | {"measured_to_ns": COMPLETED["measured_from_ns"]}]), expect(spark))


@pytest.fixture
def cell(spark, raw):
    """Return the row of an attempt that lasts from 10 s to 13.5 s, with a window of 2 s."""

    def row(**moments):
        later = {name: moment + 10 * S for name, moment in COMPLETED.items() if name.endswith("_ns")}
        attempts = completed_attempts(raw("cells", [COMPLETED | later | {"processed_messages": 7} | moments]))

        def part(columns):
            return spark.createDataFrame([], "cell_id string, block int, attempt int, " + columns)

        (found,) = cells(
            attempts,
            measures=part(", ".join(f"{name} double" for name in MEASURES)),
            processors=part("initiator_processor_percent double, target_processor_percent double"),
            peaks=part("queue_depth_peak long, transmission_queue_depth_peak long"),
            top_waits=part("initiator_top_waits string, target_top_waits string"),
            health=part(", ".join(f"{name} double" for name in WORKERS)),
            machine=part(", ".join(f"{name} double" for name in MACHINE)),
            growth=part("growth_bytes long"),
        ).collect()
        return found

    return row


def test_a_cell_has_the_lengths_of_its_phases_and_the_rate_until_drained(cell):
    row = cell()
    assert (row.settle_s, row.load_s, row.drain_s, row.until_drained_per_s) == (1.0, 3.0, 0.5, 2.0)
    assert row.total_threads == 2


def test_a_cell_keeps_the_state_and_the_figures_of_its_record(cell):
    row = cell(state="behind", state_reason="why", readers_at_begin=1, readers_at_end=2)
    assert (row.state, row.state_reason, row.settled) == ("behind", "why", True)
    assert (row.readers_at_begin, row.readers_at_end, row.late_samples) == (1, 2, 0)
    assert (row.worker_processor_percent_max, row.steal_percent, row.growth_bytes) == (None, None, None)


def test_a_cell_that_took_no_time_has_no_rate_until_drained(cell):
    assert cell(drained_at_ns=10 * S).until_drained_per_s is None


CELLS = (
    "block int, server_version string, initiators int, threads int, payload_bytes int, "
    "total_threads int, dialog_ratio int, state string, processed_per_s double, sent_per_s double, "
    "until_drained_per_s double"
)


def gained(threads, ratio, processed, *, sent=100.0, version="2008", state="valid", block=1):
    return (block, version, 3, threads, 100, 3 * threads, ratio, state, processed, sent, processed + 10)


def test_a_pair_gives_the_factor_and_the_gain_in_percent(spark):
    cells = spark.createDataFrame(
        [
            gained(10, 1, 1000.0),
            gained(10, 150, 4150.0, sent=200.0),
            gained(20, 150, 9.0),  # has no partner
            gained(30, 1, 5.0, version="2005"),  # its partner is of another version
            gained(30, 150, 5.0),
            gained(40, 1, 0.0),  # no ratio to nothing
            gained(40, 150, 7.0),
            gained(45, 1, 1.0, sent=0.0),  # no factor of messages sent
            gained(45, 150, 2.0),
            gained(50, 1, 100.0),  # slower is a negative gain
            gained(50, 150, 90.0, state="unsettled"),
            gained(50, 50, 60.0),  # another dialog ratio is another pair
            gained(50, 1, 200.0, block=2),  # and so is another block
            gained(50, 150, 300.0, block=2),
            gained(10, 150, 1.0, block=2),  # its partner is of another block
        ],
        CELLS,
    )
    expected = spark.createDataFrame(
        [
            (1, 150, 30, 1000.0, 4150.0, 4.15, 315.0, 2.0, 4.1188, True),
            (1, 150, 135, 1.0, 2.0, 2.0, 100.0, None, 1.0909, True),
            (1, 150, 150, 100.0, 90.0, 0.9, -10.0, 1.0, 0.9091, False),
            (1, 50, 150, 100.0, 60.0, 0.6, -40.0, 1.0, 0.6364, True),
            (2, 150, 150, 200.0, 300.0, 1.5, 50.0, 1.0, 1.4762, True),
        ],
        "block int, dialog_ratio int, total_threads int, processed_per_s_ratio_1 double, processed_per_s double, factor double, "
        "gain_percent double, sent_factor double, until_drained_factor double, valid boolean",
    )
    assertDataFrameEqual(gain(cells).select(*expected.columns), expected)
