"""Which view a name means."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from harness.embedded.tsql.views import broker_catalog, conversations, dynamic, keys, objects, properties, security
from harness.embedded.tsql.views.queues import queue_view
from harness.embedded.tsql.views.view import View

if TYPE_CHECKING:
    from harness.embedded.broker.database import Database
    from harness.embedded.broker.queues import Queue

FAMILIES = (objects, broker_catalog, conversations, security, dynamic, properties, keys)
VIEWS: dict[str, View] = {view.name: view for family in FAMILIES for view in family.VIEWS}
_queue_views: WeakKeyDictionary[Queue, View] = WeakKeyDictionary()


def find(database: Database, schema: str, name: str, *, explicit: bool) -> View | None:
    """A view of schema sys, or a queue; a view needs its schema, a queue may do without."""
    if schema.lower() == "sys" and explicit:
        return VIEWS.get(name.lower())
    queue = database.queues.get(f"{schema}.{name}".lower())
    if queue is None:
        return None
    view = _queue_views.get(queue)
    if view is None:
        view = _queue_views[queue] = queue_view(queue)
    return view
