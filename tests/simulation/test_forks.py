"""Forks of this process."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import pytest

from harness.run.cell_failures import CellFailed
from harness.simulation.forks import ForkDied, frozen_heap, in_fork, in_forks
from tests.processes import Child

pytestmark = pytest.mark.process

STATE = [1]


class World:
    """Freed by collection only, like a simulated world."""

    def __init__(self) -> None:
        self.itself = self


PARENT = """
import os, time
from harness.simulation.forks import in_fork

def linger():
    print(os.getpid(), flush=True)
    time.sleep(60)

in_fork(linger)
"""


def test_changes_of_a_fork_stay_in_it() -> None:
    def change() -> list[int]:
        STATE.append(2)
        return STATE

    assert in_fork(change) == [1, 2]
    assert STATE == [1]


def test_an_error_in_a_fork_is_raised_by_its_parent() -> None:
    def fail() -> None:
        raise CellFailed("for a reason")

    with pytest.raises(CellFailed, match="for a reason"):
        in_fork(fail)


def test_an_error_that_cannot_be_pickled_arrives_as_text() -> None:
    class Local(Exception):
        pass

    def fail() -> None:
        raise Local("only here")

    with pytest.raises(RuntimeError, match="only here"):
        in_fork(fail)


def test_a_killed_fork_is_reported() -> None:
    with pytest.raises(ForkDied, match="killed by SIGKILL"):
        in_fork(lambda: os.kill(os.getpid(), signal.SIGKILL))


def test_a_fork_dies_with_its_parent() -> None:
    with Child([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        fork_pid = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 5
    while _is_running(fork_pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone before it is opened, or before it is read
        return False


def test_collection_is_enabled_again_after_building_even_if_that_fails() -> None:
    assert gc.isenabled()
    with frozen_heap():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), frozen_heap():
        raise ZeroDivisionError
    assert gc.isenabled()
    gc.unfreeze()


def test_a_frozen_world_that_is_no_longer_used_is_freed_before_the_next_is_built() -> None:
    with frozen_heap():
        world = World()
    kept = weakref.ref(world)
    gc.collect()
    assert kept() is not None
    del world
    with frozen_heap():
        assert kept() is None
    gc.unfreeze()


def test_an_error_carries_its_traceback_in_the_fork() -> None:
    def break_here() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no") as failure:
        in_fork(break_here)
    assert "in break_here" in failure.value.__notes__[0]


def test_each_fork_answers_for_its_own_key_and_no_more_run_at_once_than_allowed() -> None:
    started: list[int] = []

    def actions() -> Iterator[tuple[int, Callable[[], int]]]:
        for number in range(5):
            started.append(number)
            yield number, partial(pow, number, 2)

    found = {}
    for ended, (number, fork) in enumerate(in_forks(actions(), at_once=2)):
        assert len(started) - ended <= 2
        found[number] = fork.result()
    assert found == {number: number**2 for number in range(5)}


def test_forks_that_still_run_are_killed_when_their_iterator_is_closed() -> None:
    actions = [("quick", os.getpid), ("slow", partial(time.sleep, 600))]
    with closing(in_forks(actions, at_once=2)) as forks:
        assert next(forks)[0] == "quick"
        assert len(multiprocessing.active_children()) >= 1
    assert not multiprocessing.active_children()


INTERRUPTED_IN_A_FORK = """
import os, signal, threading, time
from harness.simulation.forks import in_fork

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started all of this with SIGINT ignored
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()  # a signal that the main thread blocks goes here
parent = os.getpid()
os.register_at_fork(after_in_parent=lambda: os.kill(parent, signal.SIGINT))
try:
    in_fork(lambda: time.sleep(60))
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_in_the_middle_of_a_fork_is_not_lost_and_ends_the_child() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IN_A_FORK], capture_output=True, text=True, check=True, timeout=50
    )
    assert (done.stdout, done.stderr) == ("interrupted\n", "")
