"""Fragments of SQLite's SQL with their T-SQL types, and the names that are visible in a query."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

from sqlglot import exp

from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import BIGINT, MAX, Column, SqlType
from harness.embedded.tsql.storage.conversion import INTEGER_RANGES, TEXT, family, stored_decimal
from harness.embedded.tsql.storage.sqlite import Sqlite, quoted

# In names that nobody can guess and write into a text
MARK = secrets.token_hex(8)
ROWID = Column(f"rowid {MARK}", BIGINT, nullable=False)  # the number of a row: a hidden column of tables

Getter = Callable[[Any], Any]  # from a frame to the value of a parameter
NOT_CONSTANT = object()
AGGREGATES = frozenset({"AVG", "COUNT", "COUNT_BIG", "MAX", "MIN", "STRING_AGG", "SUM"})
CONDITION = SqlType("condition")  # the type of a comparison: T-SQL has no boolean values
VARCHAR = SqlType("varchar", length=8000)
NVARCHAR = SqlType("nvarchar", length=4000)
NVARCHAR_MAX = SqlType("nvarchar", length=MAX)
VARBINARY_MAX = SqlType("varbinary", length=MAX)
XML = SqlType("xml")
XML_NODE = SqlType("xml", precision=1)  # a node of nodes(), which only the methods of xml take


class Fragment(NamedTuple):
    """The SQL of an expression. Its type is None if it is unknown without a value, as that of NULL is."""

    sql: str
    type: SqlType | None
    constant: Any = NOT_CONSTANT
    nullable: bool = True
    collation: str = ""  # of a COLLATE that is not like the server's: BIN, CS (regard to case) or AI (none to accents)
    is_identity: bool = False  # an IDENTITY column itself


def of_column(column: Column, sql: str) -> Fragment:
    return Fragment(sql, column.type, nullable=column.nullable, is_identity=column.is_identity)


def collation_of(*sides: Fragment) -> str:
    return next((side.collation for side in sides if side.collation), "")


def literal(value: Any) -> str:
    """Write a value as a literal of SQLite."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, str):
        if "\0" in value:
            return "CAST(x'" + value.encode().hex() + "' AS TEXT)"
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, Decimal):
        is_whole = value == value.to_integral_value() and -(2**63) <= value < 2**63
        return str(int(value)) if is_whole else repr(stored_decimal(value))  # an integer has all digits
    return repr(float(value)) if not isinstance(value, int) else str(value)


@dataclass(slots=True)
class Source:
    """A table, view, queue, table variable or subquery in a FROM clause."""

    alias: str
    sql: str
    columns: Sequence[Column]
    needed: set[str] | None = None  # column names in use, lower case; a view is filled with these only
    hidden: Sequence[Column] = ()  # not part of *: %%physloc%%
    expressions: Mapping[str, str] = field(default_factory=dict)  # of columns that SQLite computes, by name, lower case
    system_view: str = ""  # its name, of one that may lack columns

    def sql_of(self, column: Column) -> str:
        return self.expressions.get(column.name.lower()) or f"{quoted(self.alias)}.{quoted(column.name)}"


def table_source(alias: str, sql: str, columns: Sequence[Column]) -> Source:
    """A table of SQLite, with the numbers of its rows."""
    return Source(alias, sql, columns, hidden=(ROWID,), expressions={ROWID.name: f"{quoted(alias)}._rowid_"})


@dataclass(slots=True)
class Names:
    """The sources that are visible in a query, and those of the query around it."""

    sources: list[Source] = field(default_factory=list)
    outer: Names | None = None

    def column(self, table: str, name: str) -> Fragment:
        """Find the column of that name; 207, 209 or 4104 unless there is exactly one."""
        wanted_name = name.lower()
        matches: list[tuple[Source, Column]] = []
        for source in self.sources:
            if table and source.alias.lower() != table.lower():
                continue
            columns = (*source.columns, *source.hidden)
            matches += [(source, column) for column in columns if column.name.lower() == wanted_name]
        if len(matches) > 1:
            raise SqlServerError(209, name)
        if matches:
            source, column = matches[0]
            if source.needed is not None:
                source.needed.add(wanted_name)
            return of_column(column, source.sql_of(column))
        if self.outer is not None:
            return self.outer.column(table, name)
        candidates = [source for source in self.sources if table.lower() in ("", source.alias.lower())]
        if table and not candidates:
            raise SqlServerError(4104, f"{table}.{name}")
        if candidates and all(source.system_view for source in candidates):
            views = " or ".join(source.system_view for source in candidates)
            raise UnsupportedSyntax(f"the column {name} of {views}", 0)
        raise SqlServerError(207, name)

    def own(self, table: str, name: str) -> str | None:
        """The column of a source of this query itself, as `alias.name` in lower case; None if there is none."""
        wanted_name = name.lower()
        for source in self.sources:
            columns = (*source.columns, *source.hidden) if table.lower() in ("", source.alias.lower()) else ()
            if any(column.name.lower() == wanted_name for column in columns):
                return f"{source.alias.lower()}.{wanted_name}"
        return None

    def star(self, table: str = "") -> list[tuple[Column, str]]:
        """List all columns, or those of one table, each with its SQL."""
        columns = []
        for source in self.sources:
            if table and source.alias.lower() != table.lower():
                continue
            for column in source.columns:
                if source.needed is not None:
                    source.needed.add(column.name.lower())
                columns.append((column, source.sql_of(column)))
        if not columns:
            raise SqlServerError(107, table) if table else SqlServerError(263)
        return columns


