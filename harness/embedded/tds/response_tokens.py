"""Tokens of a response: [MS-TDS] section 2.2.7. Each `encode` writes the fields in wire order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any

from harness.embedded.sqltypes import Column, SqlType
from harness.embedded.tds.value_encoding import form_of
from harness.embedded.tds.wire import ByteWriter


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
        out.byte(TokenType.ERROR if self.severity > 10 else TokenType.INFO)
        out.ushort_sized(self._encode_fields)

    def _encode_fields(self, out: ByteWriter) -> None:
        out.long(self.number)
        out.byte(self.state & 0xFF)
        out.byte(self.severity)
        out.us_varchar(self.text[:2048])  # as SQL Server cuts it
        out.b_varchar(self.server)
        out.b_varchar(self.procedure)
        out.long(self.line)


@dataclass(frozen=True, slots=True)
class EnvChange:
    """ENVCHANGE with two texts: database, language, packet size."""

    type: EnvironmentChange
    new: str
    old: str

    def encode(self, out: ByteWriter) -> None:
        out.byte(TokenType.ENVCHANGE)
        out.ushort_sized(self._encode_fields)

    def _encode_fields(self, out: ByteWriter) -> None:
        out.byte(self.type)
        out.b_varchar(self.new)
        out.b_varchar(self.old)


@dataclass(frozen=True, slots=True)
class EnvChangeBytes:
    """ENVCHANGE with two byte strings: collation, transaction descriptors, acknowledgement of a reset."""

    type: EnvironmentChange
    new: bytes
    old: bytes

    def encode(self, out: ByteWriter) -> None:
        out.byte(TokenType.ENVCHANGE)
        out.ushort_sized(self._encode_fields)

    def _encode_fields(self, out: ByteWriter) -> None:
        out.byte(self.type)
        out.b_varbyte(self.new)
        out.b_varbyte(self.old)


@dataclass(frozen=True, slots=True)
class LoginAck:
    """LOGINACK. Only its TDS version is big-endian."""

    tds_version: int
    program: str
    version: tuple[int, int, int]

    def encode(self, out: ByteWriter) -> None:
        out.byte(TokenType.LOGINACK)
        out.ushort_sized(self._encode_fields)

    def _encode_fields(self, out: ByteWriter) -> None:
        major, minor, build = self.version
        out.byte(1)  # Interface: SQL_TSQL
        out += self.tds_version.to_bytes(4, "big")
        out.b_varchar(self.program)
        out += bytes((major, minor)) + build.to_bytes(2, "big")


@dataclass(frozen=True, slots=True)
class FeatureExtAck:
    """FEATUREEXTACK: the granted features of LOGIN7, each with its data."""

    features: Mapping[int, bytes]

    def encode(self, out: ByteWriter) -> None:
        out.byte(TokenType.FEATUREEXTACK)
        for feature, data in self.features.items():
            out.byte(feature)
            out.ulong(len(data))
            out += data
        out.byte(0xFF)


@dataclass(frozen=True, slots=True)
class ColMetadata:
    """COLMETADATA. Flags: nullable, and 0x0008 for "updateability unknown"."""

    columns: Sequence[Column]

    def encode(self, out: ByteWriter) -> None:
        out.byte(TokenType.COLMETADATA)
        out.ushort(len(self.columns))
        for column in self.columns:
            out.ulong(0)  # UserType
            out.ushort(0x0008 | int(column.nullable))
            out += form_of(column.type).type_info
            out.b_varchar(column.name)


@dataclass(frozen=True, slots=True)
class ReturnStatus:
    value: int

    def encode(self, out: ByteWriter) -> None:
        out.byte(TokenType.RETURNSTATUS)
        out.long(self.value)


@dataclass(frozen=True, slots=True)
class ReturnValue:
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
        out.byte(0x01)  # Status: an output parameter
        out.ulong(0)  # UserType
        out.ushort(0x0001)  # Flags: nullable
        out += form.type_info
        form.encode(out, self.value)
