"""Workloads as a user runs them: the package's, and one of his own, right and wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.workload_file import PAPER, PRESETS

pytestmark = pytest.mark.process


def harness(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=500,
        check=False,
    )


@pytest.mark.parametrize("name", sorted({*PRESETS} - {PAPER}))
def test_a_workload_of_the_package_runs(name: str, tmp_path: Path) -> None:
    checked = harness(tmp_path, "workload", "check", name)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "messages sent, each processed once and in order" in checked.stdout
    assert checked.stdout.splitlines()[-1] == f"the workload runs. Next: harness run --workload {name}"


def test_a_workload_of_ones_own_begins_with_one_that_runs(tmp_path: Path) -> None:
    written = harness(tmp_path, "workload", "new", "orders")
    assert (written.returncode, written.stderr) == (0, "")
    assert "next: harness workload check orders" in written.stdout
    again = harness(tmp_path, "workload", "new", "orders")
    assert (again.returncode, again.stderr) == (2, "harness: orders exists: name another folder\n")

    cell = ("--threads", "2", "--lab", "embedded", "--workload", "orders")
    ran = harness(tmp_path, "run", *cell, "--measure", "300ms", "--settle", "200ms")
    assert (ran.returncode, ran.stderr) == (0, "")
    [manifest] = tmp_path.glob("results/*/manifest.json")
    workload = json.loads(manifest.read_text())["settings"]["workload"]
    assert workload["name"] == "orders"
    assert set(workload["digests"]) == {"submit_order.sql", "handle_orders.sql"}


MISTAKES = [
    (
        "submit_order.sql",
        "@body varbinary(max)",
        "@body varbinary(max), @amount int",
        "workload.toml, line 5: dbo.SubmitOrder takes uniqueidentifier, varbinary, int, and clients pass handle "
        "uniqueidentifier, body varbinary",
        2,
    ),
    (
        "workload.toml",
        '"dbo.SubmitOrder"',
        '"dbo.SendOrder"',
        "workload.toml, line 4: no script of the initiator creates dbo.SendOrder",
        2,
    ),
    (
        "handle_orders.sql",
        "SET @messages = @@ROWCOUNT;",
        "SET @message = @@ROWCOUNT;",
        "handle_orders.sql, batch at",
        3,
    ),
    (
        "handle_orders.sql",
        "INSERT INTO dbo.messageDrop",
        "INSERT INTO dbo.orders",
        "Invalid object name 'dbo.orders'",
        3,
    ),
]


@pytest.mark.parametrize("file, old, new, words, code", MISTAKES)
def test_a_mistake_is_one_line(tmp_path: Path, file: str, old: str, new: str, words: str, code: int) -> None:  # noqa: PLR0917
    assert harness(tmp_path, "workload", "new", "orders").returncode == 0
    path = tmp_path / "orders" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    checked = harness(tmp_path, "workload", "check", "orders")
    [line] = checked.stderr.splitlines()
    assert words in line, line
    assert checked.returncode == code
