"""The response to one request: a session's results as tokens ([MS-TDS] section 2.2.7), cut into packets.

`encode` of a token writes its fields in wire order. `Response` is the `ResultSink` that a session writes to. Rules:

1. The last DONE of a response says FINAL, every one before it MORE. When a statement ends it is not known whether
   another follows, so its DONE is held back until the next token or the end of the response.
2. A call (RPC) ends in DONEPROC, its statements in DONEINPROC; a batch's statements end in DONE. EXEC inside a batch
   reports a return status, followed by a DONEPROC.
3. A statement that counted nothing (NOCOUNT) and returned nothing writes nothing inside a procedure.
4. After an ERROR the next DONE says ERROR.
5. Whole packets are sent once `STREAM_AT` bytes have gathered; the rest is sent at the end, in one piece.
"""

import struct
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any, NamedTuple, Protocol

from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import Column, ResultSink, SqlType
from harness.embedded.tds.packets import PacketWriter
from harness.embedded.tds.value_encoding import TypeForm, form_of, packer
from harness.embedded.tds.wire import ByteWriter

STREAM_AT = 64 * 1024  # bytes of a result at which it begins to be sent
ROWS_PACKED = 1000  # at once
ERROR_SEVERITY = 11  # and above: ERROR, below: INFO


class TokenType(IntEnum):
    RETURNSTATUS = 0x79
    COLMETADATA = 0x81
    ERROR = 0xAA
    INFO = 0xAB
    RETURNVALUE = 0xAC
    LOGINACK = 0xAD
    FEATUREEXTACK = 0xAE
    ROW = 0xD1
    ENVCHANGE = 0xE3
    DONE = 0xFD
    DONEPROC = 0xFE
    DONEINPROC = 0xFF


class DoneStatus(IntFlag):
    FINAL = 0x00
    MORE = 0x01
    ERROR = 0x02
    COUNT = 0x10
    ATTENTION = 0x20


class DoneCommand(IntEnum):
    """CurCmd: the kind of statement, as far as drivers read it."""

    NONE = 0x00
    SELECT = 0xC1
    EXECUTE = 0xE0


class EnvironmentChange(IntEnum):
    DATABASE = 1
    LANGUAGE = 2
    PACKET_SIZE = 4
    COLLATION = 7
    BEGIN_TRANSACTION = 8
    COMMIT_TRANSACTION = 9
    ROLLBACK_TRANSACTION = 10
    RESET_ACKNOWLEDGED = 18


@dataclass(frozen=True, slots=True)
class Done:
    """DONE, DONEPROC or DONEINPROC: [MS-TDS], token "DONE"."""

    token: TokenType
    status: DoneStatus
    command: DoneCommand = DoneCommand.NONE
    row_count: int = 0

    def encode(self, out: ByteWriter) -> None:
        out.byte(self.token)
        out.ushort(self.status)
        out.ushort(self.command)
        out.ulonglong(self.row_count)


@dataclass(frozen=True, slots=True)
class ServerMessage:
    """ERROR, or INFO up to severity 10."""

    number: int
    state: int
    severity: int
    text: str
    server: str
    procedure: str
    line: int

    def encode(self, out: ByteWriter) -> None:
        fields = ByteWriter()
        fields.long(self.number)
        fields.byte(self.state & 0xFF)
        fields.byte(self.severity)
        fields.us_varchar(self.text[:2048])  # as SQL Server cuts it
        fields.b_varchar(self.server)
        fields.b_varchar(self.procedure)
        fields.long(self.line)
        out.byte(TokenType.ERROR if self.severity >= ERROR_SEVERITY else TokenType.INFO)
        out.us_varbyte(fields)


@dataclass(frozen=True, slots=True)
class EnvChange:
    """ENVCHANGE with two texts (database, language, packet size), or two byte strings (collation, transaction)."""

    type: EnvironmentChange
    new: str | bytes
    old: str | bytes

    def encode(self, out: ByteWriter) -> None:
        fields = ByteWriter((self.type,))
        for value in (self.new, self.old):
            if isinstance(value, str):
                fields.b_varchar(value)
            else:
                fields.b_varbyte(value)
        out.byte(TokenType.ENVCHANGE)
        out.us_varbyte(fields)


@dataclass(frozen=True, slots=True)
class LoginAck:
    """LOGINACK. Only its TDS version is big-endian."""

    tds_version: int
    program: str
    version: tuple[int, int, int]

    def encode(self, out: ByteWriter) -> None:
        major, minor, build = self.version
        fields = ByteWriter(b"\1")  # Interface: SQL_TSQL
        fields += self.tds_version.to_bytes(4, "big")
        fields.b_varchar(self.program)
        fields += bytes((major, minor)) + build.to_bytes(2, "big")
        out.byte(TokenType.LOGINACK)
        out.us_varbyte(fields)


