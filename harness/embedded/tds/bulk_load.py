"""BulkLoadBCP, the rows that follow INSERT BULK: [MS-TDS] section 2.2.6.1. COLMETADATA, ROW or NBCROW tokens, DONE.

A value is read as that of a call's parameter is, with the TYPE_INFO of its column before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from harness.embedded.errors import UNSUPPORTED, SqlServerError
from harness.embedded.sqltypes import Column, SqlType
from harness.embedded.tds.value_decoding import NULL_USHORT, DataType, read_plp, read_typed_value
from harness.embedded.tds.wire import ByteReader, TdsProtocolError

COLUMNS_MAX = 1024  # of a table
_COLMETADATA, _ROW, _NBCROW, _DONE = 0x81, 0xD1, 0xD2, 0xFD
# Bytes of values of types without a NULL; and bytes of TYPE_INFO behind the type of the others, whose
# values have a length of one byte or of two.
_WIDTHS = {
    **dict.fromkeys((DataType.INT1, DataType.BIT), 1),
    DataType.INT2: 2,
    **dict.fromkeys((DataType.INT4, DataType.FLT4, DataType.MONEY4, DataType.DATETIM4), 4),
    **dict.fromkeys((DataType.INT8, DataType.FLT8, DataType.MONEY, DataType.DATETIME), 8),
}
_SHORT = {
    DataType.DATEN: 0,
    **dict.fromkeys(
        (DataType.GUID, DataType.INTN, DataType.BITN, DataType.FLTN, DataType.MONEYN, DataType.DATETIMN), 1
    ),
    **dict.fromkeys((DataType.TIMEN, DataType.DATETIME2N, DataType.DATETIMEOFFSETN), 1),
    **dict.fromkeys((DataType.DECIMALN, DataType.NUMERICN), 3),
}
_LONG = {
    **dict.fromkeys((DataType.BIGVARBINARY, DataType.BIGBINARY), 2),
    **dict.fromkeys((DataType.BIGVARCHAR, DataType.BIGCHAR, DataType.NVARCHAR, DataType.NCHAR), 7),
}


class _Type(NamedTuple):
    info: bytes  # TYPE_INFO
    null: bytes  # on the wire; a value of as many zeros for a type without NULL
    has_null: bool

    @classmethod
    def read(cls, reader: ByteReader) -> _Type:
        at = reader.position
        number: Any = reader.byte()
        if number in _WIDTHS:
            return cls(bytes((number,)), bytes(_WIDTHS[number]), False)
        if number not in _SHORT and number not in _LONG:
            raise SqlServerError(UNSUPPORTED, f"a bulk load of values of the type 0x{number:02X}")
        reader.take(_SHORT[number] if number in _SHORT else _LONG[number])
        info = reader.data[at : reader.position]
        is_plp = number in _LONG and info[1:3] == b"\xff\xff"
        return cls(info, b"\0" if number in _SHORT else b"\xff" * (8 if is_plp else 2), True)

    @property
    def sql_type(self) -> SqlType:
        return read_typed_value(ByteReader(self.info + self.null))[0]

    def value(self, reader: ByteReader) -> Any:
        at, lengths = reader.position, len(self.null)
        if not self.has_null:
            reader.take(lengths)
        elif lengths == 1:
            reader.take(reader.byte())
        elif lengths == 8:
            read_plp(reader)
        elif (size := reader.ushort()) != NULL_USHORT:
            reader.take(size)
        return read_typed_value(ByteReader(self.info + reader.data[at : reader.position]))[1]


@dataclass(frozen=True, slots=True)
class BulkLoad:
    reset: bool
    columns: tuple[Column, ...]
    _types: tuple[_Type, ...]
    _payload: bytes
    _start: int  # of the rows

    @classmethod
    def decode(cls, reset: bool, payload: bytes) -> BulkLoad:
        reader = ByteReader(payload)
        if reader.byte() != _COLMETADATA or not 0 < (count := reader.ushort()) <= COLUMNS_MAX:
            raise TdsProtocolError("a bulk load that does not begin with its columns")
        columns, types = [], []
        for _ in range(count):
            reader.take(6)  # UserType, Flags
            types.append(_Type.read(reader))
            columns.append(Column(reader.b_varchar(), types[-1].sql_type))
        return cls(reset, tuple(columns), tuple(types), payload, reader.position)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Decode the rows one by one; 4002 where the stream is wrong."""
        reader, types = ByteReader(self._payload, self._start), self._types
        try:
            while not reader.at_end() and (token := reader.byte()) != _DONE:
                if token not in (_ROW, _NBCROW):
                    raise TdsProtocolError(f"token 0x{token:02X} among rows")
                nulls = reader.take((len(types) + 7) // 8) if token == _NBCROW else bytes(len(types))
                yield tuple(
                    [
                        None if nulls[n // 8] >> n % 8 & 1 else column_type.value(reader)
                        for n, column_type in enumerate(types)
                    ]
                )
        except TdsProtocolError as error:
            raise SqlServerError(4002) from error
