"""Files that statements of T-SQL name: certificates and their keys.

All lie in the folder `files` of the instance's data, whatever folder the name has: a script may say `C:\\certs\\a.cer`,
and no login reaches other files of the machine. An instance without a data folder, in virtual time, has none.
"""

import os
import re
from pathlib import Path

from harness.embedded.errors import SqlServerError

BYTES_MAX = 1024 * 1024  # of a file that is read


def write(data_folder: Path | None, path: str, content: bytes) -> None:
    """Make a file; 15240 if it exists or cannot be made."""
    place = _place(data_folder, path)
    if place is None:
        raise SqlServerError(15240, path)
    try:
        place.parent.mkdir(mode=0o700, exist_ok=True)
        with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
    except OSError:
        raise SqlServerError(15240, path) from None


def read(data_folder: Path | None, path: str) -> bytes:
    """The content of a file; 15208 if it cannot be read."""
    place = _place(data_folder, path)
    try:
        if place is None or place.stat().st_size > BYTES_MAX:
            raise OSError(path)
        return place.read_bytes()
    except OSError:
        raise SqlServerError(15208) from None


def _place(data_folder: Path | None, path: str) -> Path | None:
    name = re.split(r"[\\/:]", path)[-1]
    is_name = name not in ("", ".", "..") and name.isprintable()
    return data_folder / "files" / name if data_folder is not None and is_name else None
