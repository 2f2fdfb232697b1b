"""CREATE, ALTER and DROP of queues and their event notifications."""

from __future__ import annotations

from harness.embedded.broker import ddl, system_objects
from harness.embedded.broker.catalog import Catalog
from harness.embedded.broker.definitions import ActivationOptions, EventNotification, QueueOptions
from harness.embedded.broker.queues import Queue
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError


def create_queue(tx: Transaction, catalog: Catalog, schema: str, name: str, options: QueueOptions) -> Queue:
    key = f"{schema}.{name}".lower()
    ddl.refuse_existing(catalog.queues, name, key=key)
    queue = Queue(catalog.store, catalog.database_id, schema, name, ddl.new_object_id(tx, catalog))
    queue.create_time_ns = catalog.clock.utc_ns()
    _set_options(tx, catalog, queue, options)
    ddl.add(tx, catalog.queues, key, queue)
    _store_queue(tx, catalog, queue)
    ddl.changed(tx, catalog)
    return queue


def alter_queue(tx: Transaction, catalog: Catalog, schema: str, name: str, options: QueueOptions) -> None:
    queue = ddl.find(catalog.queues, "alter", "service queue", name, f"{schema}.{name}".lower())
    _set_options(tx, catalog, queue, options)
    _store_queue(tx, catalog, queue)
    if options.status is not None:
        ddl.assign(tx, queue, "rollbacks", 0)
        tx.on_commit(queue.wake_everybody)
    if options.status:
        tx.on_commit(queue.unblock)
    ddl.changed(tx, catalog)


def drop_queue(tx: Transaction, catalog: Catalog, schema: str, name: str) -> None:
    key = f"{schema}.{name}".lower()
    queue = ddl.find(catalog.queues, "drop", "service queue", name, key)
    if any(queue.object_id == identifier for identifier, _ in system_objects.QUEUES):
        raise SqlServerError(9663)
    if any(service.queue is queue for service in catalog.services.values()):
        raise SqlServerError(3716, "service queue", name, "service")
    ddl.remove(tx, catalog.queues, key)
    ddl.assign(tx, queue, "is_dropped", True)
    for row in queue.rows.values():
        tx.write(queue.table, row.queuing_order, None)
    ddl.write(tx, catalog, "queue", queue.object_id, None)
    tx.on_commit(queue.wake_everybody)
    tx.on_commit(queue.unwatch)


def _set_options(tx: Transaction, catalog: Catalog, queue: Queue, options: QueueOptions) -> None:
    if options.status is not None:
        ddl.assign(tx, queue, "is_receive_enabled", options.status)
        ddl.assign(tx, queue, "is_enqueue_enabled", options.status)
    if options.retention is not None:
        ddl.assign(tx, queue, "is_retention_enabled", options.retention)
    if options.poison_message_handling is not None:
        ddl.assign(tx, queue, "is_poison_message_handling_enabled", options.poison_message_handling)
    if options.activation is not None:
        _set_activation(tx, catalog, queue, options.activation)


def _set_activation(tx: Transaction, catalog: Catalog, queue: Queue, activation: ActivationOptions) -> None:
    if activation.drop:
        for attribute in ("activation_procedure", "max_readers", "execute_as"):
            ddl.assign(tx, queue, attribute, None)
        ddl.assign(tx, queue, "is_activation_enabled", False)
        return
    if activation.max_queue_readers == 0:
        raise SqlServerError(9648, queue.name)
    if any(notification.event == "QUEUE_ACTIVATION" for notification in queue.notifications.values()):
        raise SqlServerError(9717, queue.name)
    # "Adding an activation procedure by ALTER does not change activation status"; in CREATE it is ON by default.
    is_new = queue.object_id not in {other.object_id for other in catalog.queues.values()}
    status = True if activation.status is None and is_new else activation.status
    if status is not None:
        ddl.assign(tx, queue, "is_activation_enabled", status)
    for attribute, value in (
        ("activation_procedure", activation.procedure),
        ("max_readers", activation.max_queue_readers),
        ("execute_as", activation.execute_as),
    ):
        if value is not None:
            ddl.assign(tx, queue, attribute, value)


def _store_queue(tx: Transaction, catalog: Catalog, queue: Queue) -> None:
    row = (
        queue.schema,
        queue.name,
        queue.owner,
        queue.is_receive_enabled,
        queue.is_enqueue_enabled,
        queue.is_retention_enabled,
        queue.is_activation_enabled,
        queue.is_poison_message_handling_enabled,
        queue.activation_procedure,
        queue.max_readers,
        queue.execute_as,
        queue.create_time_ns,
    )
    ddl.write(tx, catalog, "queue", queue.object_id, row)


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
    """Adds an event notification; `broker_instance` None means 'current database'."""
    watched = ddl.find(catalog.queues, "find", "service queue", queue, queue.lower())
    ddl.refuse_existing(watched.notifications, name, key=name.lower())
    if event == "QUEUE_ACTIVATION" and watched.is_activation_enabled:
        raise SqlServerError(9718, watched.name)
    instance = catalog.service_broker_guid if broker_instance is None else broker_instance.upper()
    created = EventNotification(name, ddl.new_object_id(tx, catalog), event, service, instance)
    ddl.add(tx, watched.notifications, name.lower(), created)
    store_notification(tx, catalog, watched, created)
    ddl.changed(tx, catalog)
    return created


def drop_event_notification(tx: Transaction, catalog: Catalog, name: str, *, queue: str) -> None:
    watched = ddl.find(catalog.queues, "find", "service queue", queue, queue.lower())
    notification = ddl.find(watched.notifications, "drop", "event notification", name, name.lower())
    ddl.remove(tx, watched.notifications, name.lower())
    ddl.write(tx, catalog, "event_notification", notification.object_id, None)
    ddl.changed(tx, catalog)


def store_notification(tx: Transaction, catalog: Catalog, queue: Queue, notification: EventNotification) -> None:
    row = (
        notification.name,
        queue.object_id,
        notification.event,
        notification.service,
        notification.broker_instance,
        notification.conversation_handle,
    )
    ddl.write(tx, catalog, "event_notification", notification.object_id, row)
