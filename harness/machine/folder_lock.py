"""Lock a folder that one process at a time may use: an instance's data, a run's results."""

import os
from pathlib import Path
from typing import IO

try:
    import fcntl
except ModuleNotFoundError:
    import msvcrt  # of Windows, where a locked byte cannot be read

    def _lock(file: IO[str]) -> None:
        file.seek(_BEYOND)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
else:

    def _lock(file: IO[str]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


_BEYOND = 1 << 20  # behind the holder's id


class Held(Exception):
    """Another process has the folder; the message is its id."""


def take(folder: Path) -> IO[str]:
    """Lock the folder until the returned file, which has this process's id, is closed or the process ends.

    Raises Held, and OSError where a file cannot be written or locked there.
    """
    lock = (folder / "lock").open("a+", encoding="ascii")
    try:
        _lock(lock)
    except OSError as error:
        with lock:
            if not isinstance(error, BlockingIOError | PermissionError):
                raise
            lock.seek(0)
            raise Held(lock.read().strip() or "unknown") from None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock
