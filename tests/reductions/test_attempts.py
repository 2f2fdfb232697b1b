import pytest
from pyspark.testing import assertDataFrameEqual

from harness.reductions.attempts import completed_attempts
from tests.reductions.conftest import COMPLETED

pytestmark = pytest.mark.spark


def counting(raw, rows):
    return completed_attempts(raw("cells", rows)).select("attempt")


def expect(spark, *numbers):
    return spark.createDataFrame([(number,) for number in numbers], "attempt int")


def test_the_latest_completed_attempt_counts(spark, raw):
    rows = [COMPLETED | {"attempt": 1}, COMPLETED | {"attempt": 2}]
    assertDataFrameEqual(counting(raw, rows), expect(spark, 2))


def test_a_failed_attempt_does_not_count(spark, raw):
    rows = [COMPLETED | {"attempt": 1, "outcome": "failed"}, COMPLETED | {"attempt": 2}]
    assertDataFrameEqual(counting(raw, rows), expect(spark, 2))
    assertDataFrameEqual(counting(raw, rows[:1]), expect(spark))


def test_an_attempt_without_a_measured_window_does_not_count(spark, raw):
    assertDataFrameEqual(counting(raw, [COMPLETED | {"measured_to_ns": COMPLETED["measured_from_ns"]}]), expect(spark))
