"""The wheel, and what it installs, used in an empty folder; `test_simulate.py` uses it for a whole run."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.machine.places import CHECKOUT

pytestmark = pytest.mark.process

ONE_CELL = ("--cells", "i1-t1-r1-p100-v2008", "--measure", "200ms", "--settle", "200ms")


def test_a_wheel_carries_the_scripts_and_the_compose_file(wheel: Path) -> None:
    carried = {name.removeprefix("harness/") for name in zipfile.ZipFile(wheel).namelist()}
    assert CHECKOUT is not None
    scripts = {path.relative_to(CHECKOUT).as_posix() for path in (CHECKOUT / "sql").rglob("*.sql")}
    assert scripts | {"docker-compose.yml"} <= carried


def test_an_installed_harness_sweeps_in_an_empty_folder(
    installed: Path, run_installed: Callable[..., str], tmp_path: Path
) -> None:
    said = run_installed(installed, "matrix", "--only-sweep", "--lab", "embedded", "--yes", *ONE_CELL, cwd=tmp_path)
    [results] = (tmp_path / "results").iterdir()
    assert len(list((results / "raw" / "cells").iterdir())) == 1
    assert f"results: {Path('results') / results.name}" in said
