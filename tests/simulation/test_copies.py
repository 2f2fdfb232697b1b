"""Copies of a process."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
import weakref

import pytest

from harness.simulation.copies import CopyDied, in_copy, preparing
from harness.sweep.attempt import CellFailed

STATE = [1]


class World:
    """As those that are copied: only a search for garbage frees it."""

    def __init__(self) -> None:
        self.itself = self


PARENT = """
import os, time
from harness.simulation.copies import in_copy

def linger():
    print(os.getpid(), flush=True)
    time.sleep(60)

in_copy(linger)
"""


def test_what_a_copy_changes_stays_in_it() -> None:
    def change() -> list[int]:
        STATE.append(2)
        return STATE

    assert in_copy(change) == [1, 2]
    assert STATE == [1]


def test_what_a_copy_raises_is_raised_here() -> None:
    def fail() -> None:
        raise CellFailed("for a reason")

    with pytest.raises(CellFailed, match="for a reason"):
        in_copy(fail)


def test_an_error_that_cannot_travel_is_told_in_words() -> None:
    class Local(Exception):
        pass

    def fail() -> None:
        raise Local("only here")

    with pytest.raises(RuntimeError, match="only here"):
        in_copy(fail)


def test_a_copy_that_is_killed_says_so() -> None:
    with pytest.raises(CopyDied, match="killed by SIGKILL"):
        in_copy(lambda: os.kill(os.getpid(), signal.SIGKILL))


def test_a_copy_dies_with_its_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        copy_pid = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 5
    while _is_running(copy_pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone before it is opened, or before it is read
        return False


def test_garbage_is_collected_again_after_preparing_also_where_it_fails() -> None:
    assert gc.isenabled()
    with preparing():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), preparing():
        raise ZeroDivisionError
    assert gc.isenabled()
    gc.unfreeze()


def test_what_was_kept_for_copies_and_is_needed_no_more_is_freed_before_the_next_is_made() -> None:
    with preparing():
        world = World()
    kept = weakref.ref(world)
    gc.collect()
    assert kept() is not None
    del world
    with preparing():
        assert kept() is None
    gc.unfreeze()


def test_an_error_tells_where_in_the_copy_it_came_from() -> None:
    def break_here() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no") as failure:
        in_copy(break_here)
    assert "in break_here" in failure.value.__notes__[0]
