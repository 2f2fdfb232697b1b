"""A database as Service Broker sees it: its catalog, its conversation endpoints and its transmission queue.

An endpoint has four parts: its terms, which never change; the rest of its durable state; the sending side and the
receiving side, which live in memory and are rebuilt at recovery.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from harness.embedded.broker.catalog import Catalog, Changes, Service
from harness.embedded.broker.definitions import DialogTerms
from harness.embedded.broker.endpoint_states import EndpointState
from harness.embedded.broker.environment import Environment
from harness.embedded.broker.frames import DialogHeader, KeyExchange
from harness.embedded.broker.keys import Session
from harness.embedded.broker.queues import NOT_YET_COMPLETE, ConversationGroup, Incoming, Queue, QueueRow
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.platform import Page
from harness.embedded.runtime.tasks import SECOND, Clock, Entropy
from harness.embedded.store.group_commit import Value

# sys.sysdesend: 54 bytes a row and 2 for its slot, 8096 usable bytes a page.
ROWS_PER_PAGE = 144
# Its pages are contiguous in the one data file, after the file's own first pages, as in SQL Server.
DATA_FILE = 1
FIRST_PAGE = 16

HANDLE_PREFIX_BYTES = 10  # a database's own part of its conversation handles
_HANDLE_COUNTER_BITS = 16


class Destination:
    """The place where the far side of a conversation is: one of the classes below."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Local(Destination):
    """A service of this instance."""

    database: Database
    service: Service


@dataclass(frozen=True, slots=True)
class Remote(Destination):
    """Another instance's broker endpoint."""

    address: tuple[str, int]


@dataclass(frozen=True, slots=True)
class Delayed(Destination):
    """No destination yet; `status` says why (sys.transmission_queue.transmission_status)."""

    status: str


@dataclass(frozen=True, slots=True)
class Unconfigured(Delayed):
    """A route or remote service binding is missing, and a route leads to the service that may create it."""

    request: str  # the message type that asks for it


@dataclass(frozen=True, slots=True)
class Unknown(Destination):
    """No such service in the named broker instance, which is here: the dialog fails with -8490."""

    service_name: str


class Outgoing:
    """The sending side of a conversation endpoint: its unacknowledged messages and their destination."""

    __slots__ = (
        "destination",
        "header",
        "in_flight",
        "key_exchange",
        "retry_count",
        "retry_due_ns",
        "routing_version",
        "staged",
        "transmission_queue",
        "transmission_status",
        "unacknowledged",
    )

    def __init__(self, transmission_queue: dict[tuple[str, int], TransmissionRow]) -> None:
        self.transmission_queue = transmission_queue  # of the database
        # In sequence. A tuple while it is empty, as a deque without rows takes 600 bytes.
        self.unacknowledged: deque[TransmissionRow] | tuple[TransmissionRow, ...] = ()
        self.in_flight = 0  # how many of them the transport has
        self.staged = 0  # rows of committing transactions, not yet in the transmission queue
        self.retry_count = 0
        self.retry_due_ns = 0
        self.transmission_status = ""
        self.destination: Destination | None = None
        self.routing_version = -1
        self.header: DialogHeader | None = None
        self.key_exchange: KeyExchange | None = None  # what an encrypted dialog offers

    def add(self, row: TransmissionRow) -> None:
        """Append a row to the transmission queue and to its conversation."""
        rows = self.unacknowledged
        if isinstance(rows, deque):
            rows.append(row)
        else:
            self.unacknowledged = deque((row,))
        self.transmission_queue[row.key] = row

    def pop(self) -> TransmissionRow:
        """Take the first row off the transmission queue."""
        rows = self.unacknowledged
        assert isinstance(rows, deque), "nothing is unacknowledged"
        row = rows.popleft()
        if not rows:
            self.unacknowledged = ()
            self.retry_count = self.retry_due_ns = 0
        if self.in_flight:
            self.in_flight -= 1
        self.transmission_queue.pop(row.key, None)
        return row


