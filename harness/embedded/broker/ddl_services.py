"""CREATE, ALTER and DROP of message types, contracts, queues with their event notifications, services and broker
priorities, and SEND permission."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple
from functools import partial
from operator import attrgetter
from typing import Any

from harness.embedded.broker import ddl, definitions, system_objects
from harness.embedded.broker.catalog import DEFAULT_PRIORITY, OWNED, SCHEMAS, Catalog, Service
from harness.embedded.broker.database import ConversationEndpoint, Database
from harness.embedded.broker.delivery import Delivery
from harness.embedded.broker.queues import STORED, Queue, QueueRow
from harness.embedded.broker.transactions import Transaction
from harness.embedded.broker.transmission import Transmitter
from harness.embedded.errors import SqlServerError
from harness.embedded.xml import schemas as xml_schemas

_VALIDATIONS = {
    "NONE": definitions.Validation.BINARY,
    "EMPTY": definitions.Validation.EMPTY,
    "WELL_FORMED_XML": definitions.Validation.XML,
    "VALID_XML": definitions.Validation.XML,
}
_SENT_BY = {(True, False): "INITIATOR", (False, True): "TARGET", (True, True): "ANY"}


class Severance:
    """Ends the conversations whose contract or service is dropped."""

    def __init__(self, delivery: Delivery, transmitter: Transmitter) -> None:
        self._delivery = delivery
        self._transmitter = transmitter

    def break_off(self, tx: Transaction, endpoints: Iterable[ConversationEndpoint], number: int) -> None:
        """Remove endpoints and raise an error at their far sides."""
        text = SqlServerError(number).text
        for endpoint in endpoints:
            terms = endpoint.terms
            far = endpoint.database.conversations.get((terms.conversation_id, not terms.is_initiator))
            if far is not None:
                self._delivery.raise_error(tx, far, -number, text)
            else:
                tx.on_commit(partial(self._transmitter.send_error, endpoint, -number, text))
            self._delivery.remove(tx, endpoint)


def create_message_type(  # noqa: PLR0917
    tx: Transaction, catalog: Catalog, name: str, validation: str = "NONE", collection: str = "", owner: str = "dbo"
) -> None:
    """Add a message type; NONE, EMPTY, WELL_FORMED_XML, or VALID_XML with a schema collection."""
    ddl.refuse_existing(catalog.message_types, name)
    key = _collection_key(catalog, collection)
    identifier = catalog.new_id("message_type")
    created = definitions.MessageType(name, identifier, _VALIDATIONS[validation], owner, key)
    tx.put(catalog.message_types, name, created)
    _store_message_type(tx, catalog, created)


def alter_message_type(tx: Transaction, catalog: Catalog, name: str, validation: str, collection: str = "") -> None:
    message_type = ddl.find(catalog.message_types, "alter", "message type", name)
    ddl.require_user_object(message_type.message_type_id)
    tx.set(message_type, "validation", _VALIDATIONS[validation])
    tx.set(message_type, "schema_collection", _collection_key(catalog, collection))
    _store_message_type(tx, catalog, message_type)


def drop_message_type(tx: Transaction, catalog: Catalog, name: str) -> None:
    message_type = ddl.find(catalog.message_types, "drop", "message type", name)
    ddl.require_user_object(message_type.message_type_id)
    if any(name in contract.usages for contract in catalog.contracts.values()):
        raise SqlServerError(3716, "message type", name, "contract")
    ddl.remove(tx, catalog, "message_type", catalog.message_types, name, message_type.message_type_id)


def _store_message_type(tx: Transaction, catalog: Catalog, message_type: definitions.MessageType) -> None:
    row = (message_type.name, message_type.validation.value, message_type.owner, message_type.schema_collection)
    ddl.write(tx, catalog, "message_type", message_type.message_type_id, row)


def _collection_key(catalog: Catalog, collection: str) -> str:
    """The key of a schema collection, "" for none; 6314 if there is no such collection."""
    if collection and collection.lower() not in catalog.xml_schema_collections:
        raise SqlServerError(6314, collection)
    return collection.lower()


def create_xml_schema_collection(tx: Transaction, catalog: Catalog, name: str, text: str) -> None:
    xml_schemas.compiled(text)  # whether it makes sense
    ddl.refuse_existing(catalog.xml_schema_collections, name, key=name.lower())
    collection = definitions.XmlSchemaCollection(name, catalog.new_id("xml_schema_collection"), text)
    tx.put(catalog.xml_schema_collections, name.lower(), collection)
    ddl.store(tx, catalog, "xml_schema_collection", collection)


def drop_xml_schema_collection(tx: Transaction, catalog: Catalog, name: str) -> None:
    collection = ddl.find(catalog.xml_schema_collections, "drop", "xml schema collection", name, name.lower())
    for message_type in catalog.message_types.values():
        if message_type.schema_collection == name.lower():
            raise SqlServerError(6328, name, message_type.name)
    objects, identifier = catalog.xml_schema_collections, collection.xml_collection_id
    ddl.remove(tx, catalog, "xml_schema_collection", objects, name.lower(), identifier)


def create_contract(
    tx: Transaction, catalog: Catalog, name: str, *, usages: Sequence[tuple[str, str]], owner: str = "dbo"
) -> None:
    """Add a contract; `usages` are (message type, INITIATOR | TARGET | ANY)."""
    ddl.refuse_existing(catalog.contracts, name)
    agreed: dict[str, definitions.MessageUsage] = {}
    for message_type, sent_by in usages:
        if message_type in agreed:
            raise SqlServerError(8403, message_type)
        definition = ddl.find(catalog.message_types, "find", "message type", message_type)
        agreed[message_type] = definitions.MessageUsage(definition, sent_by != "TARGET", sent_by != "INITIATOR")
    if not any(usage.is_sent_by_initiator for usage in agreed.values()):
        raise SqlServerError(8492, name)
    created = definitions.Contract(name, catalog.new_id("contract"), agreed, owner)
    tx.put(catalog.contracts, name, created)
    _store_contract(tx, catalog, created)
    ddl.changed(tx, catalog)


def _store_contract(tx: Transaction, catalog: Catalog, contract: definitions.Contract) -> None:
    usages = tuple(
        (usage.message_type.name, _SENT_BY[usage.is_sent_by_initiator, usage.is_sent_by_target])
        for usage in contract.usages.values()
    )
    ddl.write(tx, catalog, "contract", contract.service_contract_id, (contract.name, usages, contract.owner))


def drop_contract(tx: Transaction, database: Database, severance: Severance, name: str) -> None:
    catalog = database.catalog
    contract = ddl.find(catalog.contracts, "drop", "contract", name)
    ddl.require_user_object(contract.service_contract_id)
    if any(name in service.contracts for service in catalog.services.values()):
        raise SqlServerError(3716, "contract", name, "service")
    if any(priority.contract == name for priority in catalog.priorities.values()):
        raise SqlServerError(3716, "contract", name, "conversation priority")
    severance.break_off(
        tx, [endpoint for endpoint in database.endpoints.values() if endpoint.terms.contract is contract], 8487
    )
    ddl.remove(tx, catalog, "contract", catalog.contracts, name, contract.service_contract_id)


def create_queue(tx: Transaction, catalog: Catalog, schema: str, name: str, options: definitions.QueueOptions) -> Queue:
    key = f"{schema}.{name}".lower()
    ddl.refuse_existing(catalog.queues, name, key=key)
    queue = Queue(catalog.store, catalog.database_id, schema, name, ddl.new_object_id(tx, catalog))
    queue.create_time_ns = catalog.clock.utc_ns()
    _set_options(tx, catalog, queue, options)
    tx.put(catalog.queues, key, queue)
    _store_queue(tx, catalog, queue)
    ddl.changed(tx, catalog)
    return queue


def alter_queue(tx: Transaction, catalog: Catalog, schema: str, name: str, options: definitions.QueueOptions) -> None:
    queue = ddl.find(catalog.queues, "alter", "queue", name, f"{schema}.{name}".lower())
    _set_options(tx, catalog, queue, options)
    _store_queue(tx, catalog, queue)
    if options.status is not None:
        tx.set(queue, "rollbacks", 0)
        tx.on_commit(queue.wake_everybody)
    if options.status:
        tx.on_commit(queue.unblock)
    ddl.changed(tx, catalog)


def drop_queue(tx: Transaction, catalog: Catalog, schema: str, name: str) -> list[definitions.EventNotification]:
    """Return the event notifications that go with the queue; `Notifier.end` ends their conversations."""
    key = f"{schema}.{name}".lower()
    queue = ddl.find(catalog.queues, "drop", "queue", name, key)
    if any(queue.object_id == identifier for identifier, _ in system_objects.QUEUES):
        raise SqlServerError(9663)
    if any(service.queue is queue for service in catalog.services.values()):
        raise SqlServerError(3716, "queue", name, "service")
    ddl.remove(tx, catalog, "queue", catalog.queues, key, queue.object_id)
    tx.set(queue, "is_dropped", True)
    for row in queue.rows.values():
        tx.write(queue.table, row.queuing_order, None)
    tx.on_commit(queue.wake_everybody)
    tx.on_commit(queue.unwatch)
    return [drop_event_notification(tx, catalog, queue, name) for name in list(queue.notifications)]


def _set_options(tx: Transaction, catalog: Catalog, queue: Queue, options: definitions.QueueOptions) -> None:
    ddl.assign_given(
        tx,
        queue,
        is_receive_enabled=options.status,
        is_enqueue_enabled=options.status,
        is_retention_enabled=options.retention,
        is_poison_message_handling_enabled=options.poison_message_handling,
    )
    if options.activation is not None:
        _set_activation(tx, catalog, queue, options.activation)


def _set_activation(tx: Transaction, catalog: Catalog, queue: Queue, activation: definitions.ActivationOptions) -> None:
    if activation.drop:
        for attribute in ("activation_procedure", "max_readers", "execute_as"):
            tx.set(queue, attribute, None)
        tx.set(queue, "is_activation_enabled", False)
        return
    if any("QUEUE_ACTIVATION" in notification.events for notification in queue.notifications.values()):
        raise SqlServerError(9717, queue.name)
    # "Adding an activation procedure by ALTER does not change activation status"; in CREATE it is ON by default.
    is_new = queue.object_id not in {other.object_id for other in catalog.queues.values()}
    status = True if activation.status is None and is_new else activation.status
    ddl.assign_given(
        tx,
        queue,
        is_activation_enabled=status,
        activation_procedure=activation.procedure,
        max_readers=activation.max_queue_readers,
        execute_as=activation.execute_as,
    )
    if queue.is_activation_enabled and queue.activation_procedure is None:
        raise SqlServerError(9614, queue.name)


def _store_queue(tx: Transaction, catalog: Catalog, queue: Queue) -> None:
    row = (queue.schema, queue.name, *(getattr(queue, attribute) for attribute in STORED))
    ddl.write(tx, catalog, "queue", queue.object_id, row)


def create_event_notification(
    tx: Transaction,
    catalog: Catalog,
    name: str,
    *,
    watched: definitions.Watched,
    events: Sequence[str],
    service: str,
    broker_instance: str | None = None,
    creator: str | None = None,
) -> definitions.EventNotification:
    """Add an event notification; `broker_instance` None means 'current database', `creator` is given WITH FAN_IN."""
    ddl.refuse_existing(watched.notifications, name, key=name.lower())
    if "QUEUE_ACTIVATION" in events and isinstance(watched, Queue) and watched.is_activation_enabled:
        raise SqlServerError(9718, watched.name)
    instance = catalog.service_broker_guid if broker_instance is None else broker_instance.upper()
    created = definitions.EventNotification(
        name, ddl.new_object_id(tx, catalog), tuple(events), service, instance, creator, catalog.clock.utc_ns()
    )
    tx.put(watched.notifications, name.lower(), created)
    store_notification(tx, catalog, watched, created)
    ddl.changed(tx, catalog)
    return created


def drop_event_notification(
    tx: Transaction, catalog: Catalog, watched: definitions.Watched, name: str
) -> definitions.EventNotification:
    """Return the notification; `Notifier.end` ends its conversation."""
    notification = ddl.find(watched.notifications, "drop", "event notification", name, name.lower())
    ddl.remove(tx, catalog, "event_notification", watched.notifications, name.lower(), notification.object_id)
    ddl.changed(tx, catalog)
    return notification


def store_notification(
    tx: Transaction, catalog: Catalog, watched: definitions.Watched, notification: definitions.EventNotification
) -> None:
    name, identifier, *rest = astuple(notification)
    ddl.write(tx, catalog, "event_notification", identifier, (name, watched.object_id, *rest))


def create_service(
    tx: Transaction, catalog: Catalog, name: str, *, queue: str, contracts: Sequence[str] = (), owner: str = "dbo"
) -> None:
    """Add a service on the queue 'schema.name'."""
    ddl.refuse_existing(catalog.services, name)
    on_queue = ddl.find(catalog.queues, "find", "queue", queue, queue.lower())
    agreed: dict[str, definitions.Contract] = {}
    for contract in contracts:
        if contract in agreed:
            raise SqlServerError(8404, contract)
        agreed[contract] = ddl.find(catalog.contracts, "find", "contract", contract)
    created = Service(name, catalog.new_id("service"), on_queue, agreed, owner)
    tx.put(catalog.services, name, created)
    _store(tx, catalog, created)
    ddl.changed(tx, catalog)


def alter_service(
    tx: Transaction,
    database: Database,
    delivery: Delivery,
    name: str,
    *,
    queue: str | None = None,
    add_contracts: Sequence[str] = (),
    drop_contracts: Sequence[str] = (),
) -> None:
    catalog = database.catalog
    service = ddl.find(catalog.services, "alter", "service", name)
    ddl.require_user_object(service.service_id)
    if queue is None and not add_contracts and not drop_contracts:
        raise SqlServerError(8493, name)
    contracts = dict(service.contracts)
    for contract in drop_contracts:
        ddl.find(contracts, "find", "contract", contract)
        del contracts[contract]
    for contract in add_contracts:
        if contract in contracts:
            raise SqlServerError(8404, contract)
        contracts[contract] = ddl.find(catalog.contracts, "find", "contract", contract)
    tx.set(service, "contracts", contracts)
    if queue is not None:
        target = ddl.find(catalog.queues, "find", "queue", queue, queue.lower())
        _move_to_queue(tx, database, delivery, service, target)
    _store(tx, catalog, service)
    ddl.changed(tx, catalog)


def _move_to_queue(tx: Transaction, database: Database, delivery: Delivery, service: Service, target: Queue) -> None:
    """ALTER SERVICE ... ON QUEUE moves the service's messages too."""
    source = service.queue
    if target is source:
        return
    endpoints = [endpoint for endpoint in database.endpoints.values() if endpoint.service is service]
    for endpoint in endpoints:
        delivery.discard_rows(tx, endpoint, then=partial(_requeue, tx, target))
    tx.set(service, "queue", target)
    for endpoint in endpoints:
        source.withdraw(endpoint.incoming.group)
        tx.set(endpoint.incoming.group, "queue", target)
    tx.on_commit(source.wake_everybody)


