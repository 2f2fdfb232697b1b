"""The two files in which a store keeps rows, and the check that they are what was written.

`broker.data` is a header and then commits, each in one or more frames. The first commit holds all rows; each later one
holds the rows that it changed. When the later ones have grown, or at a start, the rows are written to a new file, which
takes the place of the old one by its name. So no byte that a commit has confirmed is ever written again.

    header    magic, layout, identity (random bytes, in both files the same); checksum
    frame     number of the commit, length, whether it is the commit's last; checksum; rows in MessagePack

`broker.mark` holds the number and the checksum of the last commit that was confirmed, twice: commits write one of two
places in turn, so that a torn write leaves the other. Its page reaches the device later than the commit itself, so the
mark may be old after a loss of power, but is never ahead of the data.

What a start finds is one of these:

- whole commits, the marked one among them, and perhaps a torn one at the end that nobody was told of: it is cut off.
- anything else, which is damage: a frame that does not match its checksum and is marked, or is followed by a later
  commit; a number that is missing; a file that is missing or belongs to another instance. It is named, and nothing is
  served (`DamagedStore`).

After a crash nobody knows what of the file is on the device: Linux forgets pages that fdatasync could not write. So a
start writes all rows again before it serves any.

A disk that confirms writes and loses them, in both files at once, is not noticed.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from zlib import crc32

import msgspec

from harness.embedded.store.disk import Disk, File

DATA, MARK = "broker.data", "broker.mark"
_NEW = f"{DATA}.new"  # until it is whole
OLD_DATA = "broker.db"  # of versions before layout 5
# The number of the layout of rows. Raise it with every change of the fields that the broker or T-SQL store.
LAYOUT = 6
IDENTITY_BYTES = 16

PackedRow = tuple[str, bytes, bytes | None]  # object, key, value; None: deleted

_HEADER = struct.Struct("<8sI16s")
_MAGIC = b"SBSTORE\n"
_FRAME = struct.Struct("<QI?")
_CHECKSUM = struct.Struct("<I")
_HEADER_BYTES = _HEADER.size + _CHECKSUM.size
_FRAME_BYTES = _FRAME.size + _CHECKSUM.size
_PAYLOAD_BYTES = 256 * 1024  # of rows in one frame, or one larger row
_WRITE_BYTES = 1024 * 1024  # are written together

_MARK = struct.Struct("<16sQI")
_SLOT_BYTES = 512  # a sector: it is written whole or not at all

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[PackedRow]).decode


class DamagedStore(Exception):
    """The files are not what was written, or some are missing; the text names what, and where."""


class UnreadableStore(Exception):
    """The file is not a store, or its rows have the layout of another version of this program; the text says which."""


class _Frame(NamedTuple):
    number: int  # of its commit
    is_last: bool
    checksum: int
    payload: bytes
    end: int  # the byte behind it

    @property
    def rows(self) -> list[PackedRow]:
        return _decode(self.payload)


class RowFile:
    """`broker.data`: appends commits and reads the rows."""

    def __init__(self, file: File, identity: bytes) -> None:
        self._file = file
        self.identity = identity
        header = _HEADER.pack(_MAGIC, LAYOUT, identity)
        self._header = header + _CHECKSUM.pack(crc32(header))
        self._seed = crc32(header)  # frames of another instance do not match
        self.snapshot_end = self.end = _HEADER_BYTES
        self.number = 0  # of the last commit
        self.checksum = 0  # of its last frame

    @classmethod
    def create(cls, disk: Disk, identity: bytes, number: int, rows: Iterable[PackedRow]) -> RowFile:
        """Write a new file, whose first commit has this number, beside the one that is used; `adopt` uses it."""
        new = cls(disk.create(_NEW), identity)
        try:
            _write_all(new._file, 0, new._header)
            new.append(rows, number)
        except OSError:
            new.discard()
            raise
        new.snapshot_end = new.end
        return new

    def adopt(self, disk: Disk) -> None:
        """Let this new file, which is on the device, take the place of the old one."""
        disk.rename(_NEW, DATA)

    def discard(self) -> None:
        """Give the room of a new file back."""
        self._file.truncate(0)
        self.close()

    @classmethod
    def open(cls, file: File, mark: Mark | None) -> RowFile:
        """Read a file whole, up to its last whole commit; raise DamagedStore if the mark knows of more."""
        header = file.read(0, _HEADER_BYTES)
        if not _is_whole(header, _HEADER):
            raise DamagedStore(f"the first {_HEADER_BYTES} bytes of {DATA} are damaged")
        _, layout, identity = _HEADER.unpack_from(header)
        if layout != LAYOUT:
            raise UnreadableStore(f"its rows have layout {layout}, and this version reads layout {LAYOUT}")
        opened = cls(file, identity)
        opened._check(mark)
        return opened

    def _check(self, mark: Mark | None) -> None:
        at = _HEADER_BYTES
        for frame in self._frames(_HEADER_BYTES):
            at = frame.end
            if frame.is_last:
                self.end, self.number, self.checksum = at, frame.number, frame.checksum
                if self.snapshot_end == _HEADER_BYTES:
                    self.snapshot_end = at
                elif mark is not None and mark.number == frame.number and mark.checksum != frame.checksum:
                    raise DamagedStore(f"commit {frame.number} in {DATA} is another one than {MARK} names")
        if self.snapshot_end == _HEADER_BYTES:
            raise DamagedStore(f"{DATA} is damaged from byte {at} on, among the rows that it began with")
        expected = self.number + 1
        if mark is not None and mark.number >= expected:
            missing = f"commit {expected} is" if mark.number == expected else f"commits {expected} to {mark.number} are"
            raise DamagedStore(f"{missing} missing or damaged, from byte {self.end} of {DATA} on")
        if self._has_commit(expected + 1, self.end):
            raise DamagedStore(f"commit {expected} is damaged, from byte {self.end} of {DATA} on; later ones follow")

    def append(self, rows: Iterable[PackedRow], number: int | None = None) -> None:
        """Write a commit behind the last one. If that fails nothing has changed but bytes that `cut` removes."""
        if number is None:
            number = self.number + 1
        at, written, checksum = self.end, bytearray(), 0
        for chunk, is_last in _chunks(rows):
            payload = _encode(chunk)
            head = _FRAME.pack(number, len(payload), is_last)
            checksum = crc32(payload, crc32(head, self._seed))
            written += head + _CHECKSUM.pack(checksum)
            written += payload
            if is_last or len(written) >= _WRITE_BYTES:
                _write_all(self._file, at, written)
                at += len(written)
                written.clear()
        self.end, self.number, self.checksum = at, number, checksum

    def cut(self) -> None:
        """Remove what a torn `append` has left, also from the device: bytes of two might make a whole commit."""
        self._file.truncate(self.end)
        self._file.sync()

    def sync(self) -> None:
        """Return when all commits are on the device."""
        self._file.sync()

    def close(self) -> None:
        self._file.close()

    def rows(self, end: int | None = None) -> Iterator[PackedRow]:
        """Yield the rows as the commits before that byte left them."""
        changes = {row[:2]: row for commit, _ in self.commits(self.snapshot_end, end) for row in commit}
        for frame in self._whole_frames(_HEADER_BYTES, self.snapshot_end):
            for row in frame.rows:
                last = changes.pop(row[:2], row) if changes else row
                if last[2] is not None:
                    yield last
        for row in changes.values():
            if row[2] is not None:
                yield row

    def commits(self, begin: int, end: int | None = None) -> Iterator[tuple[list[PackedRow], int]]:
        """Yield the commits from one byte to another, each with its number."""
        commit: list[PackedRow] = []
        for frame in self._whole_frames(begin, self.end if end is None else end):
            commit += frame.rows
            if frame.is_last:
                yield commit, frame.number
                commit = []

    def _whole_frames(self, begin: int, end: int) -> Iterator[_Frame]:
        at = begin
        while at < end:
            for frame in self._frames(at):
                yield frame
                at = frame.end
                if at >= end:
                    return
            raise DamagedStore(f"{DATA} is damaged at byte {at}, while it is in use")

    def _frames(self, at: int) -> Iterator[_Frame]:
        """Yield the frames up to the first that is not whole, or whose number does not follow."""
        read, size_bytes, expected = self._file.read, self._file.size_bytes(), None
        while at + _FRAME_BYTES <= size_bytes:
            head = read(at, _FRAME_BYTES)
            number, length, is_last = _FRAME.unpack_from(head)
            (checksum,) = _CHECKSUM.unpack_from(head, _FRAME.size)
            if at + _FRAME_BYTES + length > size_bytes or number != (number if expected is None else expected):
                return
            payload = read(at + _FRAME_BYTES, length)
            if crc32(payload, crc32(head[: _FRAME.size], self._seed)) != checksum:
                return
            at += _FRAME_BYTES + length
            yield _Frame(number, is_last, checksum, payload, at)
            expected = number + is_last

    def _has_commit(self, number: int, begin: int) -> bool:
        """Whether a whole frame of this commit lies anywhere behind that byte."""
        rest = self._file.read(begin, max(0, self._file.size_bytes() - begin))
        at = rest.find(number.to_bytes(8, "little"))
        while at >= 0:
            if any(frame.number == number for frame in self._frames(begin + at)):
                return True
            at = rest.find(number.to_bytes(8, "little"), at + 1)
        return False


class Mark:
    """`broker.mark`: the last commit that was confirmed."""

    def __init__(self, file: File, identity: bytes) -> None:
        self._file = file
        self.identity = identity
        self.number = self.checksum = 0
        self.is_half_damaged = False

    @classmethod
    def create(cls, disk: Disk, identity: bytes) -> Mark:
        mark = cls(disk.create(f"{MARK}.new"), identity)
        mark.write(0, 0)
        mark.sync()
        disk.rename(f"{MARK}.new", MARK)
        return mark

    @classmethod
    def open(cls, file: File) -> Mark:
        slots = [file.read(at, _MARK.size + _CHECKSUM.size) for at in (0, _SLOT_BYTES)]
        marks = [_MARK.unpack_from(slot) for slot in slots if _is_whole(slot, _MARK)]
        if not marks:
            raise DamagedStore(f"{MARK} is damaged")
        identity, number, checksum = max(marks, key=lambda slot: slot[1])
        mark = cls(file, identity)
        mark.number, mark.checksum = number, checksum
        mark.is_half_damaged = len(marks) == 1 and number > 0  # or torn by a loss of power; the other half suffices
        return mark

    def write(self, number: int, checksum: int) -> None:
        """Mark a commit that is on the device."""
        slot = _MARK.pack(self.identity, number, checksum)
        _write_all(self._file, _SLOT_BYTES * (number & 1), slot + _CHECKSUM.pack(crc32(slot)))
        self.number, self.checksum = number, checksum

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()


def checked(disk: Disk) -> tuple[RowFile, Mark] | None:
    """Open and check both files; None if the folder has neither, or only what a first start has left when it was ended.
    Raise DamagedStore or UnreadableStore with the reason."""
    data, mark_file = disk.open(DATA), disk.open(MARK)
    if data is None:
        if (old := disk.open(OLD_DATA)) is not None:
            old.close()
            raise UnreadableStore(f"{OLD_DATA} was made by an earlier version")
        if mark_file is None:
            return None
        raise DamagedStore(f"{DATA} is missing")
    mark = Mark.open(mark_file) if mark_file is not None else None
    rows = RowFile.open(data, mark)
    if mark is None:
        if rows.number:
            raise DamagedStore(f"{MARK} is missing")
        return None
    if mark.identity != rows.identity:
        raise DamagedStore(f"{DATA} and {MARK} are of two instances")
    return rows, mark


def _is_whole(data: bytes, fields: struct.Struct) -> bool:
    """Whether fields are followed by their checksum."""
    return data[fields.size :] == _CHECKSUM.pack(crc32(data[: fields.size]))


def _chunks(rows: Iterable[PackedRow]) -> Iterator[tuple[list[PackedRow], bool]]:
    """The rows of each frame, and whether it is the last one."""
    chunk: list[PackedRow] = []
    size_bytes = 0
    for row in rows:
        if size_bytes >= _PAYLOAD_BYTES:
            yield chunk, False
            chunk, size_bytes = [], 0
        chunk.append(row)
        size_bytes += len(row[1]) + len(row[2] or b"")
    yield chunk, True


def _write_all(file: File, at: int, data: bytes | bytearray) -> None:
    rest = memoryview(data)
    while rest:
        written = file.write(at, rest)
        if written == 0:
            raise OSError(errno.ENOSPC, "the file takes no more")
        at += written
        rest = rest[written:]
