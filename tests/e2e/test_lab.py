"""`harness lab`: a lab to work with by hand."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pyodbc
import pytest

from tests.processes import Child, children_of, is_alive

pytestmark = pytest.mark.process


def test_a_lab_shows_how_to_connect_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with Child(
        [sys.executable, "-m", "harness", "lab", "open", "--lab", "embedded"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        printed = []
        for line in process.stdout:
            printed.append(line.strip())
            if line.startswith("Ctrl-C ends"):
                break
        assert printed[0].startswith("lab: embedded (as selected)"), printed
        password_file = Path(printed[1].split()[-1])
        assert password_file.stat().st_mode & 0o077 == 0
        password = password_file.read_text()
        assert not any(password in line for line in printed)
        code = next(line for line in printed if line.startswith("pyodbc.connect("))
        connection = eval(code, {"pyodbc": pyodbc, "open": open})
        assert connection.execute("SELECT DB_NAME();").fetchval() == "SSBTarget"
        connection.close()
        children = children_of(process.pid)
        assert len(children) == 2
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    assert process.returncode == 130
    assert not any(map(is_alive, children))
    assert not password_file.exists()
