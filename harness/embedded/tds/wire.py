"""A bounds-checked reader and a writer for the wire types of [MS-TDS]; numbers are little-endian."""

from __future__ import annotations

import struct
from codecs import utf_16_le_decode
from collections.abc import Callable

_USHORT = struct.Struct("<H")
_LONG = struct.Struct("<i")
_ULONG = struct.Struct("<I")
_ULONGLONG = struct.Struct("<Q")


class TdsProtocolError(Exception):
    """The peer broke [MS-TDS]; the connection is closed, because what follows cannot be understood."""


class ByteWriter(bytearray):
    """A buffer with a method for each wire type; text becomes UTF-16LE, a lone surrogate U+FFFD."""

    byte = bytearray.append

    def ushort(self, value: int) -> None:
        self += _USHORT.pack(value)

    def long(self, value: int) -> None:
        self += _LONG.pack(value)

    def ulong(self, value: int) -> None:
        self += _ULONG.pack(value)

    def ulonglong(self, value: int) -> None:
        self += _ULONGLONG.pack(value)

    def b_varchar(self, text: str) -> None:
        """Append text behind its length in characters, one byte; text beyond 255 characters is cut."""
        encoded = to_utf16(text)[: 2 * 255]
        self.append(len(encoded) // 2)
        self += encoded

    def us_varchar(self, text: str) -> None:
        """Append text behind its length in characters, two bytes; text beyond 65535 characters is cut."""
        encoded = to_utf16(text)[: 2 * 65535]
        self += _USHORT.pack(len(encoded) // 2)
        self += encoded

    def b_varbyte(self, value: bytes) -> None:
        self.append(len(value))
        self += value

    def us_varbyte(self, value: bytes | bytearray) -> None:
        """Append bytes behind their length, as most tokens have them."""
        self += _USHORT.pack(len(value))
        self += value


def _number(layout: struct.Struct) -> Callable[[ByteReader], int]:
    """The method that reads a number."""
    unpack, size = layout.unpack_from, layout.size

    def read(reader: ByteReader) -> int:
        at = reader.position
        try:
            number: int = unpack(reader.data, at)[0]
        except struct.error:
            raise TdsProtocolError(
                f"{size} bytes expected at offset {at}, the message has {reader.end - at} more"
            ) from None
        reader.position = at + size
        return number

    return read


class ByteReader:
    """Reads wire types from a whole message; reading past its end is a `TdsProtocolError`."""

    __slots__ = ("data", "end", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position
        self.end = len(data)

    def at_end(self) -> bool:
        return self.position >= self.end

    def take(self, count: int) -> bytes:
        at = self.position
        after = at + count
        if after > self.end:
            raise TdsProtocolError(f"{count} bytes expected at offset {at}, the message has {self.end - at} more")
        self.position = after
        return self.data[at:after]

    def byte(self) -> int:
        at = self.position
        if at >= self.end:
            raise TdsProtocolError(f"1 byte expected at offset {at}, the message has no more")
        self.position = at + 1
        return self.data[at]

    ushort = _number(_USHORT)
    long = _number(_LONG)
    ulong = _number(_ULONG)
    ulonglong = _number(_ULONGLONG)

    def b_varchar(self) -> str:
        characters = self.byte()
        return from_utf16(self.take(2 * characters)) if characters else ""

    def us_varchar(self) -> str:
        return from_utf16(self.take(2 * self.ushort()))


def to_utf16(text: str) -> bytes:
    try:
        return text.encode("utf-16-le")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode("utf-16-le")


def from_utf16(encoded: bytes | memoryview) -> str:
    if len(encoded) % 2:
        raise TdsProtocolError(f"UTF-16 text of an odd length, {len(encoded)} bytes")
    return utf_16_le_decode(encoded, "replace", True)[0]  # `decode` would find the same in a registry
