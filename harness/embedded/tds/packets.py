"""Packets and messages: [MS-TDS] section 2.2.3, "Packet Header".

A *message* is a request or a response. It travels as one or more *packets*, each with an 8-byte header; all but the
last have the negotiated size, and the last has END_OF_MESSAGE. The header holds at offset 2 the packet's length,
big-endian and including the header; at 4 the process id, which servers fill in and no client reads; at 6 a packet
counter that the specification tells receivers to ignore.
"""

import struct
from enum import IntEnum, IntFlag
from typing import NamedTuple

from harness.embedded.tds.wire import ByteWriter, TdsProtocolError

HEADER = struct.Struct(">BBHHBB")
HEADER_SIZE = HEADER.size
PACKET_SIZE_MIN = 512
PACKET_SIZE_DEFAULT = 4096
PACKET_SIZE_MAX = 32767  # [MS-TDS] LOGIN7, PacketSize
PACKETS_MAX = 65_536  # of a request: "Batch size: 65,536 * Network Packet Size"
MESSAGE_SIZE_MAX = 256 * 1024 * 1024  # our limit, that of packets of the default size: a request is held in memory
LOGIN_SIZE_MAX = 32 * 1024  # of a packet and of a message before the login
LONG_REQUEST = 1024 * 1024  # bytes from which on a request counts against `Room`
LONG_REQUESTS_MAX = 1024 * 1024 * 1024  # bytes of all long requests that arrive or run


class PacketType(IntEnum):
    SQL_BATCH = 0x01
    RPC = 0x03
    TABULAR_RESULT = 0x04
    ATTENTION = 0x06
    BULK_LOAD = 0x07
    TRANSACTION_MANAGER_REQUEST = 0x0E
    LOGIN7 = 0x10
    PRELOGIN = 0x12


class PacketStatus(IntFlag):
    NORMAL = 0x00
    END_OF_MESSAGE = 0x01
    IGNORE = 0x02
    RESET_CONNECTION = 0x08
    RESET_CONNECTION_SKIP_TRANSACTION = 0x10


_END_OF_MESSAGE = int(PacketStatus.END_OF_MESSAGE)
_END_AND_IGNORE = int(PacketStatus.END_OF_MESSAGE | PacketStatus.IGNORE)
_PACKET_TYPES: dict[int, PacketType] = {member.value: member for member in PacketType}


class Message(NamedTuple):
    """A whole message; `status` is that of its first packet, which can request a reset, or IGNORE. One that was too
    large has lost its payload."""

    type: PacketType
    status: int
    payload: bytes
    is_too_large: bool = False


class Room:
    """Memory for the long requests of all connections."""

    def __init__(self) -> None:
        self.free = LONG_REQUESTS_MAX


