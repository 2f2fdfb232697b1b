"""The files of a data folder, as far as a store uses them.

A store reaches its files through `Disk` alone, so that a simulated disk can fail where a real one seldom does.
"""

import os
from pathlib import Path
from typing import Protocol


class File(Protocol):
    """An open file. Every method may raise OSError."""

    def read(self, offset: int, size_bytes: int) -> bytes:
        """Return so many bytes, or fewer at the end of the file."""
        ...

    def write(self, offset: int, data: bytes | memoryview) -> int:
        """Write some of the data, from the first byte on, and return how many bytes that were."""
        ...

    def size_bytes(self) -> int: ...

    def truncate(self, size_bytes: int) -> None: ...

    def sync(self) -> None:
        """Return when everything written is on the device."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """One folder. Every method may raise OSError."""

    def open(self, name: str) -> File | None:
        """Open a file; None if it is not there."""
        ...

    def create(self, name: str) -> File:
        """Make an empty file, in the place of one that is there."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file, in the place of one that is there, and return when the device knows the new name."""
        ...


class FolderDisk:
    """A folder of the operating system. Only its owner can read what is made here."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, name: str) -> File | None:
        try:
            return _SystemFile(os.open(self._folder / name, os.O_RDWR))
        except FileNotFoundError:
            return None

    def create(self, name: str) -> File:
        return _SystemFile(os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600))

    def rename(self, old: str, new: str) -> None:
        (self._folder / old).replace(self._folder / new)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class _SystemFile:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self, offset: int, size_bytes: int) -> bytes:
        return os.pread(self._descriptor, size_bytes, offset)

    def write(self, offset: int, data: bytes | memoryview) -> int:
        return os.pwrite(self._descriptor, data, offset)

    def size_bytes(self) -> int:
        return os.fstat(self._descriptor).st_size

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._descriptor, size_bytes)

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)
