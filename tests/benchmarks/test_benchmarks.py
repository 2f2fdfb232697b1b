"""Every benchmark runs once at its smallest size, so that none of them rots. The figures of such a run mean nothing."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.benchmarks import linked, observer, reduction, simulation, stall, sweep
from tests.benchmarks.__main__ import BENCHMARKS

ROOT = Path(__file__).parents[2]
IN_WARM_JVM = (reduction, simulation)  # `test_spark_benchmarks.py` runs these
ON_LAB = (sweep, observer, stall)
OTHERS = [benchmark for benchmark in BENCHMARKS if benchmark not in {*IN_WARM_JVM, *ON_LAB, linked}]  # tests/linked/
pytestmark = [pytest.mark.process, pytest.mark.thorough]


def name(benchmark: ModuleType) -> str:
    return benchmark.__name__.rpartition(".")[2]


@pytest.mark.usefixtures("warm_clients", "warm_lab")
@pytest.mark.parametrize("benchmark", ON_LAB, ids=name)
def test_a_benchmark_of_a_lab_measures_at_its_smallest_size(
    benchmark: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark.main(benchmark.SMALLEST)
    assert capsys.readouterr().out


@pytest.mark.parametrize("benchmark", OTHERS, ids=name)
def test_a_benchmark_measures_at_its_smallest_size(benchmark: ModuleType) -> None:
    # In its own process, as `make bench` runs it: Locust and processor affinity would change this one.
    statements = f"import {benchmark.__name__} as benchmark; benchmark.main(benchmark.SMALLEST)"
    done = subprocess.run(
        [sys.executable, "-c", statements], cwd=ROOT, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