class ConversationEndpoint:
    """One side of a conversation: a row of sys.conversation_endpoints.

    On disk it has, as in SQL Server, a row of sysdesend (changed by SEND) and one of sysdercv (changed by arrivals).
    """

    __slots__ = (
        "changing",
        "database",
        "dialog_timer",
        "end_dialog_sequence",
        "far_broker_instance",
        "first_is_acknowledged",
        "incoming",
        "ordinal",
        "outgoing",
        "page",
        "receive_sequence",
        "security_timestamp",
        "send_sequence",
        "service",
        "session",
        "state",
        "terms",
    )

    def __init__(  # noqa: PLR0917
        self,
        database: Database,
        service: Service,
        terms: DialogTerms,
        group: ConversationGroup,
        far_broker_instance: str | None,
        state: EndpointState,
    ) -> None:
        self.database = database
        self.service = service
        self.terms = terms
        self.far_broker_instance = far_broker_instance
        self.state = state
        self.send_sequence = 0
        self.receive_sequence = 0
        self.end_dialog_sequence = -1
        self.dialog_timer: int | None = None  # UTC ns
        self.security_timestamp: int | None = None  # UTC ns: earliest removal of a closed target
        self.session: Session | None = None  # the keys of an encrypted dialog with another instance
        self.first_is_acknowledged = False  # initiator: message 0 is acknowledged; target: the initiator knows that
        self.outgoing = Outgoing(database.transmission_queue)
        self.incoming = Incoming(terms, group)
        self.ordinal = 0  # place in handle order
        self.page = Page(database.database_id, DATA_FILE, FIRST_PAGE)  # the page of its sysdesend row
        self.changing: Change | None = None  # the open transaction that changes this conversation

    def stored(self) -> Value:
        """The endpoint's row as stored; its sequences have rows of their own."""
        terms = self.terms
        return (
            terms.conversation_id,
            terms.is_initiator,
            terms.service_id,
            terms.contract.name,
            self.incoming.group.conversation_group_id,
            terms.far_service,
            self.far_broker_instance,
            terms.lifetime,
            terms.is_encrypted,
            terms.priority,
            terms.is_system,
            self.state.value,
            self.dialog_timer,
            self.security_timestamp,
            self.end_dialog_sequence,
        )


class Change(Protocol):
    """A transaction, as the endpoints that it changes see it."""

    def on_end(self, action: Callable[[], object]) -> None: ...


class TransmissionRow:
    """A row of sys.transmission_queue; `key` identifies it on disk and in memory."""

    __slots__ = ("endpoint", "enqueue_time", "key", "message_body", "message_sequence_number", "message_type_name")

    def __init__(
        self, endpoint: ConversationEndpoint, sequence: int, message_type_name: str, body: bytes | None, now_ns: int
    ) -> None:
        self.endpoint = endpoint
        self.key = (endpoint.terms.conversation_handle, sequence)
        self.message_sequence_number = sequence
        self.message_type_name = message_type_name
        self.message_body = body
        self.enqueue_time = now_ns  # UTC ns

    @property
    def sent_by_initiator(self) -> bool:
        return self.endpoint.terms.is_initiator

    @property
    def to_service(self) -> str:
        return self.endpoint.terms.far_service

    @property
    def to_broker_instance(self) -> str | None:
        return self.endpoint.far_broker_instance

    @property
    def from_service(self) -> str:
        return self.endpoint.terms.service_name

    @property
    def from_broker_instance(self) -> str | None:
        return self.endpoint.database.catalog.service_broker_guid

    @property
    def transmission_status(self) -> str:
        return self.endpoint.outgoing.transmission_status


class SetAsideRow(TransmissionRow):
    """A row of sys.transmission_queue on the receiving side: the endpoint's own queue is OFF."""

    __slots__ = ()
    # No source says what the status is; this one is that of a message from the same instance.
    transmission_status = SqlServerError(28021).text

    @property
    def sent_by_initiator(self) -> bool:
        return not super().sent_by_initiator

    @property
    def to_service(self) -> str:
        return super().from_service

    @property
    def to_broker_instance(self) -> str | None:
        return super().from_broker_instance

    @property
    def from_service(self) -> str:
        return super().to_service

    @property
    def from_broker_instance(self) -> str | None:
        return super().to_broker_instance


