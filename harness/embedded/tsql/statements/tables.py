"""CREATE, DROP and TRUNCATE TABLE."""

from __future__ import annotations

from dataclasses import dataclass

from harness.embedded.broker.ddl import new_object_id
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Step, writing
from harness.embedded.tsql.statements import checks
from harness.embedded.tsql.statements.columns import table_body
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.storage.tables import Table, TableBody
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
        if f"{schema}.{name}".lower() in database.catalog.queues:
            raise SqlServerError(2714, name)
        now_ns = instance.engine.clock.utc_ns()
        object_id = new_object_id(tx, database.catalog)
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


register("TRUNCATE TABLE", parse_truncate, Truncate, compile_truncate, check=checks.on_object(1088))


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
