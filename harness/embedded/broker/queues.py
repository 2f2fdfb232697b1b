"""Queues: rows waiting to be received, and which conversation group comes next.

RECEIVE takes messages of one group: the one with the highest priority, then the earliest message, that nobody has
locked.
Available groups lie in a heap by (priority descending, queuing order of the first message). A group that turns out to
be locked is dropped from the heap and offered again when its lock is released, so a reader never looks at a group twice
in vain; the cost of a RECEIVE is that of its rows.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness.embedded.broker import system
from harness.embedded.broker.conversations import ConversationEndpoint, ConversationGroup, HeapEntry
from harness.embedded.broker.objects import MessageType
from harness.embedded.runtime.tasks import Signal
from harness.embedded.store import Write

if TYPE_CHECKING:
    from harness.embedded.broker.database import Database
    from harness.embedded.broker.monitors import QueueMonitor, QueueReader
    from harness.embedded.broker.objects import EventNotification

RETAINED_RECEIVED, READY, NOT_YET_COMPLETE, RETAINED_SENT = 0, 1, 2, 3  # a row's status

# "DialogTimer of a dialog before its other messages, then Error, then sequenced messages": broker system messages.
_RANKS = {system.DIALOG_TIMER: 0, system.ERROR: 1}
_SEQUENCED = 2


class QueueRow:
    """A message in a queue; attributes are named as the queue's columns."""

    __slots__ = (
        "endpoint",
        "message_body",
        "message_enqueue_time",
        "message_sequence_number",
        "message_type",
        "queue",
        "queuing_order",
        "status",
    )

    def __init__(  # noqa: PLR0917
        self,
        queue: Queue,
        endpoint: ConversationEndpoint,
        queuing_order: int,
        sequence: int,
        message_type: MessageType,
        body: bytes | None,
        now_ns: int,
        status: int = READY,
    ) -> None:
        self.queue = queue
        self.endpoint = endpoint
        self.queuing_order = queuing_order
        self.message_sequence_number = sequence
        self.message_type = message_type
        self.message_body = body
        self.message_enqueue_time = now_ns  # UTC ns
        self.status = status

    def stored(self) -> tuple[str, int, str, bytes | None, int, int]:
        """The row as the store keeps it."""
        return (
            self.endpoint.conversation_handle,
            self.message_sequence_number,
            self.message_type.name,
            self.message_body,
            self.message_enqueue_time,
            self.status,
        )

    @property
    def priority(self) -> int:
        return self.endpoint.priority

    @property
    def conversation_group_id(self) -> str:
        return self.endpoint.group.conversation_group_id

    @property
    def conversation_handle(self) -> str:
        return self.endpoint.conversation_handle

    @property
    def service_name(self) -> str:
        return self.endpoint.service.name

    @property
    def service_id(self) -> int:
        return self.endpoint.service.service_id

    @property
    def service_contract_name(self) -> str:
        return self.endpoint.contract.name

    @property
    def service_contract_id(self) -> int:
        return self.endpoint.contract.service_contract_id

    @property
    def message_type_name(self) -> str:
        return self.message_type.name

    @property
    def message_type_id(self) -> int:
        return self.message_type.message_type_id

    @property
    def validation(self) -> str:
        return self.message_type.validation.value

    @property
    def message_id(self) -> str:
        """Computed from the conversation, its direction and the sequence: the same at both ends, stored nowhere."""
        endpoint = self.endpoint
        sent_by_initiator = endpoint.is_initiator == (self.status == RETAINED_SENT)
        mixed = int(endpoint.conversation_id.replace("-", ""), 16) ^ (
            (self.message_sequence_number << 1 | sent_by_initiator) + 1
        )
        text = f"{mixed:032X}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class Queue:
    """A queue: sys.service_queues and its rows."""

    def __init__(self, database: Database, schema: str, name: str, object_id: int) -> None:
        self.database = database
        self.schema = schema
        self.name = name
        self.object_id = object_id
        self.owner = "dbo"
        self.is_receive_enabled = True
        self.is_enqueue_enabled = True
        self.is_retention_enabled = False
        self.is_activation_enabled = False
        self.is_poison_message_handling_enabled = True
        self.activation_procedure: str | None = None  # [db].[schema].[procedure]
        self.max_readers: int | None = None
        self.execute_as: str | None = None
        self.is_dropped = False
        self.create_time_ns = 0
        self.table = f"broker.{database.database_id}.queue.{object_id}"  # of its rows in the store
        self.blocked_table = f"broker.{database.database_id}.blocked.{object_id}"
        self.rows: dict[int, QueueRow] = {}  # by queuing order; retained rows too
        self.blocked: list[QueueRow] = []  # came while the queue was OFF, or behind such rows
        self.next_order = 0
        self.rollbacks = 0  # consecutive, of transactions that received
        self.receivers_waiting = 0  # sessions inside WAITFOR (RECEIVE / GET CONVERSATION GROUP)
        self.waiters = Signal()  # those without WHERE
        self.selective_waiters = Signal()  # those with WHERE
        self.monitor: QueueMonitor | None = None
        self.readers: list[QueueReader] = []  # activated tasks
        self.notifications: dict[str, EventNotification] = {}
        self._available: list[HeapEntry] = []
        self._serial = 0

    @property
    def qualified_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def depth(self) -> int:
        """Rows in the queue, retained ones too."""
        return len(self.rows)

    def all_rows(self) -> Iterator[QueueRow]:
        """Every row a SELECT sees: ready, retained, and those that arrived before their turn (status 2)."""
        yield from self.rows.values()
        for endpoint in self.database.endpoints.values():
            if endpoint.early and endpoint.service.queue is self:
                yield from self._early_rows(endpoint)

    def _early_rows(self, endpoint: ConversationEndpoint) -> Iterator[QueueRow]:
        for sequence, frame in sorted((endpoint.early or {}).items()):
            message_type = self.database.message_types.get(frame.message_type)
            if message_type is not None:
                yield QueueRow(self, endpoint, -1, sequence, message_type, frame.body, 0, NOT_YET_COMPLETE)

    def new_row(  # noqa: PLR0917
        self,
        endpoint: ConversationEndpoint,
        sequence: int,
        message_type: MessageType,
        body: bytes | None,
        now_ns: int,
        status: int = READY,
    ) -> QueueRow:
        """A row with the next queuing order, in no queue yet."""
        order = self.next_order
        self.next_order = order + 1
        return QueueRow(self, endpoint, order, sequence, message_type, body, now_ns, status)

    def publish(self, row: QueueRow) -> None:
        """Puts a row where receivers see it."""
        self.rows[row.queuing_order] = row
        endpoint = row.endpoint
        if row.status != READY:
            endpoint.retained.append(row)
            return
        ready = endpoint.ready
        if not isinstance(ready, deque):
            endpoint.ready = deque((row,))
        elif (rank := _RANKS.get(row.message_type.name, _SEQUENCED)) == _SEQUENCED:
            ready.append(row)
            return
        else:
            place = 0
            while place < len(ready) and _RANKS.get(ready[place].message_type.name, _SEQUENCED) <= rank:
                place += 1
            ready.insert(place, row)
        self._became_ready(endpoint)

    def block(self, row: QueueRow) -> None:
        """A row that came while the queue was OFF, or behind such rows: it waits in the transmission queue here."""
        if row.endpoint.is_gone:
            return
        self.blocked.append(row)
        if self.is_enqueue_enabled:  # it was turned on while this row was on its way to the disk
            self.unblock()

    def unblock(self) -> None:
        """The queue is ON: what waited aside goes into it, in order. A crash before that is on disk finds the rows
        aside and the queue ON; recovery does the same then."""
        rows, self.blocked = self.blocked, []
        writes: list[Write] = []
        for row in rows:
            writes += [
                (self.blocked_table, row.queuing_order, None),
                (self.table, row.queuing_order, row.stored()),
            ]
            self.publish(row)
        self.database.engine.store.commit_lazily(writes)

    def put_back(self, rows: list[QueueRow]) -> None:
        """Undoes a `take`: the rows of one endpoint, in the order in which they were taken."""
        endpoint = rows[0].endpoint
        endpoint.ready = deque((*rows, *endpoint.ready))
        for row in rows:
            row.status = READY
            self.rows[row.queuing_order] = row
        self._became_ready(endpoint)

    def _became_ready(self, endpoint: ConversationEndpoint) -> None:
        group = endpoint.group
        group.ready[endpoint.conversation_handle] = endpoint
        if group.owner is None:
            self.offer(group)

    def take(self, endpoint: ConversationEndpoint, limit: int) -> list[QueueRow]:
        """Removes up to `limit` ready rows of one endpoint, in order."""
        ready = endpoint.ready
        if len(ready) <= limit:
            taken = list(ready)
            endpoint.ready = ()
            endpoint.group.ready.pop(endpoint.conversation_handle, None)
        else:
            assert isinstance(ready, deque), "more than none are there"
            taken = [ready.popleft() for _ in range(limit)]
        rows = self.rows
        for row in taken:
            del rows[row.queuing_order]
        return taken

    def discard(self, endpoint: ConversationEndpoint) -> list[QueueRow]:
        """Removes all rows of an endpoint, ready and retained, and returns them."""
        removed = self.take(endpoint, len(endpoint.ready)) if endpoint.ready else []
        for row in endpoint.retained:
            self.rows.pop(row.queuing_order, None)
        removed += endpoint.retained
        endpoint.retained = []
        return removed

    def offer(self, group: ConversationGroup) -> None:
        """A group has messages and nobody has it locked: a receiver may have it."""
        key = min([(-endpoint.priority, endpoint.ready[0].queuing_order) for endpoint in group.ready.values()])
        if group.heap_entry is not None and group.heap_entry[:2] <= key:
            return
        self._serial += 1
        group.heap_entry = (key[0], key[1], self._serial, group)
        heapq.heappush(self._available, group.heap_entry)
        if self.waiters.waiters:
            self.waiters.notify_one()
        if self.selective_waiters.waiters:
            self.selective_waiters.notify_all()
        if self.monitor is not None:
            self.monitor.message_available()

    def first_available(self) -> ConversationGroup | None:
        """The group that a RECEIVE of a transaction without locks would take."""
        heap = self._available
        while heap:
            entry = heap[0]
            group = entry[3]
            if group.heap_entry is entry:
                if group.ready and group.owner is None:
                    return group
                group.heap_entry = None
            heapq.heappop(heap)
        return None

    def withdraw(self, group: ConversationGroup) -> None:
        """The group leaves the heap: it is about to be locked or moved."""
        group.heap_entry = None

    def wake_everybody(self) -> None:
        """Waiting receivers look again: the queue was switched, dropped or altered."""
        self.waiters.notify_all()
        self.selective_waiters.notify_all()
