"""Every benchmark runs once at its smallest size, so that none of them rots. The figures of such a run mean nothing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks import reduction
from tests.benchmarks.__main__ import BENCHMARKS

ROOT = Path(__file__).parents[2]
# What each prints when it has measured something.
MEASURED = {
    "attack": r"^     3 batches: 0 succeeded, \d+ s\n     3 packets: 0 succeeded, \d+ s$",
    "inference": r"^  equal sides, 5 blocks: excluded in \d+\.\d % \(at most 7 %: kept\)\n(.*\n)*compare --fail-over 5%, ",
    "client": r"^ +2 +[1-9]\d* +[1-9]\d* +\d+\.\d\d +one run, no interval +\d+ ms$",
    "workload_layer": r"^workload layer: \d\.\d{4} times the rate of a constant call, by the processor time of a call \(one run, no",
    "sweep": r"^path: [1-9][\d,]* sent/s, [\d,]+ stored/s .*\n(.*\n)*sweep: overhead per cell median .* 1 cells ",
    "observer": r"^observers: \d+\.\d\d\d times the rate without them \(one run, no interval; 1 block of i1-t1-",
    "stall": r"^stall of 200 ms in 1 s, open loop: p99 \d+\.\d ms without, \d+\.\d ms with it \(goal \d+ ms ± 10 %\)\n.*closed",
    "tds": r"microsoft_exec_max +\d+\.\d µs\n(.*\n)* +2 +[1-9]\d* +[1-9]\d* +\d+\.\d\d$",
    "broker": r"^ +2( +[1-9]\d*){4}$",
    "starvation": r"^ +unread( +\d+\.\d){3} +\d+( +\d+\.\d\d){2} +none +\d+ +\d+\.\d\d +-?\d+\.\d\d +\d+\.\d\d$",
    "simulation": r"^  1 of 1 cells completed, [1-9](.*\n)*2 seeds in \d+ s: all checks hold;",
}


# `test_reduction_benchmark.py` runs that one.
OTHERS = [benchmark for benchmark in BENCHMARKS if benchmark is not reduction]


@pytest.mark.process
@pytest.mark.parametrize("benchmark", OTHERS, ids=lambda benchmark: benchmark.__name__.rpartition(".")[2])
def test_a_benchmark_measures_at_its_smallest_size(benchmark):
    # In its own process, as `make bench` runs it: Locust and processor affinity would change this one.
    statements = f"import {benchmark.__name__} as benchmark; benchmark.main(benchmark.SMALLEST)"
    done = subprocess.run(
        [sys.executable, "-c", statements], cwd=ROOT, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert re.search(MEASURED[benchmark.__name__.rpartition(".")[2]], done.stdout, re.MULTILINE), done.stdout
