"""Tables, procedures, triggers, queues and constraints: sys.objects, sys.partitions and their kin."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

from harness.embedded.broker.queues import Queue
from harness.embedded.broker.system_objects import QUEUES
from harness.embedded.sqltypes import Column
from harness.embedded.tsql.catalog.constraints import CLUSTERED, constraints, index_ids
from harness.embedded.tsql.catalog.view import Context, View
from harness.embedded.tsql.catalog.visibility import everybody, of_object
from harness.embedded.tsql.instance.modules import Module
from harness.embedded.tsql.storage.tables import Table

SCHEMA_IDS = {"dbo": 1, "information_schema": 3, "sys": 4}
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
    table: Table | None = None
    module: Module | None = None


def internal_table_id(queue_id: int) -> int:
    """The object id of sys.queue_messages_<queue id>. Unlike SQL Server's it is computed, the same for every view."""
    return queue_id + 1


def is_ms_shipped(queue_id: int) -> int:
    """Whether a queue is one that every database has from the beginning."""
    return int(any(queue_id == identifier for identifier, _ in QUEUES))


def partition_id(object_id: int, index_id: int) -> int:
    return object_id * 65536 + index_id


def schema_id(name: str) -> int:
    return SCHEMA_IDS.get(name.lower(), 5)


def _row(item: Any, type_: str, type_desc: str, **more: Any) -> ObjectRow:
    return ObjectRow(item.name, item.object_id, schema_id(item.schema), type_, type_desc, item.create_time_ns, **more)


def tables(context: Context) -> Iterator[ObjectRow]:
    for table in list(context.instance.tables.values()):
        if table.database_id == context.database.database_id:
            shown = {"rows": table.row_count, "columns": tuple(table.columns), "identity": table.identity}
            yield _row(table, "U", "USER_TABLE", table=table, **shown)


def procedures(context: Context) -> Iterator[ObjectRow]:
    for procedure in list(context.instance.procedures.values()):
        if procedure.database_id == context.database.database_id:
            yield _row(procedure, "P", "SQL_STORED_PROCEDURE", module=procedure)


def triggers(context: Context) -> Iterator[ObjectRow]:
    for trigger in list(context.instance.triggers.values()):
        if trigger.database_id == context.database.database_id:
            yield _row(trigger, "TR", "SQL_TRIGGER", module=trigger, parent_object_id=trigger.table_id)


def queues(context: Context) -> Iterator[ObjectRow]:
    for queue in context.database.catalog.queues.values():
        shipped = is_ms_shipped(queue.object_id)
        yield _row(queue, "SQ", "SERVICE_QUEUE", rows=queue.depth, is_ms_shipped=shipped)


class InternalTable:
    """The row of a queue's internal table. There may be a thousand, of which a query asks two columns."""

    __slots__ = ("_queue",)
    schema_id = SCHEMA_IDS["sys"]
    type = "IT"
    type_desc = "INTERNAL_TABLE"
    is_ms_shipped = 1

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    @property
    def object_id(self) -> int:
        return internal_table_id(self._queue.object_id)

    @property
    def parent_object_id(self) -> int:
        return self._queue.object_id

    @property
    def name(self) -> str:
        return f"queue_messages_{self.parent_object_id}"

    @property
    def create_time_ns(self) -> int:
        return self._queue.create_time_ns

    @property
    def rows(self) -> int:
        return self._queue.depth


def internal_tables(context: Context) -> Iterator[InternalTable]:
    return map(InternalTable, context.database.catalog.queues.values())


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


def _constraints(context: Context) -> Iterator[ObjectRow]:
    for row in tables(context):
        assert row.table is not None
        for one in constraints(row.table):
            place = (row.schema_id, one.type, one.type_desc, row.create_time_ns)
            yield ObjectRow(one.name, one.object_id, *place, parent_object_id=row.object_id)


def objects(context: Context) -> Iterator[ObjectRow | InternalTable]:
    for family in (system_tables, tables, _constraints, procedures, triggers, queues, internal_tables):
        yield from family(context)


class Partition(NamedTuple):
    """An index of an object with rows."""

    item: ObjectRow | InternalTable
    index_id: int


def partitions(context: Context) -> Iterator[Partition]:
    """Objects with rows, once for each index. The internal table of a queue has two."""
    for item in system_tables(context):
        yield Partition(item, CLUSTERED)
    for item in tables(context):
        assert item.table is not None
        for index_id in index_ids(item.table):
            yield Partition(item, index_id)
    for messages in internal_tables(context):
        yield Partition(messages, CLUSTERED)
        yield Partition(messages, 2)


OBJECT_COLUMNS = """
        name              sysname NOT NULL
        object_id         int NOT NULL
        principal_id      int                = NULL
        schema_id         int NOT NULL
        parent_object_id  int NOT NULL
        type              char(2)
        type_desc         nvarchar(60)
        create_date       datetime NOT NULL  <- create_time_ns
        modify_date       datetime NOT NULL  <- create_time_ns
        is_ms_shipped     bit NOT NULL
        """  # of sys.objects, which every view of objects has

VIEWS = [
    View("objects", OBJECT_COLUMNS, objects, visible=of_object()),
    View("tables", OBJECT_COLUMNS, tables, visible=of_object()),
    View("procedures", OBJECT_COLUMNS, procedures, visible=of_object()),
    View(
        "internal_tables",
        OBJECT_COLUMNS
        + """
        internal_type     tinyint            = 201
        parent_id         int                <- parent_object_id
        """,
        internal_tables,
        visible=of_object(),
    ),
    View(
        "partitions",
        """
        partition_id  bigint NOT NULL
        object_id     int NOT NULL     <- item.object_id
        index_id      int NOT NULL
        rows          bigint           <- item.rows
        """,
        partitions,
        partition_id=lambda row: partition_id(row.item.object_id, row.index_id),
        visible=of_object("item"),
    ),
    View(
        "dm_db_partition_stats",
        """
        partition_id      bigint
        object_id         int NOT NULL  <- item.object_id
        index_id          int NOT NULL
        partition_number  int NOT NULL  = 1
        row_count         bigint        <- item.rows
        """,
        partitions,
        partition_id=lambda row: partition_id(row.item.object_id, row.index_id),
        visible=of_object("item"),
    ),
    View(
        "schemas",
        """
        name          sysname NOT NULL
        schema_id     int NOT NULL      <- number
        principal_id  int               <- number
        """,
        lambda context: [
            SimpleNamespace(name=name, number=schema_id(name)) for name in ("dbo", "INFORMATION_SCHEMA", "sys")
        ],
        visible=everybody,
    ),
]
