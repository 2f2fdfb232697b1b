"""Queues: their rows, and the order in which conversation groups are received.

RECEIVE takes messages of one group: among the groups that are not locked, the one with the highest priority, then the
one with the earliest message.

A heap holds the available groups by (priority descending, queuing order of the first message). A group that turns out
to be locked leaves the heap and is offered again when its lock is released. So a reader looks at a locked group once,
and a RECEIVE costs as much as its rows.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Protocol

from harness.embedded.broker import system_objects
from harness.embedded.broker.definitions import DialogTerms, EventNotification, MessageType
from harness.embedded.broker.frames import MessageFrame
from harness.embedded.runtime.locks import ExclusiveLock
from harness.embedded.runtime.tasks import Signal
from harness.embedded.store.group_commit import Store, Write

RETAINED_RECEIVED, READY, NOT_YET_COMPLETE, RETAINED_SENT = 0, 1, 2, 3  # a row's status

# "DialogTimer of a dialog before its other messages, then Error, then sequenced messages": broker system messages.
_RANKS = {system_objects.DIALOG_TIMER: 0, system_objects.ERROR: 1}
_SEQUENCED = 2

EARLY_MAX = 1024  # messages held for one conversation; the far side sends others again

# priority (negative), queuing order of the first message, serial number, group
HeapEntry = tuple[int, int, int, "ConversationGroup"]


class ConversationGroup(ExclusiveLock):
    """A conversation group *is* a lock: exclusive, held to the end of the transaction that touched it."""

    __slots__ = ("conversation_group_id", "heap_entry", "is_system", "members", "queue", "ready", "service_id")

    def __init__(self, conversation_group_id: str, service_id: int, queue: Queue, *, is_system: bool = False) -> None:
        super().__init__()
        self.conversation_group_id = conversation_group_id
        self.service_id = service_id
        self.queue = queue
        self.is_system = is_system
        self.members: dict[str, Incoming] = {}  # by conversation handle
        self.ready: dict[str, Incoming] = {}  # those with messages to receive
        self.heap_entry: HeapEntry | None = None  # its place among the queue's available groups

    def release(self) -> None:
        if self.waiters:
            super().release()  # the next owner has it now
            return
        self.owner = None
        if self.ready:
            self.queue.offer(self)


class Incoming:
    """The receiving side of a conversation endpoint: its group and its messages in the queue."""

    __slots__ = ("early", "group", "is_gone", "ready", "retained", "terms")

    def __init__(self, terms: DialogTerms, group: ConversationGroup) -> None:
        self.terms = terms
        self.group = group
        self.is_gone = False  # the endpoint was removed; messages still on their way to it are dropped
        # A tuple while it is empty: a deque without rows takes 600 bytes.
        self.ready: deque[QueueRow] | tuple[QueueRow, ...] = ()
        self.retained: list[QueueRow] = []
        # Messages that arrived before their turn, by sequence, with their moment in UTC ns.
        self.early: dict[int, tuple[MessageFrame, int]] | None = None


class QueueRow:
    """A message in a queue."""

    __slots__ = (
        "incoming",
        "message_body",
        "message_enqueue_time",
        "message_sequence_number",
        "message_type",
        "queue",
        "queuing_order",
        "status",
    )
    status_in_receive = RETAINED_RECEIVED  # "for messages returned by the RECEIVE command, the status is always 0"

    def __init__(  # noqa: PLR0917
        self,
        queue: Queue,
        incoming: Incoming,
        queuing_order: int,
        sequence: int,
        message_type: MessageType,
        body: bytes | None,
        now_ns: int,
        status: int = READY,
    ) -> None:
        self.queue = queue
        self.incoming = incoming
        self.queuing_order = queuing_order
        self.message_sequence_number = sequence
        self.message_type = message_type
        self.message_body = body
        self.message_enqueue_time = now_ns  # UTC ns
        self.status = status

    def stored(self) -> tuple[str, int, str, bytes | None, int, int]:
        """The row as the store keeps it."""
        return (
            self.incoming.terms.conversation_handle,
            self.message_sequence_number,
            self.message_type.name,
            self.message_body,
            self.message_enqueue_time,
            self.status,
        )

    @property
    def message_id(self) -> str:
        """An id computed from conversation, direction and sequence: the same at both ends, and not stored."""
        terms = self.incoming.terms
        sent_by_initiator = terms.is_initiator == (self.status == RETAINED_SENT)
        order = (self.message_sequence_number << 1 | sent_by_initiator) + 1  # negative where no SEND made the message
        text = f"{int(terms.conversation_id.replace('-', ''), 16) ^ order & (1 << 128) - 1:032X}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class Watcher(Protocol):
    """A queue monitor, as queues and receiving statements see it."""

    def message_available(self) -> None: ...

    def receive_issued(self, rows: int) -> None: ...

    def receive_came_back_empty(self) -> None: ...

    def wait_ended(self) -> None: ...

    def stop(self) -> None: ...


# The attributes in a queue's own row, in this order, after its schema and name.
STORED = (
    "owner",
    "is_receive_enabled",
    "is_enqueue_enabled",
    "is_retention_enabled",
    "is_activation_enabled",
    "is_poison_message_handling_enabled",
    "activation_procedure",
    "max_readers",
    "execute_as",
    "create_time_ns",
)


class Queue:
    """A queue: sys.service_queues and its rows."""

    __slots__ = (
        "__weakref__",
        "_available",
        "_serial",
        "_store",
        "activation_procedure",
        "behind_gaps",
        "blocked",
        "blocked_table",
        "create_time_ns",
        "database_id",
        "execute_as",
        "internal_table_id",
        "is_activation_enabled",
        "is_dropped",
        "is_enqueue_enabled",
        "is_poison_message_handling_enabled",
        "is_receive_enabled",
        "is_retention_enabled",
        "max_readers",
        "monitor",
        "name",
        "next_order",
        "notifications",
        "object_id",
        "owner",
        "receivers_waiting",
        "rollbacks",
        "rows",
        "schema",
        "selective_waiters",
        "table",
        "waiters",
    )

    def __init__(self, store: Store, database_id: int, schema: str, name: str, object_id: int) -> None:
        self._store = store
        self.database_id = database_id
        self.schema = schema
        self.name = name
        self.object_id = object_id
        self.internal_table_id = object_id + 1  # of sys.queue_messages_<object id>; SQL Server's is not computed
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
        self.table = f"broker.{database_id}.queue.{object_id}"  # in the store: its rows
        self.blocked_table = f"broker.{database_id}.blocked.{object_id}"
        self.rows: dict[int, QueueRow] = {}  # by queuing order; retained rows too
        self.blocked: list[QueueRow] = []  # came while the queue was OFF, or behind such rows
        self.behind_gaps: dict[Incoming, None] | None = None  # conversations with early messages, in memory alone
        self.next_order = 0
        self.rollbacks = 0  # consecutive rollbacks of transactions that received
        self.receivers_waiting = 0  # sessions inside WAITFOR (RECEIVE / GET CONVERSATION GROUP)
        self.waiters = Signal()  # sessions that wait without WHERE
        self.selective_waiters = Signal()  # sessions that wait with WHERE
        self.monitor: Watcher | None = None
        self.notifications: dict[str, EventNotification] = {}
        self._available: list[HeapEntry] = []
        self._serial = 0

    @property
    def qualified_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def depth(self) -> int:
        """The number of rows, with retained and early ones."""
        if not self.behind_gaps:  # a view may ask a thousand queues every second
            return len(self.rows)
        return len(self.rows) + sum(len(incoming.early or ()) for incoming in self.behind_gaps)

    def new_row(  # noqa: PLR0917
        self,
        incoming: Incoming,
        sequence: int,
        message_type: MessageType,
        body: bytes | None,
        now_ns: int,
        status: int = READY,
    ) -> QueueRow:
        """Make a row with the next queuing order; `publish` or `block` puts it into the queue."""
        order = self.next_order
        self.next_order = order + 1
        return QueueRow(self, incoming, order, sequence, message_type, body, now_ns, status)

    def publish(self, row: QueueRow) -> None:
        """Make a row visible to receivers."""
        self.rows[row.queuing_order] = row
        incoming = row.incoming
        if row.status != READY:
            incoming.retained.append(row)
            return
        ready = incoming.ready
        if not isinstance(ready, deque):
            incoming.ready = deque((row,))
        elif (rank := _RANKS.get(row.message_type.name, _SEQUENCED)) == _SEQUENCED:
            ready.append(row)
            return
        else:
            place = 0
            while place < len(ready) and _RANKS.get(ready[place].message_type.name, _SEQUENCED) <= rank:
                place += 1
            ready.insert(place, row)
        self._became_ready(incoming)

    def unpublish(self, row: QueueRow) -> None:
        """Undo a `publish`. The latest is undone first, so most rows are the last ones."""
        del self.rows[row.queuing_order]
        incoming = row.incoming
        rows = incoming.retained if row.status != READY else incoming.ready
        assert not isinstance(rows, tuple), "published rows lie in a list or a deque"
        if rows[-1] is row:
            rows.pop()
        else:
            rows.remove(row)
        if not incoming.ready and row.status == READY:
            incoming.ready = ()
            incoming.group.ready.pop(incoming.terms.conversation_handle, None)

    def block(self, row: QueueRow) -> None:
        """Set aside a row that came while the queue was OFF, or after such rows; sys.transmission_queue shows it."""
        if row.incoming.is_gone:
            return
        self.blocked.append(row)
        if self.is_enqueue_enabled:  # turned on while this row was on its way to the disk
            self.unblock()

    def unblock(self) -> None:
        """Move the rows that were set aside into the queue, in order, when it is ON again.

        After a crash before the flush the rows are still set aside; recovery then moves them."""
        rows, self.blocked = self.blocked, []
        writes: list[Write] = []
        for row in rows:
            writes += [(self.blocked_table, row.queuing_order, None), (self.table, row.queuing_order, row.stored())]
            self.publish(row)
        self._store.commit_lazily(writes)

    def hold(self, incoming: Incoming, frame: MessageFrame, now_ns: int) -> None:
        """Keep an early message until the earlier ones have come."""
        if incoming.early is None:
            incoming.early = {}
        if len(incoming.early) < EARLY_MAX:
            incoming.early.setdefault(frame.sequence, (frame, now_ns))
        if self.behind_gaps is None:
            self.behind_gaps = {}
        self.behind_gaps[incoming] = None

    def take_early(self, incoming: Incoming, sequence: int) -> MessageFrame | None:
        """Remove an early message whose turn has come."""
        frame, _ = (incoming.early or {}).pop(sequence, (None, 0))
        if not incoming.early:
            self._drop_early(incoming)
        return frame

    def _drop_early(self, incoming: Incoming) -> None:
        incoming.early = None
        if self.behind_gaps is not None:
            self.behind_gaps.pop(incoming, None)

    def put_back(self, rows: list[QueueRow]) -> None:
        """Undo a `take`: puts back rows of one endpoint in the order in which they were taken."""
        incoming = rows[0].incoming
        incoming.ready = deque((*rows, *incoming.ready))
        for row in rows:
            row.status = READY
            self.rows[row.queuing_order] = row
        self._became_ready(incoming)

    def _became_ready(self, incoming: Incoming) -> None:
        group = incoming.group
        group.ready[incoming.terms.conversation_handle] = incoming
        if group.owner is None:
            self.offer(group)

    def take(self, incoming: Incoming, limit: int) -> list[QueueRow]:
        """Remove up to `limit` ready rows of one endpoint, in order."""
        ready = incoming.ready
        if len(ready) <= limit:
            taken_rows = list(ready)
            incoming.ready = ()
            incoming.group.ready.pop(incoming.terms.conversation_handle, None)
        else:
            assert isinstance(ready, deque), "ready rows lie in a deque"
            taken_rows = [ready.popleft() for _ in range(limit)]
        rows = self.rows
        for row in taken_rows:
            del rows[row.queuing_order]
        return taken_rows

    def discard(self, incoming: Incoming) -> list[QueueRow]:
        """Remove all rows of an endpoint, and return those that were ready or retained."""
        self._drop_early(incoming)
        removed = self.take(incoming, len(incoming.ready)) if incoming.ready else []
        for row in incoming.retained:
            self.rows.pop(row.queuing_order, None)
        removed += incoming.retained
        incoming.retained = []
        return removed

    def offer(self, group: ConversationGroup) -> None:
        """Make an unlocked group with messages available to receivers."""
        if self.selective_waiters.waiters:  # also where another conversation of the group has older messages
            self.selective_waiters.notify_all()
        key = min([(-incoming.terms.priority, incoming.ready[0].queuing_order) for incoming in group.ready.values()])
        if group.heap_entry is not None and group.heap_entry[:2] <= key:
            return
        self._serial += 1
        group.heap_entry = (key[0], key[1], self._serial, group)
        heapq.heappush(self._available, group.heap_entry)
        if self.waiters.waiters:
            self.waiters.notify_one()
        if self.monitor is not None:
            self.monitor.message_available()

    def first_available(self) -> ConversationGroup | None:
        """Find the group that a transaction without locks would receive from."""
        heap = self._available
        while heap:
            entry = heap[0]
            group = entry[3]
            if group.heap_entry is entry:  # serial numbers of two queues may be the same
                if group.ready and group.owner is None:
                    return group
                group.heap_entry = None
            heapq.heappop(heap)
        return None

    def withdraw(self, group: ConversationGroup) -> None:
        """Take a group off the heap before it is locked or moved."""
        group.heap_entry = None

    def unwatch(self) -> None:
        """Stop the queue's monitor; running readers end by themselves."""
        if self.monitor is not None:
            self.monitor.stop()

    def wake_everybody(self) -> None:
        """Let waiting receivers try again after the queue was altered or dropped."""
        self.waiters.notify_all()
        self.selective_waiters.notify_all()