class PacketReader:
    """Joins messages from bytes cut anywhere. Before the login one beyond `LOGIN_SIZE_MAX` breaks the protocol."""

    def __init__(self, *, is_logged_in: bool = True, room: Room | None = None) -> None:
        self._room = room or Room()
        self._taken = 0  # of the room
        self._size_max = MESSAGE_SIZE_MAX if is_logged_in else LOGIN_SIZE_MAX
        self._is_logged_in = is_logged_in
        self._is_too_large = False  # the message whose packets are being collected
        self._pending = bytearray()  # the beginning of a packet
        self._type: PacketType | None = None  # of the message whose packets are being collected
        self._status = 0
        self._payload = bytearray()

    def log_in(self, packet_size: int) -> None:
        """Take requests: a longer one is dropped up to its end."""
        self._size_max = min(MESSAGE_SIZE_MAX, PACKETS_MAX * packet_size)
        self._is_logged_in = True

    def feed(self, data: bytes) -> list[Message]:
        """The messages that `data` completes, in order."""
        if self._pending:
            self._pending += data
            data = bytes(self._pending)
            self._pending.clear()
        messages: list[Message] = []
        at, end = 0, len(data)
        while end - at >= HEADER_SIZE:
            number, status, length, _, _, _ = HEADER.unpack_from(data, at)
            if length < HEADER_SIZE:
                raise TdsProtocolError(f"a packet of {length} bytes; its header alone has {HEADER_SIZE}")
            if number not in _PACKET_TYPES:
                raise TdsProtocolError(f"unknown packet type 0x{number:02X}")
            if end - at < length:
                if length > self._size_max:
                    raise TdsProtocolError(f"a packet of {length} bytes before the login")
                break
            message = self._packet(_PACKET_TYPES[number], status, data[at + HEADER_SIZE : at + length])
            if message is not None:
                messages.append(message)
            at += length
        if at < end:
            self._pending += data[at:]
        return messages

    def _packet(self, type_: PacketType, status: int, payload: bytes) -> Message | None:
        if self._type is None:
            if status & _END_AND_IGNORE == _END_OF_MESSAGE:
                return Message(type_, status, payload)
            self._type, self._status = type_, status & ~PacketStatus.IGNORE.value
        elif type_ is PacketType.ATTENTION:
            # The client gave up in the middle of its request: discard the part that arrived.
            self._forget()
            self.release()
            return Message(type_, status, payload)
        elif type_ is not self._type:
            raise TdsProtocolError(f"a packet of {type_.name} inside a message of {self._type.name}")
        if len(self._payload) + len(payload) > self._size_max:
            if not self._is_logged_in:
                raise TdsProtocolError(f"a message of more than {self._size_max} bytes before the login")
            self._is_too_large = True
        if len(self._payload) > LONG_REQUEST:
            self._take(len(payload))
        if self._is_too_large:
            self._payload = bytearray()
        else:
            self._payload += payload
        if not status & _END_OF_MESSAGE:
            return None
        message = self._whole(type_, status)
        self._forget()
        return message

    def _whole(self, type_: PacketType, last_status: int) -> Message:
        if last_status & PacketStatus.IGNORE:
            return Message(type_, PacketStatus.IGNORE.value, b"")
        return Message(type_, self._status, bytes(self._payload), self._is_too_large)

    def _take(self, size: int) -> None:
        if size > self._room.free:
            self._is_too_large = True
            self.release()
        else:
            self._room.free -= size
            self._taken += size

    def release(self) -> None:
        """Give the room of a long request back: it is answered, or dropped."""
        self._room.free += self._taken
        self._taken = 0

    def _forget(self) -> None:
        self._type = None
        self._is_too_large = False
        self._payload = bytearray()


class PacketWriter:
    """Cuts a message into packets as its payload grows."""

    __slots__ = ("_number", "_room", "_spid", "_type")

    def __init__(self, type_: PacketType, packet_size: int, spid: int = 0) -> None:
        self._type = int(type_)
        self._room = packet_size - HEADER_SIZE
        self._spid = spid
        self._number = 1

    def take_full_packets(self, payload: ByteWriter) -> bytes:
        """Remove from `payload` what fills whole packets, and return those; never the last packet."""
        count = (len(payload) - 1) // self._room
        if count <= 0:
            return b""
        packets = b"".join(
            self._packet(PacketStatus.NORMAL, payload[at : at + self._room])
            for at in range(0, count * self._room, self._room)
        )
        del payload[: count * self._room]
        return packets

    def finish(self, payload: ByteWriter) -> bytes:
        """Packets for all of `payload`; the last is marked as the end of the message."""
        if len(payload) <= self._room:
            return self._packet(_END_OF_MESSAGE, payload)
        return self.take_full_packets(payload) + self._packet(_END_OF_MESSAGE, payload)

    def _packet(self, status: int, payload: bytes | bytearray) -> bytes:
        header = HEADER.pack(self._type, status, HEADER_SIZE + len(payload), self._spid, self._number & 0xFF, 0)
        self._number += 1
        return header + payload
