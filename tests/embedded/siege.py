"""All attacks at once on one server process for a time, and what of it is left afterwards.

Generated batches, damaged packets, hostile brokers, clients that do their worst after the login, connections that never
log in, floods of logins, and clients that give up or disappear at any moment. Each depends on the seed and a number;
when they meet depends on the machine.
"""

import contextlib
import itertools
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass

import msgspec
import psutil
import pyodbc

from harness.embedded.broker.frames import AcknowledgementFrame, pack_frames
from harness.embedded.server.broker_handshake import Handshake, HandshakeError
from harness.embedded.server.broker_transport import RECORD_SIZE_MAX, RecordReader
from tests.embedded.attack import Failure, Server, damaged, exchange, run, set_up
from tests.embedded.broker.frame_fuzzer import VALUES
from tests.embedded.grammar import Batches
from tests.embedded.server.bare_client import PRELOGIN, PRELOGIN_TYPE, attention, batch, log_in, packets
from tests.embedded.server.broker_sides import EndpointLink, Impostor
from tests.embedded.server.canned import PASSWORD

GROWTH_MAX = 256 * 2**20  # bytes of memory that may be left
LOG_MAX = 2**20  # bytes
LOOK_S = 0.5
QUIET_S = 60  # after which everything must be gone
HOST = "127.0.0.1"
SET_UP_EACH = 20  # batches
LOGIN_S = 15
WORST_S = 3  # of a client at its worst
FILL = (
    "CREATE TABLE dbo.{0} (n int NOT NULL, note varchar(100) NULL); INSERT dbo.{0} VALUES (1, 'x'); "
    "DECLARE @i int = 0; WHILE @i < 15 BEGIN INSERT dbo.{0} SELECT n, note FROM dbo.{0}; SET @i += 1; END; "
)
WORST = (
    "SELECT 1; " * 100_000,
    "SELECT " + "(" * 2_000_000,
    "SELECT 1 " + "/*" * 2_000_000,
    "SELECT '" + "x" * 4_000_000 + "'",
    "SELECT " + "+".join(["1"] * 10_000),
    "INSERT dbo.none VALUES " + ", ".join(["(1)"] * 5_000),
    "WHILE 1 = 1 SELECT * FROM sys.objects",
    "WHILE 1 = 1 PRINT REPLICATE('x', 4000)",
    "DECLARE @i bigint = 0; WHILE 1 = 1 SET @i += 1",
    "SELECT COUNT(*) FROM sys.objects a CROSS JOIN sys.objects b CROSS JOIN sys.objects c CROSS JOIN sys.objects d",
    "DECLARE @t TABLE (s varchar(8000)); DECLARE @i int = 0; "
    "WHILE @i < 10000 BEGIN INSERT @t VALUES (REPLICATE('x', 8000)); SET @i += 1; END; SELECT * FROM @t",
    "DECLARE @i int = 0, @h int; WHILE 1 = 1 BEGIN EXEC sp_prepare @h OUTPUT, N'', N'SELECT 1 AS a, 2 AS b'; END",
    "DECLARE @i int = 0, @q nvarchar(max), @h int; WHILE 1 = 1 BEGIN SET @i += 1; "
    "SET @q = CONCAT(N'SELECT ', @i, N' AS a, ''', REPLICATE(N'x', 30000), N''''); EXEC sp_prepare @h OUTPUT, N'', @q; END",
    "DECLARE @i int = 0, @q nvarchar(max); WHILE 1 = 1 BEGIN SET @i += 1; SET @q = CONCAT(N'SELECT ', @i, N' AS a'); "
    "EXEC sp_executesql @q; END",
    "DECLARE @i int = 0; WHILE @i < 100000 BEGIN SET @i += 1; "
    "EXEC ('DECLARE c CURSOR GLOBAL FOR SELECT name FROM sys.objects; OPEN c'); END",
    "BEGIN TRANSACTION; " + FILL + "UPDATE dbo.{0} SET note = 'y'; DELETE dbo.{0}; ROLLBACK TRANSACTION",
    FILL + "WHILE 1 = 1 UPDATE dbo.{0} SET n = n + 1",
    "DECLARE @s varchar(max) = 'x'; WHILE 1 = 1 SET @s = @s + @s",
    "DECLARE @x nvarchar(max) = REPLICATE(CAST(N'x' AS nvarchar(max)), 50000000); SELECT LEN(@x), @x",
    "DECLARE @s varchar(max) = REPLICATE(CAST('a' AS varchar(max)), 2000000); "
    "SELECT 1 WHERE @s LIKE '%[ab]%' + LEFT(@s, 4000) + '[^a]%'; SELECT REPLACE(@s, LEFT(@s, 4000) + 'b', '')",
    "DECLARE @x xml = REPLICATE(CAST('<a b=\"c\">&amp;</a>' AS varchar(max)), 2000000)",
    "RAISERROR ('flood', 10, 1) WITH LOG; WHILE 1 = 1 RAISERROR ('flood', 10, 1) WITH LOG",
)
ENDPOINT = (
    "CREATE MASTER KEY",
    "CREATE CERTIFICATE siege_own WITH SUBJECT = 'siege'",
    "CREATE LOGIN siege_peer WITH PASSWORD = 'Siege, 1234'",
    "CREATE USER siege_peer FOR LOGIN siege_peer",
    "CREATE CERTIFICATE siege_peer AUTHORIZATION siege_peer FROM BINARY = 0x{certificate}",
    "CREATE ENDPOINT siege STATE = STARTED AS TCP (LISTENER_PORT = {port}, LISTENER_IP = (127.0.0.1)) "
    "FOR SERVICE_BROKER (AUTHENTICATION = CERTIFICATE siege_own, ENCRYPTION = SUPPORTED)",
    "GRANT CONNECT ON ENDPOINT::siege TO siege_peer",
)


