"""A JVM that Spark's contexts of several tests use, one after another, in this process and in others."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from harness.reductions import SparkUnavailable
from harness.reductions.spark_session import jvm_settings, require_java


@contextmanager
def running(scratch: Path) -> Iterator[Any]:
    """Yield the gateway of a JVM as spark-submit starts one for Python programs; skip the test without Java.

    It ends with this process, whose pipe is its standard input.
    """
    try:
        require_java()
    except SparkUnavailable as missing:
        pytest.skip(str(missing))
    own = SparkConf(loadDefaults=False).setAll(list(jvm_settings(scratch).items()))
    with (scratch / "spark.log").open("wb") as log, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")  # where the web pages of a master and its workers listen
        started = launch_gateway(own, {"stdout": log, "stderr": log})
    yield started
    started.proc.stdin.close()
    started.proc.wait(60)


@contextmanager
def contexts_in(gateway: Any) -> Iterator[None]:
    """Let the contexts of this process run in that JVM."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkContext, "_gateway", gateway)
        patch.setattr(SparkContext, "_jvm", gateway.jvm)
        yield
