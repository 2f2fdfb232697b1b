"""Requests of a logged-in client: [MS-TDS] section 2.2.6. One type each.

`reset` says that the session is to be reset before the request.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeVar

from harness.embedded.errors import UNSUPPORTED, SqlServerError
from harness.embedded.sqltypes import Parameter
from harness.embedded.tds.bulk_load import BulkLoad
from harness.embedded.tds.value_decoding import read_typed_value
from harness.embedded.tds.wire import ByteReader, TdsProtocolError, from_utf16

PARAMETERS_MAX = 2100  # SQL Server's own limit on the parameters of a call

# Stored procedures by number, from 1 on: [MS-TDS] section 2.2.6.6, ProcID.
PROCEDURES = (
    *("", "sp_cursor", "sp_cursoropen", "sp_cursorprepare", "sp_cursorexecute", "sp_cursorprepexec"),
    *("sp_cursorunprepare", "sp_cursorfetch", "sp_cursoroption", "sp_cursorclose", "sp_executesql", "sp_prepare"),
    *("sp_execute", "sp_prepexec", "sp_prepexecrpc", "sp_unprepare"),
)
Member = TypeVar("Member", bound=IntEnum)

_TRANSACTION_DESCRIPTOR_ALONE = 22  # bytes of ALL_HEADERS
_QUERY_NOTIFICATION = 1  # type of a header
_PROC_ID_FOLLOWS = 0xFFFF
_CALL_SEPARATORS = (0xFF, 0xFE)  # BatchFlag, NoExecFlag; a parameter's name cannot be so long

# StatusFlags of a parameter. Plain numbers: testing members of an IntFlag would take a third of the time of a call.
BY_REFERENCE = 0x01
DEFAULT_VALUE = 0x02
ENCRYPTED = 0x08


class ProcedureCall(NamedTuple):
    name: str
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True)
class SqlBatch:
    """SQLBatch: [MS-TDS] section 2.2.6.7."""

    reset: bool
    text: str

    @classmethod
    def decode(cls, reset: bool, payload: bytes) -> SqlBatch:
        return cls(reset, from_utf16(memoryview(payload)[skip_all_headers(payload) :]))


class Rpc(NamedTuple):
    """RPC request: [MS-TDS] section 2.2.6.6. Usually one call; drivers send several for arrays of parameters."""

    reset: bool
    calls: tuple[ProcedureCall, ...]

    @classmethod
    def decode(cls, reset: bool, payload: bytes) -> Rpc:
        reader = ByteReader(payload, skip_all_headers(payload))
        calls = [_procedure_call(reader)]
        while not reader.at_end():
            reader.byte()  # the separator after the previous call
            if not reader.at_end():
                calls.append(_procedure_call(reader))
        return cls(reset, tuple(calls))


class TransactionRequestType(IntEnum):
    GET_DTC_ADDRESS = 0
    PROPAGATE = 1
    BEGIN = 5
    PROMOTE = 6
    COMMIT = 7
    ROLLBACK = 8
    SAVE = 9


class IsolationLevel(IntEnum):
    UNCHANGED = 0
    READ_UNCOMMITTED = 1
    READ_COMMITTED = 2
    REPEATABLE_READ = 3
    SERIALIZABLE = 4
    SNAPSHOT = 5


@dataclass(frozen=True, slots=True)
class TransactionRequest:
    """Transaction manager request: [MS-TDS] section 2.2.6.9. `begin_next` (fBeginXact) begins a new one at once."""

    reset: bool
    type: TransactionRequestType
    name: str = ""
    isolation: IsolationLevel = IsolationLevel.UNCHANGED
    begin_next: bool = False

    @classmethod
    def decode(cls, reset: bool, payload: bytes) -> TransactionRequest:
        reader = ByteReader(payload, skip_all_headers(payload))
        type_ = _member(TransactionRequestType, reader.ushort())
        if type_ is TransactionRequestType.BEGIN:
            isolation = _member(IsolationLevel, reader.byte())
            return cls(reset, type_, _name(reader), isolation)
        if type_ in (TransactionRequestType.COMMIT, TransactionRequestType.ROLLBACK):
            name = _name(reader)
            if not reader.byte() & 1:
                return cls(reset, type_, name)
            return cls(reset, type_, name, _member(IsolationLevel, reader.byte()), begin_next=True)
        if type_ is TransactionRequestType.SAVE:
            return cls(reset, type_, _name(reader))
        raise SqlServerError(UNSUPPORTED, "distributed transactions")


def _name(reader: ByteReader) -> str:
    """The name of a transaction or savepoint: unlike elsewhere, its length is in bytes."""
    return from_utf16(reader.take(reader.byte()))


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention: [MS-TDS] section 2.2.1.7. The client wants the running request stopped, and an acknowledgement."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A well-formed request that is not supported: it gets an error, and the connection stays open."""

    reset: bool
    error: SqlServerError


