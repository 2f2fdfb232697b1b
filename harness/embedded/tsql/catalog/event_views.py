"""Event notifications: sys.event_notifications, sys.events and their kin; the events that are raised."""

from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import NamedTuple

from harness.embedded.broker.database import Database
from harness.embedded.broker.definitions import Watched
from harness.embedded.broker.event_notifications import OF_SERVER
from harness.embedded.broker.queues import Queue
from harness.embedded.tsql.catalog import visibility
from harness.embedded.tsql.catalog.object_views import queue_row
from harness.embedded.tsql.catalog.view import Context, View
from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.permissions.rights import SA_ID, sid_of
from harness.embedded.tsql.text.ddl_events import KINDS, VERBS

OF_QUEUES = {"BROKER_QUEUE_DISABLED": 160, "QUEUE_ACTIVATION": 173}
OF_THE_SERVER = {"AUDIT_LOGIN": 1014, "AUDIT_LOGIN_FAILED": 1020}
_DDL = {
    f"{verb}_{kind.replace(' ', '_')}": first + place
    for kind, first in KINDS.items()
    for place, verb in enumerate(VERBS)
    if (verb, kind) not in {("ALTER", "CONTRACT"), ("ALTER", "SCHEMA")}  # no such statements here
}
EVENT_TYPES = _DDL | OF_QUEUES | OF_THE_SERVER  # with their numbers in sys.event_notification_event_types


class Group(NamedTuple):
    type: int
    parent_type: int | None
    events: tuple[str, ...]  # those that are raised here


GROUPS = {
    "DDL_EVENTS": Group(10001, None, tuple(_DDL)),
    "DDL_DATABASE_LEVEL_EVENTS": Group(10016, 10001, tuple(_DDL)),
    "DDL_TABLE_EVENTS": Group(10018, 10016, tuple(event for event in _DDL if event.endswith("_TABLE"))),
    "DDL_SSB_EVENTS": Group(10041, 10016, tuple(event for event in _DDL if EVENT_TYPES[event] > 150)),
}
_TYPE_ROWS = [
    *(
        SimpleNamespace(
            type=number,
            type_name=event,
            parent_type=max((group.type for group in GROUPS.values() if event in group.events), default=None),
        )
        for event, number in EVENT_TYPES.items()
    ),
    *(
        SimpleNamespace(type=group.type, type_name=name, parent_type=group.parent_type)
        for name, group in GROUPS.items()
    ),
]


def _notifications(context: Context) -> Iterator[SimpleNamespace]:
    catalog = context.database.catalog
    yield from _rows(context, catalog.watched, 0, "DATABASE")
    for queue in catalog.queues.values():
        yield from _rows(context, queue, 1, "OBJECT_OR_COLUMN")


def _of_server(context: Context) -> Iterator[SimpleNamespace]:
    yield from _rows(context, context.engine.databases[OF_SERVER].catalog.watched_server, 100, "SERVER")


def _rows(context: Context, watched: Watched, parent_class: int, parent_class_desc: str) -> Iterator[SimpleNamespace]:
    logins = context.engine.logins
    for notification in watched.notifications.values():
        creator = logins.get((notification.creator or "").lower())
        sid = sid_of(SA_ID if creator is None else creator.principal_id)
        yield SimpleNamespace(
            item=queue_row(context, watched) if isinstance(watched, Queue) else None,
            parent_class=parent_class,
            parent_class_desc=parent_class_desc,
            parent_id=max(0, watched.object_id),
            notification=notification,
            creator_sid=sid if notification.creator is not None else None,
        )


def _events(rows: Iterable[SimpleNamespace]) -> Iterator[SimpleNamespace]:
    for row in rows:
        for event in row.notification.events:
            yield SimpleNamespace(item=row.item, object_id=row.notification.object_id, event=event)


_NOTIFICATION = """
        name               sysname NOT NULL   <- notification.name
        object_id          int NOT NULL       <- notification.object_id
        parent_class       tinyint NOT NULL
        parent_class_desc  nvarchar(60)
        parent_id          int NOT NULL
        create_date        datetime NOT NULL  <- notification.create_time_ns
        modify_date        datetime NOT NULL  <- notification.create_time_ns
        service_name       nvarchar(256)      <- notification.service
        broker_instance    nvarchar(128)      <- notification.broker_instance
        creator_sid        varbinary(85)
        principal_id       int                = 1
        """
_EVENT = """
        object_id              int NOT NULL
        type                   int NOT NULL
        type_desc              nvarchar(60) NOT NULL  <- event
        """


def _type(row: SimpleNamespace) -> int:
    return EVENT_TYPES[row.event]


def _seen(database: Database, guard: Guard) -> visibility.Sees:
    """Those of a queue with the queue, those of the database for its owners."""
    of_queue = visibility.of_object("item")(database, guard)
    is_owner = guard.is_owner_of(database)
    return lambda row: is_owner if row.item is None else of_queue(row)


_server_seen = visibility.on_server("CONTROL SERVER")

VIEWS = [
    View("event_notifications", _NOTIFICATION, _notifications, visible=_seen),
    View("events", _EVENT, lambda context: _events(_notifications(context)), type=_type, visible=_seen),
    View("server_event_notifications", _NOTIFICATION, _of_server, visible=_server_seen),
    View("server_events", _EVENT, lambda context: _events(_of_server(context)), type=_type, visible=_server_seen),
    View(
        "event_notification_event_types",
        """
        type         int NOT NULL
        type_name    nvarchar(64)
        parent_type  int
        """,
        lambda context: _TYPE_ROWS,
        visible=visibility.everybody,
    ),
]
