"""Recovery: rebuilds an instance's memory from the store.

No statement runs yet, so nothing is undone or staged here. Rows are sorted by table first; an object is made before
those that need it. Other packages load the tables that are not the broker's.

A row that cannot be read does not keep the instance from starting: `Asides` moves it, and what depends on it, to a
table `aside.<table>` of the store and says so in the error log. Rows that hold what a peer sent are checked against
their types before anything uses them.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache, partial
from operator import itemgetter
from typing import Any, get_type_hints

import msgspec

from harness.embedded.broker import ddl_databases, definitions
from harness.embedded.broker.broker_link import BrokerLink, Dispatchers
from harness.embedded.broker.catalog import Catalog, Service
from harness.embedded.broker.database import ConversationEndpoint, Database, Databases, TransmissionRow
from harness.embedded.broker.delivery import Deadlines
from harness.embedded.broker.endpoint_states import EndpointState
from harness.embedded.broker.environment import ErrorLog
from harness.embedded.broker.frames import Guid, Moment
from harness.embedded.broker.queues import STORED, ConversationGroup, Queue, QueueRow
from harness.embedded.broker.transactions import Transactions
from harness.embedded.store.group_commit import ASIDE, Key, Store, Value, Write

_Rows = list[tuple[Any, Any]]

LINES_MAX = 20  # in the error log, about rows set aside
# A conversation without one of these rows is set aside: it would count its messages from 0 again, and lose them.
_NEEDED = (".endpoint", ".sysdesend", ".sysdercv")

# Rows that hold what a peer sent.
_ENDPOINT = tuple[
    Guid,  # conversation_id
    bool,  # is_initiator
    int,  # service_id
    str,  # contract
    str,  # conversation_group_id
    str,  # far_service
    str | None,  # far_broker_instance
    Moment | None,  # lifetime
    bool,  # is_encrypted
    int,  # priority
    bool,  # is_system
    EndpointState,
    Moment | None,  # dialog_timer
    Moment | None,  # security_timestamp
    int,  # end_dialog_sequence
]
_SEND = tuple[int]  # send_sequence
_RECEIVE = tuple[int, bool]  # receive_sequence, first_is_acknowledged
_TRANSMISSION = tuple[str, bytes | None, int]  # message type, body, enqueue time
_QUEUE_ROW = tuple[str, int, str, bytes | None, int, int]  # `QueueRow.stored`


class Asides:
    """Rows that could not be read at this start: they are kept, out of the way."""

    def __init__(self, store: Store, error_log: ErrorLog) -> None:
        self._store = store
        self._error_log = error_log
        self.count = 0
        self.handles: set[str] = set()  # of conversations: their messages are set aside too

    def put(self, table: str, key: Key, row: Value, reason: object) -> None:
        self.count += 1
        self._store.set_aside(table, key, row)
        if self.count <= LINES_MAX:
            row_name = f"{table}[{key!r:.80}]"
            self._error_log.write(f"Recovery cannot read {row_name} and keeps it as {ASIDE}{table}: {reason!s:.200}")
        if self.count == LINES_MAX:
            self._error_log.write("Recovery has set more rows aside than this log lists.")

    def each(self, table: str, rows: _Rows, load: Callable[[Any, Any], object]) -> None:
        """Pass each row to `load`; set aside a row for which it fails."""
        for key, row in rows:
            try:
                load(key, row)
            except Exception as error:  # a defect of the row: what it is does not matter
                self.put(table, key, row, repr(error))

    def typed(self, table: str, rows: _Rows, row_type: Any, key_type: Any = str) -> _Rows:
        """Return the rows of these types, in order of their keys; set others aside."""
        good: _Rows = []
        for key, row in rows:
            try:
                good.append((msgspec.convert(key, key_type), msgspec.convert(row, row_type)))
            except msgspec.ValidationError as error:
                self.put(table, key, row, error)
                if table.endswith(_NEEDED):
                    self.handles.add(str(key))
        return sorted(good, key=itemgetter(0))


def recover(  # noqa: PLR0917
    transactions: Transactions,
    databases: Databases,
    logins: dict[str, definitions.Login],
    link: BrokerLink,
    deadlines: Deadlines,
    dispatchers: Dispatchers,
    error_log: ErrorLog,
) -> int:
    """Load everything from the store, set deadlines and resume transmission; return how many rows are set aside."""
    store = transactions.store
    asides = Asides(store, error_log)
    tables: dict[str, _Rows] = {}
    for table, key, row in store.load():
        if table.startswith(("catalog.", "broker.")):
            tables.setdefault(table, []).append((key, row))
    asides.each("catalog.database", tables.get("catalog.database", []), partial(_database, databases))
    by_id = {database.database_id: database.catalog for database in databases.values()}
    for kind, load in _CATALOG.items():
        table = f"catalog.{kind}"
        asides.each(table, tables.get(table, []), partial(_object, by_id, kind, load))
    for table, rows in tables.items():
        if table.startswith("broker.") and int(table.split(".")[1]) not in by_id:
            for key, row in rows:  # a later database with this id must not find them
                asides.put(table, key, row, "its database is set aside")
    asides.each("catalog.login", tables.get("catalog.login", []), partial(_login, logins))
    asides.each("catalog.endpoint", tables.get("catalog.endpoint", []), partial(_broker_endpoint, link))
    for database in databases.values():
        _conversations(database, tables, asides)
        for endpoint in database.endpoints.values():
            _go_on(endpoint, deadlines, dispatchers)
    database_ids = {database_id for database_id, _ in tables.get("catalog.database", [])}
    for database in databases.values():
        if database.database_id not in database_ids:
            # The first start: the system databases keep their identity.
            tx = transactions.begin()
            ddl_databases.store(tx, database.catalog)
            store.commit_lazily(tx.writes)
    return asides.count


def _database(databases: Databases, database_id: int, row: Any) -> None:
    name, guid, is_enabled, honors, prefix, master_key, created_ns, ordinal, *options, locked = row
    catalog = databases.add(name, database_id, guid, prefix).catalog
    catalog.is_broker_enabled = is_enabled
    catalog.is_honor_broker_priority_on = honors
    catalog.principals.master_key, catalog.principals.locked_master_key = master_key, locked
    catalog.create_time_ns = created_ns
    catalog.object_ordinal = ordinal
    catalog.is_trustworthy_on, catalog.is_read_committed_snapshot_on, catalog.compatibility_level, *shown_options = (
        options
    )
    catalog.shown_options.update(zip(catalog.shown_options, shown_options, strict=False))


def _object(
    by_id: dict[int, Catalog], kind: str, load: Callable[[Catalog, int, Any], None], key: tuple[int, int], row: Any
) -> None:
    database_id, identifier = key
    catalog = by_id[database_id]
    load(catalog, identifier, row)
    if kind not in {"queue", "schema", "user", "certificate", "event_notification"}:
        catalog.seen_id(kind, identifier)


# The catalog, in the order in which objects need each other


def _message_type(catalog: Catalog, identifier: int, row: Any) -> None:
    name, validation, *rest = row
    catalog.message_types[name] = definitions.MessageType(name, identifier, definitions.Validation(validation), *rest)


def _contract(catalog: Catalog, identifier: int, row: Any) -> None:
    name, usages, owner = row
    catalog.contracts[name] = definitions.Contract(name, identifier, catalog.usages(usages), owner)


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
    name, watched_id, events, *rest = row
    wholes = {whole.object_id: whole for whole in (catalog.watched, catalog.watched_server)}
    watched: definitions.Watched = wholes.get(watched_id) or _queue_by_id(catalog, watched_id)
    watched.notifications[name.lower()] = definitions.EventNotification(name, identifier, tuple(events), *rest)


def _plain(
    make: type, objects: Callable[[Catalog], dict[str, Any]], key: Callable[[str], str] = str
) -> Callable[[Catalog, int, Any], None]:
    """What `ddl.store` wrote."""

    def load(catalog: Catalog, identifier: int, row: Any) -> None:
        name, *rest = msgspec.convert(row, _row_type(make))
        objects(catalog)[key(name)] = make(name, identifier, *rest)

    return load


@cache
def _row_type(make: type) -> Any:
    """The type of a row as `ddl.store` writes it: the fields of the dataclass but for the second, its id."""
    hints = get_type_hints(make)
    name, _, *rest = (hints[field.name] for field in fields(make))
    return tuple[name, *rest]  # type: ignore[valid-type]


_CATALOG: dict[str, Callable[[Catalog, int, Any], None]] = {
    "xml_schema_collection": _plain(
        definitions.XmlSchemaCollection, lambda catalog: catalog.xml_schema_collections, str.lower
    ),
    "message_type": _message_type,
    "contract": _contract,
    "queue": _queue,
    "service": _service,
    "route": _plain(definitions.Route, lambda catalog: catalog.routes),
    "remote_service_binding": _plain(definitions.RemoteServiceBinding, lambda catalog: catalog.remote_service_bindings),
    "priority": _plain(definitions.Priority, lambda catalog: catalog.priorities),
    "schema": _plain(definitions.Schema, lambda catalog: catalog.schemas, str.lower),
    "user": _plain(definitions.User, lambda catalog: catalog.principals.users, str.lower),
    "certificate": _plain(definitions.Certificate, lambda catalog: catalog.principals.certificates, str.lower),
    "event_notification": _notification,
}


def _login(logins: dict[str, definitions.Login], identifier: int, row: Any) -> None:
    logins[row[0].lower()] = definitions.Login(row[0], identifier, *row[1:])


def _broker_endpoint(link: BrokerLink, identifier: int, row: Any) -> None:
    name, *rest, granted = row
    endpoint = definitions.BrokerEndpoint(name, identifier, *rest)
    endpoint.connect_granted_to = set(granted)
    link.endpoint = endpoint


# Conversations


def _conversations(database: Database, tables: dict[str, _Rows], asides: Asides) -> None:
    table = database.endpoint_table
    of_numbers = (database.desend_table, _SEND), (database.dercv_table, _RECEIVE)
    tables = tables | {name: asides.typed(name, tables.get(name, []), row_type) for name, row_type in of_numbers}
    for handle, row in asides.typed(table, tables.get(table, []), _ENDPOINT):
        if handle in asides.handles:
            asides.put(table, handle, row, "the number of its next message cannot be read")
            continue
        try:
            _endpoint(database, handle, row)
        except Exception as error:  # its service or its contract could not be read
            asides.put(table, handle, row, repr(error))
            asides.handles.add(handle)
    read = partial(rows_of_endpoints, database, tables, asides)
    for endpoint, _, (send_sequence,) in read(database.desend_table, _SEND):
        endpoint.send_sequence = send_sequence
    for endpoint, _, (receive_sequence, first_is_acknowledged) in read(database.dercv_table, _RECEIVE):
        endpoint.receive_sequence = receive_sequence
        if not endpoint.terms.is_initiator:
            endpoint.first_is_acknowledged = first_is_acknowledged
    for endpoint, (_, sequence), stored in read(database.xmit_table, _TRANSMISSION, tuple[str, int]):
        endpoint.outgoing.add(TransmissionRow(endpoint, sequence, *stored))
    _sessions(database, read, asides)
    for queue in database.catalog.queues.values():
        _rows(database, queue, tables, asides)


def _sessions(
    database: Database, read: Callable[..., Iterator[tuple[ConversationEndpoint, Any, Any]]], asides: Asides
) -> None:
    catalog, table = database.catalog, database.session_table
    if catalog.master_key_error() is not None:
        return  # they stay as they are until the key can be opened
    for endpoint, handle, (protected,) in read(table, tuple[bytes]):
        try:
            endpoint.session = catalog.keys.restore(
                protected, catalog.principals.master_key or b"", is_initiator=endpoint.terms.is_initiator
            )
        except ValueError as error:
            asides.put(table, handle, (protected,), error)


def rows_of_endpoints(  # noqa: PLR0917
    database: Database, tables: dict[str, _Rows], asides: Asides, table: str, row_type: Any, key_type: Any = str
) -> Iterator[tuple[ConversationEndpoint, Any, Any]]:
    """Yield rows by key with their endpoint; delete rows that were stored after their endpoint was removed."""
    orphans: list[Write] = []
    for key, row in asides.typed(table, tables.get(table, []), row_type, key_type):
        handle = key[0] if isinstance(key, tuple) else key
        endpoint = database.endpoints.get(handle)
        if endpoint is not None:
            yield endpoint, key, row
        elif handle in asides.handles:
            asides.put(table, key, row, "its conversation is set aside")
        else:
            orphans.append((table, key, None))
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
    service = next(candidate for candidate in catalog.services.values() if candidate.service_id == service_id)
    group = database.groups.get(group_id)
    if group is None:
        group = ConversationGroup(group_id, service_id, service.queue, is_system=is_system)
    terms = definitions.DialogTerms(
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
    endpoint = ConversationEndpoint(database, service, terms, group, far_broker_instance, state)
    endpoint.dialog_timer = dialog_timer
    endpoint.security_timestamp = security_timestamp
    endpoint.end_dialog_sequence = end_dialog_sequence
    database.handles.seen(handle)
    database.remember(endpoint)


def _rows(database: Database, queue: Queue, tables: dict[str, _Rows], asides: Asides) -> None:
    for table in (queue.table, queue.blocked_table):
        for order, row in asides.typed(table, tables.get(table, []), _QUEUE_ROW, int):
            handle, sequence, name, body, enqueued_ns, status = row
            queue.next_order = max(queue.next_order, order + 1)
            endpoint = database.endpoints.get(handle)
            if endpoint is None:
                if handle in asides.handles:
                    asides.put(table, order, row, "its conversation is set aside")
                else:
                    database.catalog.store.commit_lazily([(table, order, None)])
                continue
            message_type = database.catalog.message_types.get(name) or definitions.MessageType(
                name, 0, definitions.Validation.BINARY
            )
            loaded = QueueRow(queue, endpoint.incoming, order, sequence, message_type, body, enqueued_ns, status)
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