@dataclass(frozen=True)
class Held:
    """What a server holds."""

    resident: int  # bytes
    descriptors: int
    sessions: int
    log: int  # bytes

    def __str__(self) -> str:
        return (
            f"{self.resident / 2**20:7.0f} MiB resident{self.descriptors:6} descriptors{self.sessions:5} sessions"
            f"{self.log / 2**10:7.0f} KiB of log"
        )


class Peer(EndpointLink):
    """A broker that believes every other."""

    def refusal_of(self, certificate: bytes | None) -> str:
        return ""


class Siege:
    def __init__(self, server: Server, seed: int, failed: Callable[[Failure], None]) -> None:
        self.server = server
        self.seed = seed
        self.failed = failed
        self.counts: dict[str, int] = {}
        self._stopped = threading.Event()
        self._process = psutil.Process(server.pid)
        self._peer = Peer("siege peer")
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            self._broker_port = int(probe.getsockname()[1])

    def set_up(self) -> None:
        with contextlib.closing(self.server.connect()) as connection:
            blob = self._peer.pair.blob.hex()
            for text in ENDPOINT:
                connection.execute(text.format(certificate=blob, port=self._broker_port))

    def held(self, connection: pyodbc.Connection) -> Held:
        """What the server holds; `connection` is one of its sessions."""
        sessions = connection.execute("SELECT COUNT(*) FROM sys.dm_exec_sessions WHERE is_user_process = 1").fetchval()
        return self._held(int(sessions))

    def _held(self, sessions: int = 0) -> Held:
        process = self._process
        return Held(process.memory_info().rss, process.num_fds(), sessions, self.server.log_bytes())

    def attack(self, seconds: float) -> Held:
        """Attack for a time, and return the most of everything that the server has held."""
        kinds = [
            *(self._batches, self._packets, self._frames, self._half_open, self._logins, self._gives_up),
            *[self._worst] * 4,
        ]
        threads = [threading.Thread(target=self._repeat, args=(kind, place)) for place, kind in enumerate(kinds)]
        for thread in threads:
            thread.start()
        most = self._held()
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.server.is_alive:
            with contextlib.suppress(psutil.Error):
                now = self._held()
                most = Held(*(max(pair) for pair in zip(astuple(most), astuple(now), strict=True)))
            time.sleep(LOOK_S)
        self._stopped.set()
        for thread in threads:
            thread.join()
        return most

    def tidy(self) -> None:
        """Remove what the attacks have stored: it is no leak."""
        with contextlib.closing(self.server.connect()) as connection:
            names = connection.execute("SELECT name FROM sys.databases WHERE database_id > 4").fetchall()
            for (name,) in names:
                quoted = name.replace("]", "]]")
                connection.execute(f"DROP DATABASE [{quoted}]")
            for (name,) in connection.execute("SELECT name FROM sys.tables").fetchall():
                connection.execute("DROP TABLE dbo.[" + name.replace("]", "]]") + "]")

    def _repeat(self, kind: Callable[[int], str], place: int) -> None:
        """Attack in one way again and again; `place` tells apart threads of one kind."""
        name = kind.__name__.strip("_")
        for number in itertools.count(place, 100):
            if self._stopped.is_set() or not self.server.is_alive:
                return
            try:
                wrong = kind(number)
            except (OSError, pyodbc.Error) as error:  # a flood may leave no place for this one
                wrong = "" if self.server.is_alive else f"{error}"
            self.counts[name] = self.counts.get(name, 0) + 1
            if wrong:
                self.failed(Failure(number, name, f"{wrong} {self.server.log()}"))

    def _random(self, kind: str, number: int) -> random.Random:
        return random.Random(f"{self.seed}/{kind}/{number}")

    # -- the attacks; each returns what is wrong

    def _batches(self, number: int) -> str:
        made = Batches(self.seed)
        with contextlib.closing(self.server.connect()) as connection:
            set_up(connection)
            for each in range(number * SET_UP_EACH, (number + 1) * SET_UP_EACH):
                text = made.batch(each)
                wrong = run(connection, text)
                if self.server.answers(connection):
                    return ""  # it lost its connection, as others beside it may make it: `attack` tests that alone
                if wrong:
                    return f"{wrong} {text[:1000]!r}"
        return ""

    def _packets(self, number: int) -> str:
        exchange(self.server.port, damaged(self.seed, number))
        return ""

    def _worst(self, number: int) -> str:
        source = self._random("worst", number)
        text = source.choice(WORST)
        if "{0}" in text:
            text = text.replace("{0}", f"siege_{number}")
        with self._client() as client:
            client.sendall(batch(text))
            if source.random() < 0.5:
                self._stopped.wait(source.random() * WORST_S)  # reads nothing, and disappears
                return ""
            answers = _Answers(client)
            if answers.end_of_message(WORST_S):
                return ""
            client.sendall(attention())
            end = time.monotonic() + QUIET_S
            while (last := answers.end_of_message(QUIET_S)) and last[-13:-10] != bytes.fromhex("fd 2000"):
                pass
            is_late = not last and time.monotonic() > end
        return f"no acknowledgement of an attention within {QUIET_S} s: {text[:200]!r}" if is_late else ""

    def _gives_up(self, number: int) -> str:
        """Many sessions, each with an open transaction; attentions, resets and ends at any moment."""
        source = self._random("gives up", number)
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(self._client()) for _ in range(source.choice((1, 5, 50)))]
            for client in clients:
                text = (
                    "USE tempdb; BEGIN TRANSACTION; DECLARE @t TABLE (n int); INSERT @t VALUES (1); SELECT n FROM @t; "
                )
                status = source.choice((0, 0, 0x08, 0x10))
                request = batch(text * source.choice((1, 100)) + source.choice(WORST)[:100_000], status)
                client.sendall(request[: source.choice((len(request), source.randrange(len(request))))])
                if source.random() < 0.5:
                    client.sendall(attention())
            self._stopped.wait(source.random() * 0.1)
        return ""

    def _half_open(self, number: int) -> str:
        source = self._random("half open", number)
        with contextlib.ExitStack() as stack:
            for _ in range(source.choice((10, 100, 300))):
                client = stack.enter_context(socket.create_connection((HOST, self.server.port), LOGIN_S))
                whole = packets(PRELOGIN_TYPE, PRELOGIN)
                client.sendall(whole[: source.randrange(len(whole) + 1)])
                _reset_when_closed(client, source)
            self._stopped.wait(source.random())
        return ""

    def _logins(self, number: int) -> str:
        source = self._random("logins", number)
        for _ in range(20):
            with socket.create_connection((HOST, self.server.port), LOGIN_S) as client:
                name, password = source.choice(
                    (("sa", PASSWORD), ("siege_peer", "wrong"), (f"nobody{number}", "x"), ("\n" * 9, ""))
                )
                if name != "sa" or password == PASSWORD or source.random() < 0.05:
                    log_in(client, name, password)
                _reset_when_closed(client, source)
        return ""

    def _frames(self, number: int) -> str:
        """A broker that breaks the handshake, that is somebody else, or that sends what no broker would."""
        source = self._random("frames", number)
        with socket.create_connection((HOST, self._broker_port), LOGIN_S) as client:
            if source.random() < 0.2:
                client.sendall(source.randbytes(source.randrange(1, 100_000)))
                return ""
            link = Impostor(self._peer.pair.blob) if source.random() < 0.2 else self._peer
            handshake = Handshake("siege peer", link, is_connecting=True)
            records = RecordReader(2**20)
            try:
                _send(client, handshake.start, source, 0.05)
                while not handshake.is_done:
                    if not (data := client.recv(65536)):
                        return ""
                    for record in records.feed(data):
                        _send(client, handshake.receive(record), source, 0.05)
            except HandshakeError:
                return ""
            for _ in range(source.randrange(1, 30)):
                _send(client, [handshake.sending.seal(_hostile_record(source))], source, 0.02)
            _reset_when_closed(client, source)
        return ""

    @contextlib.contextmanager
    def _client(self) -> Iterator[socket.socket]:
        with socket.create_connection((HOST, self.server.port), LOGIN_S) as client:
            log_in(client, "sa", PASSWORD)
            yield client


