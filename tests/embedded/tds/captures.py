"""Bytes that real drivers sent (see captured/README.md), and connections that can receive them."""

from pathlib import Path

from harness.embedded.tds.connection import Connection, ConnectionState, ServerIdentity
from harness.embedded.tds.packets import PACKET_SIZE_DEFAULT, PacketReader

FOLDER = Path(__file__).parent / "captured"
NAMES = sorted(path.stem for path in FOLDER.glob("*.hex"))
SERVER = ServerIdentity("canned", (10, 0, 6000))


def writes(name: str) -> list[bytes]:
    """The bytes that a driver sent, one item a write."""
    text = (FOLDER / f"{name}.hex").read_text(encoding="ascii")
    return [bytes.fromhex(part) for part in text.split("\n\n") if part.strip()]


def payloads(name: str) -> list[bytes]:
    """The payloads of the messages that a driver sent."""
    reader = PacketReader()
    return [message.payload for data in writes(name) for message in reader.feed(data)]


def logged_in() -> Connection:
    connection = Connection(SERVER, bytearray().extend)
    connection.state = ConnectionState.IDLE
    connection._packets.log_in(PACKET_SIZE_DEFAULT)
    return connection


def fresh() -> Connection:
    return Connection(SERVER, bytearray().extend)
