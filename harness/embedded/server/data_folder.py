"""The data folder of an instance: in use by one process at a time, and readable by its owner alone.

Everything in it is a secret: rows of tables, bodies of messages, hashes of passwords, keys. `claim` therefore lets
the process make no file that others may read, and takes such files of an earlier version away from them.
"""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path
from typing import IO

from harness.failures import MachineFailure

OURS = ("broker.db*", "lock", "ERRORLOG*", "service_master_key")  # what an instance keeps in its folder


class CannotServe(MachineFailure):
    """The server cannot start; the message says in one line why and what to do."""


def claim(folder: Path) -> IO[str]:
    """Create the folder and lock it until the returned file is closed or the process ends, however it ends.

    From now on every file that this process makes has the mode 0600, and every folder 0700.
    """
    os.umask(0o077)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _make_private(folder)
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


def _make_private(folder: Path) -> None:
    status = folder.stat()
    if status.st_uid != os.getuid() or status.st_mode & stat.S_ISVTX:
        raise CannotServe(
            f"the data folder {folder} is not this user's alone: name a folder inside it, which is then made (--data)"
        )
    folder.chmod(0o700)
    for pattern in OURS:
        for path in folder.glob(pattern):
            path.chmod(0o600)
