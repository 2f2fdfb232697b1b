"""Recovery: an engine's memory, made again from the store.

Nothing runs yet, so nothing is undone or staged here. The rows are sorted by table first; the order of what is made
follows from what needs what. Rows of tables that are not the broker's are left to their owners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from harness.embedded.broker.conversations import ConversationEndpoint, ConversationGroup, TransmissionRow
from harness.embedded.broker.objects import (
    BrokerEndpoint,
    Contract,
    EventNotification,
    MessageType,
    MessageUsage,
    Priority,
    RemoteServiceBinding,
    Route,
    Service,
    Validation,
)
from harness.embedded.broker.queues import Queue, QueueRow
from harness.embedded.broker.security import Certificate, Login, User
from harness.embedded.broker.states import EndpointState
from harness.embedded.store import Write

if TYPE_CHECKING:
    from harness.embedded.broker.database import Database
    from harness.embedded.broker.engine import Engine

_Rows = list[tuple[Any, Any]]


def recover(engine: Engine) -> None:
    """Loads everything from the store and lets it go on from there."""
    tables: dict[str, _Rows] = {}
    for table, key, row in engine.store.load():
        if table.startswith(("catalog.", "broker.")):
            tables.setdefault(table, []).append((key, row))
    _databases(engine, tables.get("catalog.database", []))
    by_id = {database.database_id: database for database in engine.databases.values()}
    for kind, load in _CATALOG.items():
        for (database_id, identifier), row in tables.get(f"catalog.{kind}", []):
            database = by_id[database_id]
            load(database, identifier, row)
            if kind not in {"queue", "user", "certificate", "event_notification"}:
                database.seen_id(kind, identifier)
    _instance(engine, tables)
    for database in engine.databases.values():
        _conversations(database, tables)
    _store_new_system_databases(engine, tables.get("catalog.database", []))
    for database in engine.databases.values():
        engine.refresh(database)
    engine.listen()


def _databases(engine: Engine, rows: _Rows) -> None:
    for database_id, (name, guid, is_enabled, honors, prefix, has_master_key, created_ns, ordinal) in rows:
        database = engine.add_database(name, database_id, guid, prefix)
        database.is_broker_enabled = is_enabled
        database.is_honor_broker_priority_on = honors
        database.principals.has_master_key = has_master_key
        database.create_time_ns = created_ns
        database.object_ordinal = ordinal


def _store_new_system_databases(engine: Engine, rows: _Rows) -> None:
    """The first start: the system databases keep the identity they have got."""
    known = {database_id for database_id, _ in rows}
    for database in engine.databases.values():
        if database.database_id not in known:
            tx = engine.begin_transaction()
            database.store(tx)
            database.add_auto_created_route(tx)
            engine.store.commit_lazily(tx.writes)


# The catalog; the order is that of need


def _message_type(database: Database, identifier: int, row: Any) -> None:
    name, validation, owner = row
    database.message_types[name] = MessageType(name, identifier, Validation(validation), owner=owner)


def _contract(database: Database, identifier: int, row: Any) -> None:
    name, usages, owner = row
    agreed = {
        message_type: MessageUsage(database.message_types[message_type], by != "TARGET", by != "INITIATOR")
        for message_type, by in usages
    }
    database.contracts[name] = Contract(name, identifier, agreed, owner)


def _queue(database: Database, identifier: int, row: Any) -> None:
    schema, name, *rest = row
    key = f"{schema}.{name}".lower()
    queue = database.queues.get(key)  # a system queue that was altered
    if queue is None:
        queue = database.queues[key] = Queue(database, schema, name, identifier)
    (
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
    ) = rest


def _queue_by_id(database: Database, object_id: int) -> Queue:
    return next(queue for queue in database.queues.values() if queue.object_id == object_id)


def _service(database: Database, identifier: int, row: Any) -> None:
    name, queue_id, contracts, owner, senders = row
    agreed = {contract: database.contracts[contract] for contract in contracts}
    queue = _queue_by_id(database, queue_id)
    database.services[name] = Service(name, identifier, queue, agreed, owner, set(senders))


def _route(database: Database, identifier: int, row: Any) -> None:
    name, service, instance, lifetime, address, mirror, owner = row
    database.routes[name] = Route(name, identifier, service, instance, lifetime, address, mirror, owner)


def _binding(database: Database, identifier: int, row: Any) -> None:
    name, service, user, anonymous, owner = row
    database.remote_service_bindings[name] = RemoteServiceBinding(name, identifier, service, user, anonymous, owner)


def _priority(database: Database, identifier: int, row: Any) -> None:
    name, contract, local_service, remote_service, level = row
    database.priorities[name] = Priority(name, identifier, contract, local_service, remote_service, level)


def _user(database: Database, identifier: int, row: Any) -> None:
    name, login = row
    database.principals.users[name.lower()] = User(name, identifier, login)


def _certificate(database: Database, identifier: int, row: Any) -> None:
    name, *rest = row
    database.principals.certificates[name.lower()] = Certificate(name, identifier, *rest)


def _notification(database: Database, identifier: int, row: Any) -> None:
    name, queue_id, event, service, instance, handle = row
    queue = _queue_by_id(database, queue_id)
    queue.notifications[name.lower()] = EventNotification(name, identifier, queue, event, service, instance, handle)


_CATALOG: dict[str, Callable[[Database, int, Any], None]] = {
    "message_type": _message_type,
    "contract": _contract,
    "queue": _queue,
    "service": _service,
    "route": _route,
    "remote_service_binding": _binding,
    "priority": _priority,
    "user": _user,
    "certificate": _certificate,
    "event_notification": _notification,
}


def _instance(engine: Engine, tables: dict[str, _Rows]) -> None:
    for identifier, row in tables.get("catalog.login", []):
        engine.logins[row[0].lower()] = Login(row[0], identifier, *row[1:])
    for identifier, row in tables.get("catalog.endpoint", []):
        name, *rest, granted = row
        engine.broker_endpoint = BrokerEndpoint(name, identifier, *rest)
        engine.broker_endpoint.connect_granted_to = set(granted)


# Conversations


def _conversations(database: Database, tables: dict[str, _Rows]) -> None:
    for handle, row in sorted(tables.get(database.endpoint_table, [])):
        _endpoint(database, handle, row)
    for endpoint, _, (send_sequence,) in _of_endpoints(database, database.desend_table, tables):
        endpoint.send_sequence = send_sequence
    for endpoint, _, (receive_sequence, first_is_acknowledged) in _of_endpoints(database, database.dercv_table, tables):
        endpoint.receive_sequence = receive_sequence
        if not endpoint.is_initiator:
            endpoint.first_is_acknowledged = first_is_acknowledged
    for endpoint, (_, sequence), stored in _of_endpoints(database, database.xmit_table, tables):
        row = TransmissionRow(endpoint, sequence, *stored)
        endpoint.add_unacknowledged(row)
        database.transmission_queue[row.key] = row
    for queue in database.queues.values():
        _rows(database, queue, tables)
    for endpoint in database.endpoints.values():
        _go_on(endpoint)


def _of_endpoints(
    database: Database, table: str, tables: dict[str, _Rows]
) -> Iterator[tuple[ConversationEndpoint, Any, Any]]:
    """Rows by key with their endpoint. What was on its way to the disk when its endpoint went has none: deleted."""
    orphans: list[Write] = []
    for key, row in sorted(tables.get(table, []), key=_by_key):
        endpoint = database.endpoints.get(key[0] if isinstance(key, tuple) else key)
        if endpoint is None:
            orphans.append((table, key, None))
        else:
            yield endpoint, key, row
    database.engine.store.commit_lazily(orphans)


def _by_key(entry: tuple[Any, Any]) -> Any:
    return entry[0]


def _endpoint(database: Database, handle: str, row: Any) -> None:
    (
        conversation_id,
        is_initiator,
        service_id,
        contract_name,
        group_id,
        far_service,
        far_broker_instance,
        lifetime,
        is_encrypted,
        priority,
        is_system,
        state,
        dialog_timer,
        security_timestamp,
        end_dialog_sequence,
    ) = row
    service = next(one for one in database.services.values() if one.service_id == service_id)
    group = database.groups.get(group_id) or ConversationGroup(group_id, service, is_system=is_system)
    endpoint = ConversationEndpoint(
        database=database,
        conversation_handle=handle,
        conversation_id=conversation_id,
        is_initiator=is_initiator,
        service=service,
        contract=database.contracts[contract_name],
        group=group,
        far_service=far_service,
        far_broker_instance=far_broker_instance,
        lifetime=lifetime,
        is_encrypted=is_encrypted,
        priority=priority,
        is_system=is_system,
        state=EndpointState(state),
    )
    endpoint.dialog_timer = dialog_timer
    endpoint.security_timestamp = security_timestamp
    endpoint.end_dialog_sequence = end_dialog_sequence
    database.handles.seen(handle)
    database.remember(endpoint)


def _rows(database: Database, queue: Queue, tables: dict[str, _Rows]) -> None:
    for table in (queue.table, queue.blocked_table):
        for order, row in sorted(tables.get(table, []), key=_by_key):
            handle, sequence, name, body, enqueued_ns, status = row
            endpoint = database.endpoints.get(handle)
            if endpoint is None:
                database.engine.store.commit_lazily([(table, order, None)])
                continue
            message_type = database.message_types.get(name) or MessageType(name, 0, Validation.BINARY)
            loaded = QueueRow(queue, endpoint, order, sequence, message_type, body, enqueued_ns, status)
            queue.next_order = max(queue.next_order, order + 1)
            if table == queue.table:
                queue.publish(loaded)
            else:
                queue.blocked.append(loaded)
    if queue.is_enqueue_enabled and queue.blocked:
        queue.unblock()


def _go_on(endpoint: ConversationEndpoint) -> None:
    engine = endpoint.database.engine
    if endpoint.is_initiator:
        first = endpoint.unacknowledged[0].message_sequence_number if endpoint.unacknowledged else None
        endpoint.first_is_acknowledged = endpoint.send_sequence > 0 and first != 0
    engine.expiry.watch(endpoint)
    if endpoint.unacknowledged:
        engine.transmitter.wake(endpoint)
