"""CREATE and DROP of event notifications of queues."""

from __future__ import annotations

from harness.embedded.broker import ddl
from harness.embedded.broker.catalog import Catalog
from harness.embedded.broker.definitions import EventNotification
from harness.embedded.broker.queues import Queue
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError


def create_event_notification(
    tx: Transaction,
    catalog: Catalog,
    name: str,
    *,
    queue: str,
    event: str,
    service: str,
    broker_instance: str | None = None,
) -> EventNotification:
    """`broker_instance` None stands for 'current database'."""
    watched = ddl.find(catalog.queues, "find", "service queue", queue, queue.lower())
    ddl.refuse_existing(watched.notifications, name, key=name.lower())
    if event == "QUEUE_ACTIVATION" and watched.is_activation_enabled:
        raise SqlServerError(9718, watched.name)
    instance = catalog.service_broker_guid if broker_instance is None else broker_instance.upper()
    created = EventNotification(name, ddl.new_object_id(tx, catalog), event, service, instance)
    ddl.add(tx, watched.notifications, name.lower(), created)
    store(tx, catalog, watched, created)
    ddl.changed(tx, catalog)
    return created


def drop_event_notification(tx: Transaction, catalog: Catalog, name: str, *, queue: str) -> None:
    watched = ddl.find(catalog.queues, "find", "service queue", queue, queue.lower())
    notification = ddl.find(watched.notifications, "drop", "event notification", name, name.lower())
    ddl.remove(tx, watched.notifications, name.lower())
    ddl.write(tx, catalog, "event_notification", notification.object_id, None)
    ddl.changed(tx, catalog)


def store(tx: Transaction, catalog: Catalog, queue: Queue, notification: EventNotification) -> None:
    row = (
        notification.name,
        queue.object_id,
        notification.event,
        notification.service,
        notification.broker_instance,
        notification.conversation_handle,
    )
    ddl.write(tx, catalog, "event_notification", notification.object_id, row)
