"""What T-SQL and TDS share: data types and their Python values, columns, parameters, and the sink of results.

| type | Python value |
|---|---|
| bit, tinyint, smallint, int, bigint | int |
| float, real | float |
| decimal, numeric, money | decimal.Decimal |
| char, varchar, nchar, nvarchar, sysname | str |
| xml | str, as SQL Server serializes it |
| binary, varbinary | bytes |
| uniqueidentifier | str, 36 characters, upper case |
| date | str `YYYY-MM-DD` |
| time | str `hh:mm:ss[.fffffff]` |
| datetime, smalldatetime, datetime2 | str `YYYY-MM-DD hh:mm:ss[.fffffff]`: 3 digits of a second for datetime |
| datetimeoffset | str: the moment in UTC `YYYY-MM-DD hh:mm:ss.fffffff`, with 7 digits, then its offset ` +hh:mm` |

NULL is None. Identifiers, dates and times are text because text sorts and joins in SQLite as they do in SQL Server
(except the order of a uniqueidentifier, on which nothing here depends).
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

MAX = -1  # the length of varchar(max), nvarchar(max), varbinary(max)
NAME_LENGTH_MAX = 128  # characters of an identifier, as of sysname


class SqlType(NamedTuple):
    """A data type; `length` counts characters for text, bytes for binary, and is MAX for (max)."""

    name: str
    length: int = 0
    precision: int = 0
    scale: int = 0


BIT = SqlType("bit")
SMALLINT = SqlType("smallint")
INT = SqlType("int")
BIGINT = SqlType("bigint")
FLOAT = SqlType("float", precision=53)
UNIQUEIDENTIFIER = SqlType("uniqueidentifier")
ROWVERSION = SqlType("binary", length=8, scale=1)  # of a column that the server numbers
SYSNAME = SqlType("nvarchar", length=128)
DATETIME = SqlType("datetime")
DATETIME2 = SqlType("datetime2", scale=7)
DATETIMEOFFSET = SqlType("datetimeoffset", scale=7)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a result set or a table."""

    name: str
    type: SqlType
    nullable: bool = True
    is_identity: bool = False


class Parameter(NamedTuple):
    """A parameter of an RPC; `name` is "" when it is passed by position, and begins with @ otherwise."""

    name: str
    type: SqlType
    value: Any
    output: bool


class ResultSink:
    """Takes results for the client, in order. This one discards them; subclasses keep what they need.

    A result set is `columns`, any number of `rows`, `done`. `done` alone says how many rows a statement touched; it is
    not called for statements that count nothing. The end of a batch or RPC is the end of `ClientSession.batch` or
    `ClientSession.rpc` and has no call of its own.
    """

    __slots__ = ()

    held: Any = None  # the end of a statement, which has not left

    @property
    def is_full(self) -> bool:
        """Whether its client has to read before more is sent."""
        return False

    def wait_for_reader(self) -> Generator[Any, Any, None]:
        """Yield until the client has read enough."""
        yield from ()

    def columns(self, columns: Sequence[Column]) -> None: ...

    def rows(self, rows: Sequence[Sequence[Any]]) -> None: ...

    def done(self, row_count: int | None, *, in_procedure: bool) -> None:
        """The end of a statement; `row_count` None: not counted (NOCOUNT)."""

    def withdraw_done(self, before: object) -> None:
        """The commit of the statement failed: its `done`, if it had one, is not sent. `before` is what `held` was."""

    def message(self, number: int, severity: int, state: int, text: str, procedure: str, line: int) -> None:  # noqa: PLR0917
        """PRINT, RAISERROR and errors; up to severity 10 it is information, above that an error."""

    def return_status(self, value: int) -> None: ...

    def return_value(self, ordinal: int, name: str, type: SqlType, value: Any) -> None: ...

    def database_changed(self, old: str, new: str) -> None: ...
