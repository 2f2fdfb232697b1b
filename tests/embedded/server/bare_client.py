"""A TDS client on a bare socket: for what no driver does, as not to read, or to send half of something."""

import socket
import struct

ALL_HEADERS = bytes.fromhex("16000000120000000200000000000000000001000000")
PRELOGIN = bytes.fromhex("00000b0006 01001100 01 ff 090000000000 02".replace(" ", ""))  # without encryption
SQL_BATCH, ATTENTION, LOGIN7, PRELOGIN_TYPE = 0x01, 0x06, 0x10, 0x12
PACKET_SIZE = 4096
_FIXED_SIZE = 94


def packets(kind: int, payload: bytes, status: int = 0) -> bytes:
    """A message in packets of the default size; `status` is that of each, beside the mark of the last."""
    room = PACKET_SIZE - 8
    out = bytearray()
    for at in range(0, max(len(payload), 1), room):
        part = payload[at : at + room]
        is_last = at + room >= len(payload)
        out += struct.pack(">BBHHBB", kind, status | is_last, 8 + len(part), 0, 1, 0) + part
    return bytes(out)


def batch(text: str, status: int = 0) -> bytes:
    return packets(SQL_BATCH, ALL_HEADERS + text.encode("utf-16-le"), status)


def attention() -> bytes:
    return packets(ATTENTION, b"")


def login7(user: str, password: str, database: str = "") -> bytes:
    obfuscated = bytes(((byte << 4 | byte >> 4) & 0xFF) ^ 0xA5 for byte in password.encode("utf-16-le"))
    #        host, user, password, program, server, extension, library, language, database
    values = [b"", user.encode("utf-16-le"), obfuscated, b"", b"", b"", b"", b"", database.encode("utf-16-le")]
    pointers, data = b"", b""
    for value in values:
        pointers += struct.pack("<HH", _FIXED_SIZE + len(data), len(value) // 2)
        data += value
    end = struct.pack("<HH", _FIXED_SIZE + len(data), 0)
    pointers += bytes(6) + end + end + end + bytes(4)  # client id, SSPI, file, new password, long SSPI
    fixed = struct.pack("<IIIIIBBBBiI", 0x74000004, PACKET_SIZE, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    body = fixed + pointers + data
    return packets(LOGIN7, struct.pack("<I", 4 + len(body)) + body)


def read_message(client: socket.socket) -> bytes:
    """The payload of one message from the server; what is there of it if the server closes the connection."""
    payload, status = bytearray(), 0
    while not status & 1:
        header = _read(client, 8)
        if len(header) < 8:
            break
        status = header[1]
        payload += _read(client, int.from_bytes(header[2:4], "big") - 8)
    return bytes(payload)


def _read(client: socket.socket, size: int) -> bytes:
    """So many bytes, or fewer at the end. With a timeout MSG_WAITALL does not wait for all of them."""
    data = b""
    while len(data) < size and (part := client.recv(size - len(data))):
        data += part
    return data


def log_in(client: socket.socket, user: str, password: str, database: str = "") -> bytes:
    """Log in, and return the answer to LOGIN7."""
    client.sendall(packets(PRELOGIN_TYPE, PRELOGIN))
    read_message(client)
    client.sendall(login7(user, password, database))
    return read_message(client)
