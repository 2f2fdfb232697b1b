"""Frames: the dialog protocol between brokers, carried by a transport.

A record on the wire is a list of frames. A frame is a tuple whose first field is its kind, so that msgpack packs it
unchanged. `from_initiator` tells which end of the conversation sent the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgpack

RECORD_SIZE_MAX = 64 * 1024 * 1024  # a peer that announces more is not a broker of ours


class DialogHeader(NamedTuple):
    """The dialog's data in every message, so that each message can be processed alone."""

    to_service: str
    to_broker_instance: str | None
    from_service: str
    from_broker_instance: str
    contract: str
    lifetime_ns: int | None  # UTC moment at which the dialog expires; None: never
    is_encrypted: bool
    certificate: bytes | None  # the sending user's, if the dialog is encrypted


class MessageFrame(NamedTuple):
    """One sequenced message; the sender keeps it until it is acknowledged."""

    kind: int
    conversation_id: str
    from_initiator: bool
    sequence: int
    message_type: str
    body: bytes | None
    first_is_acknowledged: bool  # the sender has seen the acknowledgement of its message 0
    priority: int
    header: DialogHeader


class AcknowledgementFrame(NamedTuple):
    """An acknowledgement: `broker_instance` has all messages up to `sequence` on disk."""

    kind: int
    conversation_id: str
    from_initiator: bool
    sequence: int
    broker_instance: str


class ErrorFrame(NamedTuple):
    """A broker-made error (negative code): unsequenced, unacknowledged, may overtake messages."""

    kind: int
    conversation_id: str
    from_initiator: bool
    code: int
    description: str


Frame = MessageFrame | AcknowledgementFrame | ErrorFrame

MESSAGE, ACKNOWLEDGEMENT, ERROR = 1, 2, 3
_MAKERS: dict[int, Callable[[Sequence[Any]], Frame]] = {
    ACKNOWLEDGEMENT: AcknowledgementFrame._make,
    ERROR: ErrorFrame._make,
}


def body_bytes(frames: Iterable[Frame]) -> int:
    """Adds up the bodies of the messages among frames."""
    size_bytes = 0
    for frame in frames:
        if isinstance(frame, MessageFrame) and frame.body:
            size_bytes += len(frame.body)
    return size_bytes


def pack_frames(frames: Sequence[Frame]) -> bytes:
    """Packs the body of one record, without its length."""
    packed: bytes = msgpack.packb(frames)
    return packed


def unpack_frames(record: bytes | bytearray | memoryview) -> list[Frame]:
    """Unpacks the frames of one record; raises ValueError if it is invalid."""
    try:
        fields = msgpack.unpackb(record, use_list=False, max_str_len=RECORD_SIZE_MAX, max_bin_len=RECORD_SIZE_MAX)
        return [_frame(entry) for entry in fields]
    except (ValueError, TypeError, KeyError, IndexError, msgpack.UnpackException) as error:
        raise ValueError(f"invalid record of frames: {error}") from error


def _frame(fields: Sequence[Any]) -> Frame:
    if fields[0] == MESSAGE:
        return MessageFrame._make((*fields[:8], DialogHeader._make(fields[8])))
    return _MAKERS[fields[0]](fields)
