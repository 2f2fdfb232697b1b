"""The helper by which no test waits for ever for a process."""

import signal
import subprocess
import sys

import pytest

from tests.processes import Child

pytestmark = pytest.mark.process
ENDLESS = [sys.executable, "-c", "import signal; signal.pause()"]


def test_a_child_is_killed_when_its_block_is_left() -> None:
    with pytest.raises(AssertionError), Child(ENDLESS) as process:
        raise AssertionError
    assert process.returncode == -signal.SIGKILL


def test_the_output_of_a_silent_child_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Child, "LONGEST_S", 0.1)
    with Child(ENDLESS, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.read() == b""
