"""Records on the wire between brokers: a 4-byte length and a msgpack list.

A list of frames, many at a time, or the handshake that opens a connection (see `broker_transport`).
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
RECORD_FRAMES_MAX = 256  # frames in one record: bounds what must be held to unpack one

_LENGTH = struct.Struct(">I")


class Handshake(NamedTuple):
    """What each side says first; `refusal` is empty, or why the listening side will not talk."""

    name: str
    certificate: bytes | None
    refusal: str = ""

    def pack(self) -> bytes:
        packed: bytes = msgpack.packb([MAGIC, *self])
        return _LENGTH.pack(len(packed)) + packed

    @classmethod
    def unpack(cls, record: memoryview) -> Handshake:
        """ValueError if it is none of ours."""
        try:
            fields: Any = msgpack.unpackb(record)
            magic, name, certificate, refusal = fields
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise ValueError(f"no handshake: {error}") from None
        if magic != MAGIC:
            raise ValueError("no handshake of a broker of this version")
        if not (isinstance(name, str) and name and isinstance(refusal, str)):
            raise ValueError("a handshake without a name")
        if not (certificate is None or isinstance(certificate, bytes)):
            raise ValueError("a handshake with a certificate that is none")
        return cls(name, certificate, refusal)


class RecordReader:
    """Puts records together from bytes cut anywhere."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._wanted = _LENGTH.size  # bytes that make it worth looking again

    def feed(self, data: bytes) -> list[memoryview]:
        """The records that `data` completes; ValueError if one is announced larger than any of ours."""
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
    """Records that hold all these frames, but for one that no record can hold."""
    waiting = iter(frames)
    while batch := list(itertools.islice(waiting, RECORD_FRAMES_MAX)):
        packed = pack_frames(batch)
        if len(packed) <= RECORD_SIZE_MAX:
            yield _LENGTH.pack(len(packed)) + packed
        elif len(batch) > 1:
            for frame in batch:
                yield from pack_records([frame])
        else:
            log.error("a message of %d bytes is too large for the wire", len(packed))
