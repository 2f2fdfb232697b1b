"""Conversation endpoints, their groups, and the rows of the transmission queue."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from harness.embedded.broker.states import EndpointState
from harness.embedded.runtime.locks import ExclusiveLock
from harness.embedded.runtime.platform import Page

if TYPE_CHECKING:
    from harness.embedded.broker.database import Database
    from harness.embedded.broker.frames import DialogHeader, MessageFrame
    from harness.embedded.broker.objects import Contract, Service
    from harness.embedded.broker.queues import Queue, QueueRow
    from harness.embedded.broker.routing import Destination
    from harness.embedded.broker.transactions import Transaction

# sys.sysdesend: 54 bytes a row and 2 for its slot, 8096 usable bytes a page.
ROWS_PER_PAGE = 144
# Its pages follow one another in the one data file; the first ones are the file's own, as in SQL Server.
DATA_FILE = 1
FIRST_PAGE = 16


# priority (negative), queuing order of the first message, serial number, group
HeapEntry = tuple[int, int, int, "ConversationGroup"]


class ConversationGroup(ExclusiveLock):
    """A conversation group *is* a lock: exclusive, held to the end of the transaction that touched it."""

    __slots__ = ("conversation_group_id", "endpoints", "heap_entry", "is_system", "queue", "ready", "service")

    def __init__(self, conversation_group_id: str, service: Service, *, is_system: bool = False) -> None:
        super().__init__()
        self.conversation_group_id = conversation_group_id
        self.service = service
        self.queue: Queue = service.queue
        self.is_system = is_system
        self.endpoints: dict[str, ConversationEndpoint] = {}
        self.ready: dict[str, ConversationEndpoint] = {}  # those with messages to receive
        self.heap_entry: HeapEntry | None = None  # its place among the queue's available groups

    @property
    def service_id(self) -> int:
        return self.service.service_id

    def release(self) -> None:
        if self.waiters:
            super().release()  # somebody has it now
            return
        self.owner = None
        if self.ready and self.heap_entry is None:
            self.queue.offer(self)


class ConversationEndpoint:
    """One side of a conversation: a row of sys.conversation_endpoints.

    In SQL Server it is a row of sysdesend (what SEND changes) and one of sysdercv (what arrivals change); so is it on
    disk here. Everything below the second blank line lives in memory only.
    """

    __slots__ = (
        "changing",
        "contract",
        "conversation_handle",
        "conversation_id",
        "database",
        "destination",
        "dialog_timer",
        "early",
        "end_dialog_sequence",
        "far_broker_instance",
        "far_service",
        "first_is_acknowledged",
        "group",
        "header",
        "in_flight",
        "is_encrypted",
        "is_gone",
        "is_initiator",
        "is_system",
        "lifetime",
        "ordinal",
        "page",
        "priority",
        "ready",
        "receive_sequence",
        "retained",
        "retry_count",
        "retry_due_ns",
        "routing_version",
        "security_timestamp",
        "send_sequence",
        "service",
        "staged",
        "state",
        "transmission_status",
        "unacknowledged",
    )

    def __init__(
        self,
        *,
        database: Database,
        conversation_handle: str,
        conversation_id: str,
        is_initiator: bool,
        service: Service,
        contract: Contract,
        group: ConversationGroup,
        far_service: str,
        far_broker_instance: str | None,
        lifetime: int | None,
        is_encrypted: bool,
        priority: int,
        is_system: bool = False,
        state: EndpointState,
    ) -> None:
        self.database = database
        self.conversation_handle = conversation_handle
        self.conversation_id = conversation_id
        self.is_initiator = is_initiator
        self.service = service
        self.contract = contract
        self.group = group
        self.far_service = far_service
        self.far_broker_instance = far_broker_instance
        self.lifetime = lifetime  # UTC ns; None: int max seconds, for ever
        self.is_encrypted = is_encrypted
        self.priority = priority
        self.is_system = is_system
        self.state = state
        self.send_sequence = 0
        self.receive_sequence = 0
        self.end_dialog_sequence = -1
        self.dialog_timer: int | None = None  # UTC ns
        self.security_timestamp: int | None = None  # UTC ns: earliest removal of a closed target
        self.first_is_acknowledged = False  # initiator: message 0 is acknowledged; target: the far side has seen that

        self.is_gone = False  # removed; what was on its way to it is dropped
        self.ordinal = 0  # place in handle order
        self.page = Page(database.database_id, DATA_FILE, FIRST_PAGE)  # of its row of sysdesend
        self.changing: Transaction | None = None  # ends this conversation and is not over yet
        self.ready: (
            deque[QueueRow] | tuple[QueueRow, ...]
        ) = ()  # while it is empty: a deque without rows takes 600 bytes
        self.retained: list[QueueRow] = []
        self.early: dict[int, MessageFrame] | None = None  # arrived before their turn
        self.unacknowledged: deque[TransmissionRow] | tuple[TransmissionRow, ...] = ()  # in sequence; so is it here
        self.in_flight = 0  # how many of those were handed to the transport
        self.staged = 0  # on their way into the transmission queue, in transactions that are committing
        self.retry_count = 0
        self.retry_due_ns = 0
        self.transmission_status = ""
        self.destination: Destination | None = None
        self.routing_version = -1
        self.header: DialogHeader | None = None

    def add_unacknowledged(self, row: TransmissionRow) -> None:
        """The row comes after those that are in the transmission queue already."""
        rows = self.unacknowledged
        if isinstance(rows, deque):
            rows.append(row)
        else:
            self.unacknowledged = deque((row,))

    @property
    def state_desc(self) -> str:
        return self.state.name

    @property
    def service_id(self) -> int:
        return self.service.service_id

    @property
    def service_contract_id(self) -> int:
        return self.contract.service_contract_id

    @property
    def conversation_group_id(self) -> str:
        return self.group.conversation_group_id


class TransmissionRow:
    """A row of sys.transmission_queue; attributes are named as its columns. `key` is its own, on disk as in memory."""

    __slots__ = ("endpoint", "enqueue_time", "key", "message_body", "message_sequence_number", "message_type_name")

    def __init__(
        self, endpoint: ConversationEndpoint, sequence: int, message_type_name: str, body: bytes | None, now_ns: int
    ) -> None:
        self.endpoint = endpoint
        self.key = (endpoint.conversation_handle, sequence)
        self.message_sequence_number = sequence
        self.message_type_name = message_type_name
        self.message_body = body
        self.enqueue_time = now_ns  # UTC ns

    @property
    def conversation_handle(self) -> str:
        return self.endpoint.conversation_handle

    @property
    def to_service_name(self) -> str:
        return self.endpoint.far_service

    @property
    def to_broker_instance(self) -> str | None:
        return self.endpoint.far_broker_instance

    @property
    def from_service_name(self) -> str:
        return self.endpoint.service.name

    @property
    def service_contract_name(self) -> str:
        return self.endpoint.contract.name

    @property
    def is_conversation_error(self) -> bool:
        return self.message_type_name.endswith("/ServiceBroker/Error")

    @property
    def is_end_of_dialog(self) -> bool:
        return self.message_type_name.endswith("/ServiceBroker/EndDialog")

    @property
    def transmission_status(self) -> str:
        return self.endpoint.transmission_status

    @property
    def priority(self) -> int:
        return self.endpoint.priority
