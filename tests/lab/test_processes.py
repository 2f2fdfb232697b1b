import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.lab.processes import Child, ChildError, last_line
from tests.waiting import wait_until

pytestmark = pytest.mark.process

SLEEPER = "import sys, time; print('ready', flush=True); sys.stdin.read(); time.sleep(60)"


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def child(tmp_path: Path, code: str) -> Child:
    return Child("sleeper", [sys.executable, "-c", code], log=tmp_path / "sleeper.log", pipe_stdout=True)


def test_a_killed_child_names_its_signal_and_the_last_line_of_its_log(tmp_path: Path) -> None:
    sleeper = child(tmp_path, "import sys; print('all is well', file=sys.stderr); " + SLEEPER)
    assert sleeper.read_line(10) == "ready"
    assert sleeper.death() is None
    os.kill(sleeper.pid, signal.SIGKILL)
    wait_until(lambda: not sleeper.is_alive())
    assert sleeper.death() == (
        f"sleeper (process {sleeper.pid}) was killed by signal 9 (SIGKILL); last line of sleeper.log: all is well"
    )


def test_a_line_that_an_earlier_process_wrote_is_no_last_word_of_this_one(tmp_path: Path) -> None:
    (tmp_path / "sleeper.log").write_text("done\n")
    sleeper = child(tmp_path, SLEEPER)
    assert sleeper.read_line(10) == "ready"
    os.kill(sleeper.pid, signal.SIGKILL)
    wait_until(lambda: not sleeper.is_alive())
    assert sleeper.death() == f"sleeper (process {sleeper.pid}) was killed by signal 9 (SIGKILL)"


def test_a_child_yields_as_much_as_it_is_asked_to(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", SLEEPER]
    with Child("sleeper", arguments, log=tmp_path / "sleeper.log", pipe_stdout=True, niceness=7) as sleeper:
        assert sleeper.read_line(10) == "ready"
        assert os.getpriority(os.PRIO_PROCESS, sleeper.pid) == 7
        group = Path(f"/proc/{sleeper.pid}/autogroup")
        assert not group.exists() or group.read_text().endswith(" nice 7\n")


def test_a_child_that_ends_before_it_is_ready_says_why(tmp_path: Path) -> None:
    with pytest.raises(ChildError, match=r"ended with exit code 1; last line of sleeper.log: no such luck"):
        child(tmp_path, "raise SystemExit('no such luck')").read_line(10)


def test_a_stopped_child_has_not_died(tmp_path: Path) -> None:
    sleeper = child(tmp_path, SLEEPER)
    sleeper.read_line(10)
    sleeper.stop()
    assert not is_running(sleeper.pid)
    assert sleeper.death() is None


def test_a_child_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    stubborn = child(tmp_path, "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPER)
    stubborn.read_line(10)
    stubborn.stop(grace_s=0.2)
    assert not is_running(stubborn.pid)


def test_children_die_with_a_killed_parent(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from harness.lab.processes import Child\n"
        f"child = Child('c', [sys.executable, '-c', 'import time; time.sleep(60)'], log=pathlib.Path({str(tmp_path / 'log')!r}))\n"
        "print(child.pid, flush=True); sys.stdin.read()"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert is_running(pid)
    parent.kill()
    parent.communicate()
    wait_until(lambda: not is_running(pid))


def test_ctrl_c_at_the_terminal_does_not_reach_a_child(tmp_path: Path) -> None:
    with child(tmp_path, SLEEPER) as sleeper:
        assert os.getpgid(sleeper.pid) != os.getpgid(0)


def test_the_last_line_of_a_missing_log_is_empty(tmp_path: Path) -> None:
    assert last_line(tmp_path / "none.log") == ""
