"""The benchmark of reductions runs once at its smallest size, as `test_benchmarks.py` runs the others."""

import re

import pytest

from tests.benchmarks import reduction

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("warm_spark")]


def test_the_benchmark_of_reductions_measures_at_its_smallest_size(capsys):
    # In this process, whose Spark is warm: a cold one takes most of a minute.
    reduction.main(reduction.SMALLEST)
    printed = capsys.readouterr().out
    assert re.search(r"^2 cells, (.*\n)*reduce +\d+\.\d s (.*\n)*draw +\d+\.\d s ", printed, re.MULTILINE)
