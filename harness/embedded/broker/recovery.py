"""Recovery: rebuilds an instance's memory from the store.

No statement runs yet, so nothing is undone or staged here. Rows are sorted by table first; an object is made before
those that need it. Other packages load the tables that are not the broker's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

from harness.embedded.broker import ddl_databases
from harness.embedded.broker.broker_link import BrokerLink, Dispatchers
from harness.embedded.broker.catalog import Catalog, Service
from harness.embedded.broker.database import ConversationEndpoint, Database, Databases, TransmissionRow
from harness.embedded.broker.definitions import (
    BrokerEndpoint,
    Certificate,
    Contract,
    DialogTerms,
    EventNotification,
    Login,
    MessageType,
    Priority,
    RemoteServiceBinding,
    Route,
    User,
    Validation,
)
from harness.embedded.broker.delivery import Deadlines
from harness.embedded.broker.endpoint_states import EndpointState
from harness.embedded.broker.queues import STORED, ConversationGroup, Queue, QueueRow
from harness.embedded.broker.transactions import Transactions
from harness.embedded.store import Write

_Rows = list[tuple[Any, Any]]


def recover(  # noqa: PLR0917
    transactions: Transactions,
    databases: Databases,
    logins: dict[str, Login],
    link: BrokerLink,
    deadlines: Deadlines,
    dispatchers: Dispatchers,
) -> None:
    """Loads everything from the store, sets deadlines and resumes transmission."""
    store = transactions.store
    tables: dict[str, _Rows] = {}
    for table, key, row in store.load():
        if table.startswith(("catalog.", "broker.")):
            tables.setdefault(table, []).append((key, row))
    _databases(databases, tables.get("catalog.database", []))
    by_id = {database.database_id: database.catalog for database in databases.values()}
    for kind, load in _CATALOG.items():
        for (database_id, identifier), row in tables.get(f"catalog.{kind}", []):
            catalog = by_id[database_id]
            load(catalog, identifier, row)
            if kind not in {"queue", "user", "certificate", "event_notification"}:
                catalog.seen_id(kind, identifier)
    _instance(logins, link, tables)
    for database in databases.values():
        _conversations(database, tables)
        for endpoint in database.endpoints.values():
            _go_on(endpoint, deadlines, dispatchers)
    known = {database_id for database_id, _ in tables.get("catalog.database", [])}
    for database in databases.values():
        if database.database_id not in known:
            # The first start: the system databases keep their identity.
            tx = transactions.begin()
            ddl_databases.store(tx, database.catalog)
            store.commit_lazily(tx.writes)


def _databases(databases: Databases, rows: _Rows) -> None:
    for database_id, (name, guid, is_enabled, honors, prefix, has_master_key, created_ns, ordinal) in rows:
        catalog = databases.add(name, database_id, guid, prefix).catalog
        catalog.is_broker_enabled = is_enabled
        catalog.is_honor_broker_priority_on = honors
        catalog.principals.has_master_key = has_master_key
        catalog.create_time_ns = created_ns
        catalog.object_ordinal = ordinal


# The catalog, in the order in which objects need each other


def _message_type(catalog: Catalog, identifier: int, row: Any) -> None:
    name, validation, owner = row
    catalog.message_types[name] = MessageType(name, identifier, Validation(validation), owner=owner)


def _contract(catalog: Catalog, identifier: int, row: Any) -> None:
    name, usages, owner = row
    catalog.contracts[name] = Contract(name, identifier, catalog.usages(usages), owner)


def _queue(catalog: Catalog, identifier: int, row: Any) -> None:
    schema, name, *rest = row
    key = f"{schema}.{name}".lower()
    queue = catalog.queues.get(key)  # a system queue that was altered
    if queue is None:
        queue = catalog.queues[key] = Queue(catalog.store, catalog.database_id, schema, name, identifier)
    for attribute, value in zip(STORED, rest, strict=True):
        setattr(queue, attribute, value)


def _queue_by_id(catalog: Catalog, object_id: int) -> Queue:
    return next(queue for queue in catalog.queues.values() if queue.object_id == object_id)


def _service(catalog: Catalog, identifier: int, row: Any) -> None:
    name, queue_id, contracts, owner, senders = row
    agreed = {contract: catalog.contracts[contract] for contract in contracts}
    queue = _queue_by_id(catalog, queue_id)
    catalog.services[name] = Service(name, identifier, queue, agreed, owner, set(senders))


def _notification(catalog: Catalog, identifier: int, row: Any) -> None:
    name, queue_id, event, service, instance, handle = row
    queue = _queue_by_id(catalog, queue_id)
    queue.notifications[name.lower()] = EventNotification(name, identifier, event, service, instance, handle)


def _plain(
    make: Callable[..., Any], objects: Callable[[Catalog], dict[str, Any]], key: Callable[[str], str] = str
) -> Callable[[Catalog, int, Any], None]:
    """What `ddl.store` wrote."""

    def load(catalog: Catalog, identifier: int, row: Any) -> None:
        name, *rest = row
        objects(catalog)[key(name)] = make(name, identifier, *rest)

    return load


_CATALOG: dict[str, Callable[[Catalog, int, Any], None]] = {
    "message_type": _message_type,
    "contract": _contract,
    "queue": _queue,
    "service": _service,
    "route": _plain(Route, lambda catalog: catalog.routes),
    "remote_service_binding": _plain(RemoteServiceBinding, lambda catalog: catalog.remote_service_bindings),
    "priority": _plain(Priority, lambda catalog: catalog.priorities),
    "user": _plain(User, lambda catalog: catalog.principals.users, str.lower),
    "certificate": _plain(Certificate, lambda catalog: catalog.principals.certificates, str.lower),
    "event_notification": _notification,
}


def _instance(logins: dict[str, Login], link: BrokerLink, tables: dict[str, _Rows]) -> None:
    for identifier, row in tables.get("catalog.login", []):
        logins[row[0].lower()] = Login(row[0], identifier, *row[1:])
    for identifier, row in tables.get("catalog.endpoint", []):
        name, *rest, granted = row
        link.endpoint = BrokerEndpoint(name, identifier, *rest)
        link.endpoint.connect_granted_to = set(granted)


# Conversations


def _conversations(database: Database, tables: dict[str, _Rows]) -> None:
    for handle, row in sorted(tables.get(database.endpoint_table, [])):
        _endpoint(database, handle, row)
    for endpoint, _, (send_sequence,) in rows_of_endpoints(database, database.desend_table, tables):
        endpoint.send_sequence = send_sequence
    for endpoint, _, (receive_sequence, first_is_acknowledged) in rows_of_endpoints(
        database, database.dercv_table, tables
    ):
        endpoint.receive_sequence = receive_sequence
        if not endpoint.terms.is_initiator:
            endpoint.first_is_acknowledged = first_is_acknowledged
    for endpoint, (_, sequence), stored in rows_of_endpoints(database, database.xmit_table, tables):
        row = TransmissionRow(endpoint, sequence, *stored)
        endpoint.outgoing.add(row)
    for queue in database.catalog.queues.values():
        _rows(database, queue, tables)


def rows_of_endpoints(
    database: Database, table: str, tables: dict[str, _Rows]
) -> Iterator[tuple[ConversationEndpoint, Any, Any]]:
    """Yields rows by key with their endpoint; deletes rows that were stored after their endpoint was removed."""
    orphans: list[Write] = []
    for key, row in sorted(tables.get(table, []), key=itemgetter(0)):
        endpoint = database.endpoints.get(key[0] if isinstance(key, tuple) else key)
        if endpoint is None:
            orphans.append((table, key, None))
        else:
            yield endpoint, key, row
    database.catalog.store.commit_lazily(orphans)


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
    catalog = database.catalog
    service = next(one for one in catalog.services.values() if one.service_id == service_id)
    group = database.groups.get(group_id)
    if group is None:
        group = ConversationGroup(group_id, service_id, service.queue, is_system=is_system)
    terms = DialogTerms(
        handle,
        conversation_id,
        is_initiator=is_initiator,
        service_name=service.name,
        service_id=service_id,
        contract=catalog.contracts[contract_name],
        far_service=far_service,
        lifetime=lifetime,
        is_encrypted=is_encrypted,
        priority=priority,
        is_system=is_system,
    )
    endpoint = ConversationEndpoint(database, service, terms, group, far_broker_instance, EndpointState(state))
    endpoint.dialog_timer = dialog_timer
    endpoint.security_timestamp = security_timestamp
    endpoint.end_dialog_sequence = end_dialog_sequence
    database.handles.seen(handle)
    database.remember(endpoint)


def _rows(database: Database, queue: Queue, tables: dict[str, _Rows]) -> None:
    for table in (queue.table, queue.blocked_table):
        for order, row in sorted(tables.get(table, []), key=itemgetter(0)):
            handle, sequence, name, body, enqueued_ns, status = row
            endpoint = database.endpoints.get(handle)
            if endpoint is None:
                database.catalog.store.commit_lazily([(table, order, None)])
                continue
            message_type = database.catalog.message_types.get(name) or MessageType(name, 0, Validation.BINARY)
            loaded = QueueRow(queue, endpoint.incoming, order, sequence, message_type, body, enqueued_ns, status)
            queue.next_order = max(queue.next_order, order + 1)
            if table == queue.table:
                queue.publish(loaded)
            else:
                queue.blocked.append(loaded)
    if queue.is_enqueue_enabled and queue.blocked:
        queue.unblock()


def _go_on(endpoint: ConversationEndpoint, deadlines: Deadlines, dispatchers: Dispatchers) -> None:
    waiting = endpoint.outgoing.unacknowledged
    if endpoint.terms.is_initiator:
        first = waiting[0].message_sequence_number if waiting else None
        endpoint.first_is_acknowledged = endpoint.send_sequence > 0 and first != 0
    deadlines.watch(endpoint)
    if waiting:
        dispatchers.wake(endpoint)
