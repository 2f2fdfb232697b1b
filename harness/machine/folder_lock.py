"""Lock a folder that one process at a time may use: an instance's data, a run's results."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO


class Held(Exception):
    """Another process has the folder; the message is its id."""


def take(folder: Path) -> IO[str]:
    """Lock the folder until the returned file, which has this process's id, is closed or the process ends.

    Raises Held, and OSError where a file cannot be written or locked there.
    """
    lock = (folder / "lock").open("a+", encoding="ascii")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        with lock:
            if not isinstance(error, BlockingIOError):
                raise
            lock.seek(0)
            raise Held(lock.read().strip() or "unknown") from None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock
