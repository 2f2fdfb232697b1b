"""The body of a message: 32 bytes of header, then filler that does not compress.

All numbers are big-endian, so that T-SQL reads them with CAST(SUBSTRING(body, offset, length) AS bigint):

| offset, counted from 1 | bytes | field |
|---|---|---|
| 1 | 4 | magic `SSBH` |
| 5 | 4 | run: chosen by the sweep for each attempt of a cell |
| 9 | 2 | initiator, from 1 |
| 11 | 2 | thread, from 1 |
| 13 | 4 | reserved, 0 |
| 17 | 8 | sequence, from 0 within the thread |
| 25 | 8 | sent_at_ns, the client's clock: the send's intended start |

A thread creates its body once and writes two numbers into it before each call, in 0.2 us whatever the size.
"""

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass

MAGIC = b"SSBH"
_HEADER = struct.Struct(">4sIHHIqq")
HEADER_BYTES = _HEADER.size
STAMP = struct.Struct(">qq")  # sequence and sent_at_ns
STAMP_OFFSET = 16


@dataclass(frozen=True, slots=True)
class Header:
    run: int
    initiator: int
    thread: int
    sequence: int
    sent_at_ns: int


def new_body(
    size: int, *, run: int, initiator: int, thread: int, filler: Callable[[int], bytes] = os.urandom
) -> bytearray:
    """A body of `size` bytes whose sequence and time are still 0: `STAMP.pack_into(body, STAMP_OFFSET, ...)`."""
    if size < HEADER_BYTES:
        raise ValueError(f"a payload of {size} bytes is smaller than its header of {HEADER_BYTES} bytes")
    return bytearray(_HEADER.pack(MAGIC, run, initiator, thread, 0, 0, 0) + filler(size - HEADER_BYTES))


def parse_header(body: bytes | bytearray) -> Header:
    """The header of a body; raises ValueError for a body of another origin."""
    if len(body) < HEADER_BYTES or not body.startswith(MAGIC):
        raise ValueError("the body does not begin with the header of a test client")
    _, run, initiator, thread, _, sequence, sent_at_ns = _HEADER.unpack_from(body)
    return Header(run, initiator, thread, sequence, sent_at_ns)
