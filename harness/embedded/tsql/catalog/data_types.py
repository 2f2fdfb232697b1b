"""Data types as the catalog shows them: ids of sys.types, lengths in bytes, precision and scale."""

from typing import NamedTuple

from harness.embedded.sqltypes import MAX, SqlType
from harness.embedded.tsql.storage.conversion import TEXT, UNICODE

COLLATION = "SQL_Latin1_General_CP1_CI_AS"


class DataType(NamedTuple):
    """A row of sys.types."""

    name: str
    system_type_id: int
    max_length: int  # bytes
    precision: int = 0
    scale: int = 0
    user_type_id: int | None = None  # None: the same as system_type_id

    @property
    def id(self) -> int:
        return self.system_type_id if self.user_type_id is None else self.user_type_id

    @property
    def collation_name(self) -> str | None:
        return COLLATION if self.name in TEXT or self.name == "sysname" else None


TYPES = {
    type_.name: type_
    for type_ in (
        DataType("varbinary", 165, 8000),
        DataType("binary", 173, 8000),
        DataType("varchar", 167, 8000),
        DataType("char", 175, 8000),
        DataType("nvarchar", 231, 8000),
        DataType("nchar", 239, 8000),
        DataType("sysname", 231, 256, user_type_id=256),
        DataType("uniqueidentifier", 36, 16),
        DataType("tinyint", 48, 1, 3),
        DataType("smallint", 52, 2, 5),
        DataType("int", 56, 4, 10),
        DataType("bigint", 127, 8, 19),
        DataType("bit", 104, 1, 1),
        DataType("real", 59, 4, 24),
        DataType("float", 62, 8, 53),
        DataType("money", 60, 8, 19, 4),
        DataType("decimal", 106, 17, 38, 38),
        DataType("numeric", 108, 17, 38, 38),
        DataType("date", 40, 3, 10),
        DataType("time", 41, 5, 16, 7),
        DataType("datetime2", 42, 8, 27, 7),
        DataType("datetimeoffset", 43, 10, 34, 7),
        DataType("smalldatetime", 58, 4, 16),
        DataType("datetime", 61, 8, 23, 3),
        DataType("xml", 241, -1),
        DataType("sql_variant", 98, 8016),
    )
}
_CHARACTERS_TO_SECONDS = {
    "time": 8,
    "datetime2": 19,
    "datetimeoffset": 26,
}  # of the text of a moment without a fraction
_BYTES_OF_A_DAY = {"time": 0, "datetime2": 3, "datetimeoffset": 5}


def max_length(type_: SqlType) -> int:
    """sys.columns.max_length: bytes, -1 for (max)."""
    if type_.length == MAX:
        return -1
    if type_.length:
        return 2 * type_.length if type_.name in UNICODE else type_.length
    if type_.name in ("decimal", "numeric"):
        return next(size for digits, size in ((9, 5), (19, 9), (28, 13), (38, 17)) if type_.precision <= digits)
    if type_.name in _BYTES_OF_A_DAY:
        return _BYTES_OF_A_DAY[type_.name] + (3 if type_.scale <= 2 else 4 if type_.scale <= 4 else 5)
    return TYPES[type_.name].max_length


def precision(type_: SqlType) -> int:
    """sys.columns.precision: digits of a number, characters of a moment, 0 for others."""
    if type_.name in _CHARACTERS_TO_SECONDS:
        return _CHARACTERS_TO_SECONDS[type_.name] + (1 + type_.scale if type_.scale else 0)
    return type_.precision or TYPES[type_.name].precision


def scale(type_: SqlType) -> int:
    """sys.columns.scale: digits after the point, of a number or of a second."""
    if type_.name in ("decimal", "numeric") or type_.name in _CHARACTERS_TO_SECONDS:
        return type_.scale
    return TYPES[type_.name].scale