def _requeue(tx: Transaction, target: Queue, rows: list[QueueRow]) -> None:
    for row in rows:
        copy = target.new_row(
            row.incoming,
            row.message_sequence_number,
            row.message_type,
            row.message_body,
            row.message_enqueue_time,
            row.status,
        )
        tx.write(target.table, copy.queuing_order, copy.stored())
        tx.arrived.append(copy)


def drop_service(tx: Transaction, database: Database, severance: Severance, name: str) -> None:
    catalog = database.catalog
    service = ddl.find(catalog.services, "drop", "service", name)
    ddl.require_user_object(service.service_id)
    if any(priority.local_service == name for priority in catalog.priorities.values()):
        raise SqlServerError(3716, "service", name, "conversation priority")
    severance.break_off(tx, [endpoint for endpoint in database.endpoints.values() if endpoint.service is service], 8470)
    ddl.remove(tx, catalog, "service", catalog.services, name, service.service_id)
    tx.on_commit(service.queue.wake_everybody)
    ddl.changed(tx, catalog)


def _store(tx: Transaction, catalog: Catalog, service: Service) -> None:
    row = (service.name, service.queue.object_id, tuple(service.contracts), service.owner, tuple(service.senders))
    ddl.write(tx, catalog, "service", service.service_id, row)


# How things are stored whose rows are not just their fields
_STORES: Mapping[str, Callable[[Transaction, Catalog, Any], None]] = {
    "SERVICE": _store,
    "MESSAGE TYPE": _store_message_type,
    "CONTRACT": _store_contract,
}


def set_owner(tx: Transaction, catalog: Catalog, class_: str, name: str, owner: str) -> None:
    """ALTER AUTHORIZATION on a thing of a class of `OWNED`."""
    collection, identifier = OWNED[class_]
    key = name.lower() if class_ in ("CERTIFICATE", "SCHEMA") else name
    thing = ddl.find(attrgetter(collection)(catalog), "find", class_.lower(), name, key)
    if class_ == "SCHEMA" and key in map(str.lower, SCHEMAS):
        raise SqlServerError(15150, "alter", "schema", name)
    tx.set(thing, "owner", owner)
    if (store_thing := _STORES.get(class_)) is not None:
        ddl.require_user_object(getattr(thing, identifier))
        store_thing(tx, catalog, thing)
    else:
        ddl.store(tx, catalog, class_.lower().replace(" ", "_"), thing)
    ddl.changed(tx, catalog)


def set_sender(tx: Transaction, catalog: Catalog, service_name: str, principal: str, *, may: bool) -> None:
    """Change SEND ON SERVICE, which the broker checks for messages from other databases."""
    name = principal.lower()
    users = catalog.principals.users
    if name not in {"public", "dbo", "guest"} and name not in users and not name.startswith("db_"):
        raise SqlServerError(15151, "find", "user", principal)
    service = ddl.find(catalog.services, "find", "service", service_name)
    if (name in service.senders) == may:
        return
    tx.set(service, "senders", service.senders ^ {name})
    _store(tx, catalog, service)
    ddl.changed(tx, catalog)


