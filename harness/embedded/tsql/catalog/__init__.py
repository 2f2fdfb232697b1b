"""Catalog views, dynamic management views and queues as tables.

Each family of views is one module. A view declares its columns once; its rows are made from the broker's objects when
a query reads it. `find` and `find_function` find a view, or a function that returns a table, by its name.
"""

from weakref import WeakKeyDictionary

from harness.embedded.broker.database import Database
from harness.embedded.broker.queues import Queue
from harness.embedded.tsql.catalog import (
    broker_views,
    column_views,
    database_views,
    event_views,
    information_schema,
    key_views,
    object_views,
    odbc_views,
    page_views,
    security_views,
    server_views,
    system_views,
)
from harness.embedded.tsql.catalog.view import TableFunction, View

FAMILIES = (
    *(broker_views, column_views, database_views, event_views, key_views, object_views, page_views, security_views),
    *(odbc_views, server_views, system_views),
)
VIEWS: dict[str, View] = {view.name: view for family in FAMILIES for view in family.VIEWS}
INFORMATION_SCHEMA: dict[str, View] = {view.name.partition(".")[2].lower(): view for view in information_schema.VIEWS}
SCHEMAS = {"sys": VIEWS, information_schema.SCHEMA.lower(): INFORMATION_SCHEMA}
TABLE_FUNCTIONS: dict[str, TableFunction] = {
    one.name: one for family in (database_views, page_views) for one in family.FUNCTIONS
}
system_views.know((*VIEWS.values(), *INFORMATION_SCHEMA.values()))
_queue_views: WeakKeyDictionary[Queue, tuple[View, View]] = WeakKeyDictionary()


def find(database: Database, schema: str, name: str, *, explicit: bool, uncommitted: bool = False) -> View | None:
    """Find a queue, or a view of a system schema, which must be written but for `sysobjects`. Without
    `uncommitted`, rows of a queue that another open transaction has received are still there."""
    if name.lower() == object_views.SYSOBJECTS and schema.lower() == "dbo":
        schema, explicit = "sys", True
    if explicit and (views := SCHEMAS.get(schema.lower())) is not None:
        view = views.get(name.lower())
        return view if view is not None and view.since <= int(database.catalog.server_version) else None
    queue = database.catalog.queues.get(f"{schema}.{name}".lower())
    if queue is None:
        return None
    queue_view = _queue_views.get(queue)
    if queue_view is None:
        queue_view = _queue_views[queue] = broker_views.queue_views(database, queue)
    return queue_view[uncommitted]


def find_function(database: Database, schema: str, name: str) -> TableFunction | None:
    """Find a function of schema sys that returns a table."""
    function = TABLE_FUNCTIONS.get(name.lower()) if schema.lower() == "sys" else None
    return function if function is not None and function.since <= int(database.catalog.server_version) else None


def is_left_out(schema: str, name: str) -> bool:
    """Whether SQL Server may have such a view or function in a system schema, and this server has it in no version."""
    views = SCHEMAS.get(schema.lower())
    return views is not None and name.lower() not in views and name.lower() not in TABLE_FUNCTIONS
