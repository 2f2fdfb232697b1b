"""The end of a server process with its parent, and the lock that keeps a second process out of its folder."""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

from harness.failures import MachineFailure, UsageFailure

_PR_SET_PDEATHSIG = 1


class CannotServe(MachineFailure):
    """The server cannot start; the message says in one line why and what to do."""


def die_with_parent() -> None:
    """Ask the kernel to end this process when the thread that started it ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def stop_at_end_of_stdin(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """Call `stop` when standard input ends: it is a pipe that the parent holds open and never writes to."""

    def read() -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            loop.remove_reader(sys.stdin.fileno())
            stop()

    try:
        loop.add_reader(sys.stdin.fileno(), read)
    except (OSError, ValueError):
        raise UsageFailure(
            "--with-parent needs a pipe as standard input: give it one, or leave the option out"
        ) from None


def lock_folder(folder: Path) -> IO[str]:
    """Create the folder and lock it until the returned file is closed or the process ends, however it ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("a+", encoding="ascii")
    except OSError as error:
        raise CannotServe(
            f"the data folder {folder} cannot be used ({error.strerror}): choose another (--data)"
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.seek(0)
        holder = lock.read().strip() or "unknown"
        lock.close()
        raise CannotServe(
            f"the data folder {folder} is in use by process {holder}: stop it, or choose another (--data)"
        ) from None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock
