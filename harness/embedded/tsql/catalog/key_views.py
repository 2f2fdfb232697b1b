"""Keys, defaults and indexes of tables: sys.key_constraints, sys.indexes and their kin.

An index is what keeps a key; the statements that make others are refused. So are foreign keys and CHECK constraints,
whose views are empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

from harness.embedded.tsql.catalog.constraints import CLUSTERED, HEAP, defaults, keys
from harness.embedded.tsql.catalog.object_views import OBJECT_COLUMNS, tables
from harness.embedded.tsql.catalog.view import Context, View
from harness.embedded.tsql.catalog.visibility import everybody, of_object


def _keys(context: Context) -> Iterator[SimpleNamespace]:
    for row in tables(context):
        assert row.table is not None
        for key in keys(row.table):
            yield SimpleNamespace(**key._asdict(), of=row, create_time_ns=row.create_time_ns)


def _defaults(context: Context) -> Iterator[SimpleNamespace]:
    for row in tables(context):
        assert row.table is not None
        for default in defaults(row.table):
            yield SimpleNamespace(
                **default._asdict(), of=row, create_time_ns=row.create_time_ns, parent_column_id=default.places[0] + 1
            )


def _indexes(context: Context) -> Iterator[SimpleNamespace]:
    """The rows of a table, as its primary key orders them or as a heap, and one index for each unique key."""
    for row in tables(context):
        assert row.table is not None
        constraints = keys(row.table)
        if not row.table.primary_key:
            yield SimpleNamespace(of=row, name=None, index_id=HEAP, type=0, type_desc="HEAP", key="")
        for constraint in constraints:
            clustered = constraint.index_id == CLUSTERED
            type_, type_desc = (1, "CLUSTERED") if clustered else (2, "NONCLUSTERED")
            yield SimpleNamespace(
                of=row,
                name=constraint.name,
                index_id=constraint.index_id,
                type=type_,
                type_desc=type_desc,
                key=constraint.type,
            )


def _index_columns(context: Context) -> Iterator[SimpleNamespace]:
    for key in _keys(context):
        for number, place in enumerate(key.places, start=1):
            yield SimpleNamespace(of=key.of, index_id=key.index_id, number=number, column_id=place + 1)


CONSTRAINT_COLUMNS = (
    OBJECT_COLUMNS.replace("schema_id         int NOT NULL\n", "schema_id         int NOT NULL       <- of.schema_id\n")
    .replace("parent_object_id  int NOT NULL\n", "parent_object_id  int NOT NULL       <- of.object_id\n")
    .replace("is_ms_shipped     bit NOT NULL\n", "is_ms_shipped     bit NOT NULL       = 0\n")
)
_NOTHING = lambda context: ()  # noqa: E731

VIEWS = [
    View(
        "key_constraints",
        CONSTRAINT_COLUMNS
        + """
        unique_index_id   int               <- index_id
        is_system_named   bit NOT NULL
        """,
        _keys,
        visible=of_object("of"),
    ),
    View(
        "default_constraints",
        CONSTRAINT_COLUMNS
        + """
        parent_column_id  int NOT NULL
        definition        nvarchar(max)
        is_system_named   bit NOT NULL
        """,
        _defaults,
        visible=of_object("of"),
    ),
    View(
        "check_constraints",
        CONSTRAINT_COLUMNS
        + """
        is_disabled              bit NOT NULL
        is_not_for_replication   bit NOT NULL
        is_not_trusted           bit NOT NULL
        parent_column_id         int NOT NULL
        definition               nvarchar(max)
        uses_database_collation  bit
        is_system_named          bit NOT NULL
        """,
        _NOTHING,
        visible=everybody,
    ),
    View(
        "foreign_keys",
        CONSTRAINT_COLUMNS
        + """
        referenced_object_id            int
        key_index_id                    int
        is_disabled                     bit NOT NULL
        is_not_for_replication          bit NOT NULL
        is_not_trusted                  bit NOT NULL
        delete_referential_action       tinyint
        delete_referential_action_desc  nvarchar(60)
        update_referential_action       tinyint
        update_referential_action_desc  nvarchar(60)
        is_system_named                 bit NOT NULL
        """,
        _NOTHING,
        visible=everybody,
    ),
    View(
        "foreign_key_columns",
        """
        constraint_object_id  int NOT NULL
        constraint_column_id  int NOT NULL
        parent_object_id      int NOT NULL
        parent_column_id      int NOT NULL
        referenced_object_id  int NOT NULL
        referenced_column_id  int NOT NULL
        """,
        _NOTHING,
        visible=everybody,
    ),
    View(
        "indexes",
        """
        object_id             int NOT NULL       <- of.object_id
        name                  sysname
        index_id              int NOT NULL
        type                  tinyint NOT NULL
        type_desc             nvarchar(60)
        is_unique             bit
        is_primary_key        bit
        is_unique_constraint  bit
        is_disabled           bit                = 0
        has_filter            bit                = 0
        filter_definition     nvarchar(max)      = NULL
        """,
        _indexes,
        visible=of_object("of"),
        is_unique=lambda row: int(bool(row.key)),
        is_primary_key=lambda row: int(row.key == "PK"),
        is_unique_constraint=lambda row: int(row.key == "UQ"),
    ),
    View(
        "index_columns",
        """
        object_id           int NOT NULL       <- of.object_id
        index_id            int NOT NULL
        index_column_id     int NOT NULL       <- number
        column_id           int NOT NULL
        key_ordinal         tinyint NOT NULL   <- number
        partition_ordinal   tinyint NOT NULL   = 0
        is_descending_key   bit                = 0
        is_included_column  bit                = 0
        """,
        _index_columns,
        visible=of_object("of"),
    ),
]
