"""Tables, procedures, triggers, views, queues and constraints: sys.objects, sys.partitions and their kin."""

from collections.abc import Iterator
from itertools import repeat
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, NamedTuple

from harness.embedded.broker.catalog import SCHEMAS
from harness.embedded.broker.queues import Queue
from harness.embedded.broker.system_objects import QUEUES
from harness.embedded.sqltypes import Column
from harness.embedded.tsql.catalog.constraints import CLUSTERED, constraints, index_ids
from harness.embedded.tsql.catalog.view import Context, View
from harness.embedded.tsql.catalog.visibility import everybody, of_object
from harness.embedded.tsql.instance.modules import Module
from harness.embedded.tsql.storage.tables import Table

# The system base tables of Service Broker, with SQL Server's object ids
SYSTEM_OBJECTS = {"sysxmitqueue": 68, "sysconvgroup": 71, "sysdesend": 72, "sysdercv": 73}
# A system table of SQL Server 2000 that scripts still read, without a schema or with `dbo` and `sys`:
# https://learn.microsoft.com/sql/relational-databases/system-compatibility-views/system-compatibility-views-transact-sql
SYSOBJECTS = "sysobjects"
_SHIPPED = frozenset(identifier for identifier, _ in QUEUES)


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
    queue: Queue | None = None
    execute_as_principal_id: int | None = None


def is_ms_shipped(queue_id: int) -> int:
    """Whether a queue is one that every database has from the beginning."""
    return int(queue_id in _SHIPPED)


def partition_id(object_id: int, index_id: int) -> int:
    return object_id * 65536 + index_id


def _row(context: Context, item: Any, type_: str, type_desc: str, **more: Any) -> ObjectRow:
    schema_id = context.database.catalog.schema_id(item.schema)
    return ObjectRow(item.name, item.object_id, schema_id, type_, type_desc, item.create_time_ns, **more)


def _schemas(context: Context) -> Iterator[SimpleNamespace]:
    catalog = context.database.catalog
    for schema in catalog.schemas.values():
        principal_id = SCHEMAS.get(schema.owner) or catalog.principals.principal_id(schema.owner)
        yield SimpleNamespace(name=schema.name, schema_id=schema.schema_id, principal_id=principal_id)


def tables(context: Context) -> Iterator[ObjectRow]:
    for table in list(context.instance.tables.values()):
        if table.database_id == context.database.database_id:
            details = {"rows": table.row_count, "columns": tuple(table.columns), "identity": table.identity}
            yield _row(context, table, "U", "USER_TABLE", table=table, **details)


def procedures(context: Context) -> Iterator[ObjectRow]:
    for procedure in list(context.instance.procedures.values()):
        if procedure.database_id == context.database.database_id:
            yield _row(context, procedure, "P", "SQL_STORED_PROCEDURE", module=procedure)


def triggers(context: Context) -> Iterator[ObjectRow]:
    for trigger in list(context.instance.triggers.values()):
        if trigger.database_id == context.database.database_id:
            yield _row(context, trigger, "TR", "SQL_TRIGGER", module=trigger, parent_object_id=trigger.table_id)


def user_views(context: Context) -> Iterator[ObjectRow]:
    for view in list(context.instance.views.values()):
        if view.database_id == context.database.database_id:
            yield _row(context, view, "V", "VIEW", module=view)


FUNCTION_TYPES = {
    "FN": "SQL_SCALAR_FUNCTION",
    "IF": "SQL_INLINE_TABLE_VALUED_FUNCTION",
    "TF": "SQL_TABLE_VALUED_FUNCTION",
}


def user_functions(context: Context) -> Iterator[ObjectRow]:
    for function in list(context.instance.functions.values()):
        if function.database_id == context.database.database_id:
            yield _row(context, function, function.type, FUNCTION_TYPES[function.type], module=function)


def queue_row(context: Context, queue: Queue) -> ObjectRow:
    schema, shipped = context.database.catalog.schema_id(queue.schema), is_ms_shipped(queue.object_id)
    of_all = queue.name, queue.object_id, schema, "SQ", "SERVICE_QUEUE", queue.create_time_ns
    return ObjectRow(*of_all, is_ms_shipped=shipped, queue=queue)