def _send(client: socket.socket, records: list[bytes], source: random.Random, damage: float) -> None:
    for record in records:
        data = bytearray(struct.pack(">I", len(record)) + record)
        if source.random() < damage:
            data[source.randrange(len(data))] ^= 1 << source.randrange(8)
        client.sendall(data)


class _Answers:
    """The packets that a client receives."""

    def __init__(self, client: socket.socket) -> None:
        self._client = client
        self._received = bytearray()

    def end_of_message(self, seconds: float) -> bytes:
        """The last packet of the message that arrives; nothing if it does not end in time or the connection does."""
        end = time.monotonic() + seconds
        received = self._received
        with contextlib.suppress(TimeoutError):
            while (left := end - time.monotonic()) > 0:
                size = int.from_bytes(received[2:4], "big") if len(received) >= 8 else 8
                if len(received) > 8 and len(received) >= size:
                    packet = bytes(received[:size])
                    del received[:size]
                    if packet[1] & 1:
                        return packet
                    continue
                self._client.settimeout(left)
                if not (data := self._client.recv(65536)):
                    break
                received += data
        return b""


def _hostile_record(source: random.Random) -> bytes:
    """Frames with values of other types, sizes and meanings in any field."""
    frame = AcknowledgementFrame("0F8FAD5B-D9CB-469F-A165-70867728950E", True, 1, "b")
    entries = msgspec.msgpack.decode(pack_frames([frame] * source.choice((1, 1, 100))))
    for entry in entries:
        for place in range(len(entry)):
            if source.random() < 0.3:
                entry[place] = source.choice(VALUES)
    record = msgspec.msgpack.encode(entries)
    if source.random() < 0.1:
        record = source.randbytes(source.choice((1, 100, 100_000)))
    return record[:RECORD_SIZE_MAX]


