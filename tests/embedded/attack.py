"""Attacks on a server process: batches of `grammar`, and damaged packets before and after the login.

Each attack is numbered and depends on its seed and its number alone, but for what earlier ones left in the server. The
server must answer each batch with results or an error that is no defect (50002) on the same connection, close what is
no TDS, answer the next client, and stay the same process.
"""

import contextlib
import json
import os
import random
import resource
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyodbc

from harness.embedded.errors import DEFECT
from harness.embedded.tds.login import Encryption, Prelogin
from harness.embedded.tds.packets import PACKET_SIZE_DEFAULT, PacketType, PacketWriter
from harness.embedded.tds.wire import ByteWriter
from harness.lab import drivers
from tests.embedded.grammar import SETUP, Batches
from tests.embedded.server.canned import PASSWORD
from tests.embedded.tds.captures import NAMES, writes

ADDRESS_SPACE_BYTES = 4 << 30  # of the server, so that an attack that succeeds does not take the machine along
ANSWER_S = 2  # after which a batch is cancelled
PATIENCE_S = 60  # for an answer that must come
ROWS_MAX = 200  # read of each result
SET_UP_EACH = 20  # batches
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Failure:
    number: int
    attack: str
    what: str


class Server:
    """`harness serve` as a process."""

    def __init__(self, folder: Path) -> None:
        self._log = (folder / "log").open("w+b")
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "harness", "serve", "--port", "0", "--data", str(folder / "data")),
                *("--with-parent", "--statement-budget", "1"),  # a client that gives up, or another one, waits for it
            ],
            cwd=ROOT,
            env={**os.environ, "HARNESS_PASSWORD": PASSWORD},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES)),  # noqa: PLW1509
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.log()
        self.port = int(json.loads(line)["port"])

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def log_bytes(self) -> int:
        return os.fstat(self._log.fileno()).st_size

    def log(self) -> str:
        """The last lines of the log."""
        return Path(self._log.name).read_bytes()[-3000:].decode("utf-8", "replace")

    def connect(self) -> pyodbc.Connection:
        text = drivers.choose("microsoft").connection_string(
            host="127.0.0.1", port=self.port, user="sa", password=PASSWORD, database="master", program="attack"
        )
        return pyodbc.connect(text, autocommit=True, timeout=PATIENCE_S)

    def answers(self, connection: pyodbc.Connection) -> str:
        """What is wrong with the next statement on the connection; "" if it is answered."""
        try:
            connection.timeout = PATIENCE_S
            # What a batch may leave: an open transaction, and options that return no rows.
            connection.execute("SET NOEXEC OFF; SET FMTONLY OFF; IF @@TRANCOUNT > 0 ROLLBACK").close()
            [row] = connection.execute("SELECT 42").fetchall()
            return "" if row[0] == 42 else f"SELECT 42 gave {row!r}"
        except pyodbc.Error as error:
            return f"the next statement: {error}"

    def stop(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder))
        try:
            yield server
        finally:
            server.stop()


def run(connection: pyodbc.Connection, text: str) -> str:
    """What is wrong with the answer to a batch; "" if it is results or an error of SQL Server's."""
    connection.timeout = ANSWER_S
    cursor = connection.cursor()
    try:
        cursor.execute(text)
        while True:
            if cursor.description is not None:
                cursor.fetchmany(ROWS_MAX)
            if not cursor.nextset():
                return ""
    except pyodbc.Error as error:
        return _wrong(error)
    except (ValueError, OverflowError, UnicodeError):
        return ""  # a value that Python's types do not have
    finally:
        with contextlib.suppress(pyodbc.Error):
            cursor.close()


def _wrong(error: pyodbc.Error) -> str:
    state, text = str(error.args[0]), str(error.args[-1])
    if f"({DEFECT})" in text:
        return text
    is_from_server = "[SQL Server]" in text
    is_cancelled = state in ("HYT00", "HY008")
    is_of_the_driver = state not in ("HY000", "08S01", "08001", "HYT01", "01000")  # a value that it cannot convert
    return "" if is_from_server or is_cancelled or is_of_the_driver else f"{state} {text}"


def set_up(connection: pyodbc.Connection) -> None:
    """Make what the batches use, as far as it is not there."""
    for text in SETUP:
        run(connection, text)


