"""Tables, procedures, queues and their columns: sys.objects, sys.partitions and their kin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from harness.embedded.broker.system_objects import QUEUES
from harness.embedded.sqltypes import MAX, Column, SqlType
from harness.embedded.tsql.catalog.view import (
    Context,
    View,
    ViewColumn,
    attribute,
    bigint,
    bit,
    char,
    column,
    datetime,
    int_,
    nvarchar,
    smallint,
    sysname,
    tinyint,
)
from harness.embedded.tsql.storage.conversion import datetime_from_utc_ns

# The system base tables of Service Broker, with SQL Server's object ids
SYSTEM_OBJECTS = {"sysxmitqueue": 68, "sysconvgroup": 71, "sysdesend": 72, "sysdercv": 73}


class ObjectRow(NamedTuple):
    """A row of sys.objects, with what other views show of the object."""

    name: str
    object_id: int
    schema_id: int
    type: str
    type_desc: str
    create_time_ns: int
    parent_object_id: int = 0
    rows: int = 0
    columns: tuple[Column, ...] = ()
    identity: int | None = None
    is_ms_shipped: int = 0


def internal_table_id(queue_id: int) -> int:
    """The object id of sys.queue_messages_<queue id>. Unlike SQL Server's it is computed, the same for every view."""
    return queue_id + 1


def is_ms_shipped(queue_id: int) -> int:
    """Whether a queue is one that every database has from the beginning."""
    return int(any(queue_id == identifier for identifier, _ in QUEUES))


def schema_id(name: str) -> int:
    return {"dbo": 1, "sys": 4}.get(name.lower(), 5)


def tables(context: Context) -> Iterator[ObjectRow]:
    for table in list(context.instance.tables.values()):
        if table.database_id == context.database.database_id:
            yield ObjectRow(
                table.name,
                table.object_id,
                schema_id(table.schema),
                "U",
                "USER_TABLE",
                table.create_time_ns,
                rows=table.row_count,
                columns=tuple(table.columns),
                identity=table.identity,
            )


def procedures(context: Context) -> Iterator[ObjectRow]:
    for procedure in list(context.instance.procedures.values()):
        if procedure.database_id == context.database.database_id:
            yield ObjectRow(
                procedure.name,
                procedure.object_id,
                schema_id(procedure.schema),
                "P",
                "SQL_STORED_PROCEDURE",
                procedure.create_time_ns,
            )


def queues(context: Context) -> Iterator[ObjectRow]:
    for queue in context.database.catalog.queues.values():
        yield ObjectRow(
            queue.name,
            queue.object_id,
            schema_id(queue.schema),
            "SQ",
            "SERVICE_QUEUE",
            queue.create_time_ns,
            rows=queue.depth,
            is_ms_shipped=is_ms_shipped(queue.object_id),
        )


def internal_tables(context: Context) -> Iterator[ObjectRow]:
    for queue in context.database.catalog.queues.values():
        yield ObjectRow(
            f"queue_messages_{queue.object_id}",
            internal_table_id(queue.object_id),
            4,
            "IT",
            "INTERNAL_TABLE",
            queue.create_time_ns,
            parent_object_id=queue.object_id,
            rows=queue.depth,
            is_ms_shipped=1,
        )


def system_tables(context: Context) -> Iterator[ObjectRow]:
    """The system base tables of Service Broker."""
    database = context.database
    # Messages that arrived while their queue was OFF, and those behind them.
    aside = sum(len(queue.blocked) for queue in database.catalog.queues.values())
    counts = {
        "sysxmitqueue": len(database.transmission_queue) + aside,
        "sysconvgroup": len(database.groups),
        "sysdesend": len(database.endpoints),
        "sysdercv": len(database.endpoints),
    }
    for name, object_id in SYSTEM_OBJECTS.items():
        yield ObjectRow(name, object_id, 4, "S", "SYSTEM_TABLE", 0, rows=counts[name], is_ms_shipped=1)


def objects(context: Context) -> Iterator[ObjectRow]:
    for family in (system_tables, tables, procedures, queues, internal_tables):
        yield from family(context)


def partitions(context: Context) -> Iterator[tuple[ObjectRow, int]]:
    """Objects with rows, once for each index. The internal table of a queue has two."""
    for item in system_tables(context):
        yield item, 1
    for item in tables(context):
        yield item, 1
    for item in internal_tables(context):
        yield item, 1
        yield item, 2