def random_guid(entropy: Entropy) -> str:
    text = entropy.random_bytes(16).hex().upper()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class Handles:
    """Conversation handles of one database: sequential, as in SQL Server.

    The last group counts and the others identify the database, so handles sort as text and as uniqueidentifiers in the
    order of BEGIN DIALOG. The count starts from the clock (seconds and 16 bits), so a restarted instance continues
    above its earlier handles.
    """

    def __init__(self, prefix: bytes, clock: Clock) -> None:
        text = prefix.hex().upper()
        self._prefix = f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-"
        self._count = (clock.utc_ns() // SECOND) << _HANDLE_COUNTER_BITS & (1 << 48) - 1

    def next(self) -> str:
        self._count += 1
        return f"{self._prefix}{self._count:012X}"

    def seen(self, handle: str) -> None:
        """Keep new handles above one from before the restart."""
        if handle.startswith(self._prefix):
            self._count = max(self._count, int(handle[24:], 16))


class Database:
    def __init__(self, catalog: Catalog, conversations: dict[tuple[str, bool], ConversationEndpoint]) -> None:
        self.catalog = catalog
        self.name = catalog.name
        self.database_id = catalog.database_id
        self.handles = Handles(catalog.handle_prefix, catalog.clock)
        self.endpoints: dict[str, ConversationEndpoint] = {}  # sys.conversation_endpoints, by handle
        self.groups: dict[str, ConversationGroup] = {}  # sys.conversation_groups, by id
        self.transmission_queue: dict[tuple[str, int], TransmissionRow] = {}  # by handle and sequence
        self.endpoint_table = f"broker.{catalog.database_id}.endpoint"
        self.desend_table = f"broker.{catalog.database_id}.sysdesend"
        self.dercv_table = f"broker.{catalog.database_id}.sysdercv"
        self.session_table = f"broker.{catalog.database_id}.session"
        self.xmit_table = f"broker.{catalog.database_id}.sysxmitqueue"
        self.conversations = conversations  # of all databases, by id and is_initiator
        # Since the start MissingRemoteServiceBinding was answered for these: dialogs with ENCRYPTION = OFF go on
        self.unbound_services: set[str] = set()
        self._ordinal = 0

    def remember(self, endpoint: ConversationEndpoint) -> None:
        """Add an endpoint."""
        terms, group = endpoint.terms, endpoint.incoming.group
        handle = terms.conversation_handle
        endpoint.incoming.is_gone = False
        endpoint.ordinal = self._ordinal
        endpoint.page = Page(self.database_id, DATA_FILE, FIRST_PAGE + self._ordinal // ROWS_PER_PAGE)
        self._ordinal += 1
        self.groups[group.conversation_group_id] = group
        group.members[handle] = endpoint.incoming
        self.endpoints[handle] = endpoint
        self.conversations[terms.conversation_id, terms.is_initiator] = endpoint

    def forget(self, endpoint: ConversationEndpoint) -> None:
        """Remove an endpoint and its rows in the queue and the transmission queue."""
        handle, group = endpoint.terms.conversation_handle, endpoint.incoming.group
        if self.endpoints.pop(handle, None) is None:
            return
        endpoint.incoming.is_gone = True
        queue = endpoint.service.queue
        if late := queue.discard(endpoint.incoming):  # rows that came during the flush of the removal
            self.catalog.store.commit_lazily([(queue.table, row.queuing_order, None) for row in late])
        self.conversations.pop((endpoint.terms.conversation_id, endpoint.terms.is_initiator), None)
        self.forget_transmissions(endpoint)
        group.ready.pop(handle, None)
        group.members.pop(handle, None)
        if not group.members:
            self.groups.pop(group.conversation_group_id, None)
        if not self.endpoints:
            self._ordinal = 0

    def forget_transmissions(self, endpoint: ConversationEndpoint) -> None:
        """Drop unsent messages of a conversation that has failed or is removed."""
        outgoing = endpoint.outgoing
        keys = [row.key for row in outgoing.unacknowledged]
        for key in keys:
            self.transmission_queue.pop(key, None)
        # Rows that came during the flush of the end are still on disk.
        self.catalog.store.commit_lazily([(self.xmit_table, key, None) for key in keys])
        outgoing.unacknowledged = ()
        outgoing.in_flight = outgoing.retry_count = outgoing.retry_due_ns = 0

    def regroup(self, endpoint: ConversationEndpoint, group: ConversationGroup) -> None:
        """Move an endpoint and its messages to another group of the same queue."""
        handle, incoming = endpoint.terms.conversation_handle, endpoint.incoming
        before = incoming.group
        before.members.pop(handle)
        if not before.members:
            self.groups.pop(before.conversation_group_id, None)
        is_ready = before.ready.pop(handle, None) is not None
        incoming.group = group
        self.groups[group.conversation_group_id] = group
        group.members[handle] = incoming
        if is_ready:
            group.ready[handle] = incoming
        before.queue.withdraw(before)
        group.queue.withdraw(group)

    def queue_rows(self, queue: Queue) -> Iterator[QueueRow]:
        """Collect the rows that a SELECT from a queue sees: ready, retained, and early ones."""
        yield from queue.rows.values()
        for incoming in queue.behind_gaps or ():
            for sequence, (frame, now_ns) in sorted((incoming.early or {}).items()):
                message_type = self.catalog.message_types.get(frame.message_type)
                if message_type is not None:
                    yield QueueRow(queue, incoming, -1, sequence, message_type, frame.body, now_ns, NOT_YET_COMPLETE)

    def transmission_rows(self) -> Iterator[TransmissionRow]:
        """Collect the rows of sys.transmission_queue: rows to send, and rows whose queue was OFF."""
        yield from self.transmission_queue.values()
        for queue in self.catalog.queues.values():
            for row in queue.blocked:
                endpoint = self.endpoints.get(row.incoming.terms.conversation_handle)
                if endpoint is not None:
                    yield SetAsideRow(
                        endpoint,
                        row.message_sequence_number,
                        row.message_type.name,
                        row.message_body,
                        row.message_enqueue_time,
                    )

    def transmission_status(self, handle: str) -> str:
        """Return GET_TRANSMISSION_STATUS; empty for an unknown handle."""
        endpoint = self.endpoints.get(handle)
        if endpoint is None:
            return ""
        is_set_aside = any(row.incoming is endpoint.incoming for row in endpoint.service.queue.blocked)
        return endpoint.outgoing.transmission_status or (SetAsideRow.transmission_status if is_set_aside else "")


class Databases(dict[str, Database]):
    """The databases of an instance by name, in lower case."""

    def __init__(self, server_version: str, environment: Environment, changed: Callable[[Catalog], None]) -> None:
        super().__init__()
        self._server_version = server_version
        self._environment = environment
        self.changes = Changes(changed)
        # The endpoints of all databases, by conversation id and is_initiator.
        self.conversations: dict[tuple[str, bool], ConversationEndpoint] = {}

    def add(self, name: str, database_id: int, guid: str | None = None, handle_prefix: bytes | None = None) -> Database:
        """Add a database with its system objects, in memory."""
        entropy = self._environment.entropy
        prefix = handle_prefix or entropy.random_bytes(HANDLE_PREFIX_BYTES)
        guid = guid or random_guid(entropy)
        catalog = Catalog(name, database_id, guid, prefix, self._server_version, self.changes, self._environment)
        database = self[name.lower()] = Database(catalog, self.conversations)
        self.changes.count()
        return database

    def by_id(self, database_id: int) -> Database | None:
        return next((database for database in self.values() if database.database_id == database_id), None)

    def of_broker(self, guid: str) -> Database | None:
        """Find the database by its service_broker_guid."""
        for database in self.values():
            if database.catalog.service_broker_guid == guid:
                return database
        return None