def queues(context: Context) -> Iterator[ObjectRow]:
    return (queue_row(context, queue) for queue in context.database.catalog.queues.values())


class _OfQueue(NamedTuple):
    object_id: int
    parent_object_id: int
    create_time_ns: int


class InternalTable(_OfQueue):
    """The row of a queue's internal table. A program that watches a server may ask for a thousand every second."""

    __slots__ = ()
    schema_id = SCHEMAS["sys"]
    type = "IT"
    type_desc = "INTERNAL_TABLE"
    is_ms_shipped = 1

    @property
    def name(self) -> str:
        return f"queue_messages_{self.parent_object_id}"


def internal_tables(context: Context) -> Iterator[tuple[Any, ...]]:
    """Yield the fields of an `InternalTable` for each queue."""
    fields = attrgetter("internal_table_id", "object_id", "create_time_ns")
    return map(fields, context.database.catalog.queues.values())


def named_internal_tables(context: Context) -> Iterator[InternalTable]:
    return map(InternalTable._make, internal_tables(context))


def system_tables(context: Context) -> Iterator[ObjectRow]:
    """The system base tables of Service Broker."""
    database = context.database
    # Messages that arrived while their queue was OFF, and those behind them.
    aside = sum(map(len, map(attrgetter("blocked"), database.catalog.queues.values())))
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
        for constraint in constraints(row.table):
            place = (row.schema_id, constraint.type, constraint.type_desc, row.create_time_ns)
            yield ObjectRow(constraint.name, constraint.object_id, *place, parent_object_id=row.object_id)


def objects(context: Context) -> Iterator[ObjectRow | InternalTable]:
    of_modules = (procedures, triggers, user_views, user_functions)
    for family in (system_tables, tables, _constraints, *of_modules, queues, named_internal_tables):
        yield from family(context)


class Partition(NamedTuple):
    """An index of an object with rows."""

    object_id: int
    index_id: int
    rows: int
    type: str  # of the object, like the others
    parent_object_id: int
    is_ms_shipped: int

    @property
    def partition_id(self) -> int:
        return partition_id(self.object_id, self.index_id)


def partitions(context: Context) -> Iterator[tuple[Any, ...]]:
    """Yield the fields of a `Partition` for each index of objects with rows. A queue's internal table has two."""
    for item in system_tables(context):
        yield _partition(item, CLUSTERED)
    for item in tables(context):
        assert item.table is not None
        for index_id in index_ids(item.table):
            yield _partition(item, index_id)
    queues = context.database.catalog.queues.values()
    ids = [queue.internal_table_id for queue in queues]
    parents = [queue.object_id for queue in queues]
    rows = [queue.depth for queue in queues]
    for index_id in (CLUSTERED, 2):
        yield from zip(ids, repeat(index_id), rows, repeat("IT"), parents, repeat(1))


def _partition(item: ObjectRow, index_id: int) -> Partition:
    return Partition(item.object_id, index_id, item.rows, item.type, item.parent_object_id, item.is_ms_shipped)


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
        row=InternalTable,
        visible=of_object(),
    ),
    View(
        "partitions",
        """
        partition_id  bigint NOT NULL
        object_id     int NOT NULL
        index_id      int NOT NULL
        rows          bigint
        """,
        partitions,
        row=Partition,
        visible=of_object(),
    ),
    View(
        "dm_db_partition_stats",
        """
        partition_id      bigint
        object_id         int NOT NULL
        index_id          int NOT NULL
        partition_number  int NOT NULL  = 1
        row_count         bigint        <- rows
        """,
        partitions,
        row=Partition,
        visible=of_object(),
    ),
    View(
        "schemas",
        """
        name          sysname NOT NULL
        schema_id     int NOT NULL
        principal_id  int
        """,
        _schemas,
        visible=everybody,
    ),
    View(
        SYSOBJECTS,
        """
        name        sysname NOT NULL
        id          int NOT NULL       <- object_id
        xtype       char(2) NOT NULL   <- type
        uid         smallint           <- schema_id
        parent_obj  int NOT NULL       <- parent_object_id
        crdate      datetime NOT NULL  <- create_time_ns
        type        char(2)
        """,
        objects,
        visible=of_object(),
    ),
]
