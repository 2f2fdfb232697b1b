"""Cells and a table on Spark's standalone master and two workers, whose Python has no packages."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark import SparkContext

from harness.definitions.matrix import Cell, Visit
from harness.definitions.measures import COLUMNS_READ
from harness.files.journal import Entry
from harness.files.settings import SimulationSettings
from harness.reductions import gather, message_records, packages, raw_files, read_raw, spark_session
from harness.reductions.cells import completed_attempts
from harness.reductions.spark_session import context, session
from harness.run import in_process
from harness.run.attempt import CellFailed, Measured
from harness.run.phases import Phases
from harness.simulation import parameters, spark_job
from harness.simulation.simulated_cell import WorldSize
from harness.simulation.spark_job import Experiment, MakeTestbed, PlannedAttempt
from tests.reductions import oracle
from tests.results_fixture import write_raw

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.thorough]
CELLS = [Cell.parse("i1-t2-r1-p100-v2008"), Cell.parse("i1-t2-r1-p100-v2017")]
# An executor of this test lives for some seconds.
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"


@pytest.fixture
def master(gateway: Any, warm_jvm: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a master with two workers in the warm JVM, in which the driver runs too; executors are processes."""
    jvm, spark = gateway.jvm, gateway.jvm.org.apache.spark
    bare = tmp_path / "bin"
    bare.mkdir()
    (bare / spark_session.EXECUTOR_PYTHON).symlink_to(sys._base_executable)  # type: ignore[attr-defined]
    # As in spark-defaults.conf.
    defaults = {
        "spark.executorEnv.PATH": f"{bare}:{os.environ['PATH']}",
        "spark.executor.extraJavaOptions": BRIEF,
        "spark.executor.memory": "512m",
    }
    for name, value in defaults.items():
        jvm.System.setProperty(name, value)
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):
        monkeypatch.setenv(name, warm_jvm[name])
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(SparkContext, "_jvm", None)
    spark.util.Utils.setCustomHostname("127.0.0.1")
    folders = Path(pyspark.__file__).with_name("work")  # workers keep there what travelled, 630 MB
    before = set(folders.glob("*"))
    cluster = spark.deploy.LocalSparkCluster.apply(2, 1, 512, spark.SparkConf(False))
    try:
        yield cluster.start()[0]
    finally:
        cluster.stop()
        for folder in set(folders.glob("*")) - before:
            shutil.rmtree(folder, ignore_errors=True)
        for name in defaults:
            jvm.System.clearProperty(name)


def worlds() -> MakeTestbed:
    """Worlds whose cells fail with the place of the harness that runs them. Pickled by value, as workers have no tests."""

    class Failing(in_process.Testbed[Visit]):
        def __init__(self, experiment: Experiment) -> None: ...

        def run(self, cell: Visit, attempt: int, run: int, phases: Phases) -> Measured:
            raise CellFailed(sys.modules["harness"].__file__)

    return Failing


def test_executors_of_a_cluster_import_what_travels_and_reduce_what_lies_in_a_shared_folder(
    tmp_path: Path, master: str
) -> None:
    run = write_raw(tmp_path / "run [1]", CELLS[:1], scale=2)
    experiment = Experiment(SimulationSettings(), parameters.read("paper"), run, WorldSize(((1, 100),), 1))
    entries: list[Entry] = []
    files = raw_files.read(run).files
    folder = gather("cells", files, tmp_path)
    with context(master, spark_job.SPARK):
        attempts = [PlannedAttempt(Visit(cell), 1, 1.0) for cell in CELLS]
        spark_job.run(experiment, attempts, master=master, make_testbed=worlds(), on_entry=entries.append)
        # One table: all of them would cost three times the processor time.
        with session(master) as spark:
            attempts = completed_attempts(read_raw(spark, "cells", folder))
            by_attempt = {kind: {0: list(files[kind])} for kind in COLUMNS_READ}
            [row] = message_records.measures(message_records.summaries(attempts, by_attempt)).collect()
    assert len(entries) == 2
    assert all(entry.reason.endswith(f"/{packages.NAME}/harness/__init__.py") for entry in entries)
    expected = oracle.cell_numbers(run, CELLS[0])
    for name in ("latency_us_p50", "latency_us_p95", "end_to_end_us_p50", "end_to_end_us_p95"):
        assert row[name] == pytest.approx(expected[name], abs=0.006), name