def object_columns() -> list[ViewColumn]:
    """The columns of sys.objects, which every view of objects has."""
    return [
        attribute("name", sysname, nullable=False),
        attribute("object_id", int_, nullable=False),
        column("principal_id", int_, None),
        column("schema_id", int_, lambda item: item.schema_id, nullable=False),
        attribute("parent_object_id", int_, nullable=False),
        attribute("type", char(2)),
        attribute("type_desc", nvarchar(60)),
        column("create_date", datetime, lambda item: datetime_from_utc_ns(item.create_time_ns), nullable=False),
        column("modify_date", datetime, lambda item: datetime_from_utc_ns(item.create_time_ns), nullable=False),
        column("is_ms_shipped", bit, lambda item: item.is_ms_shipped, nullable=False),
    ]


def _columns(context: Context) -> Iterator[tuple[ObjectRow, int, Column]]:
    for table in tables(context):
        for number, item in enumerate(table.columns, start=1):
            yield table, number, item


def storage_length(type_: SqlType) -> int:
    """sys.columns.max_length, in bytes."""
    if type_.length == MAX:
        return -1
    if type_.name in ("nchar", "nvarchar"):
        return 2 * type_.length
    sizes = {"int": 4, "bigint": 8, "smallint": 2, "tinyint": 1, "bit": 1, "uniqueidentifier": 16, "float": 8}
    return type_.length or sizes.get(type_.name, 8)


# name, system_type_id of sys.types
TYPES = {
    "varbinary": 165,
    "binary": 173,
    "varchar": 167,
    "char": 175,
    "nvarchar": 231,
    "nchar": 239,
    "uniqueidentifier": 36,
    "tinyint": 48,
    "smallint": 52,
    "int": 56,
    "bigint": 127,
    "bit": 104,
    "real": 59,
    "float": 62,
    "money": 60,
    "decimal": 106,
    "numeric": 108,
    "date": 40,
    "time": 41,
    "datetime2": 42,
    "smalldatetime": 58,
    "datetime": 61,
}

VIEWS = [
    View("objects", object_columns(), objects),
    View("tables", object_columns(), tables),
    View(
        "procedures",
        object_columns(),
        procedures,
    ),
    View(
        "internal_tables",
        [
            *object_columns(),
            column("internal_type", tinyint, 201),
            column("parent_id", int_, lambda item: item.parent_object_id),
        ],
        internal_tables,
    ),
    View(
        "partitions",
        [
            column("partition_id", bigint, lambda row: row[0].object_id * 65536 + row[1], nullable=False),
            column("object_id", int_, lambda row: row[0].object_id, nullable=False),
            column("index_id", int_, lambda row: row[1], nullable=False),
            column("rows", bigint, lambda row: row[0].rows),
        ],
        partitions,
    ),
    View(
        "columns",
        [
            column("object_id", int_, lambda row: row[0].object_id, nullable=False),
            column("name", sysname, lambda row: row[2].name),
            column("column_id", int_, lambda row: row[1], nullable=False),
            column("system_type_id", tinyint, lambda row: TYPES[row[2].type.name]),
            column("user_type_id", int_, lambda row: TYPES[row[2].type.name]),
            column("max_length", smallint, lambda row: storage_length(row[2].type)),
            column("precision", tinyint, lambda row: row[2].type.precision),
            column("scale", tinyint, lambda row: row[2].type.scale),
            column("is_nullable", bit, lambda row: int(row[2].nullable)),
            column("is_identity", bit, lambda row: int(row[0].identity == row[1] - 1)),
        ],
        _columns,
    ),
    View(
        "types",
        [
            column("name", sysname, lambda row: row[0], nullable=False),
            column("system_type_id", tinyint, lambda row: row[1], nullable=False),
            column("user_type_id", int_, lambda row: row[1], nullable=False),
            column("schema_id", int_, 4),
        ],
        lambda context: list(TYPES.items()),
    ),
    View(
        "schemas",
        [
            column("name", sysname, lambda row: row[0], nullable=False),
            column("schema_id", int_, lambda row: row[1], nullable=False),
            column("principal_id", int_, lambda row: row[1]),
        ],
        lambda context: [("dbo", 1), ("sys", 4)],
    ),
]
