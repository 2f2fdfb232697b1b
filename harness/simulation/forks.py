"""Run actions in forks of this process, one or several at a time.

Virtual time and all state of a world are Python objects of one process, so a fork of the process is a fork of the
world. What an action changes stays in its child; what it returns or raises comes back through a pipe. Nothing else in
this package starts a process: Spark starts those that compute a run's cells, and each of these forks here for every
cell.

A child dies with its parent, even if that is killed. It ignores Ctrl-C: the parent is interrupted and kills it.
"""

import gc
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Generic, TypeVar

from harness.failures import MachineFailure
from harness.lab.processes import die_with_parent

Key = TypeVar("Key")
Result = TypeVar("Result")

# One for each processor; no more on a larger machine, because each has memory of its own.
AT_ONCE = max(2, min(len(os.sched_getaffinity(0)), 8))
_FORK = get_context("fork")
_HELD = (signal.SIGINT, signal.SIGTERM)


class ForkDied(MachineFailure):
    """A child process ended without a result; the message says how."""


def freeze_heap() -> None:
    """Freeze the heap so that collection does not dirty pages shared with forks.

    What was frozen before is collected first, since it may be garbage by now.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@contextmanager
def frozen_heap() -> Iterator[None]:
    """Build in this block what is to be forked: no collection meanwhile, and a frozen heap afterwards."""
    was_enabled = gc.isenabled()
    freeze_heap()  # frees the memory of what was forked before
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM take effect after the block, which forks.

    In the middle of a fork, Python's own hooks would swallow their exception. To block the signals is not enough:
    another thread would take them, and the exception would come here all the same.
    """
    if threading.current_thread() is not threading.main_thread():  # which alone handles signals
        yield
        return
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in _HELD}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
    for selected in came:
        signal.raise_signal(selected)


class Fork(Generic[Result]):
    """A child process that carries out one action."""

    def __init__(self, action: Callable[[], Result]) -> None:
        self.answers, writing = _FORK.Pipe(duplex=False)  # ready to be read when `result` does not block
        self._process = _FORK.Process(target=_carry_out, args=(action, os.getpid(), writing))
        try:
            with _interrupts_wait():
                self._process.start()
        except KeyboardInterrupt:
            self.close()
            raise
        writing.close()

    def result(self) -> Result:
        """Wait for what the action returns; raise what it raises, or ForkDied."""
        try:
            answer = self.answers.recv_bytes()
        except (EOFError, ConnectionResetError):
            self._process.join()
            raise ForkDied(_how_it_ended(self._process.exitcode or 0)) from None
        self._process.join()
        is_result, value = pickle.loads(answer)
        if not is_result:
            raise value
        result: Result = value
        return result

    def close(self) -> None:
        """Kill the child unless it has ended."""
        self._process.kill()
        self._process.join()
        self.answers.close()


def in_fork(action: Callable[[], Result]) -> Result:
    """Run an action in a fork; return what it returns, raise what it raises, or ForkDied."""
    with closing(Fork(action)) as fork:
        return fork.result()


def in_forks(
    actions: Iterable[tuple[Key, Callable[[], Result]]], *, at_once: int = AT_ONCE
) -> Generator[tuple[Key, Fork[Result]], None, None]:
    """Run actions in forks, so many at a time, and yield each fork when its result is there.

    Close the iterator to kill those that still run.
    """
    waiting = iter(actions)
    running: dict[Connection, tuple[Key, Fork[Result]]] = {}
    try:
        while True:
            for key, action in islice(waiting, at_once - len(running)):
                fork = Fork(action)
                running[fork.answers] = key, fork
            if not running:
                return
            [answers, *_] = wait(list(running))
            key, fork = running[answers]  # type: ignore[index]
            yield key, fork
            del running[answers]  # type: ignore[arg-type]
            fork.close()
    finally:
        for _, fork in running.values():
            fork.close()


def _carry_out(action: Callable[[], object], parent_pid: int, answers: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_parent(parent_pid)
    gc.disable()  # the child ends before garbage matters
    answers.send_bytes(_answer(action))


def _answer(action: Callable[[], object]) -> bytes:
    try:
        return pickle.dumps((True, action()))
    except Exception as error:
        error.add_note("".join(traceback.format_exception(error)))  # a pickled error loses its traceback
        try:
            answer = pickle.dumps((False, error))
            pickle.loads(answer)
        except Exception:
            error = RuntimeError("".join(traceback.format_exception(error)))
            answer = pickle.dumps((False, error))
        return answer


def _how_it_ended(code: int) -> str:
    if code < 0:
        return f"its process was killed by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code} and without a result"
