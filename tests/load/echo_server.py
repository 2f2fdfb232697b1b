"""A TDS server that answers at once: what the clients are measured and tested against.

It logs anybody in and says "done" to every `dbo.SendMessage`, counting the message by the header of its body. The
database name asks for trouble: `Refuse` the login, `Fail3` (every third call of a connection), `FailAll`, `Stuck5`
(never an answer from the fifth call on), `Delay5` (milliseconds a call).

Run as a process of its own (`python -m tests.load.echo_server`): prints its port, answers each line on stdin with one
line of JSON, the messages by "run/initiator/thread", and ends with its stdin.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from uuid import UUID

PRELOGIN_RESPONSE = bytes.fromhex("00000b0006 01001100 01 ff 10000000 0000 02".replace(" ", ""))  # no encryption
SEND = "dbo.SendMessage".encode("utf-16-le")
DATATYPE_INFO = "sp_datatype_info".encode("utf-16-le")
SP_EXECUTE = struct.pack("<HHHBBBBB", 0xFFFF, 12, 0, 0, 0, 0x26, 4, 4)  # and the handle
SP_PREPEXECRPC = struct.pack("<HH", 0xFFFF, 14)
BY_NAME = struct.pack("<H", len("dbo.SendMessage")) + SEND
SEND_HANDLE = 1  # of prepared statements


def _b_varchar(text: str) -> bytes:
    return bytes([len(text)]) + text.encode("utf-16-le")


def _token(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + struct.pack("<H", len(body)) + body


def _done(kind: int = 0xFD, status: int = 0, rows: int = 0) -> bytes:
    return struct.pack("<BHHQ", kind, status, 0, rows)


def _error(number: int, text: str) -> bytes:
    body = struct.pack("<iBB", number, 1, 16) + struct.pack("<H", len(text)) + text.encode("utf-16-le")
    return _token(0xAA, body + _b_varchar("echo") + _b_varchar("dbo.SendMessage") + struct.pack("<i", 1))


def _column(kind: bytes, name: str) -> bytes:
    return struct.pack("<IH", 0, 1) + kind + _b_varchar(name)


# What pyodbc wants to know of each connection: how long a varbinary may be.
TYPE_INFO = (
    b"\x81\x03\x00"
    + _column(b"\xe7\x00\x01" + bytes.fromhex("0904d00034"), "TYPE_NAME")
    + _column(b"\x26\x02", "DATA_TYPE")
    + _column(b"\x26\x04", "PRECISION")
    + b"\xd1"
    + struct.pack("<H", 18)
    + "varbinary".encode("utf-16-le")
    + struct.pack("<BhBi", 2, -3, 4, 8000)
    + _done(0xFF, 0x10, 1)
)
LOGIN_ACCEPTED = (
    _token(0xE3, b"\x01" + _b_varchar("Echo") + _b_varchar("master"))
    + _token(0xE3, b"\x07\x05" + bytes.fromhex("0904d00034") + b"\x00")
    + _token(0xAD, b"\x01" + bytes.fromhex("74000004") + _b_varchar("echo") + bytes([10, 0, 0, 0]))
    + _token(0xE3, b"\x04" + _b_varchar("4096") + _b_varchar("4096"))
    + _done()
)
LOGIN_REFUSED = _error(18456, "Login failed for user 'sa'.") + _done(status=2)
RETURN_STATUS = b"\x79" + struct.pack("<i", 0)


def _prepared(handle: int) -> bytes:
    return b"\xac" + struct.pack("<HBBIHBBBi", 0, 0, 1, 0, 0, 0x26, 4, 4, handle)


SENT = RETURN_STATUS + _done(0xFE)
PREPARED_AND_SENT = RETURN_STATUS + _prepared(SEND_HANDLE) + _done(0xFE)


class Session:
    """One connection."""

    def __init__(self, received: dict[str, list[int]]) -> None:
        self._received = received
        self._calls = 0
        self._last: dict[str, int] = {}
        self.trouble, self._amount = "", 0

    def log_in(self, login: bytes) -> bytes:
        offset, length = struct.unpack_from("<HH", login, 68)
        database = login[offset : offset + 2 * length].decode("utf-16-le")
        match = re.fullmatch(r"([A-Za-z]+)(\d*)", database)
        assert match is not None, database
        self.trouble, self._amount = match[1], int(match[2] or 0)
        return LOGIN_REFUSED if self.trouble == "Refuse" else LOGIN_ACCEPTED

    async def answer(self, request: bytes) -> bytes:
        executed = struct.unpack_from("<i", request, 33)[0] if request.startswith(SP_EXECUTE, 22) else None
        if SEND in request[:400] or executed == SEND_HANDLE:
            return await self._send(request)
        if DATATYPE_INFO in request[:100]:
            return TYPE_INFO + RETURN_STATUS + _done(0xFE)
        return RETURN_STATUS + _done(0xFE)  # sp_unprepare

    async def _send(self, request: bytes) -> bytes:
        self._calls += 1
        if self.trouble == "Delay":
            await asyncio.sleep(self._amount / 1000)
        if self.trouble == "Stuck" and self._calls >= self._amount:
            await asyncio.sleep(3600)
        if self.trouble == "FailAll" or (self.trouble == "Fail" and self._calls % self._amount == 0):
            return _error(9617, "The service queue is currently disabled.") + RETURN_STATUS + _done(0xFE, 2)
        at = request.find(b"SSBH")
        if at >= 0:
            run, initiator, thread, _, sequence = struct.unpack_from(">IHHIq", request, at + 4)
            key = f"{run}/{initiator}/{thread}"
            count = self._received.setdefault(key, [0, 0, 0, 0])
            count[0] += 1
            count[2] += len(request) - at
            count[3] += request.startswith(BY_NAME, 22)
            if sequence <= self._last.get(key, -1):
                count[1] += 1
            self._last[key] = sequence
        return PREPARED_AND_SENT if request.startswith(SP_PREPEXECRPC, 22) else SENT


async def _serve_connection(
    received: dict[str, list[int]], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    session = Session(received)
    packet_type, message = 0, b""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            header = await reader.readexactly(8)
            packet_type, status, length = struct.unpack_from(">BBH", header)
            message += await reader.readexactly(length - 8)
            if not status & 1:
                continue
            if packet_type == 0x12:
                response = PRELOGIN_RESPONSE
            elif packet_type == 0x10:
                response = session.log_in(message)
            elif packet_type == 0x06:
                response = _done(status=0x20)
            else:
                response = await session.answer(message)
            message = b""
            writer.write(struct.pack(">BBHHBB", 4, 1, 8 + len(response), 0, 1, 0) + response)
    writer.close()


async def serve() -> None:
    received: dict[str, list[int]] = {}
    server = await asyncio.start_server(lambda r, w: _serve_connection(received, r, w), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    loop = asyncio.get_running_loop()
    stdin = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    while await stdin.readline():
        counts = {
            key: {"messages": messages, "misordered": misordered, "bytes": size, "by_name": by_name}
            for key, (messages, misordered, size, by_name) in received.items()
        }
        print(json.dumps(counts), flush=True)
    os._exit(0)  # whatever connections there are


def handles(count: int) -> list[str]:
    """Of dialogs; the server takes any."""
    return [str(UUID(int=number)) for number in range(1, count + 1)]


class EchoServer:
    """The process, seen from a test."""

    def __init__(self, process: subprocess.Popen[str], driver: str = "microsoft") -> None:
        assert process.stdout is not None
        self.process = process
        self.port = int(process.stdout.readline())
        from harness.lab import drivers  # noqa: PLC0415  the server process does without

        self._driver = drivers.choose(driver)

    def connection_string(self, database: str = "Echo") -> str:
        return self._driver.connection_string(
            host="127.0.0.1", port=self.port, user="sa", password="Secret-word-1", database=database, program="test"
        )

    def received(self) -> dict[str, dict[str, int]]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@contextlib.contextmanager
def running(driver: str = "microsoft") -> Iterator[EchoServer]:
    arguments = [sys.executable, "-m", "tests.load.echo_server"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(arguments, text=True, start_new_session=True, **pipes) as process:
        try:
            yield EchoServer(process, driver)
        finally:
            process.send_signal(signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(serve())
