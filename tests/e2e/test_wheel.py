"""The wheel, installed in an environment of its own and used in an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from harness.settings import CHECKOUT

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.timeout(600)]

ONE_CELL = ("--cells", "i1-t1-r1-p100-v2008", "--measure", "200ms", "--settle", "200ms")


def run(*command: str | Path, cwd: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", folder, str(CHECKOUT), cwd=folder)
    [path] = folder.glob("service_broker_harness-*.whl")
    return path


@pytest.fixture(scope="module")
def harness(wheel, tmp_path_factory) -> Path:
    """The command of an environment that has the wheel, and the packages it needs from this one."""
    environment = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", environment, cwd=environment)
    [packages] = environment.glob("lib/python*/site-packages")
    # A folder that a .pth file adds has its own .pth files left alone: the checkout's editable install stays out.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(environment / "bin" / "pip", "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=environment)
    where = run(environment / "bin" / "python", "-c", "import harness; print(harness.__file__)", cwd=environment)
    assert where.startswith(str(environment))
    return environment / "bin" / "harness"


def test_a_wheel_carries_the_scripts_and_the_compose_file(wheel):
    carried = {name.removeprefix("harness/") for name in zipfile.ZipFile(wheel).namelist()}
    assert CHECKOUT is not None
    scripts = {path.relative_to(CHECKOUT).as_posix() for path in (CHECKOUT / "sql").rglob("*.sql")}
    assert scripts | {"docker-compose.yml"} <= carried


def test_an_installed_harness_sweeps_in_an_empty_folder(harness, tmp_path):
    said = run(harness, "matrix", "--only-sweep", "--lab", "embedded", "--yes", *ONE_CELL, cwd=tmp_path)
    [results] = (tmp_path / "results").iterdir()
    assert len(list((results / "raw" / "cells").iterdir())) == 1
    assert f"results: {Path('results') / results.name}" in said


def test_an_installed_harness_simulates_reduces_and_draws_in_an_empty_folder(harness, tmp_path):
    run(harness, "simulate", *ONE_CELL, cwd=tmp_path)
    [results] = (tmp_path / "results").iterdir()
    assert (results / "report.html").is_file()
