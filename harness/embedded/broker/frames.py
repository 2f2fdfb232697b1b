"""Frames: the dialog protocol between brokers, carried by a transport.

A record on the wire is a list of at most `RECORD_FRAMES_MAX` frames in MessagePack; a frame is an array whose first
element says its kind. `from_initiator` tells which end of the conversation sent the frame. Every field has its type
and its bounds here, and `unpack_frames` checks them all: nothing else of the broker sees bytes from a peer.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, final

import msgspec
from msgspec import Meta

RECORD_SIZE_MAX = 64 * 1024 * 1024  # a peer that announces more is not a broker of ours
RECORD_FRAMES_MAX = 256  # bounds the memory that unpacking takes

Guid = Annotated[str, Meta(pattern=r"\A[0-9A-F]{8}-[0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{12}\Z")]
Name = Annotated[str, Meta(max_length=256)]  # BEGIN DIALOG: TO SERVICE is nvarchar(256)
BrokerInstance = Annotated[str, Meta(max_length=128)]  # BEGIN DIALOG takes any text of this length
SequenceNumber = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Moment = Annotated[int, Meta(ge=0, le=2**63 - 1)]  # UTC ns: until the year 2262
Certificate = Annotated[bytes, Meta(max_length=8192)]
Seal = Annotated[bytes, Meta(max_length=32)]  # shows that the far side of an encrypted dialog made the frame


class KeyExchange(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """The keys of an encrypted dialog, as its initiator offers them (`keys`)."""

    recipient: Annotated[bytes, Meta(max_length=32)]  # digest of the certificate for whose owner they are
    public_key: Annotated[bytes, Meta(max_length=65)]
    certificate: Certificate | None  # the sending user's; None: anonymous
    signature: Annotated[bytes, Meta(max_length=512)]  # made with its private key


class DialogHeader(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """The dialog's data in every message, so that each message can be processed alone."""

    to_service: Name
    to_broker_instance: BrokerInstance | None
    from_service: Name
    from_broker_instance: Guid
    contract: Name
    lifetime_ns: Moment | None  # UTC moment at which the dialog expires; None: never
    is_encrypted: bool
    key_exchange: KeyExchange | None  # of an encrypted dialog, until its message 0 is acknowledged


@final
class MessageFrame(msgspec.Struct, array_like=True, tag=1, forbid_unknown_fields=True, gc=False):
    """One sequenced message; the sender keeps it until it is acknowledged."""

    conversation_id: Guid
    from_initiator: bool
    sequence: SequenceNumber
    message_type: Name
    body: bytes | None
    first_is_acknowledged: bool  # the sender has seen the acknowledgement of its message 0
    priority: Annotated[int, Meta(ge=1, le=10)]
    header: DialogHeader


@final
class AcknowledgementFrame(msgspec.Struct, array_like=True, tag=2, forbid_unknown_fields=True, gc=False):
    """An acknowledgement: `broker_instance` has all messages up to `sequence` on disk."""

    conversation_id: Guid
    from_initiator: bool
    sequence: SequenceNumber
    broker_instance: BrokerInstance
    seal: Seal | None = None


@final
class ErrorFrame(msgspec.Struct, array_like=True, tag=3, forbid_unknown_fields=True, gc=False):
    """A broker-made error (negative code): unsequenced, unacknowledged, may overtake messages."""

    conversation_id: Guid
    from_initiator: bool
    code: Annotated[int, Meta(gt=-(2**31), lt=0)]
    description: Annotated[str, Meta(max_length=4000)]
    seal: Seal | None = None


Frame = MessageFrame | AcknowledgementFrame | ErrorFrame

_ENCODER = msgspec.msgpack.Encoder()
pack_frame: Callable[[Frame], bytes] = _ENCODER.encode
_RECORD = Annotated[list[Frame], Meta(max_length=RECORD_FRAMES_MAX)]
_DECODER: msgspec.msgpack.Decoder[list[Frame]] = msgspec.msgpack.Decoder(_RECORD)


def body_bytes(frames: Iterable[Frame]) -> int:
    """Add up the bodies of the messages among frames."""
    size_bytes = 0
    for frame in frames:
        if isinstance(frame, MessageFrame) and frame.body:
            size_bytes += len(frame.body)
    return size_bytes


def pack_frames(frames: Sequence[Frame]) -> bytes:
    """Pack the body of one record, without its length."""
    return _ENCODER.encode(frames)


def pack_body(body: bytes | None) -> bytes:
    """A body as it is encrypted: no body is not an empty one."""
    return b"" if body is None else b"\1" + body


def unpack_body(hidden: bytes) -> bytes | None:
    return hidden[1:] if hidden else None


def unpack_frames(record: bytes | bytearray | memoryview) -> list[Frame]:
    """Unpack the frames of one record; raise ValueError if it is invalid, with the place but not the value."""
    try:
        return _DECODER.decode(record)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ValueError(f"invalid record of frames: {error}") from None
