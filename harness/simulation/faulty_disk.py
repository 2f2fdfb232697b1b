"""A disk in memory that fails as disks do.

A file has three states: what the process has written, what of it waits for a sync, and what is on the device. A killed
process leaves the first, a loss of power the last. Of what waits, a loss of power leaves any sectors and loses others;
so does a sync that fails, after which the operating system believes that nothing waits any more.
"""

import errno
from collections.abc import Mapping
from enum import StrEnum

from harness.embedded.store.disk import File
from harness.simulation.dice import Dice

SECTOR_BYTES = 512


class DiskFault(StrEnum):
    """What happens to the next write or sync."""

    SHORT_WRITE = "short write"  # of a part of the data, without an error
    FAILING_WRITE = "failing write"
    FAILING_SYNC = "failing sync"
    POWER = "power lost in a sync"
    LOST_WRITE = "lost write"  # a sync succeeds, but its data does not reach the device


class Damage(StrEnum):
    """What a start finds of the files that a killed instance has left."""

    LOST_WRITE = "a write is lost"  # that the disk had confirmed
    FLIPPED_BIT = "a bit is flipped"
    CUT = "a file is cut"


class FaultyDisk:
    """A folder on such a disk."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._files: dict[str, _FaultyFile] = {}
        self.fault: DiskFault | None = None  # the next one
        self.is_full = False

    def open(self, name: str) -> File | None:
        return self._files.get(name)

    def create(self, name: str) -> File:
        file = self._files[name] = _FaultyFile(self, self._dice)
        return file

    def rename(self, old: str, new: str) -> None:
        self._files[new] = self._files.pop(old)

    def remove(self, name: str) -> None:
        del self._files[name]

    def take(self, *kinds: DiskFault) -> DiskFault | None:
        """Return the next fault if it is of these kinds; it happens once."""
        if self.fault not in kinds:
            return None
        fault, self.fault = self.fault, None
        return fault

    def lose_power(self) -> None:
        for file in self._files.values():
            file.lose_power()

    def damage(self, name: str, damage: Damage) -> None:
        """Damage a file while no process uses it. A lost write shows when the power is lost too."""
        file = self._files[name]
        at = self._dice.integer(0, len(file.written) - 1)
        match damage:
            case Damage.FLIPPED_BIT:
                file.written[at] ^= 1 << self._dice.integer(0, 7)
            case Damage.CUT:
                del file.written[at:]
            case Damage.LOST_WRITE:
                file.lose_power()
        file.device = bytearray(file.written)

    def contents(self) -> dict[str, bytes]:
        """The files as a process sees them."""
        return {name: bytes(file.written) for name, file in self._files.items()}

    def restore(self, contents: Mapping[str, bytes]) -> None:
        """Make the files those of a copy."""
        for name, content in contents.items():
            file = self._files.setdefault(name, _FaultyFile(self, self._dice))
            file.written, file.device, file.waiting = bytearray(content), bytearray(content), []


class _FaultyFile:
    def __init__(self, disk: FaultyDisk, dice: Dice) -> None:
        self._disk = disk
        self._dice = dice
        self.written = bytearray()
        self.device = bytearray()
        self.waiting: list[tuple[int, bytes | None]] = []  # writes by offset; None: cut there

    def read(self, offset: int, size_bytes: int) -> bytes:
        return bytes(self.written[offset : offset + size_bytes])

    def write(self, offset: int, data: bytes | memoryview) -> int:
        data = bytes(data)
        if self._disk.is_full and offset + len(data) > len(self.written):
            return self._write_part(offset, data, errno.ENOSPC)
        match self._disk.take(DiskFault.SHORT_WRITE, DiskFault.FAILING_WRITE):
            case DiskFault.SHORT_WRITE:
                data = data[: self._dice.integer(1, len(data))]
            case DiskFault.FAILING_WRITE:
                self._write_part(offset, data, errno.EIO)
                raise OSError(errno.EIO, "the simulated disk fails")
        self._put(offset, data)
        return len(data)

    def _write_part(self, offset: int, data: bytes, number: int) -> int:
        part = data[: self._dice.integer(0, len(data) - 1)]
        if not part:
            raise OSError(number, "the simulated disk fails" if number == errno.EIO else "the simulated disk is full")
        self._put(offset, part)
        return len(part)

    def _put(self, offset: int, data: bytes) -> None:
        _put(self.written, offset, data)
        self.waiting.append((offset, data))

    def size_bytes(self) -> int:
        return len(self.written)

    def truncate(self, size_bytes: int) -> None:
        del self.written[size_bytes:]
        self.waiting.append((size_bytes, None))

    def sync(self) -> None:
        match self._disk.take(DiskFault.FAILING_SYNC, DiskFault.POWER, DiskFault.LOST_WRITE):
            case DiskFault.FAILING_SYNC:
                self._store_some()
                raise OSError(errno.EIO, "the simulated disk fails")
            case DiskFault.POWER:
                self._disk.lose_power()
                raise OSError(errno.EIO, "the power is lost")
            case DiskFault.LOST_WRITE:
                self.waiting.clear()
        for offset, data in self.waiting:
            _put(self.device, offset, data)
        self.waiting.clear()

    def lose_power(self) -> None:
        self._store_some()
        self.written = bytearray(self.device)

    def _store_some(self) -> None:
        for offset, data in self.waiting:
            if data is None:
                if self._dice.happens(0.5):
                    _put(self.device, offset, None)
                continue
            for at in range(0, len(data), SECTOR_BYTES):
                if self._dice.happens(0.5):
                    _put(self.device, offset + at, data[at : at + SECTOR_BYTES])
        self.waiting.clear()

    def close(self) -> None: ...


def _put(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        return
    content.extend(bytes(max(0, offset - len(content))))
    content[offset : offset + len(data)] = data
