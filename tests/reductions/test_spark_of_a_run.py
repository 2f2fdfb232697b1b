"""A run's tables for Spark, which runs already."""

import pytest

import harness
from harness.definitions.matrix import Cell
from tests.results_fixture import write_journal, write_manifest, write_raw, write_reduced

pytestmark = pytest.mark.spark
CELL = Cell.parse("i1-t2-r150-p100-v2008")


@pytest.fixture
def run(tmp_path):
    """In a folder whose name Spark would take for a pattern."""
    folder = write_reduced(tmp_path / "run [1] {a,b}*?", [CELL])
    write_manifest(folder)
    write_raw(folder, [CELL])
    write_journal(folder, [(CELL.id, 1, "completed")])
    return harness.Run(folder)


@pytest.mark.parametrize("name", ["cells", "raw/calls"])
def test_spark_and_pandas_read_the_same_rows(spark, run, name):
    found = run.spark(name)
    assert found.sparkSession.sparkContext is spark.sparkContext
    expected = run.table(name)
    assert found.columns == list(expected.columns)
    assert found.count() == len(expected) > 0


def test_a_kind_without_records_has_its_columns_and_no_rows(spark, run):
    for path in (run.folder / "raw" / "latches").iterdir():
        path.unlink()
    latches = run.spark("raw/latches")
    assert latches.count() == 0 and "latch_class" in latches.columns
