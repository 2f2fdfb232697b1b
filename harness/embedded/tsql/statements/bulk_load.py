"""INSERT BULK, which bulk copies of clients (bcp, SqlBulkCopy and their kin) send before their rows.

The rows become those of a table variable, and an INSERT ... SELECT of that puts them into the table: all or none, with
its conversions, defaults, keys and numbers.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import islice
from typing import Any

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Delay, Waiting
from harness.embedded.sqltypes import Column, ResultSink
from harness.embedded.tsql.session.session import Frame, Session
from harness.embedded.tsql.session.steps import Scope, Step, plain, sequence
from harness.embedded.tsql.statements.insert import Insert
from harness.embedded.tsql.statements.registry import COMPILERS, GRAMMAR, register
from harness.embedded.tsql.statements.tables import collation
from harness.embedded.tsql.storage.conversion import stored_decimal
from harness.embedded.tsql.storage.sqlite import ROWS_A_PIECE, declarations, quoted
from harness.embedded.tsql.text.parser import Parser, Statement

ROWS = "@rows"
# TABLOCK, ORDER and sizes of batches have no effect: a load is one statement. Tables have no constraints but keys.
OPTIONS = (
    "KEEP_NULLS",
    "FIRE_TRIGGERS",
    "CHECK_CONSTRAINTS",
    "TABLOCK",
    "ORDER",
    "ROWS_PER_BATCH",
    "KILOBYTES_PER_BATCH",
)


@dataclass(frozen=True, slots=True)
class InsertBulk(Statement):
    table: tuple[str, ...]
    columns: list[str]
    options: list[str]


def parse_insert_bulk(parser: Parser) -> Statement:
    """`INSERT BULK table ( column type [ COLLATE collation ] [ [ NOT ] NULL ] [, ...] ) [ WITH ( option [, ...] ) ]`"""
    tokens, line = parser.tokens, parser.line
    table = tokens.object_name()
    tokens.expect("(")
    columns = tokens.comma_separated(lambda: _column(parser))
    tokens.expect(")")
    options = []
    if tokens.accept("WITH"):
        tokens.expect("(")
        options = tokens.comma_separated(lambda: _option(parser))
        tokens.expect(")")
    return InsertBulk(line, table, columns, options)


def _column(parser: Parser) -> str:
    tokens = parser.tokens
    name = tokens.name()
    tokens.data_type()  # the rows say it too
    if tokens.accept("COLLATE"):
        collation(parser)
    tokens.accept("NOT")
    tokens.accept("NULL")
    return name


def _option(parser: Parser) -> str:
    tokens = parser.tokens
    option = tokens.choose(*OPTIONS)
    if tokens.accept("="):
        tokens.integer()
    elif tokens.accept("("):
        while not tokens.accept(")"):
            tokens.advance()
    return option


@register("INSERT BULK", parse_insert_bulk, InsertBulk)
def compile_insert_bulk(node: InsertBulk, scope: Scope) -> Step:
    def run(frame: Frame) -> None:
        if frame.user_table(node.table) is None:
            raise SqlServerError(208, ".".join(node.table))
        frame.session.bulk = node

    return plain(run)


def load(session: Session, columns: Sequence[Column], rows: Iterator[Sequence[Any]], sink: ResultSink) -> Waiting[None]:
    """Insert the rows of a bulk load into the table that the INSERT BULK before it has named."""
    node, session.bulk = session.bulk, None
    if not isinstance(node, InsertBulk) or len(node.columns) != len(columns):
        raise SqlServerError(4002)
    text = _insert(session, node)
    [insert] = Parser(text, GRAMMAR).batch()
    assert isinstance(insert, Insert)
    insert = replace(insert, fires="FIRE_TRIGGERS" in node.options)
    columns = [Column(name, column.type) for name, column in zip(node.columns, columns, strict=True)]
    frame = Frame(session, session.database, sink, "", 0)
    try:
        yield from insert_rows(frame, Scope(COMPILERS, text=text), insert, columns, rows)
    finally:
        frame.release()


def insert_rows(
    frame: Frame, scope: Scope, insert: Insert, columns: Sequence[Column], rows: Iterable[Sequence[Any]]
) -> Waiting[None]:
    """Run an INSERT ... SELECT whose query reads these rows from the table variable `ROWS`."""
    declared = scope.declared | {ROWS: declarations(columns)}
    inner = replace(scope, plans=[], tables=scope.tables | {ROWS: list(columns)}, declared=declared)
    body = sequence([inner.compile(insert)], scope.text)
    outer, frame.declared = frame.declared, declared
    marks, unread = ", ".join("?" for _ in columns), iter(rows)
    try:
        while piece := list(islice(unread, ROWS_A_PIECE)):
            frame.fill_table(ROWS, marks, [tuple(map(_stored, row)) for row in piece])
            yield Delay(0)
        yield from body.run(frame)
    finally:
        frame.empty_table(ROWS)
        frame.declared = outer


def _stored(value: Any) -> Any:
    return stored_decimal(value) if isinstance(value, Decimal) else value


def _insert(session: Session, node: InsertBulk) -> str:
    """The statement that inserts the rows; NULL becomes the default of its column, unless the client keeps it."""
    table = session.user_table(node.table, session.database)
    if table is None:
        raise SqlServerError(208, ".".join(node.table))
    keeps_nulls = "KEEP_NULLS" in node.options
    defaults = {
        definition.name.lower(): definition.default
        for definition in table.definitions
        if definition.default is not None and not keeps_nulls
    }
    names = [quoted(name) for name in node.columns]
    values = [
        f"COALESCE({quoted(name)}, {defaults[name.lower()]})" if name.lower() in defaults else quoted(name)
        for name in node.columns
    ]
    target = ".".join(part and quoted(part) for part in node.table)
    return f"INSERT {target} ({', '.join(names)}) SELECT {', '.join(values)} FROM {ROWS}"