Request = SqlBatch | Rpc | TransactionRequest | BulkLoad | Refused


def skip_all_headers(payload: bytes) -> int:
    """The offset behind ALL_HEADERS: [MS-TDS] section 2.2.5.3.

    They hold a transaction descriptor and the client's activity id. Neither matters here: without MARS there is one
    request at a time, and it runs in the session's transaction. A client that asks for a query notification would wait
    for it without end.
    """
    length = int.from_bytes(payload[:4], "little")
    if not 4 <= length <= len(payload):
        raise TdsProtocolError(f"ALL_HEADERS of {length} bytes in a message of {len(payload)}")
    if length > _TRANSACTION_DESCRIPTOR_ALONE:
        reader = ByteReader(payload[:length], 4)
        while reader.position < length:
            rest_bytes = reader.ulong() - 6
            if reader.ushort() == _QUERY_NOTIFICATION:
                raise SqlServerError(UNSUPPORTED, "query notifications")
            if rest_bytes < 0:
                raise TdsProtocolError(f"a header of {rest_bytes + 6} bytes")
            reader.take(rest_bytes)
    return length


def _procedure_call(reader: ByteReader) -> ProcedureCall:
    length = reader.ushort()
    if length == _PROC_ID_FOLLOWS:
        number = reader.ushort()
        if not 0 < number < len(PROCEDURES):
            raise TdsProtocolError(f"unknown stored procedure number {number}")
        name = PROCEDURES[number]
    else:
        name = from_utf16(reader.take(2 * length))
    reader.ushort()  # OptionFlags: recompile, no metadata, reuse metadata; none changes a result here
    parameters: list[Parameter] = []
    data, end = reader.data, reader.end
    while reader.position < end and data[reader.position] not in _CALL_SEPARATORS:
        if len(parameters) == PARAMETERS_MAX:
            raise TdsProtocolError(f"more than {PARAMETERS_MAX} parameters")
        parameter = _parameter(reader)
        if parameter is not None:
            parameters.append(parameter)
    return ProcedureCall(name, tuple(parameters))


def _parameter(reader: ByteReader) -> Parameter | None:
    """A parameter, or None if it asks for the procedure's default, as if it had been left out."""
    name = reader.b_varchar()
    flags = reader.byte()
    if flags & ENCRYPTED:
        raise SqlServerError(UNSUPPORTED, "Always Encrypted")
    type_, value = read_typed_value(reader)
    if flags & DEFAULT_VALUE:
        if not name and not reader.at_end() and reader.data[reader.position] not in _CALL_SEPARATORS:
            raise SqlServerError(UNSUPPORTED, "DEFAULT for an unnamed parameter before others")
        return None
    return Parameter(name, type_, value, flags & BY_REFERENCE != 0)


def _member(enum: type[Member], number: int) -> Member:
    try:
        return enum(number)
    except ValueError:
        raise TdsProtocolError(f"unknown {enum.__name__} {number}") from None
