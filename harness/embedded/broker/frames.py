"""What one broker says to another: the dialog protocol, as frames that a transport carries.

A record on the wire is a list of frames, many at a time. Frames are tuples whose first field says their kind, so that
msgpack packs them as they are. `from_initiator` says which end of the conversation the frame comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgpack

RECORD_SIZE_MAX = 64 * 1024 * 1024  # a peer that announces more is not one of ours


class DialogHeader(NamedTuple):
    """What every message says about its dialog, so that any of them can be understood alone."""

    to_service: str
    to_broker_instance: str | None
    from_service: str
    from_broker_instance: str
    contract: str
    lifetime_ns: int | None  # UTC moment at which the dialog expires; None: never
    is_encrypted: bool
    certificate: bytes | None  # of the sending user, when the dialog is encrypted


class MessageFrame(NamedTuple):
    """One message: sequenced, kept at the sender until it is acknowledged."""

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
    """Everything up to and including `sequence` is on disk at `broker_instance`."""

    kind: int
    conversation_id: str
    from_initiator: bool
    sequence: int
    broker_instance: str


class ErrorFrame(NamedTuple):
    """A broker-made error (negative code): not in sequence, not acknowledged, may overtake."""

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
    """What the messages among them carry."""
    size_bytes = 0
    for frame in frames:
        if isinstance(frame, MessageFrame) and frame.body:
            size_bytes += len(frame.body)
    return size_bytes


def pack_frames(frames: Sequence[Frame]) -> bytes:
    """The body of one record (without its length)."""
    packed: bytes = msgpack.packb(frames)
    return packed


def unpack_frames(record: bytes | bytearray | memoryview) -> list[Frame]:
    """The frames of one record; ValueError if it is none."""
    try:
        fields = msgpack.unpackb(record, use_list=False, max_str_len=RECORD_SIZE_MAX, max_bin_len=RECORD_SIZE_MAX)
        return [_frame(entry) for entry in fields]
    except (ValueError, TypeError, KeyError, IndexError, msgpack.UnpackException) as error:
        raise ValueError(f"not a record of frames: {error}") from error


def _frame(fields: Sequence[Any]) -> Frame:
    if fields[0] == MESSAGE:
        return MessageFrame._make((*fields[:8], DialogHeader._make(fields[8])))
    return _MAKERS[fields[0]](fields)
