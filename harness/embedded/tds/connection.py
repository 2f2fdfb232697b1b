"""The server's end of one TDS connection, without a socket: bytes in, requests out; responses in, bytes out.

`TRANSITIONS` lists the states and the packet types allowed in each; any other packet is a `TdsProtocolError`. There is
one request at a time: while it runs only an Attention may arrive.
"""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from harness.embedded.errors import SqlServerError
from harness.embedded.tds.bulk_load import BulkLoad
from harness.embedded.tds.login import TDS_7_4, UTF8_SUPPORT, Encryption, Login7, Prelogin, TlsLayer
from harness.embedded.tds.packets import (
    PACKET_SIZE_DEFAULT,
    Message,
    PacketReader,
    PacketStatus,
    PacketType,
    PacketWriter,
    Room,
)
from harness.embedded.tds.requests import Attention, Refused, Request, Rpc, SqlBatch, TransactionRequest
from harness.embedded.tds.response import (
    Done,
    DoneStatus,
    EnvChange,
    EnvironmentChange,
    FeatureExtAck,
    LoginAck,
    Reader,
    Response,
    ServerMessage,
    TokenType,
)
from harness.embedded.tds.value_encoding import COLLATION
from harness.embedded.tds.wire import ByteWriter, TdsProtocolError


class ConnectionState(Enum):
    PRELOGIN = auto()
    TLS_HANDSHAKE = auto()
    LOGIN = auto()
    LOGGING_IN = auto()  # LOGIN7 has arrived and is neither accepted nor refused
    IDLE = auto()
    BUSY = auto()  # a request is running


_S = ConnectionState
TRANSITIONS: dict[tuple[ConnectionState, PacketType], ConnectionState] = {
    (_S.PRELOGIN, PacketType.PRELOGIN): _S.LOGIN,  # or TLS_HANDSHAKE, if both sides want encryption
    (_S.TLS_HANDSHAKE, PacketType.PRELOGIN): _S.TLS_HANDSHAKE,  # LOGIN once the handshake is done
    (_S.LOGIN, PacketType.LOGIN7): _S.LOGGING_IN,
    (_S.LOGGING_IN, PacketType.ATTENTION): _S.LOGGING_IN,
    (_S.IDLE, PacketType.SQL_BATCH): _S.BUSY,
    (_S.IDLE, PacketType.RPC): _S.BUSY,
    (_S.IDLE, PacketType.TRANSACTION_MANAGER_REQUEST): _S.BUSY,
    (_S.IDLE, PacketType.BULK_LOAD): _S.BUSY,
    (_S.IDLE, PacketType.ATTENTION): _S.IDLE,
    (_S.BUSY, PacketType.ATTENTION): _S.BUSY,
}

# The second is for distributed transactions, which no driver used here has; it resets everything too.
_RESET_MASK = PacketStatus.RESET_CONNECTION.value | PacketStatus.RESET_CONNECTION_SKIP_TRANSACTION.value
_IGNORE = PacketStatus.IGNORE.value

LANGUAGE = "us_english"
PROGRAM = "Microsoft SQL Server"  # drivers branch on this name


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """Facts about itself that the server sends at login."""

    name: str
    version: tuple[int, int, int]  # major, minor, build