class Arguments(NamedTuple):
    """The arguments of a function in a FROM clause: a query of one row, with its parameters."""

    sql: str
    getters: Sequence[Getter]
    size: int


class ViewQuery(NamedTuple):
    """What CREATE VIEW defined."""

    name: str
    tree: exp.Expr
    columns: Sequence[str]  # their names; []: those of the query


class ProgramParameter(NamedTuple):
    name: str  # with its @, in lower case
    type: SqlType
    default: exp.Expr | None


class UserProgram(NamedTuple):
    """What CREATE FUNCTION defined."""

    name: str  # with its schema
    key: tuple[int, str]  # among the functions of the instance
    parameters: Sequence[ProgramParameter]
    returns: SqlType | None  # of one value
    query: exp.Expr | None  # of RETURNS TABLE
    columns: Sequence[Column]  # of the table that statements fill
    run: Callable[[Any, Sequence[Any]], Any]  # from the calling frame and the arguments to the value, or the rows
    bind: Callable[[Any], Waiting[None]]


class Environment(Protocol):
    """Resolves names for the renderer, and registers its functions."""

    def table(self, parts: tuple[str, ...], alias: str, *, uncommitted: bool) -> Source:
        """A table, view or queue by name; 208 if there is none. `uncommitted`: with rows that are not committed."""
        ...

    def user_view(self, parts: tuple[str, ...]) -> contextlib.AbstractContextManager[ViewQuery] | None:
        """The query of a view by name, to be rendered inside the context; None if there is no such view."""
        ...

    def table_variable(self, name: str, alias: str) -> Source: ...

    def user_function(self, parts: tuple[str, ...], *, of_one_value: bool) -> UserProgram | None:
        """The function of that name that CREATE FUNCTION made; None if there is none of that kind."""
        ...

    def chained(self) -> contextlib.AbstractContextManager[None]:
        """What is read inside the context needs no permission: a module reads it."""
        ...

    def table_function(self, parts: tuple[str, ...], alias: str, arguments: Arguments) -> Source:
        """A function that returns a table; 208 if there is none."""
        ...

    def variable_type(self, name: str) -> SqlType: ...

    @property
    def names_places(self) -> bool:
        """Whether the error of a value that is too long names its column."""
        ...

    @property
    def sqlite(self) -> Sqlite:
        """What functions are registered in."""
        ...


# https://learn.microsoft.com/sql/t-sql/data-types/data-type-precedence-transact-sql
PRECEDENCE = """
    sql_variant xml datetimeoffset datetime2 datetime smalldatetime date time float real decimal numeric money bigint
    int smallint tinyint bit uniqueidentifier nvarchar nchar varchar char varbinary binary
""".split()  # noqa: SIM905


def common_type(types: Sequence[SqlType | None]) -> SqlType | None:
    """The type of CASE, COALESCE and UNION over these types: the one of highest precedence, wide enough for all."""
    known_types = [type_ for type_ in types if type_ is not None]
    if not known_types:
        return None
    first = min(known_types, key=lambda type_: PRECEDENCE.index(type_.name))
    if family(first) in ("text", "binary"):
        lengths = [text_length(type_) for type_ in known_types]
        length = MAX if MAX in lengths else max(lengths)
        varying = {"nchar": "nvarchar", "char": "varchar", "binary": "varbinary"}
        is_fixed = all(type_.name in varying for type_ in known_types)
        return SqlType(first.name if is_fixed else varying.get(first.name, first.name), length=length)
    if family(first) == "decimal":
        scale = max(type_.scale for type_ in known_types)
        whole_digits = max((type_.precision or 10) - type_.scale for type_ in known_types)
        return SqlType(first.name, precision=min(38, whole_digits + scale), scale=scale)
    return first


def part_of_binary(sql: str, first: int, length: int) -> str | None:
    """SQLite's `substr` of a binary value, which makes NULL of an empty one; None of SQL that may not stand twice."""
    return None if "(" in sql else f"ifnull(substr({sql}, {first}, {length}), {sql})"


def text_length(type_: SqlType) -> int:
    """The length of the longest value of a type as text."""
    if type_.name in TEXT or type_.name in ("binary", "varbinary"):
        return type_.length
    if type_.name in INTEGER_RANGES:
        return len(str(INTEGER_RANGES[type_.name][1])) + 1
    return 36 if type_.name == "uniqueidentifier" else 34 if type_.name == "datetimeoffset" else 41


def is_null(value: Fragment) -> bool:
    """Whether a value is the constant NULL, which has no type."""
    return value.type is None and value.constant is None


def is_int(value: int) -> bool:
    """Whether a constant of digits is an int. Others are decimals, not bigint."""
    return -(2**31) <= value < 2**31
