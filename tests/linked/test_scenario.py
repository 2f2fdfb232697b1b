"""Linked real processes while everything fails: `make bench` does so for ten minutes."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.linked.networks import separate

pytestmark = [pytest.mark.process, pytest.mark.thorough]


@pytest.mark.parametrize("options", [[], ["--loopback"]], ids=["in namespaces", "on the loopback interface"])
def test_dialogs_of_linked_processes_lose_repeat_and_reorder_nothing_while_everything_fails(options):
    if not options and not separate():
        pytest.skip("network namespaces cannot be had here")
    command = [sys.executable, "-m", "tests.linked.scenario", "--for", "30s", *options]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
