"""Keys, defaults and indexes of tables: sys.key_constraints, sys.indexes and their kin.

An index keeps a key, or CREATE INDEX made it.
"""

from collections.abc import Iterator
from types import SimpleNamespace

from harness.embedded.tsql.catalog.constraints import HEAP, checks, defaults, foreign_keys, index_ids, indexes, keys
from harness.embedded.tsql.catalog.object_views import OBJECT_COLUMNS, tables
from harness.embedded.tsql.catalog.view import Context, View
from harness.embedded.tsql.catalog.visibility import of_object


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


def _checks(context: Context) -> Iterator[SimpleNamespace]:
    for row in tables(context):
        assert row.table is not None
        for check in checks(row.table):
            parent_column_id = check.places[0] + 1 if check.places else 0
            yield SimpleNamespace(
                **check._asdict(), of=row, create_time_ns=row.create_time_ns, parent_column_id=parent_column_id
            )


def related_keys(context: Context) -> Iterator[SimpleNamespace]:
    """The foreign keys, each with the key to which it refers; None for a unique index."""
    by_name = {(row.table.schema.lower(), row.table.name.lower()): row.table for row in tables(context) if row.table}
    for row in tables(context):
        assert row.table is not None
        for key, reference in zip(foreign_keys(row.table), row.table.references, strict=True):
            schema, name = reference.table
            parent = by_name[schema.lower(), name.lower()]
            places = [parent.place(column) for column in reference.table_columns or parent.primary_key]
            referenced = next((unique for unique in keys(parent) if {*unique.places} == {*places}), None)
            yield SimpleNamespace(
                **key._asdict(),
                key=key,
                referenced=referenced,
                of=row,
                create_time_ns=row.create_time_ns,
                referenced_object_id=parent.object_id,
                key_index_id=referenced.index_id if referenced is not None else None,
                pairs=list(zip(key.places, places, strict=True)),
            )


def _foreign_key_columns(context: Context) -> Iterator[SimpleNamespace]:
    for key in related_keys(context):
        for number, (place, referenced) in enumerate(key.pairs, start=1):
            yield SimpleNamespace(
                of=key.of,
                constraint_object_id=key.object_id,
                constraint_column_id=number,
                parent_column_id=place + 1,
                referenced_object_id=key.referenced_object_id,
                referenced_column_id=referenced + 1,
            )


def _indexes(context: Context) -> Iterator[SimpleNamespace]:
    """The rows of a table, as a clustered index orders them or as a heap, and its other indexes."""
    for row in tables(context):
        assert row.table is not None
        constraints = keys(row.table)
        if HEAP in index_ids(row.table):
            yield SimpleNamespace(of=row, name=None, index_id=HEAP, type=0, type_desc="HEAP", key="", condition="")
        for constraint in constraints:
            type_, type_desc = (1, "CLUSTERED") if constraint.is_clustered else (2, "NONCLUSTERED")
            yield SimpleNamespace(
                of=row,
                name=constraint.name,
                index_id=constraint.index_id,
                type=type_,
                type_desc=type_desc,
                key=constraint.type,
                condition="",
            )
        for index_id, index in indexes(row.table):
            type_, type_desc = (1, "CLUSTERED") if index.is_clustered else (2, "NONCLUSTERED")
            key = "U" if index.is_unique else ""
            of_index = {"name": index.name, "index_id": index_id, "condition": index.condition}
            yield SimpleNamespace(of=row, type=type_, type_desc=type_desc, key=key, **of_index)


def _index_columns(context: Context) -> Iterator[SimpleNamespace]:
    for key in _keys(context):
        for number, place in enumerate(key.places, start=1):
            at = {"number": number, "ordinal": number, "column_id": place + 1}
            yield SimpleNamespace(of=key.of, index_id=key.index_id, **at, descends=False)
    for row in tables(context):
        assert row.table is not None
        for index_id, index in indexes(row.table):
            for number, column in enumerate((*index.columns, *index.included), start=1):
                ordinal = number if number <= len(index.columns) else 0
                at = {"number": number, "ordinal": ordinal, "column_id": row.table.place(column) + 1}
                yield SimpleNamespace(of=row, index_id=index_id, **at, descends=column in index.descending)


CONSTRAINT_COLUMNS = (
    OBJECT_COLUMNS.replace("schema_id         int NOT NULL\n", "schema_id         int NOT NULL       <- of.schema_id\n")
    .replace("parent_object_id  int NOT NULL\n", "parent_object_id  int NOT NULL       <- of.object_id\n")
    .replace("is_ms_shipped     bit NOT NULL\n", "is_ms_shipped     bit NOT NULL       = 0\n")
)

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
        is_disabled              bit NOT NULL    = 0
        is_not_for_replication   bit NOT NULL    = 0
        is_not_trusted           bit NOT NULL    = 0
        parent_column_id         int NOT NULL
        definition               nvarchar(max)
        uses_database_collation  bit             = 1
        is_system_named          bit NOT NULL
        """,
        _checks,
        visible=of_object("of"),
    ),
    View(
        "foreign_keys",
        CONSTRAINT_COLUMNS
        + """
        referenced_object_id            int
        key_index_id                    int
        is_disabled                     bit NOT NULL    = 0
        is_not_for_replication          bit NOT NULL    = 0
        is_not_trusted                  bit NOT NULL    = 0
        delete_referential_action       tinyint         = 0
        delete_referential_action_desc  nvarchar(60)    = 'NO_ACTION'
        update_referential_action       tinyint         = 0
        update_referential_action_desc  nvarchar(60)    = 'NO_ACTION'
        is_system_named                 bit NOT NULL
        """,
        related_keys,
        visible=of_object("of"),
    ),
    View(
        "foreign_key_columns",
        """
        constraint_object_id  int NOT NULL
        constraint_column_id  int NOT NULL
        parent_object_id      int NOT NULL    <- of.object_id
        parent_column_id      int NOT NULL
        referenced_object_id  int NOT NULL
        referenced_column_id  int NOT NULL
        """,
        _foreign_key_columns,
        visible=of_object("of"),
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
        has_filter            bit
        filter_definition     nvarchar(max)
        """,
        _indexes,
        visible=of_object("of"),
        is_unique=lambda row: int(bool(row.key)),
        is_primary_key=lambda row: int(row.key == "PK"),
        is_unique_constraint=lambda row: int(row.key == "UQ"),
        has_filter=lambda row: int(bool(row.condition)),
        filter_definition=lambda row: f"({row.condition})" if row.condition else None,
    ),
    View(
        "index_columns",
        """
        object_id           int NOT NULL       <- of.object_id
        index_id            int NOT NULL
        index_column_id     int NOT NULL       <- number
        column_id           int NOT NULL
        key_ordinal         tinyint NOT NULL   <- ordinal
        partition_ordinal   tinyint NOT NULL   = 0
        is_descending_key   bit                <- descends
        is_included_column  bit
        """,
        _index_columns,
        visible=of_object("of"),
        is_included_column=lambda row: int(not row.ordinal),
    ),
]