@dataclass(frozen=True, slots=True)
class FeatureExtAck:
    """FEATUREEXTACK: one granted feature of LOGIN7, with one byte of data."""

    feature: int
    data: int

    def encode(self, out: ByteWriter) -> None:
        out += bytes((TokenType.FEATUREEXTACK, self.feature, 1, 0, 0, 0, self.data, 0xFF))


@dataclass(frozen=True, slots=True)
class ColMetadata:
    """COLMETADATA. Flags: nullable, 0x0010 for an IDENTITY column, and 0x0008 for "updateability unknown"."""

    columns: Sequence[Column]

    def encode(self, out: ByteWriter) -> None:
        out.byte(TokenType.COLMETADATA)
        out.ushort(len(self.columns))
        for column in self.columns:
            out.ulong(0)  # UserType
            out.ushort(0x0008 | int(column.nullable) | column.is_identity << 4)
            out += form_of(column.type, nullable=column.nullable).type_info
            out.b_varchar(column.name)


@dataclass(frozen=True, slots=True)
class ReturnStatus:
    value: int

    def encode(self, out: ByteWriter) -> None:
        out.byte(TokenType.RETURNSTATUS)
        out.long(self.value)


class ReturnValue(NamedTuple):
    """RETURNVALUE: an output parameter's value after the call."""

    ordinal: int
    name: str
    type: SqlType
    value: Any

    def encode(self, out: ByteWriter) -> None:
        form = form_of(self.type)
        out.byte(TokenType.RETURNVALUE)
        out.ushort(self.ordinal)
        out.b_varchar(self.name)
        # Status: an output parameter; UserType; Flags: nullable
        out += b"\1\0\0\0\0\1\0"
        out += form.type_info
        form.encode(out, self.value)


Token = ColMetadata | Done | EnvChange | ReturnStatus | ReturnValue | ServerMessage


def _encoded(*tokens: Token) -> bytes:
    out = ByteWriter()
    for token in tokens:
        token.encode(out)
    return bytes(out)


_RETURN_STATUS_0 = _encoded(ReturnStatus(0))
_CALL_DONE = _encoded(Done(TokenType.DONEPROC, DoneStatus.FINAL, DoneCommand.EXECUTE))
_ROW = int(TokenType.ROW)


class Reader(Protocol):
    """The client, as far as it reads."""

    is_full: bool  # so much waits for it that statements should wait too

    def wait_until_read(self) -> Generator[Any, Any, None]: ...


