"""`sp_datatype_info`, with which drivers ask for the server's data types before anything else.

It is answered here and not by the session because it serves drivers only and is the same for every database.
Microsoft's driver calls `[sys].sp_datatype_info_100`, FreeTDS sends it as a batch. Both learn from it the length from
which they must send a value as varbinary(max), and how many digits of a second to keep. Columns and rows follow
https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-datatype-info-transact-sql
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from harness.embedded.sqltypes import INT, SMALLINT, SYSNAME, Column, SqlType
from harness.embedded.tsql.storage.conversion import converter

_VARCHAR_32 = SqlType("varchar", length=32)
COLUMNS = (
    Column("TYPE_NAME", SYSNAME, nullable=False),
    Column("DATA_TYPE", SMALLINT, nullable=False),
    Column("PRECISION", INT),
    Column("LITERAL_PREFIX", _VARCHAR_32),
    Column("LITERAL_SUFFIX", _VARCHAR_32),
    Column("CREATE_PARAMS", _VARCHAR_32),
    Column("NULLABLE", SMALLINT, nullable=False),
    Column("CASE_SENSITIVE", SMALLINT, nullable=False),
    Column("SEARCHABLE", SMALLINT, nullable=False),
    Column("UNSIGNED_ATTRIBUTE", SMALLINT),
    Column("MONEY", SMALLINT, nullable=False),
    Column("AUTO_INCREMENT", SMALLINT),
    Column("LOCAL_TYPE_NAME", SYSNAME),
    Column("MINIMUM_SCALE", SMALLINT),
    Column("MAXIMUM_SCALE", SMALLINT),
    Column("SQL_DATA_TYPE", SMALLINT, nullable=False),
    Column("SQL_DATETIME_SUB", SMALLINT),
    Column("NUM_PREC_RADIX", INT),
    Column("INTERVAL_PRECISION", SMALLINT),
    Column("USERTYPE", SMALLINT),
)


class DataTypeInfo(NamedTuple):
    """A row, without the columns that can be derived."""

    name: str
    odbc_type: int  # numbered as in ODBC 3
    precision: int
    prefix: str | None = None
    suffix: str | None = None
    create_params: str | None = None
    searchable: int = 2
    unsigned: int | None = None
    money: int = 0
    scale_min: int | None = None
    scale_max: int | None = None
    sql_type: int | None = None  # None: the same as odbc_type
    datetime_sub: int | None = None
    radix: int | None = None

    def row(self) -> tuple[Any, ...]:
        auto_increment = None if self.radix is None else 0
        sql_type = self.odbc_type if self.sql_type is None else self.sql_type
        return (
            *(self.name, self.odbc_type, self.precision, self.prefix, self.suffix, self.create_params, 1, 0),
            *(self.searchable, self.unsigned, self.money, auto_increment, self.name, self.scale_min, self.scale_max),
            *(sql_type, self.datetime_sub, self.radix, None, 0),
        )


# In the order of ODBC types; of several with the same one, the closest match comes first.
DATA_TYPES = (
    DataTypeInfo("datetimeoffset", -155, 34, "'", "'", "scale", scale_min=0, scale_max=7),
    DataTypeInfo("time", -154, 16, "'", "'", "scale", scale_min=0, scale_max=7),
    DataTypeInfo("uniqueidentifier", -11, 36, "'", "'"),
    DataTypeInfo("nvarchar", -9, 4000, "N'", "'", "max length", searchable=3),
    DataTypeInfo("sysname", -9, 128, "N'", "'", searchable=3),
    DataTypeInfo("nchar", -8, 4000, "N'", "'", "length", searchable=3),
    DataTypeInfo("bit", -7, 1, scale_min=0, scale_max=0),
    DataTypeInfo("tinyint", -6, 3, unsigned=1, scale_min=0, scale_max=0, radix=10),
    DataTypeInfo("bigint", -5, 19, unsigned=0, scale_min=0, scale_max=0, radix=10),
    DataTypeInfo("varbinary", -3, 8000, "0x", None, "max length"),
    DataTypeInfo("binary", -2, 8000, "0x", None, "length"),
    DataTypeInfo("char", 1, 8000, "'", "'", "length", searchable=3),
    DataTypeInfo("numeric", 2, 38, None, None, "precision,scale", unsigned=0, scale_min=0, scale_max=38, radix=10),
    DataTypeInfo("decimal", 3, 38, None, None, "precision,scale", unsigned=0, scale_min=0, scale_max=38, radix=10),
    DataTypeInfo("money", 3, 19, "$", unsigned=0, money=1, scale_min=4, scale_max=4, radix=10),
    DataTypeInfo("smallmoney", 3, 10, "$", unsigned=0, money=1, scale_min=4, scale_max=4, radix=10),
    DataTypeInfo("int", 4, 10, unsigned=0, scale_min=0, scale_max=0, radix=10),
    DataTypeInfo("smallint", 5, 5, unsigned=0, scale_min=0, scale_max=0, radix=10),
    DataTypeInfo("float", 6, 53, unsigned=0, radix=2),
    DataTypeInfo("real", 7, 24, unsigned=0, radix=2),
    DataTypeInfo("varchar", 12, 8000, "'", "'", "max length", searchable=3),
    DataTypeInfo("date", 91, 10, "'", "'", sql_type=9, datetime_sub=1),
    DataTypeInfo("datetime2", 93, 27, "'", "'", "scale", scale_min=0, scale_max=7, sql_type=9, datetime_sub=3),
    DataTypeInfo("datetime", 93, 23, "'", "'", scale_min=3, scale_max=3, sql_type=9, datetime_sub=3),
    DataTypeInfo("smalldatetime", 93, 16, "'", "'", scale_min=0, scale_max=0, sql_type=9, datetime_sub=3),
)

_NAME = re.compile(r"(?:\[?sys\]?\.)?sp_datatype_info(?:_90|_100)?", re.IGNORECASE)
_BATCH = re.compile(rf"\s*(?:exec(?:ute)?\s+)?{_NAME.pattern}\s+(-?\d+)\s*(?:,\s*\d+\s*)?;?\s*", re.IGNORECASE)
_NAME_PREFIX = ("sp_datatype_info", "[sys].sp_datatype_info", "sys.sp_datatype_info")


def answer_call(name: str, parameters: Sequence[Any], sink: Any) -> bool:
    """Answer an RPC if it calls this procedure; otherwise return False."""
    if not name.startswith(_NAME_PREFIX) or _NAME.fullmatch(name) is None:
        return False
    _answer((converter(parameters[0].type, INT)(parameters[0].value) or 0) if parameters else 0, sink)
    return True


def answer_batch(text: str, sink: Any) -> bool:
    """Answer a batch if it consists of this call alone; otherwise return False."""
    if len(text) > 64 or "sp_datatype_info" not in text:
        return False
    match = _BATCH.fullmatch(text)
    if match is None:
        return False
    _answer(int(match.group(1)), sink)
    return True


def _answer(odbc_type: int, sink: Any) -> None:
    rows = [info.row() for info in DATA_TYPES if odbc_type in (0, info.odbc_type)]
    sink.columns(COLUMNS)
    sink.rows(rows)
    sink.done(len(rows), in_procedure=True)
    sink.return_status(0)
