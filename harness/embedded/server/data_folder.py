"""The data folder of an instance: in use by one process at a time, readable by its owner alone, and checked at a start.

Everything in it is a secret: rows of tables, bodies of messages, hashes of passwords, keys. `claim` therefore lets
the process make no file that others may read, and takes such files of an earlier version away from them.

`broker.data`, `broker.mark` and `service_master_key` belong together. A new folder gets them in this order, so a start
that was ended in between differs from a folder that has lost a file. A key that is lost is replaced, and the error log
says so: what it protected can be had again with the passwords of the databases' master keys. All other
damage is refused.
"""

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from harness.definitions.units import counted
from harness.embedded.runtime.tasks import Scheduler
from harness.embedded.store.disk import FolderDisk
from harness.embedded.store.file_store import FileStore, Threads
from harness.embedded.store.row_file import IDENTITY_BYTES, MARK, DamagedStore, UnreadableStore, checked
from harness.failures import MachineFailure, UsageFailure
from harness.machine import folder_lock

KEY = "service_master_key"
KEY_BYTES = 32
_CHECK_BYTES = 8  # behind the key
LOST_KEY = (
    f"The file {KEY} is missing, so a start makes another. Open the master key of each database with its password "
    "(OPEN MASTER KEY), then execute ALTER MASTER KEY ADD ENCRYPTION BY SERVICE MASTER KEY."
)
HALF_MARK = f"One half of {MARK} was damaged, or torn by a loss of power. The other half is as good."
OURS = ("broker.*", "lock", "ERRORLOG*", f"{KEY}*")  # what an instance keeps in its folder


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
        return folder_lock.take(folder)
    except folder_lock.Held as holder:
        raise CannotServe(
            f"the data folder {folder} is in use by process {holder}: stop it, or choose another (--data)"
        ) from None
    except OSError as error:
        raise _unusable(folder, error) from None


def _unusable(folder: Path, error: OSError) -> CannotServe:
    return CannotServe(f"the data folder {folder} cannot be used ({error.strerror}): choose another (--data)")


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


def opened(
    folder: Path,
    *,
    scheduler: Scheduler,
    call_soon: Callable[[Callable[[], None]], object],
    lost: Callable[[Exception], None],
    owner_of: Callable[[str], int],
) -> tuple[FileStore, bytes, list[str]]:
    """Open the store of a folder. Return it, the service master key, and what the error log should say about them. A
    folder without data or without key gets them."""
    disk = FolderDisk(folder)
    with _refused(folder):
        key = _master_key(disk)
        store = FileStore(
            disk,
            scheduler=scheduler,
            background=Threads(call_soon),
            lost=lost,
            identity=os.urandom(IDENTITY_BYTES),
            may_be_new=key is None,
            owner_of=owner_of,
        )
        notes = [HALF_MARK] if store.had_half_mark else []
        if key is not None:
            return store, key, notes
        key = os.urandom(KEY_BYTES)
        file = disk.create(f"{KEY}.new")
        file.write(0, key + checksum_of(key))
        file.sync()
        file.close()
        disk.rename(f"{KEY}.new", KEY)
        return store, key, notes if store.is_new else [*notes, LOST_KEY]


def verify(folder: Path) -> str:
    """Read all that an instance has stored in a folder, and say what that is; raise CannotServe if it is damaged."""
    if not folder.is_dir():
        raise UsageFailure(f"{folder} is no folder: name the data folder of an instance")
    disk = FolderDisk(folder)
    with claim(folder), _refused(folder):
        key = _master_key(disk)
        report = checked(disk)
        if report is None:
            if key is not None:
                raise DamagedStore(f"all files but {KEY} are missing")
            return f"{folder} holds no data"
        rows, mark = report
        count = sum(1 for _ in rows.rows())
        lines = [f"{folder} is whole: {counted(count, 'row')}, {counted(rows.number, 'commit')}."]
        if mark.is_half_damaged:
            lines.append(HALF_MARK)
        if key is None:
            lines.append(LOST_KEY)
        return "\n".join(lines)


def _master_key(disk: FolderDisk) -> bytes | None:
    if (file := disk.open(KEY)) is None:
        return None
    content = file.read(0, KEY_BYTES + _CHECK_BYTES + 1)
    file.close()
    key, check = content[:KEY_BYTES], content[KEY_BYTES:]
    if check != checksum_of(key):
        raise DamagedStore(f"{KEY} does not match its checksum")
    return key


def checksum_of(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()[:_CHECK_BYTES]


@contextlib.contextmanager
def _refused(folder: Path) -> Iterator[None]:
    try:
        yield
    except DamagedStore as error:
        raise CannotServe(
            f"the data folder {folder} is damaged: {error}. Nothing was changed in it: put a copy of the whole "
            "folder in its place, or delete it to begin anew"
        ) from None
    except UnreadableStore as error:
        raise CannotServe(
            f"the data folder {folder} cannot be read: {error}. Delete it or choose another (--data), "
            "or serve it with the version that made it"
        ) from None
    except OSError as error:
        raise _unusable(folder, error) from None