def _reset_when_closed(client: socket.socket, source: random.Random) -> None:
    """Half of the time a connection ends with RST and not with FIN."""
    if source.random() < 0.5:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def besiege(
    server: Server, seed: int, seconds: float, failed: Callable[[Failure], None], report: Callable[[str], None]
) -> None:
    """Attack for a time, and say what the server holds before, during and after; a broken bound has failed."""
    siege = Siege(server, seed, failed)
    siege.set_up()
    with contextlib.closing(server.connect()) as connection:
        before = siege.held(connection)
    report(f"before {before}")
    most = siege.attack(seconds)
    report(f"most   {most}")
    report(", ".join(f"{count} {name.replace('_', ' ')}" for name, count in sorted(siege.counts.items())))
    if not server.is_alive:
        failed(Failure(0, "siege", f"the process ended: {server.log()}"))
        return
    siege.tidy()
    end = time.monotonic() + QUIET_S
    with contextlib.closing(server.connect()) as connection:
        while problems := left_over(before, after := siege.held(connection)):
            if time.monotonic() > end:
                failed(Failure(0, "siege", "; ".join(problems)))
                break
            time.sleep(LOOK_S)
    report(f"after  {after}")


def left_over(before: Held, after: Held) -> list[str]:
    """What of an attack the server still holds."""
    found = []
    if after.resident > before.resident + GROWTH_MAX:
        found.append(f"{(after.resident - before.resident) / 2**20:.0f} MiB more memory than before")
    if after.descriptors > before.descriptors:
        found.append(f"{after.descriptors - before.descriptors} descriptors are left")
    if after.sessions > before.sessions:
        found.append(f"{after.sessions - before.sessions} sessions are left")
    if after.log > LOG_MAX:
        found.append(f"{after.log} bytes of log")
    return found
