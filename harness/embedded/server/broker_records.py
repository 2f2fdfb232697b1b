"""Records that brokers exchange: a 4-byte length and a msgpack list.

The list holds frames, many at a time, or the handshake that opens a connection (see `broker_transport`).
"""

from __future__ import annotations

import itertools
import logging
import struct
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgpack

from harness.embedded.broker.frames import RECORD_SIZE_MAX, Frame, pack_frames

log = logging.getLogger(__name__)

MAGIC = "service-broker-harness/1"
RECORD_FRAMES_MAX = 256  # frames in one record: bounds the memory that unpacking takes

_LENGTH = struct.Struct(">I")


class Handshake(NamedTuple):
    """The first record in each direction. `refusal` is empty, or says why the listening side refuses to talk."""

    name: str
    certificate: bytes | None
    refusal: str = ""

    def pack(self) -> bytes:
        packed: bytes = msgpack.packb([MAGIC, *self])
        return _LENGTH.pack(len(packed)) + packed

    @classmethod
    def unpack(cls, record: memoryview) -> Handshake:
        """The handshake in a record; ValueError if there is none of this version."""
        try:
            fields: Any = msgpack.unpackb(record)
            magic, name, certificate, refusal = fields
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise ValueError(f"invalid handshake: {error}") from None
        if magic != MAGIC:
            raise ValueError("invalid handshake: it is not from a broker of this version")
        if not (isinstance(name, str) and name and isinstance(refusal, str)):
            raise ValueError("invalid handshake: it has no name")
        if not (certificate is None or isinstance(certificate, bytes)):
            raise ValueError("invalid handshake: its certificate is not binary")
        return cls(name, certificate, refusal)


class RecordReader:
    """Joins records from bytes cut anywhere."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._wanted = _LENGTH.size  # pending bytes below which no record can be complete

    def feed(self, data: bytes) -> list[memoryview]:
        """The records that `data` completes; ValueError if one is announced larger than the limit."""
        if self._pending:
            self._pending += data
            if len(self._pending) < self._wanted:
                return []
            data = bytes(self._pending)
            self._pending.clear()
        view = memoryview(data)
        records: list[memoryview] = []
        at, end = 0, len(data)
        self._wanted = _LENGTH.size
        while end - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(data, at)
            if length > RECORD_SIZE_MAX:
                raise ValueError(f"a record of {length} bytes")
            if end - at < _LENGTH.size + length:
                self._wanted = _LENGTH.size + length
                break
            records.append(view[at + _LENGTH.size : at + _LENGTH.size + length])
            at += _LENGTH.size + length
        self._pending += view[at:]
        return records


def pack_records(frames: Iterable[Frame]) -> Iterator[bytes]:
    """Records that hold all these frames, except a frame too large for any record."""
    waiting = iter(frames)
    while batch := list(itertools.islice(waiting, RECORD_FRAMES_MAX)):
        packed = pack_frames(batch)
        if len(packed) <= RECORD_SIZE_MAX:
            yield _LENGTH.pack(len(packed)) + packed
        elif len(batch) > 1:
            for frame in batch:
                yield from pack_records([frame])
        else:
            log.error("a message of %d bytes is too large to send (limit %d)", len(packed), RECORD_SIZE_MAX)