def create_priority(
    tx: Transaction,
    catalog: Catalog,
    name: str,
    *,
    contract: str | None = None,
    local_service: str | None = None,
    remote_service: str | None = None,
    level: int = DEFAULT_PRIORITY,
) -> None:
    """Add a priority; None means ANY."""
    ddl.refuse_existing(catalog.priorities, name)
    created = definitions.Priority(name, catalog.new_id("priority"), contract, local_service, remote_service, level)
    _check_priority(catalog, created)
    tx.put(catalog.priorities, name, created)
    ddl.store(tx, catalog, "priority", created)


def alter_priority(tx: Transaction, catalog: Catalog, name: str, **changes: str | int | None) -> None:
    """Change a priority; `changes` are keywords of `create_priority`."""
    priority = ddl.find(catalog.priorities, "alter", "broker priority", name)
    for attribute, value in changes.items():
        tx.set(priority, attribute, value)
    _check_priority(catalog, priority)
    ddl.store(tx, catalog, "priority", priority)


def drop_priority(tx: Transaction, catalog: Catalog, name: str) -> None:
    priority = ddl.find(catalog.priorities, "drop", "broker priority", name)
    ddl.remove(tx, catalog, "priority", catalog.priorities, name, priority.priority_id)


def _check_priority(catalog: Catalog, priority: definitions.Priority) -> None:
    if priority.contract is not None:
        ddl.find(catalog.contracts, "find", "contract", priority.contract)
    if priority.local_service is not None:
        ddl.find(catalog.services, "find", "service", priority.local_service)
