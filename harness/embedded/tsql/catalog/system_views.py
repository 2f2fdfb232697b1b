"""All objects with those of the system: sys.all_objects, sys.all_columns, sys.system_views and their kin.

Of the system's objects they list what this server has: its views and, in sys.all_objects, its base tables.
"""

from collections.abc import Iterable, Iterator
from types import SimpleNamespace

from harness.embedded.broker.catalog import SCHEMAS
from harness.embedded.broker.database import Database
from harness.embedded.tsql.catalog.column_views import column_view, shown_column, user_columns
from harness.embedded.tsql.catalog.object_views import (
    OBJECT_COLUMNS,
    InternalTable,
    ObjectRow,
    objects,
    procedures,
    triggers,
    user_functions,
    user_views,
)
from harness.embedded.tsql.catalog.view import Context, View
from harness.embedded.tsql.catalog.visibility import everybody, of_object
from harness.embedded.tsql.instance.modules import FIRST, LAST, Trigger

_KNOWN: list[View] = []  # in the order of their object ids


def know(views: Iterable[View]) -> None:
    """Set the views that exist: `catalog` knows them when it has imported every family."""
    _KNOWN[:] = sorted(views, key=lambda view: view.name)


def shown(database: Database) -> Iterator[tuple[View, ObjectRow]]:
    """The views of this version, without base tables. A system view's object id is negative, as in SQL Server."""
    version = int(database.catalog.server_version)
    for number, view in enumerate(_KNOWN, start=1):
        if view.since <= version and not view.is_base_table:
            schema, _, name = view.name.rpartition(".")
            yield view, ObjectRow(name, -number, SCHEMAS[schema or "sys"], "V", "VIEW", 0, is_ms_shipped=1)


def system_views(context: Context) -> Iterator[ObjectRow]:
    return (row for _, row in shown(context.database))


def _all_objects(context: Context) -> Iterator[ObjectRow | InternalTable]:
    yield from objects(context)
    yield from system_views(context)


def _system_columns(context: Context) -> Iterator[SimpleNamespace]:
    for view, row in shown(context.database):
        for number, column in enumerate(view.columns, start=1):
            yield shown_column(row, number, column)


def all_columns(context: Context) -> Iterator[SimpleNamespace]:
    yield from user_columns(context)
    yield from _system_columns(context)


def modules(context: Context) -> Iterator[SimpleNamespace]:
    """Modules with their texts; NULL without VIEW DEFINITION on them or on the trigger's table."""
    guard = context.session.guard
    for row in (*procedures(context), *triggers(context), *user_views(context), *user_functions(context)):
        assert row.module is not None
        secured = row.parent_object_id or row.object_id
        is_visible = guard is None or guard.allows(context.database, "OBJECT", secured, "VIEW DEFINITION")
        yield SimpleNamespace(item=row, definition=row.module.text if is_visible else None)


# sys.trigger_events.type
EVENT_TYPES = {"INSERT": 1, "UPDATE": 2, "DELETE": 3}


def trigger_events(context: Context) -> Iterator[SimpleNamespace]:
    for row in triggers(context):
        assert isinstance(row.module, Trigger)
        for event, number in EVENT_TYPES.items():
            if event in row.module.events:
                place = row.module.order.get(event)
                is_first, is_last = place == FIRST, place == LAST
                yield SimpleNamespace(item=row, type=number, type_desc=event, is_first=is_first, is_last=is_last)


def _nothing(context: Context) -> Iterator[ObjectRow]:
    """Objects whose statements are refused: sequences and synonyms."""
    return iter(())


VIEWS = [
    View("all_objects", OBJECT_COLUMNS, _all_objects, visible=of_object()),
    View("views", OBJECT_COLUMNS, user_views, visible=of_object()),
    View("system_views", OBJECT_COLUMNS, system_views, visible=everybody),
    column_view("all_columns", "", all_columns),
    View("sequences", OBJECT_COLUMNS, _nothing, since=2012, visible=everybody),
    View(
        "synonyms",
        OBJECT_COLUMNS
        + """
        base_object_name  nvarchar(1035)
        """,
        _nothing,
        visible=everybody,
    ),
    View(
        "triggers",
        """
        name                    sysname NOT NULL
        object_id               int NOT NULL
        parent_class            tinyint NOT NULL   = 1
        parent_class_desc       nvarchar(60)       = 'OBJECT_OR_COLUMN'
        parent_id               int NOT NULL       <- parent_object_id
        type                    char(2) NOT NULL
        type_desc               nvarchar(60)
        create_date             datetime NOT NULL  <- create_time_ns
        modify_date             datetime NOT NULL  <- create_time_ns
        is_ms_shipped           bit NOT NULL
        is_disabled             bit NOT NULL       <- module.is_disabled
        is_instead_of_trigger   bit NOT NULL       <- module.is_instead
        """,
        triggers,
        visible=of_object(),
    ),
    View(
        "trigger_events",
        """
        object_id  int NOT NULL  <- item.object_id
        type       int NOT NULL
        type_desc  nvarchar(60) NOT NULL
        is_first   bit
        is_last    bit
        """,
        trigger_events,
        visible=of_object("item"),
    ),
    View(
        "sql_modules",
        """
        object_id                int NOT NULL   <- item.object_id
        definition               nvarchar(max)
        """,
        modules,
        visible=of_object("item"),
    ),
]
