"""Every benchmark runs once at its smallest size, so that none of them rots. The figures of such a run mean nothing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks import linked, observer, reduction, simulation, stall, sweep
from tests.benchmarks.__main__ import BENCHMARKS

ROOT = Path(__file__).parents[2]
# What each prints when it has measured something.
MEASURED = {
    "activator": r"^activator: [1-9]\d* messages confirmed, 0 lost, 0 processed twice, 0 in queues, 0 processes left, \d+ to ",
    "attack": r"^     3 batches: 0 succeeded, \d+ s\n     3 packets: 0 succeeded, \d+ s$",
    "inference": r"^  equal sides, 5 blocks: excluded in \d+\.\d % \(at most 7 %: kept\)\n(.*\n)*compare --fail-over 5%, ",
    "client": r"^ +2 +[1-9]\d* +[1-9]\d* +\d+\.\d\d +one run, no interval +\d+ ms$",
    "workload_layer": r"^workload layer: \d\.\d{4} times the rate of a constant call, by the processor time of a call \(one run, no",
    "sweep": r"^path: [1-9][\d,]* sent/s, [\d,]+ stored/s .*\n(.*\n)*sweep: overhead per cell median .* 1 cells ",
    "observer": r"^observers: \d+\.\d\d\d times the rate without them \(one run, no interval; 1 block of i1-t1-",
    "monitors": r"^monitors of 3 queues with 30 messages: -?\d+\.\d\d % of a core .*, \d+\.\d\d s from look to look; the first look",
    "stall": r"^stall of 200 ms in 1 s, open loop: p99 nan ms without, nan ms with it \(goal \d+ ms ± 10 %\)\n.*closed",
    "tds": r"microsoft_exec_max +\d+\.\d µs\n(.*\n)* +2 +[1-9]\d* +[1-9]\d* +\d+\.\d\d$",
    "broker": r"^ +2( +[1-9]\d*){4}$",
}
IN_WARM_JVM = (reduction, simulation)  # `test_spark_benchmarks.py` runs these
ON_LAB = (sweep, observer, stall)
OTHERS = [benchmark for benchmark in BENCHMARKS if benchmark not in {*IN_WARM_JVM, *ON_LAB, linked}]  # tests/linked/
pytestmark = pytest.mark.process


def name(benchmark):
    return benchmark.__name__.rpartition(".")[2]


@pytest.mark.usefixtures("warm_clients", "warm_lab")
@pytest.mark.parametrize("benchmark", ON_LAB, ids=name)
def test_a_benchmark_of_a_lab_measures_at_its_smallest_size(benchmark, capsys):
    benchmark.main(benchmark.SMALLEST)
    printed = capsys.readouterr().out
    assert re.search(MEASURED[name(benchmark)], printed, re.MULTILINE), printed


@pytest.mark.parametrize("benchmark", OTHERS, ids=name)
def test_a_benchmark_measures_at_its_smallest_size(benchmark):
    # In its own process, as `make bench` runs it: Locust and processor affinity would change this one.
    statements = f"import {benchmark.__name__} as benchmark; benchmark.main(benchmark.SMALLEST)"
    done = subprocess.run(
        [sys.executable, "-c", statements], cwd=ROOT, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert re.search(MEASURED[name(benchmark)], done.stdout, re.MULTILINE), done.stdout
