"""CREATE, ALTER, DROP and TRUNCATE TABLE, CREATE INDEX."""

from __future__ import annotations

from dataclasses import dataclass

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.tsql.session.autocommit import writing
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Step
from harness.embedded.tsql.statements import checks
from harness.embedded.tsql.statements.columns import column_definition, index_options, key_columns, table_body
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.storage.columns import ColumnDefinition, TableBody
from harness.embedded.tsql.storage.tables import Table
from harness.embedded.tsql.text.parser import Parser, Statement
from harness.embedded.tsql.translation.binding import Binding


@dataclass(frozen=True, slots=True)
class CreateTable(Statement):
    name: tuple[str, ...]
    body: TableBody


def parse_create_table(parser: Parser) -> Statement:
    """`CREATE TABLE name ( column type [ NULL | NOT NULL | IDENTITY | DEFAULT | PRIMARY KEY | UNIQUE ] [, ...] )`"""
    name = parser.tokens.object_name()
    if name[-1].startswith("#"):
        parser.tokens.unsupported("temporary tables")
    body = table_body(parser)
    if parser.tokens.accept("ON"):
        parser.tokens.name()
    return CreateTable(parser.line, name, body)


def compile_create_table(node: CreateTable, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        instance = frame.instance
        database, schema, name = instance.located(node.name, frame.database)
        if instance.table(node.name, frame.database) or instance.procedure(node.name, frame.database):
            raise SqlServerError(2714, name)
        if f"{schema}.{name}".lower() in database.queues:
            raise SqlServerError(2714, name)
        now_ns = instance.engine.clock.utc_ns()
        object_id = database.new_object_id(tx)
        table = Table.from_body(database.database_id, object_id, schema, name, database.name, node.body, now_ns)
        instance.add_table(tx, table)

    return writing(work)


register(
    "CREATE TABLE",
    parse_create_table,
    CreateTable,
    compile_create_table,
    check=checks.create("CREATE TABLE", in_schema=True),
)


@dataclass(frozen=True, slots=True)
class AlterTable(Statement):
    """`ADD column` or `DROP COLUMN column`."""

    name: tuple[str, ...]
    add: list[ColumnDefinition]
    drop: list[str]


def parse_alter_table(parser: Parser) -> Statement:
    """`ALTER TABLE name { ADD column type ... [, ...] | DROP COLUMN [ IF EXISTS ] column [, ...] }`"""
    tokens, line = parser.tokens, parser.line
    name = tokens.object_name()
    if tokens.accept("ADD"):
        if tokens.word() in ("CONSTRAINT", "PRIMARY KEY", "UNIQUE", "CHECK", "FOREIGN KEY", "DEFAULT"):
            tokens.unsupported("ALTER TABLE ADD CONSTRAINT")
        added = tokens.comma_separated(lambda: column_definition(parser, TableBody()))
        return AlterTable(line, name, added, [])
    if tokens.accept("DROP"):
        tokens.expect("COLUMN")
        tokens.accept("IF", "EXISTS")
        return AlterTable(line, name, [], tokens.comma_separated(tokens.name))
    tokens.unsupported(f"ALTER TABLE {tokens.word()}")


def compile_alter_table(node: AlterTable, scope: Scope) -> Step:
    """Done as a new table under the old name, with the old rows."""
    if node.drop:
        raise UnsupportedSyntax("ALTER TABLE DROP COLUMN", node.line)

    def work(frame: Frame, tx: Transaction) -> None:
        instance = frame.instance
        table = Binding(scope, frame).user_table(node.name)
        rows = frame.sqlite.rows(f"SELECT {table.all_columns} FROM {table.sql}")
        for column in node.add:
            if rows and not column.nullable:
                raise SqlServerError(4901, column.name, table.name)
            if column.identity or (column.default is not None and not column.nullable):
                raise UnsupportedSyntax("ALTER TABLE ADD of such a column", node.line)
        instance.drop_table(tx, table)
        altered = Table(
            table.database_id,
            table.object_id,
            table.schema,
            table.name,
            table.database_name,
            [*table.definitions, *node.add],
            table.primary_key,
            table.primary_key_name,
            table.unique,
            table.create_time_ns,
        )
        instance.add_table(tx, altered)
        wider = [(*row, *(None for _ in node.add)) for row in rows]
        altered.insert(frame.sqlite, tx, wider)

    return writing(work)


register("ALTER TABLE", parse_alter_table, AlterTable, compile_alter_table, check=checks.on_object(1088, "ALTER"))


@dataclass(frozen=True, slots=True)
class CreateIndex(Statement):
    """Accepted and not kept: SQLite plans without it; a UNIQUE one is refused."""

    table: tuple[str, ...]
    columns: list[str]


def parse_create_index(parser: Parser) -> Statement:
    """`CREATE [ CLUSTERED | NONCLUSTERED ] INDEX name ON table ( column [, ...] )`"""
    tokens, line = parser.tokens, parser.line
    tokens.name()
    tokens.expect("ON")
    table = tokens.object_name()
    columns = key_columns(parser)
    if tokens.accept("INCLUDE"):
        key_columns(parser)
    index_options(parser)
    return CreateIndex(line, table, columns)


def compile_create_index(node: CreateIndex, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        table = Binding(scope, frame).user_table(node.table)
        for name in node.columns:
            table.place(name)

    return writing(work)


register(
    "CREATE INDEX|CREATE CLUSTERED INDEX|CREATE NONCLUSTERED INDEX",
    parse_create_index,
    CreateIndex,
    compile_create_index,
    check=checks.on_object(1088, "ALTER"),
)


@dataclass(frozen=True, slots=True)
class Truncate(Statement):
    table: tuple[str, ...]


def parse_truncate(parser: Parser) -> Statement:
    """`TRUNCATE TABLE name`"""
    return Truncate(parser.line, parser.tokens.object_name())


def compile_truncate(node: Truncate, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        table = Binding(scope, frame).user_table(node.table)
        frame.instance.truncate_table(tx, table)
        frame.session.row_count = 0

    return writing(work)


register("TRUNCATE TABLE", parse_truncate, Truncate, compile_truncate, check=checks.on_object(1088, "ALTER"))


@dataclass(frozen=True, slots=True)
class DropTable(Statement):
    names: list[tuple[str, ...]]
    if_exists: bool


def parse_drop_table(parser: Parser) -> Statement:
    """`DROP TABLE [ IF EXISTS ] name [, ...]`"""
    if_exists = parser.tokens.accept("IF", "EXISTS")
    return DropTable(parser.line, parser.tokens.comma_separated(parser.tokens.object_name), if_exists)


def compile_drop_table(node: DropTable, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        for name in node.names:
            table = frame.instance.table(name, frame.database)
            if table is not None:
                frame.instance.drop_table(tx, table)
            elif not node.if_exists:
                raise SqlServerError(3701, "table", ".".join(name))

    return writing(work)


register("DROP TABLE", parse_drop_table, DropTable, compile_drop_table, check=checks.drop_objects("table"))