def attack_with_batches(seed: int, numbers: range, failed: Callable[[Failure], None]) -> None:
    """Send the batches of these numbers to one server, over one connection as long as it lasts."""
    batches = Batches(seed)
    with serving() as server:
        connection = server.connect()
        for number in numbers:
            if (number - numbers.start) % SET_UP_EACH == 0:
                set_up(connection)
            text = batches.batch(number)
            wrong = run(connection, text)
            found = server.answers(connection)
            if found:
                with contextlib.suppress(pyodbc.Error):
                    connection.close()
                if not server.is_alive:
                    failed(Failure(number, text, f"the process ended: {server.log()}"))
                    return
                connection = server.connect()
            if wrong or found:
                failed(Failure(number, text, f"{wrong} {found} {server.log()}"))
        connection.close()


# -- packets -----------------------------------------------------------------------------------------------------------


def damaged(seed: int, number: int) -> list[bytes]:
    """What a client sends: a login and a request as a driver sent them, damaged in one of the writes."""
    source = random.Random(f"{seed}/{number}")
    if source.random() < 0.1:
        return _handshake(source)
    name = source.choice(NAMES)
    login = "freetds_login" if name.startswith("freetds") else "microsoft_login"
    sent = [*writes(login), *(writes(name) if name != login else [])]
    at = source.randrange(len(sent))
    data = bytearray(sent[at])
    for _ in range(source.choice((0, 1, 1, 2, 8))):
        data[source.randrange(len(data))] = source.choice((0, 1, 0x7F, 0x80, 0xFF, source.randrange(256)))
    if source.random() < 0.3:
        del data[source.randrange(len(data)) :]
    if source.random() < 0.2:
        data += source.randbytes(source.randrange(300))
    if source.random() < 0.2:  # the length of the packet is right again
        data[2:4] = len(data).to_bytes(2, "big")
    sent[at] = bytes(data)
    return sent[: source.choice((at + 1, len(sent)))]


def _handshake(source: random.Random) -> list[bytes]:
    """A PRELOGIN that wants TLS, and a ClientHello or what is none."""
    prelogin = PacketWriter(PacketType.PRELOGIN, PACKET_SIZE_DEFAULT)
    wish = prelogin.finish(ByteWriter(Prelogin((18, 0, 0), Encryption.ON).encode()))
    ciphers = bytes.fromhex("c02bc02cc02fc030009e")
    hello = b"\x03\x03" + source.randbytes(32) + b"\0" + len(ciphers).to_bytes(2, "big") + ciphers + b"\1\0"
    hello = b"\1" + len(hello).to_bytes(3, "big") + hello
    data = bytearray(b"\x16\x03\x01" + len(hello).to_bytes(2, "big") + hello)
    for _ in range(source.choice((0, 1, 4))):
        data[source.randrange(len(data))] = source.randrange(256)
    if source.random() < 0.3:
        data = bytearray(source.randbytes(source.randrange(1, 3000)))
    answer = PacketWriter(PacketType.PRELOGIN, PACKET_SIZE_DEFAULT).finish(ByteWriter(bytes(data)))
    return [wish, answer, source.choice((answer, bytes(data), b"", writes("microsoft_login")[1]))]


def attack_with_packets(seed: int, numbers: range, failed: Callable[[Failure], None]) -> None:
    """Send damaged logins and requests, each over a connection of its own."""
    with serving() as server:
        connection = server.connect()
        for number in numbers:
            sent = damaged(seed, number)
            exchange(server.port, sent)
            found = server.answers(connection) if number % 10 == 0 or not server.is_alive else ""
            if found:
                failed(Failure(number, " ".join(data.hex() for data in sent), f"{found} {server.log()}"))
                if not server.is_alive:
                    return
                connection = server.connect()
        found = server.answers(connection)
        sessions = connection.execute("SELECT COUNT(*) FROM sys.dm_exec_sessions WHERE is_user_process = 1").fetchval()
        if found or sessions != 1:
            failed(Failure(numbers.stop, "", f"{found}; {sessions} sessions are left, not 1"))
        connection.close()


def exchange(port: int, sent: list[bytes]) -> None:
    """Send everything and read until the server has closed the connection."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        for data in sent:
            client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        while client.recv(65536):
            pass
