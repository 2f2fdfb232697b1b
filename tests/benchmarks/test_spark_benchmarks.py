"""The benchmarks that start Spark run once at their smallest sizes, as `test_benchmarks.py` runs the others.

They run in this process, whose Spark is warm: a cold one takes most of a minute.
"""

import pytest

from tests.benchmarks import reduction, simulation

pytestmark = [pytest.mark.spark, pytest.mark.thorough, pytest.mark.usefixtures("warm_spark")]


def test_the_benchmark_of_reductions_measures_at_its_smallest_size(capsys: pytest.CaptureFixture[str]) -> None:
    reduction.main(reduction.SMALLEST)
    assert "2 cells" in capsys.readouterr().out


def test_the_benchmark_of_virtual_time_measures_at_its_smallest_size(capfd: pytest.CaptureFixture[str]) -> None:
    simulation.main(simulation.SMALLEST)
    assert "all checks hold" in capfd.readouterr().out