class Response(ResultSink):
    """Follows the rules above; `send` takes whole packets."""

    __slots__ = ("_failed", "_forms", "_is_call", "_packets", "_payload", "_reader", "_send", "_server", "held")

    def __init__(
        self,
        packets: PacketWriter,
        send: Callable[[bytes], None],
        *,
        server: str,
        is_call: bool,
        reader: Reader | None = None,
    ) -> None:
        self._packets = packets
        self._send = send
        self._reader = reader
        self._server = server
        self._is_call = is_call
        self._payload = ByteWriter()
        self.held: Done | None = None  # rule 1
        self._failed = False  # rule 4
        self._forms: tuple[TypeForm, ...] = ()  # of the open result set

    # For the session

    @property
    def is_full(self) -> bool:
        return self._reader is not None and self._reader.is_full

    def wait_for_reader(self) -> Generator[Any, Any, None]:
        if self._reader is not None:
            yield from self._reader.wait_until_read()

    def columns(self, columns: Sequence[Column]) -> None:
        self._begin_statement()
        forms = tuple(form_of(column.type, nullable=column.nullable) for column in columns)
        self._append(ColMetadata(columns))
        self._forms = forms

    def rows(self, rows: Sequence[Sequence[Any]]) -> None:
        assert self._forms, "rows without columns"
        pack = packer(_ROW, self._forms) if len(rows) > 1 else None
        if pack is None:
            self._encode_rows(rows)
            return
        for start in range(0, len(rows), ROWS_PACKED):
            piece = rows[start : start + ROWS_PACKED]
            try:
                self._payload += pack(piece)
            except struct.error:
                self._encode_rows(piece)
            if len(self._payload) >= STREAM_AT:
                self._stream()

    def _encode_rows(self, rows: Sequence[Sequence[Any]]) -> None:
        out, encoders = self._payload, [form.encode for form in self._forms]
        start = len(out)
        try:
            for row in rows:
                start = len(out)
                out.append(_ROW)
                for encode, value in zip(encoders, row, strict=True):
                    encode(out, value)
                if len(out) >= STREAM_AT:
                    self._stream()
        except Exception:
            del out[start:]  # a part of a row would make all that follows unreadable
            raise

    def done(self, row_count: int | None, *, in_procedure: bool) -> None:
        in_procedure = in_procedure or self._is_call
        if row_count is None and in_procedure and not self._forms and not self._failed:
            return
        self._release_held()
        command = DoneCommand.SELECT if self._forms else DoneCommand.NONE
        self.held = self._statement_done(in_procedure, command, row_count)
        if len(self._payload) >= STREAM_AT:
            self._stream()

    def withdraw_done(self, before: object) -> None:
        if self.held is not before:
            self.held = None

    def message(self, number: int, severity: int, state: int, text: str, procedure: str, line: int) -> None:  # noqa: PLR0917
        self._release_held()
        ServerMessage(number, state, severity, text, self._server, procedure, line).encode(self._payload)
        if severity >= ERROR_SEVERITY:
            self._failed = True
        if len(self._payload) >= STREAM_AT:
            self._stream()

    def error(self, error: SqlServerError) -> None:
        self.message(error.number, error.severity, error.state, error.text, error.procedure or "", error.line)

    def return_status(self, value: int) -> None:
        self._begin_statement()
        if value == 0:
            self._payload += _RETURN_STATUS_0
        else:
            ReturnStatus(value).encode(self._payload)
        if not self._is_call:
            self.held = Done(TokenType.DONEPROC, self._take_failure(), DoneCommand.EXECUTE)
            if len(self._payload) >= STREAM_AT:
                self._stream()

    def return_value(self, ordinal: int, name: str, type: SqlType, value: Any) -> None:
        self._release_held()
        self._append(ReturnValue(ordinal, name, type, value))

    def database_changed(self, old: str, new: str) -> None:
        self.write(EnvChange(EnvironmentChange.DATABASE, new, old))

    # For the connection

    def write(self, token: Token) -> None:
        self._release_held()
        token.encode(self._payload)
        if len(self._payload) >= STREAM_AT:
            self._stream()

    def transaction_began(self, descriptor: int) -> None:
        new = descriptor.to_bytes(8, "little")
        self.write(EnvChange(EnvironmentChange.BEGIN_TRANSACTION, new, b""))

    def transaction_ended(self, descriptor: int, *, committed: bool) -> None:
        change = EnvironmentChange.COMMIT_TRANSACTION if committed else EnvironmentChange.ROLLBACK_TRANSACTION
        self.write(EnvChange(change, b"", descriptor.to_bytes(8, "little")))

    def end_call(self) -> None:
        """End one call of a request; another may follow."""
        self._close_statement()
        self._release_held()
        self.held = Done(TokenType.DONEPROC, self._take_failure(), DoneCommand.EXECUTE)

    def finish(self) -> None:
        """End the response and send the rest of it."""
        if self._is_call and self.held is None and not self._failed and not self._forms:
            self._payload += _CALL_DONE
        else:
            self._close_statement()
            if self._is_call and (self.held is None or self.held.token is not TokenType.DONEPROC):
                self.end_call()
            last = self.held or Done(TokenType.DONE, self._take_failure())
            last.encode(self._payload)
        self._send(self._packets.finish(self._payload))

    def break_off(self) -> None:
        """End the response where it is, because the client gave its request up. It says ERROR, because Microsoft's
        driver takes the acknowledgement that follows for a success."""
        self._release_held()
        Done(TokenType.DONE, DoneStatus.ERROR).encode(self._payload)
        self._send(self._packets.finish(self._payload))

    def _append(self, token: ColMetadata | ReturnValue) -> None:
        """Append a whole token or, if it cannot be encoded, nothing of it."""
        size = len(self._payload)
        try:
            token.encode(self._payload)
        except Exception:
            del self._payload[size:]
            raise

    def _stream(self) -> None:
        self._send(self._packets.take_full_packets(self._payload))

    def _begin_statement(self) -> None:
        self._close_statement()
        self._release_held()

    def _close_statement(self) -> None:
        """End a result set or an error that has no DONE yet."""
        if self._forms or self._failed:
            self._release_held()
            self.held = self._statement_done(self._is_call, DoneCommand.NONE, None)

    def _statement_done(self, in_procedure: bool, command: DoneCommand, row_count: int | None) -> Done:
        token = TokenType.DONEINPROC if in_procedure else TokenType.DONE
        self._forms = ()
        status = self._take_failure()
        if row_count is None:
            return Done(token, status, command)
        return Done(token, status | DoneStatus.COUNT, command, row_count)

    def _take_failure(self) -> DoneStatus:
        failed, self._failed = self._failed, False
        return DoneStatus.ERROR if failed else DoneStatus.FINAL

    def _release_held(self) -> None:
        held = self.held
        if held is not None:
            self.held = None
            Done(held.token, held.status | DoneStatus.MORE, held.command, held.row_count).encode(self._payload)
