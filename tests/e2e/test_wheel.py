"""The wheel, and what it installs, used in an empty folder; `test_simulate.py` uses it for a whole run."""

import re
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import harness.embedded
from harness.machine.places import CHECKOUT

pytestmark = pytest.mark.process

ONE_CELL = ("--cells", "i1-t1-r1-p100-v2008", "--measure", "200ms", "--settle", "200ms")

YEAR = """
def test_the_version_is_that_of_the_configuration(service_broker):
    version = service_broker.connect().execute("SELECT @@VERSION").fetchval()
    assert "2016" in version


def test_a_database_belongs_to_one_test(service_broker):
    connection = service_broker.connect()
    connection.execute("CREATE DATABASE second")
    names = [row.name for row in connection.execute("SELECT name FROM sys.databases WHERE database_id > 4")]
    assert names == [service_broker.database, "second"]
"""
FAILURES = """
import os, signal
import pytest

SETUP = [
    "CREATE QUEUE q",
    "CREATE SERVICE s ON QUEUE q ([DEFAULT])",
    "CREATE PROCEDURE p AS BEGIN RECEIVE * FROM q; RAISERROR('no such order', 16, 1); END",
    "ALTER QUEUE q WITH ACTIVATION (STATUS = ON, PROCEDURE_NAME = p, MAX_QUEUE_READERS = 1, EXECUTE AS OWNER)",
    "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' WITH ENCRYPTION = OFF; SEND ON CONVERSATION @h",
]

def test_an_answer(service_broker):
    connection = service_broker.connect()
    for statement in SETUP:
        connection.execute(statement)
    service_broker.advance(1)
    assert connection.execute("SELECT COUNT(*) FROM q").fetchval() == 7

def test_the_clock_goes_forward(service_broker):
    with pytest.raises(ValueError):
        service_broker.advance(-1)

def test_its_end(service_broker):
    os.kill(service_broker.instance._process.pid, signal.SIGKILL)
    service_broker.advance(1)
"""


def test_a_wheel_carries_the_scripts_and_the_compose_file(wheel: Path) -> None:
    carried = {name.removeprefix("harness/") for name in zipfile.ZipFile(wheel).namelist()}
    assert CHECKOUT is not None
    scripts = {path.relative_to(CHECKOUT).as_posix() for path in (CHECKOUT / "sql").rglob("*.sql")}
    assert scripts | {"docker-compose.yml", "py.typed"} <= carried
    pages = {Path(name).stem: name for name in carried if "/share/man/man1/" in name}
    assert {"harness", "harness-matrix", "harness-lab-open"} <= pages.keys(), "a page for each command"
    page = zipfile.ZipFile(wheel).read(pages["harness-lab-open"]).decode()
    assert "\n.SH EXIT STATUS\n  0    success\n  1    cells" in page


def test_an_installed_harness_sweeps_in_an_empty_folder(
    installed: Path, run_installed: Callable[..., str], tmp_path: Path
) -> None:
    said = run_installed(installed, "matrix", "--only-sweep", "--lab", "embedded", "--yes", *ONE_CELL, cwd=tmp_path)
    [results] = (tmp_path / "results").iterdir()
    assert len(list((results / "raw" / "cells").iterdir())) == 1
    assert f"results: {Path('results') / results.name}" in said


def test_the_fixture_serves_the_tests_of_another_project_as_its_document_shows(
    installed: Path, run_installed: Callable[..., str], tmp_path: Path
) -> None:
    document = (Path(harness.embedded.__file__).parent / "in-your-tests.md").read_text()
    blocks = dict(re.findall(r"^```(\w+)\n(.*?)^```", document, re.MULTILINE | re.DOTALL))
    (tmp_path / "orders.sql").write_text(blocks["sql"])
    (tmp_path / "test_orders.py").write_text(blocks["python"])
    (tmp_path / "test_year.py").write_text(YEAR)
    (tmp_path / "pytest.ini").write_text("[pytest]\nservice_broker_version = 2016\n")
    assert "4 passed" in run_installed(installed.with_name("python"), "-m", "pytest", "-q", cwd=tmp_path)


def test_a_failed_test_shows_what_an_activated_procedure_raised_and_how_the_instance_ended(
    installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "test_failures.py").write_text(FAILURES)
    command = [installed.with_name("python"), "-m", "pytest", "-q", "--tb=short"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 1 and "2 failed, 1 passed, 1 error" in done.stdout, done.stdout
    assert "The activated proc '[dbo].[p]' running on queue" in done.stdout and "no such order" in done.stdout
    assert "the embedded Service Broker ended with exit code -9; the last line of its log: " in done.stdout