class Connection:
    """One connection; `send` is called with bytes for the socket."""

    def __init__(
        self,
        server: ServerIdentity,
        send: Callable[[bytes], None],
        *,
        tls: ssl.SSLContext | None = None,
        requires_encryption: bool = False,
        reader: Reader | None = None,
        room: Room | None = None,
    ) -> None:
        self.state = ConnectionState.PRELOGIN
        self._server = server
        self._spid = 0  # of the session, once there is one
        self._reader = reader
        self._context = tls
        self._requires_encryption = requires_encryption
        self._tls: TlsLayer | None = None
        self._write = send  # to the socket
        self._send = send  # through TLS if there is TLS
        self._packets = PacketReader(is_logged_in=False, room=room)
        self._packet_size = PACKET_SIZE_DEFAULT

    def receive(self, data: bytes) -> list[Login7 | Request | Attention]:
        """The requests that these bytes complete; PRELOGIN and TLS are handled here."""
        if self._tls is not None and self._tls.established:
            data = self._tls.decrypt(data)
        requests: list[Login7 | Request | Attention] = []
        for message in self._packets.feed(data):
            request = self._accept(message)
            if request is not None:
                requests.append(request)
        return requests

    def _accept(self, message: Message) -> Login7 | Request | Attention | None:
        before = self.state
        after = TRANSITIONS.get((before, message.type))
        if after is None:
            raise TdsProtocolError(f"{message.type.name} in state {before.name}")
        if message.status == _IGNORE:
            self._ignore()
            return None
        self.state = after
        if after is ConnectionState.BUSY and before is ConnectionState.IDLE:
            return _request(message)
        return HANDLERS[message.type](self, message)

    def _prelogin(self, message: Message) -> None:
        if self._tls is not None:
            return self._handshake(message.payload)
        # OFF would mean "TLS for the login alone". This server answers that wish with no TLS at all, unless it is
        # reached from other machines: then everything is encrypted, or refused.
        request = Prelogin.decode(message.payload)
        wish = request.encryption
        encrypts = self._context is not None and (
            wish in (Encryption.ON, Encryption.REQUIRED) or self._requires_encryption
        )
        agreed = Encryption.NOT_SUPPORTED
        if encrypts:
            agreed = Encryption.REQUIRED if self._requires_encryption else Encryption.ON
        answer = Prelogin(self._server.version, agreed, request.is_sqlclient)
        self._write(PacketWriter(PacketType.TABULAR_RESULT, PACKET_SIZE_DEFAULT).finish(answer.encode()))
        if encrypts and wish is Encryption.NOT_SUPPORTED:
            raise TdsProtocolError("it does not encrypt, which clients from other machines must")
        if encrypts:
            assert self._context is not None
            self._tls = TlsLayer(self._context)
            self.state = ConnectionState.TLS_HANDSHAKE
        return None

    def _handshake(self, payload: bytes) -> None:
        assert self._tls is not None
        answer = ByteWriter(self._tls.shake_hands(payload))
        if answer:
            self._write(PacketWriter(PacketType.PRELOGIN, PACKET_SIZE_DEFAULT).finish(answer))
        if self._tls.established:
            self.state = ConnectionState.LOGIN
            self._send = self._send_encrypted

    def _send_encrypted(self, data: bytes) -> None:
        assert self._tls is not None
        self._write(self._tls.encrypt(data))

    def _ignore(self) -> None:
        """Answer a request that the client gave up before its end: "a single DONE token ... that has a status value of
        DONE_ERROR"."""
        self._send_done(DoneStatus.ERROR)

    def _attention(self, message: Message) -> Attention | None:
        if self.state is not ConnectionState.IDLE:
            return Attention()
        # It crossed the end of the response that it was meant for; the client still waits for its acknowledgement.
        self._send_done(DoneStatus.ATTENTION)
        return None

    def break_off(self, response: Response) -> None:
        """End a request that the client gave up. The acknowledgement is a message of its own: tedious reads a response
        to its end, and then waits for another message."""
        response.break_off()
        self.end_response()
        self._send_done(DoneStatus.ATTENTION)

    def _send_done(self, status: DoneStatus) -> None:
        out = ByteWriter()
        Done(TokenType.DONE, status).encode(out)
        self._send(self._writer().finish(out))

    def accept_login(self, login: Login7, database: str, spid: int) -> None:
        """Confirm the login, and tell the client its database, language, collation, packet size and session id."""
        self._spid = spid
        out = ByteWriter()
        packet_size = login.packet_size
        for token in (
            EnvChange(EnvironmentChange.DATABASE, database, "master"),
            self._info(5701, 2, f"Changed database context to '{database}'."),
            EnvChange(EnvironmentChange.COLLATION, COLLATION, b""),
            EnvChange(EnvironmentChange.LANGUAGE, LANGUAGE, ""),
            self._info(5703, 1, f"Changed language setting to {LANGUAGE}."),
            LoginAck(min(login.tds_version, TDS_7_4), PROGRAM, self._server.version),
            EnvChange(EnvironmentChange.PACKET_SIZE, str(packet_size), str(self._packet_size)),
        ):
            token.encode(out)
        if UTF8_SUPPORT in login.features:
            FeatureExtAck(UTF8_SUPPORT, 1).encode(out)
        Done(TokenType.DONE, DoneStatus.FINAL).encode(out)
        self._send(self._writer().finish(out))
        self._packet_size = packet_size
        self._packets.log_in(packet_size)
        self.state = ConnectionState.IDLE

    def refuse_login(self, error: SqlServerError) -> None:
        """Send the error; the caller closes the connection."""
        response = Response(self._writer(), self._send, server=self._server.name, is_call=False)
        response.error(error)
        response.finish()

    def begin_response(self, *, is_call: bool) -> Response:
        return Response(self._writer(), self._send, server=self._server.name, is_call=is_call, reader=self._reader)

    def end_response(self) -> None:
        """Allow the next request: this one is answered."""
        assert self.state is ConnectionState.BUSY
        self.state = ConnectionState.IDLE
        self._packets.release()

    def close(self) -> None:
        """Give back what the connection holds: it is closed."""
        self._packets.release()

    def _writer(self) -> PacketWriter:
        return PacketWriter(PacketType.TABULAR_RESULT, self._packet_size, self._spid)

    def _info(self, number: int, state: int, text: str) -> ServerMessage:
        return ServerMessage(number, state, 0, text, self._server.name, "", 1)


HANDLERS: dict[PacketType, Callable[[Connection, Message], Login7 | Attention | None]] = {
    PacketType.PRELOGIN: Connection._prelogin,
    PacketType.LOGIN7: lambda connection, message: Login7.decode(message.payload),
    PacketType.ATTENTION: Connection._attention,
}


def _request(message: Message) -> Request:
    reset = message.status & _RESET_MASK != 0
    if message.is_too_large:
        return Refused(reset, SqlServerError(701, "internal"))
    try:
        return DECODERS[message.type](reset, message.payload)
    except SqlServerError as error:
        return Refused(reset, error)


DECODERS: dict[PacketType, Callable[[bool, bytes], Request]] = {
    PacketType.SQL_BATCH: SqlBatch.decode,
    PacketType.RPC: Rpc.decode,
    PacketType.TRANSACTION_MANAGER_REQUEST: TransactionRequest.decode,
    PacketType.BULK_LOAD: BulkLoad.decode,
}
