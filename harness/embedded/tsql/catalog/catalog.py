"""Which view, or function that returns a table, a name means."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from harness.embedded.tsql.catalog import (
    broker_catalog,
    conversations,
    dynamic,
    files,
    keys,
    machine,
    objects,
    pages,
    permissions,
    principals,
    properties,
    security,
    space,
)
from harness.embedded.tsql.catalog.queues import queue_view
from harness.embedded.tsql.catalog.view import TableFunction, View

if TYPE_CHECKING:
    from harness.embedded.broker.database import Database
    from harness.embedded.broker.queues import Queue

FAMILIES = (
    *(objects, broker_catalog, conversations, security, permissions, principals, keys),
    *(dynamic, files, machine, pages, properties, space),
)
VIEWS: dict[str, View] = {view.name: view for family in FAMILIES for view in family.VIEWS}
TABLE_FUNCTIONS: dict[str, TableFunction] = {
    one.name: one for family in (pages, files, space) for one in family.FUNCTIONS
}
_queue_views: WeakKeyDictionary[Queue, View] = WeakKeyDictionary()


def find(database: Database, schema: str, name: str, *, explicit: bool) -> View | None:
    """A view of schema sys, or a queue; a view needs its schema, a queue may do without."""
    if schema.lower() == "sys" and explicit:
        view = VIEWS.get(name.lower())
        return view if view is not None and view.since <= int(database.engine.version) else None
    queue = database.queues.get(f"{schema}.{name}".lower())
    if queue is None:
        return None
    view = _queue_views.get(queue)
    if view is None:
        view = _queue_views[queue] = queue_view(queue)
    return view


def find_function(database: Database, schema: str, name: str) -> TableFunction | None:
    """A function of schema sys, by its name with the schema."""
    function = TABLE_FUNCTIONS.get(name.lower()) if schema.lower() == "sys" else None
    return function if function is not None and function.since <= int(database.engine.version) else None
