"""How a run of the Spark job ends: by a signal, and when its JVM dies. Each test starts a JVM of its own."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import children_of, command_line, is_alive
from tests.thorough import one_of_each
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.spark

LONG = """
import os, sys, time
from pathlib import Path
from harness.lab.processes import die_with_parent
from tests.simulation.test_spark_job import fake_world, simulate

def stay(cell):
    parent = os.getpid()
    if not (child := os.fork()):
        die_with_parent(parent)
        (Path(sys_argv_1) / cell.id).touch()
        time.sleep(600)
    os.waitpid(child, 0)

sys_argv_1 = sys.argv[1]
simulate(Path(sys.argv[1]), fake_world(stay))
"""


@pytest.mark.parametrize("number", one_of_each([signal.SIGKILL, signal.SIGINT]), ids=lambda number: number.name)
def test_no_process_survives_a_run(number: signal.Signals, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", LONG, str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,  # an interrupted script says where it was; the verb does not
    )
    try:
        wait_until(lambda: len(list(tmp_path.glob("i1-*"))) == 2)
        children = children_of(process.pid)
        names = [Path(words[0]).name for child in children if (words := command_line(child))]
        assert "java" in names and len([name for name in names if name.startswith("python")]) >= 5
        process.send_signal(number)
        process.wait(120)
        wait_until(lambda: not any(map(is_alive, children)))
    finally:
        process.kill()
        process.wait()


JVM_DIES = """
import os, signal, sys
from pathlib import Path
import psutil
from harness.reductions.spark_session import one_jvm
from tests.simulation.test_spark_job import fake_world, simulate

killed = Path(sys.argv[1]) / "killed"

def die_once(cell):
    if cell.threads == 2 and not killed.exists():
        killed.touch()
        psutil.Process().parent().parent().kill()

with one_jvm():
    outcome = simulate(Path(sys.argv[1]), fake_world(die_once))
assert killed.exists()
print(outcome.completed, "of", outcome.total)
"""


@pytest.mark.thorough
def test_when_sparks_jvm_is_killed_the_run_goes_on_in_another(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", JVM_DIES, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=400,
    )
    assert done.stdout.splitlines()[-1] == "4 of 4"
    # PySpark's accumulator server complains of its connection to the JVM, if it has one by then; nothing of ours does.
    assert "harness" not in done.stderr
