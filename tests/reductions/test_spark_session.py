import os
import sys

import pytest

from harness.reductions import SparkUnavailable, spark_session
from harness.reductions.spark_session import require_java


def java_that_says(folder, text):
    (folder / "bin").mkdir()
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    java.chmod(0o755)
    return folder


def test_no_java_is_an_error_of_one_line_that_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(SparkUnavailable, match=r"^no Java: install Java 17 or later: .*openjdk"):
        require_java()


def test_a_java_home_without_java_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkUnavailable, match=f"no Java in JAVA_HOME={tmp_path}"):
        require_java()


@pytest.mark.parametrize("text, major", [('openjdk version "11.0.2"', "11"), ('java version "1.8.0_391"', "8")])
def test_an_old_java_is_named_with_its_version(monkeypatch, tmp_path, text, major):
    monkeypatch.setenv("JAVA_HOME", str(java_that_says(tmp_path, text)))
    with pytest.raises(SparkUnavailable, match=f"is Java {major}: install Java 17"):
        require_java()


@pytest.mark.parametrize(
    "text", ['openjdk version "17.0.15"', 'openjdk version "21" 2023-09-19', 'java version "25-ea"']
)
def test_a_new_java_will_do(monkeypatch, tmp_path, text):
    monkeypatch.setenv("JAVA_HOME", str(java_that_says(tmp_path, text)))
    require_java()


def test_the_reason_why_spark_does_not_start_is_quoted(tmp_path):
    log = tmp_path / "spark.log"
    log.write_text("26/11/21 WARN MetricsSystem: Stopping a MetricsSystem that is not running\n")
    thrown = "An error occurred.\n: org.apache.spark.SparkException: Could not parse Master URL: 'x'\n\tat org.apache"
    assert spark_session.reason(Exception(thrown), log) == "Could not parse Master URL: 'x'"
    assert spark_session.reason(Exception("no gateway"), log).endswith("that is not running")
    cause = "java.net.UnknownHostException: box: Name or service not known"
    log.write_text(f"Exception in thread main\n\tat org.apache\nCaused by: {cause}\n\tat java.base\n\t... 17 more\n")
    assert spark_session.reason(Exception("no gateway"), log) == f"{cause}: name this machine in /etc/hosts"


@pytest.mark.spark
def test_workers_run_this_interpreter_and_processes_started_later_are_not_told_to(spark):
    assert spark.sparkContext.pythonExec == sys.executable
    assert os.environ.get("PYSPARK_PYTHON") != sys.executable
