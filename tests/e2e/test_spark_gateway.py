"""Spark in a JVM that somebody else started, as spark-submit does it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.definitions.matrix import Cell
from tests.results_fixture import write_raw

pytestmark = [pytest.mark.process, pytest.mark.spark]

TWO_CONTEXTS = """
import sys
from harness.reductions.spark_session import context
for _ in range(2):
    with context("local[1]") as spark:
        assert spark.parallelize([0], 1).map(lambda _: sys.executable).collect() == [sys.executable]
"""


def python(*arguments: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, timeout=300, check=False
    )


def test_it_serves_one_context_after_another_and_is_left_running(gateway: Any, warm_jvm: dict[str, str]) -> None:
    done = python("-c", TWO_CONTEXTS, environment=warm_jvm)
    assert (done.returncode, done.stderr) == (0, "")
    gateway.jvm.JavaSparkContext("local[1]", "another program").stop()


def test_that_it_is_busy_or_gone_is_an_error_of_one_line(
    tmp_path: Path, gateway: Any, warm_jvm: dict[str, str]
) -> None:
    run = str(write_raw(tmp_path / "run", [Cell.parse("i1-t1-r1-p100-v2008")], scale=100))
    other = gateway.jvm.JavaSparkContext("local[1]", "another program")
    try:
        busy = python("-m", "harness", "reduce", run, environment=warm_jvm)
    finally:
        other.stop()
    assert busy.returncode == 3
    assert busy.stderr.splitlines()[-1].startswith(
        "harness: Spark does not start: Only one SparkContext should be running in this JVM"
    )
    gone = python("-m", "harness", "reduce", run, environment=warm_jvm | {"PYSPARK_GATEWAY_PORT": "1"})
    assert gone.returncode == 3
    remedy = "no JVM answers at PYSPARK_GATEWAY_PORT: unset it, and Spark starts one"
    assert gone.stderr.splitlines()[-1] == f"harness: Spark does not start: {remedy}"
