"""What is told of a job of Spark that failed."""

import pytest

from harness.reductions import spark_failures

JOB = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, most recent \
failure: Lost task 0.0 in stage 0.0 (TID 0) (127.0.0.1 executor 0): """
NO_HARNESS = """org.apache.spark.SparkException:
Error from python worker:
  /usr/bin/python3: Error while finding module specification for 'harness.simulation.spark_job' \
(ModuleNotFoundError: No module named 'harness')
PYTHONPATH was:
  /opt/spark/python/lib/pyspark.zip:/opt/spark/python/lib/py4j-0.10.9.9-src.zip
org.apache.spark.SparkException: EOFException occurred while reading the port number from harness.simulation.spark_job's stdout.
\tat org.apache.spark.errors.SparkCoreErrors$.eofExceptionWhileReadPortNumberError(SparkCoreErrors.scala:55)
"""
NO_PYTHON = """java.io.IOException: Cannot run program "python3.11": error=2, No such file or directory
\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)
"""


@pytest.mark.parametrize(
    "thrown, expected",
    [
        (NO_HARNESS, NO_HARNESS.splitlines()[2].strip()),
        (NO_PYTHON, 'java.io.IOException: Cannot run program "python3.11": error=2, No such file or directory'),
    ],
    ids=["without the harness", "without this Python"],
)
def test_why_pythons_of_a_cluster_fail_is_their_own_line_with_a_remedy(thrown: str, expected: str) -> None:
    reason = spark_failures.why_broken(Exception(JOB + thrown))
    assert reason == expected
    assert spark_failures.remedy(reason)
