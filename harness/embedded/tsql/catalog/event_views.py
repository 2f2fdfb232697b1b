"""Event notifications: sys.event_notifications, sys.events and their kin. All are those of queues."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

from harness.embedded.tsql.catalog.object_views import queue_row
from harness.embedded.tsql.catalog.view import Context, View
from harness.embedded.tsql.catalog.visibility import of_object
from harness.embedded.tsql.permissions.rights import SA_ID, sid_of

EVENT_TYPES = {"BROKER_QUEUE_DISABLED": 160, "QUEUE_ACTIVATION": 173}  # of sys.event_notification_event_types


def _notifications(context: Context) -> Iterator[SimpleNamespace]:
    logins = context.engine.logins
    for queue in context.database.catalog.queues.values():
        for notification in queue.notifications.values():
            creator = logins.get((notification.creator or "").lower())
            sid = sid_of(SA_ID if creator is None else creator.principal_id)
            yield SimpleNamespace(
                item=queue_row(context, queue),
                notification=notification,
                creator_sid=sid if notification.creator is not None else None,
            )


def _events(context: Context) -> Iterator[SimpleNamespace]:
    for row in _notifications(context):
        for event in row.notification.events:
            yield SimpleNamespace(item=row.item, object_id=row.notification.object_id, event=event)


VIEWS = [
    View(
        "event_notifications",
        """
        name               sysname NOT NULL   <- notification.name
        object_id          int NOT NULL       <- notification.object_id
        parent_class       tinyint NOT NULL   = 1
        parent_class_desc  nvarchar(60)       = 'OBJECT_OR_COLUMN'
        parent_id          int NOT NULL       <- item.object_id
        create_date        datetime NOT NULL  <- notification.create_time_ns
        modify_date        datetime NOT NULL  <- notification.create_time_ns
        service_name       nvarchar(256)      <- notification.service
        broker_instance    nvarchar(128)      <- notification.broker_instance
        creator_sid        varbinary(85)
        principal_id       int                = 1
        """,
        _notifications,
        visible=of_object("item"),
    ),
    View(
        "events",
        """
        object_id              int NOT NULL
        type                   int NOT NULL
        type_desc              nvarchar(60) NOT NULL  <- event
        """,
        _events,
        type=lambda row: EVENT_TYPES[row.event],
        visible=of_object("item"),
    ),
]
