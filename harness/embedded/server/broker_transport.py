"""Broker to broker over TCP: frames, many at a time in records of a 4-byte length and a msgpack list.

The records of a handshake come first (`broker_handshake`): before it is done a peer is nobody, and gets little memory,
little time and one of few places (`unproved`). Afterwards every record is protected. Bytes that are not what they
should be close the connection, with one line in the log.

A connection carries frames one way only, from the side that connected; answers go over a connection in the other
direction. Everything sent in one turn of the loop leaves in one write. Nothing here waits for a slow peer: frames queue
up to `QUEUE_MAX`, and further ones are dropped, as are those on a connection that breaks, because the broker resends
what is not acknowledged. A peer that cannot be reached is tried again as long as something is sent to it.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import os
import socket
import struct
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import cast

from harness.embedded.broker.broker_link import Connection
from harness.embedded.broker.engine import Engine
from harness.embedded.broker.frames import RECORD_FRAMES_MAX, RECORD_SIZE_MAX, Frame, pack_frames, unpack_frames
from harness.embedded.errors import SqlServerError
from harness.embedded.server.broker_handshake import (
    FAILED,
    MESSAGE_SIZE_MAX,
    TAG_BYTES,
    Handshake,
    HandshakeError,
    quoted,
)
from harness.embedded.server.unproved import WaitingRoom
from harness.machine.addresses import is_loopback

log = logging.getLogger(__name__)

Address = tuple[str, int]

QUEUE_MAX = 100_000  # frames for one address
RETRY_DELAYS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
HANDSHAKE_TIMEOUT_S = 5.0
UNWANTED_AFTER_S = 120.0  # a peer to which nothing was sent for so long is not tried again; the broker resends sooner

BACKLOG = 512  # connections that wait to be accepted
PEERS_MAX = 256  # connections whose handshake is done; one more ends the one that was silent the longest

_LENGTH = struct.Struct(">I")


class BrokerTransport:
    """The engine's `Transport`. Set `broker` first. `host` is where the operator allows this server to listen."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, host: str, run: Callable[[], None]) -> None:
        self.loop = loop
        self.run = run  # the scheduler, after something arrived
        self.broker: Engine
        self.incoming: dict[IncomingProtocol, None] = {}
        self.unproved = WaitingRoom(loop)
        self._connections: dict[str, Connection] = {}
        self._host = host
        self._peers: dict[Address, Peer] = {}
        self._socket: socket.socket | None = None
        self._starting: asyncio.Task[None] | None = None
        self._server: asyncio.Server | None = None

    def listen(self, host: str, port: int) -> None:
        """Listen; an OSError says that the port is in use or that the operator did not allow the address."""
        address = self._allowed(host)
        listening = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((address, port))
            listening.listen(BACKLOG)
        except OSError as error:
            listening.close()
            log.error("the Service Broker endpoint cannot listen on %s port %d: %s", address, port, error)
            raise
        self._socket = listening
        self._starting = self.loop.create_task(self._accept(listening))
        log.info("the Service Broker endpoint listens on %s port %d", address, port)

    def stop(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
        if self._server is not None:
            self._server.close()
        elif self._socket is not None:
            self._socket.close()
        self._server = self._socket = self._starting = None
        for protocol in list(self.incoming):
            protocol.close()
        peers, self._peers = self._peers, {}
        for peer in peers.values():
            peer.close()
            self.broker.on_connection_state(peer.address, False, SqlServerError(9748).text)

    def send(self, address: Address, frames: Sequence[Frame]) -> None:
        peer = self._peers.get(address)
        if peer is None:
            peer = self._peers[address] = Peer(self, address)
        peer.send(frames)

    def connections(self) -> list[Connection]:
        return list(self._connections.values())

    def opened(self, *, is_accept: bool) -> Connection:
        """Count what goes over a connection from now on, until it is `closed`."""
        now_ns = time.time_ns()
        connection = Connection(str(uuid.uuid4()).upper(), is_accept, now_ns, now_ns, self.broker.counters)
        self._connections[connection.connection_id] = connection
        return connection

    def closed(self, connection: Connection) -> None:
        self._connections.pop(connection.connection_id, None)

    def make_room(self) -> None:
        """Close one of too many connections from peers: links that were cut leave some on which nothing comes."""
        proved = [protocol for protocol in self.incoming if protocol.handshake.is_done]
        if len(proved) > PEERS_MAX:
            oldest = min(proved, key=lambda protocol: protocol.connection.last_activity_time)
            oldest.cut_off(f"it was silent the longest of {len(proved)}")

    async def _accept(self, listening: socket.socket) -> None:
        self._server = await self.loop.create_server(lambda: IncomingProtocol(self), sock=listening, backlog=BACKLOG)

    def _allowed(self, host: str) -> str:
        """The address to listen on; ALL (no address) stands for the operator's."""
        if host.upper() in ("", "ALL", "0.0.0.0", "::"):
            return self._host
        if host != self._host and not is_loopback(host) and is_loopback(self._host):
            raise PermissionError(errno.EACCES, f"this server may listen on {self._host} only (--host), not on {host}")
        return host


class IncomingProtocol(asyncio.Protocol):
    """Frames from a broker that connected to us."""

    def __init__(self, owner: BrokerTransport) -> None:
        self._owner = owner
        self._records = RecordReader(MESSAGE_SIZE_MAX)
        self.handshake = Handshake(owner.broker.name, owner.broker.link, is_connecting=False)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.connection = self._owner.opened(is_accept=True)
        host, *_ = transport.get_extra_info("peername") or ("",)  # "" if it has gone
        self._host = str(host)
        self._owner.incoming[self] = None
        self._owner.unproved.enter(self, self._host, timeout_s=HANDSHAKE_TIMEOUT_S)

    def data_received(self, data: bytes) -> None:
        frames: list[Frame] = []
        handshake = self.handshake
        self.connection.received(len(data), time.time_ns())
        try:
            for record in self._records.feed(data):
                if handshake.is_done:
                    frames += unpack_frames(handshake.receiving.open(record))
                else:
                    self._shake_hands(record)
        except HandshakeError as refusal:
            if refusal.answer:
                self._transport.write(_framed(refusal.answer))
            self._log(SqlServerError(28047, "Service Broker", refusal, f"[CLIENT: {self._host}]").text)
            self.close()
        except ValueError as error:
            self.cut_off(f"it sent something other than frames: {error}")
        if frames:
            self.connection.total_fragments_received += len(frames)
            self._owner.broker.on_frames(handshake.peer, frames)
            self._owner.run()

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.unproved.leave(self)
        self._owner.incoming.pop(self, None)
        self._owner.closed(self.connection)

    def close(self) -> None:
        self._transport.close()

    def _shake_hands(self, record: memoryview) -> None:
        for answer in self.handshake.receive(record):
            data = _framed(answer)
            self._transport.write(data)
            self.connection.sent(len(data), 0, time.time_ns())
        if self.handshake.is_done:
            self._owner.unproved.leave(self)
            self._owner.make_room()
            _logged_in(self.connection, self.handshake)
            self._records.size_max = RECORD_SIZE_MAX + TAG_BYTES

    def cut_off(self, reason: str) -> None:
        self._complain(reason)
        self._transport.abort()

    def _complain(self, reason: str) -> None:
        peer = quoted(self.handshake.peer) if self.handshake.peer else "unnamed"
        self._log(f"The connection of a peer broker ({peer}, {self._host}) is closed: {reason}.")

    def _log(self, text: str) -> None:
        if line := self._owner.broker.link.complaints.write(self._host, text):
            log.warning("%s", line)


class Peer:
    """A broker that we send to: a queue of frames and a connection, made when there is something to send."""

    def __init__(self, owner: BrokerTransport, address: Address) -> None:
        self.owner = owner
        self.address = address
        self._frames: deque[Frame] = deque()
        self._connecting: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._failures = 0
        self._wanted_at_s = 0.0
        self._protocol: OutgoingProtocol | None = None  # after the handshake
        self._flush_is_due = False
        self._closed = False

    def send(self, frames: Sequence[Frame]) -> None:
        self._wanted_at_s = self.owner.loop.time()
        self._frames.extend(frames[: max(0, QUEUE_MAX - len(self._frames))])
        if self._protocol is not None:
            self.flush_soon()
        elif self._connecting is None and self._retry is None:
            self._connect()

    def flush_soon(self) -> None:
        if not self._flush_is_due:
            self._flush_is_due = True
            self.owner.loop.call_soon(self._flush)

    def close(self) -> None:
        self._closed = True
        if self._retry is not None:
            self._retry.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._protocol is not None:
            self._protocol.close()

    def connected(self, protocol: OutgoingProtocol) -> None:
        """Send frames from now on: the handshake is done."""
        self._protocol = protocol
        self._failures = 0
        log.info("connected to the broker at %s:%d", *self.address)
        self.owner.broker.on_connection_state(self.address, True, "")
        self.flush_soon()
        self.owner.run()

    def failed(self, status: str) -> None:
        """Report why there is no connection, or no longer, and try again later."""
        if self._closed:
            return
        self._protocol = self._connecting = None
        self._frames.clear()  # the broker resends them: keeping them would send them twice
        delay_s = RETRY_DELAYS_S[min(self._failures, len(RETRY_DELAYS_S) - 1)]
        self._failures += 1
        log.warning("no connection to the broker at %s:%d: %s", *self.address, status)
        self.owner.broker.on_connection_state(self.address, False, status)
        self._retry = self.owner.loop.call_later(delay_s, self._try_again)
        self.owner.run()

    def _try_again(self) -> None:
        self._retry = None
        if self.owner.loop.time() - self._wanted_at_s < UNWANTED_AFTER_S:
            self._connect()

    def _connect(self) -> None:
        self._connecting = self.owner.loop.create_task(self._open())

    async def _open(self) -> None:
        host, port = self.address
        try:
            async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
                await self.owner.loop.create_connection(lambda: OutgoingProtocol(self), host, port)
        except OSError as error:  # TimeoutError is one
            text = _of_system(error.errno) if error.errno else str(error) or "timed out"
            self.failed(SqlServerError(9754, text).text)

    def _flush(self) -> None:
        self._flush_is_due = False
        protocol = self._protocol
        if protocol is None or protocol.paused or not self._frames:
            return
        protocol.write(self._frames)
        self._frames.clear()


class OutgoingProtocol(asyncio.Protocol):
    """The connection of a `Peer`."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._records = RecordReader(MESSAGE_SIZE_MAX)
        self._status = SqlServerError(9755, _of_system(errno.ECONNRESET)).text
        self.paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=1024 * 1024)
        owner = self._peer.owner
        self._connection = owner.opened(is_accept=False)
        self._timeout = owner.loop.call_later(HANDSHAKE_TIMEOUT_S, self._end, f"{FAILED}It timed out.")
        self._handshake = Handshake(owner.broker.name, owner.broker.link, is_connecting=True)
        if refusal := owner.broker.link.own_refusal():
            self._end(refusal)
        else:
            self._write_records(self._handshake.start)

    def data_received(self, data: bytes) -> None:
        self._connection.received(len(data), time.time_ns())
        try:
            for record in self._records.feed(data):
                self._shake_hands(record)
        except HandshakeError as refusal:
            if refusal.answer:
                self._write_records([refusal.answer])
            self._end(str(refusal))
        except ValueError as error:
            self._end(f"{FAILED}{error}.")

    def connection_lost(self, exc: Exception | None) -> None:
        self._timeout.cancel()
        self._peer.owner.closed(self._connection)
        self._peer.failed(self._status)

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        self._peer.flush_soon()

    def write(self, frames: Collection[Frame]) -> None:
        seal = self._handshake.sending.seal
        self._write_records((seal(record) for record in pack_records(frames)), len(frames))

    def close(self) -> None:
        self._transport.abort()

    def _write_records(self, records: Iterable[bytes], fragments: int = 0) -> None:
        data = b"".join(_framed(record) for record in records)
        self._transport.write(data)
        self._connection.sent(len(data), fragments, time.time_ns())

    def _shake_hands(self, record: memoryview) -> None:
        if self._handshake.is_done:
            raise ValueError("The peer sent something after the handshake")
        self._write_records(self._handshake.receive(record))
        if self._handshake.is_done:
            self._timeout.cancel()
            _logged_in(self._connection, self._handshake)
            self._peer.connected(self)

    def _end(self, status: str) -> None:
        self._status = status
        self._transport.close()


def _logged_in(connection: Connection, handshake: Handshake) -> None:
    connection.login_time = time.time_ns()
    connection.peer_certificate, connection.is_encrypted = handshake.peer_certificate, handshake.is_encrypted


def _of_system(number: int) -> str:
    """How SQL Server quotes an error of the operating system."""
    return f"{number}({os.strerror(number)})"


# -- records -----------------------------------------------------------------------------------------------------------


class RecordReader:
    """Joins records of at most `size_max` bytes from bytes cut anywhere."""

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
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
            if length > self.size_max:
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
            yield packed
        elif len(batch) > 1:
            for frame in batch:
                yield from pack_records([frame])
        else:
            log.error("a message of %d bytes is too large to send (limit %d)", len(packed), RECORD_SIZE_MAX)


def _framed(record: bytes) -> bytes:
    return _LENGTH.pack(len(record)) + record
