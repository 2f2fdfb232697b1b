"""The benchmarks that start Spark run once at their smallest sizes, as `test_benchmarks.py` runs the others.

They run in this process, whose Spark is warm: a cold one takes most of a minute.
"""

import re

import pytest

from tests.benchmarks import reduction, simulation

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("warm_spark")]


def test_the_benchmark_of_reductions_measures_at_its_smallest_size(capsys):
    reduction.main(reduction.SMALLEST)
    printed = capsys.readouterr().out
    assert re.search(r"^2 cells, (.*\n)*reduce +\d+\.\d s (.*\n)*draw +\d+\.\d s ", printed, re.MULTILINE)


def test_the_benchmark_of_virtual_time_measures_at_its_smallest_size(capfd):
    simulation.main(simulation.SMALLEST)
    printed = capfd.readouterr().out
    measured = r"^  1 of 1 cells completed, [1-9](.*\n)*2 seeds in \d+ s: all checks hold;"
    assert re.search(measured, printed, re.MULTILINE), printed
