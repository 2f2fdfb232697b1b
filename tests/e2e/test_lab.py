"""`harness lab`: a lab to work with by hand; and the checklist of a first run."""

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pyodbc
import pytest

from tests.processes import Child, children_of, is_alive

pytestmark = pytest.mark.process
CHECKLIST = Path(__file__).parents[2] / "sql" / "server" / "README.md"


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
        password_file = Path(shlex.split(printed[1])[-1])
        assert password_file.stat().st_mode & 0o077 == 0
        password = password_file.read_text()
        assert not any(password in line for line in printed)
        code = next(line for line in printed if line.startswith("pyodbc.connect("))
        connection = eval(code, {"pyodbc": pyodbc, "open": open})
        database, version = connection.execute("SELECT DB_NAME(), SERVERPROPERTY('ProductVersion');").fetchone()
        assert (database, version.partition(".")[0]) == ("SSBTarget", "17")
        connection.close()
        children = children_of(process.pid)
        assert len(children) == 2
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    assert process.returncode == 130
    assert not any(map(is_alive, children))
    assert not password_file.exists()


@pytest.mark.spark
@pytest.mark.thorough
def test_the_first_run_walks_from_the_driver_to_the_report(tmp_path: Path, warm_jvm: dict[str, str]) -> None:
    command = [sys.executable, "-m", "harness", "doctor", "--first-run", "--lab", "embedded"]
    environment = {**warm_jvm, "HARNESS_MEASURE": "500ms", "HARNESS_SETTLE": "1s"}
    done = subprocess.run(
        command, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout.splitlines()
    expected = re.findall(r"^step \d of \d: .*$", CHECKLIST.read_text(encoding="utf-8"), re.MULTILINE)
    assert [line for line in said if line.startswith("step ")] == expected
    assert len([line for line in said if line.startswith("i1-t5-r") and "messages/s processed" in line]) == 2
    [report] = [line.rpartition(" ")[2] for line in said if line.startswith("the report is ")]
    assert (tmp_path / report).stat().st_size > 100_000
    assert said[-1].startswith("No step differs")
