"""Something done on a copy of everything: in a child process, copy on write, whose result comes back by a pipe.

Virtual time and all state that hangs on it are Python objects of one process, so a fork is the copy. What the action
changes stays in the child; what it returns is pickled. The child dies with its parent.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from harness.failures import MachineFailure
from harness.lab.processes import die_with_parent

Result = TypeVar("Result")


class CopyDied(MachineFailure):
    """The child process ended without a result; the message says how."""


def prepare() -> None:
    """Before copies are made: what is there is no garbage, and looking for some would touch, so copy, every page.

    What was kept so before may be garbage by now.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@contextmanager
def preparing() -> Iterator[None]:
    """Around the making of what is to be copied. Its garbage, some hundred objects, is kept with it."""
    was_enabled = gc.isenabled()
    prepare()  # nor need there be room for what was copied before
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if was_enabled:
            gc.enable()


def in_copy(action: Callable[[], Result]) -> Result:
    """What the action returns; raises what it raises, or CopyDied."""
    sys.stdout.flush()
    sys.stderr.flush()
    parent_pid = os.getpid()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _be_the_copy(action, parent_pid, writing)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as pipe:
            answer = pipe.read()
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code or not answer:
        raise CopyDied(_end_of(code))
    is_result, value = pickle.loads(answer)
    if not is_result:
        raise value
    result: Result = value
    return result


def _be_the_copy(action: Callable[[], Any], parent_pid: int, writing: int) -> None:
    """Never returns: nothing of the parent's may run twice, neither its handlers nor its buffers."""
    code = 1
    try:
        die_with_parent(parent_pid)
        gc.disable()  # it is over before garbage could matter
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(_answer(action))
        code = 0
    finally:
        os._exit(code)


def _answer(action: Callable[[], Any]) -> bytes:
    try:
        return pickle.dumps((True, action()))
    except Exception as error:
        error.add_note("".join(traceback.format_exception(error)))  # where it came from stays here
        try:
            answer = pickle.dumps((False, error))
            pickle.loads(answer)
        except Exception:
            error = RuntimeError("".join(traceback.format_exception(error)))
            answer = pickle.dumps((False, error))
        return answer


def _end_of(code: int) -> str:
    if code < 0:
        return f"its process was killed by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code} and without a result"
