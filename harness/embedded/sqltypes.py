"""SQL Server's data types, as T-SQL and TDS both mean them, and the Python values that stand for theirs.

| type | Python value |
|---|---|
| bit, tinyint, smallint, int, bigint | int |
| float, real | float |
| decimal, numeric, money | decimal.Decimal |
| char, varchar, nchar, nvarchar, sysname, xml | str |
| binary, varbinary | bytes |
| uniqueidentifier | str, 36 characters, upper case |
| date | str `YYYY-MM-DD` |
| time | str `hh:mm:ss[.fffffff]` |
| datetime, smalldatetime, datetime2 | str `YYYY-MM-DD hh:mm:ss[.fffffff]`: 3 digits of a second for datetime |

NULL is None. Text for identifiers and moments sorts and joins in SQLite as it does in SQL Server (a uniqueidentifier's
own order excepted: nothing here depends on it).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

MAX = -1  # the length of varchar(max), nvarchar(max), varbinary(max)


class SqlType(NamedTuple):
    """A data type; `length` counts characters for text, bytes for binary, and is MAX for (max)."""

    name: str
    length: int = 0
    precision: int = 0
    scale: int = 0


BIT = SqlType("bit")
TINYINT = SqlType("tinyint")
SMALLINT = SqlType("smallint")
INT = SqlType("int")
BIGINT = SqlType("bigint")
FLOAT = SqlType("float", precision=53)
UNIQUEIDENTIFIER = SqlType("uniqueidentifier")
SYSNAME = SqlType("nvarchar", length=128)
DATETIME = SqlType("datetime")
DATETIME2 = SqlType("datetime2", scale=7)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a result set or a table."""

    name: str
    type: SqlType
    nullable: bool = True
