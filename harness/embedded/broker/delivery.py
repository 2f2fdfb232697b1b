"""Delivery: puts a message into the queue of its receiving endpoint, or refuses it.

The same code handles messages from the network and from this instance. It checks the message against the contract,
changes the endpoint's state and stages the queue row; receivers see the row at commit. A refusal is a broker-made error
with a negative code, which goes back to the sender. The deadlines of conversations are here too: dialog timers,
lifetimes, and the removal of closed targets.
"""

import heapq
from collections.abc import Callable
from functools import partial
from typing import Literal

from harness.embedded.broker import system_objects
from harness.embedded.broker.catalog import Service
from harness.embedded.broker.database import ConversationEndpoint, Database, random_guid
from harness.embedded.broker.definitions import DialogTerms, MessageType, Validation
from harness.embedded.broker.endpoint_states import CLOSED, CONVERSING, STARTED_INBOUND, EndpointEvent, successor
from harness.embedded.broker.environment import Environment
from harness.embedded.broker.frames import DialogHeader
from harness.embedded.broker.queues import ConversationGroup, Incoming, Queue, QueueRow
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import SECOND, Scheduler, Timer
from harness.embedded.xml import schemas as xml_schemas
from harness.embedded.xml import values as xml_values

# A closed target endpoint is kept for half an hour so that a replayed first message is recognised
# (Rusanu, 2014-03-31, on sys.conversation_endpoints.security_timestamp).
CLOSED_ENDPOINT_RETENTION_NS = 30 * 60 * SECOND

Deadline = Literal["timer", "lifetime", "closed"]

_BINARY = Validation.BINARY


class Refusal(Exception):
    """A message that the broker refuses: the sender's conversation gets an Error with this negative code."""

    def __init__(self, number: int, *arguments: object) -> None:
        self.code = -number
        self.description = SqlServerError(number, *arguments).text
        super().__init__(self.description)


class InvalidXml(Refusal):
    """A body that is no well-formed XML: each side gets an error of its own, 9615 the sender and 9616 the receiver."""

    def __init__(self, terms: DialogTerms, sequence: int, message_type: str, problem: str) -> None:
        arguments = (message_type, problem, terms.conversation_id, int(not terms.is_initiator), sequence)
        super().__init__(9615, *arguments)
        self.at_receiver = Refusal(9616, *arguments)


class Deadlines:
    """A heap of deadlines and one timer of the scheduler for the earliest.

    A statement gives a duration ("the amount of time to wait"); catalog views and the store have a moment in UTC ("the
    time at which" a message is sent). They are the same until somebody sets the wall clock. Then whichever comes first
    counts: a clock that is set back delays nothing, and one that is set forward makes due what it has passed. After a
    restart only the moment is known. No source says what SQL Server does when its clock is set.

    No entry is removed early: the action at a deadline checks whether it still applies.
    """

    def __init__(self, scheduler: Scheduler, due: Callable[[Deadline, ConversationEndpoint, int], None]) -> None:
        self._scheduler = scheduler
        self._due = due
        # When it is due, a serial number, when its time has passed, and its moment in UTC, which identifies it.
        self._entries: list[tuple[int, int, int, int, Deadline, ConversationEndpoint]] = []
        self._serial = 0
        self._timer: Timer | None = None
        self._timer_due_ns = 0

    def watch(self, endpoint: ConversationEndpoint) -> None:
        """Enter the deadlines of a new or recovered endpoint."""
        if endpoint.state is CLOSED:
            self.closed(endpoint)
            return
        if endpoint.terms.lifetime is not None:
            self._at(endpoint.terms.lifetime, "lifetime", endpoint)
        self.set_timer(endpoint)

    def closed(self, endpoint: ConversationEndpoint) -> None:
        """Enter the removal of a closed target: half an hour after it was closed.

        While the initiator may not know that its first message arrived, the target stays until half an hour after the
        dialog's lifetime."""
        if endpoint.security_timestamp is not None:
            self._at(endpoint.security_timestamp, "closed", endpoint)
        elif endpoint.terms.lifetime is not None:
            self._at(endpoint.terms.lifetime + CLOSED_ENDPOINT_RETENTION_NS, "closed", endpoint)

    def set_timer(self, endpoint: ConversationEndpoint) -> None:
        if endpoint.dialog_timer is not None:
            self._at(endpoint.dialog_timer, "timer", endpoint)

    def _at(self, utc_ns: int, deadline: Deadline, endpoint: ConversationEndpoint) -> None:
        self._serial += 1
        clock = self._scheduler.clock
        due_ns = utc_ns + clock.now_ns - clock.utc_ns()
        heapq.heappush(self._entries, (due_ns, self._serial, due_ns, utc_ns, deadline, endpoint))
        if self._timer is None or due_ns < self._timer_due_ns:
            self._arm()

    def wall_clock_set(self) -> None:
        clock = self._scheduler.clock
        behind_ns = clock.now_ns - clock.utc_ns()
        self._entries = [
            (min(passed_ns, utc_ns + behind_ns), serial, passed_ns, utc_ns, deadline, endpoint)
            for _, serial, passed_ns, utc_ns, deadline, endpoint in self._entries
        ]
        heapq.heapify(self._entries)
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._entries:
            self._timer_due_ns = self._entries[0][0]
            self._timer = self._scheduler.call_at(self._timer_due_ns, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now_ns = self._scheduler.clock.now_ns
        while self._entries and self._entries[0][0] <= now_ns:
            *_, utc_ns, deadline, endpoint = heapq.heappop(self._entries)
            if not endpoint.incoming.is_gone:
                self._due(deadline, endpoint, utc_ns)
        self._arm()


class Delivery:
    """Enqueues messages and changes endpoints, always in the caller's transaction."""

    def __init__(
        self,
        environment: Environment,
        deadlines: Deadlines,
        system_conversation_ended: Callable[[ConversationEndpoint], None],
    ) -> None:
        self.deadlines = deadlines
        self._clock = environment.clock
        self._entropy = environment.entropy
        self._counters = environment.counters
        # Called when the far side of a conversation of the broker's own has ended it, or it has failed.
        self._system_conversation_ended = system_conversation_ended

    def accept(
        self, tx: Transaction, receiver: ConversationEndpoint, message_type_name: str, body: bytes | None
    ) -> None:
        """Take the next message in sequence; raise Refusal before it changes anything."""
        sequence = receiver.receive_sequence
        if message_type_name in system_objects.ENDS:
            _validate(receiver, receiver.database.catalog.message_types[message_type_name], sequence, body)
        if message_type_name == system_objects.END_DIALOG:
            self._end(tx, receiver, EndpointEvent.END_REMOTE, message_type_name, sequence, body)
        elif message_type_name == system_objects.ERROR:
            self._end(tx, receiver, EndpointEvent.ERROR_RAISED, message_type_name, sequence, body)
        elif receiver.state is CONVERSING or receiver.state is STARTED_INBOUND:
            message_type = self._check(receiver, message_type_name)
            if message_type.validation is not _BINARY:
                _validate(receiver, message_type, sequence, body)
            if receiver.state is STARTED_INBOUND:
                tx.change_state(receiver, CONVERSING)
            self.enqueue(tx, receiver, message_type, sequence, body)
        else:  # in every other state nobody can use the message: it is acknowledged and dropped
            self._counters.dropped += 1
        tx.set(receiver, "receive_sequence", sequence + 1)
        if receiver.terms.is_initiator and receiver.state is CLOSED:
            return  # removed
        tx.writes.append(
            (
                receiver.database.dercv_table,
                receiver.terms.conversation_handle,
                (sequence + 1, receiver.first_is_acknowledged),
            )
        )

    def _check(self, receiver: ConversationEndpoint, name: str) -> MessageType:
        terms = receiver.terms
        usage = terms.contract.usages.get(name)
        if usage is None:
            raise Refusal(8498 if name in receiver.database.catalog.message_types else 8428, name)
        if terms.is_initiator:
            if not usage.is_sent_by_target:
                raise Refusal(8437, name)
        elif not usage.is_sent_by_initiator:
            raise Refusal(8457, name)
        return usage.message_type

    def refused(self, tx: Transaction, receiver: ConversationEndpoint, refusal: Refusal) -> None:
        """End the receiving side of a conversation whose message it refuses."""
        if isinstance(refusal, InvalidXml):
            self.raise_error(tx, receiver, refusal.at_receiver.code, refusal.at_receiver.description)
        elif receiver.state is STARTED_INBOUND:
            self.remove(tx, receiver)
        else:
            self.raise_error(tx, receiver, refusal.code, refusal.description)

    def _end(  # noqa: PLR0917
        self,
        tx: Transaction,
        receiver: ConversationEndpoint,
        event: EndpointEvent,
        name: str,
        sequence: int,
        body: bytes | None,
    ) -> None:
        before = receiver.state
        after = successor(before, event)
        if after is None:
            return
        if after is CLOSED:
            self.close(tx, receiver)
        elif after is not before:
            tx.change_state(receiver, after)
            self.enqueue(tx, receiver, receiver.database.catalog.message_types[name], sequence, body)
            if receiver.terms.is_system:
                tx.on_commit(partial(self._system_conversation_ended, receiver))

    def enqueue(
        self,
        tx: Transaction,
        endpoint: ConversationEndpoint,
        message_type: MessageType,
        sequence: int,
        body: bytes | None,
    ) -> None:
        """Stage a queue row. If the queue is OFF, this row and later ones are set aside until it is ON again."""
        queue = endpoint.service.queue
        row = queue.new_row(endpoint.incoming, sequence, message_type, body, self._clock.utc_ns())
        table = queue.table
        if queue.is_enqueue_enabled and not queue.blocked:
            tx.arrived.append(row)
        else:
            table = queue.blocked_table
            tx.on_commit(partial(queue.block, row))
        tx.writes.append((table, row.queuing_order, row.stored()))
        counters = self._counters
        counters.enqueued += 1
        counters.enqueued_by_priority[endpoint.terms.priority] += 1

    def raise_error(self, tx: Transaction, endpoint: ConversationEndpoint, code: int, description: str) -> None:
        """End a conversation at this endpoint with a broker-made error."""
        after = successor(endpoint.state, EndpointEvent.ERROR_RAISED)
        if after is None:
            return
        for row in endpoint.outgoing.unacknowledged:
            tx.write(endpoint.database.xmit_table, row.key, None)
        tx.on_commit(partial(endpoint.database.forget_transmissions, endpoint))
        if after is CLOSED:
            self.close(tx, endpoint)
            return
        tx.change_state(endpoint, after)
        error = endpoint.database.catalog.message_types[system_objects.ERROR]
        self.enqueue(tx, endpoint, error, -1, system_objects.error_body(code, description))
        if endpoint.terms.is_system:
            tx.on_commit(partial(self._system_conversation_ended, endpoint))

    def close(self, tx: Transaction, endpoint: ConversationEndpoint) -> None:
        """Close an endpoint when both sides have ended: remove an initiator, keep a target for a while."""
        if endpoint.terms.is_initiator:
            self.remove(tx, endpoint)
            return
        if endpoint.first_is_acknowledged:
            tx.set(endpoint, "security_timestamp", self._clock.utc_ns() + CLOSED_ENDPOINT_RETENTION_NS)
        tx.change_state(endpoint, CLOSED)
        tx.on_commit(partial(self.deadlines.closed, endpoint))

    def remove(self, tx: Transaction, endpoint: ConversationEndpoint) -> None:
        """Remove the endpoint and all its rows, at commit; what it has not sent goes after that."""
        database = endpoint.database
        tx.set(endpoint, "state", CLOSED)
        self.discard_rows(tx, endpoint)
        handle = endpoint.terms.conversation_handle
        for table in (database.endpoint_table, database.desend_table, database.dercv_table):
            tx.write(table, handle, None)
        if endpoint.session is not None:
            tx.write(database.session_table, handle, None)
        tx.on_commit(partial(database.forget, endpoint))

    def discard_rows(
        self, tx: Transaction, endpoint: ConversationEndpoint, *, then: Callable[[list[QueueRow]], None] | None = None
    ) -> None:
        """Remove the conversation's messages from its queue and pass them to `then`."""
        queue, incoming = endpoint.service.queue, endpoint.incoming
        if queue.blocked:
            self._discard_blocked(tx, queue, incoming)
        retained, ready_count = incoming.retained, len(incoming.ready)
        removed = queue.discard(incoming)
        for row in removed:
            tx.write(queue.table, row.queuing_order, None)
        if removed:
            tx.on_rollback(partial(self._put_back, queue, incoming, removed[:ready_count], retained))
            if then is not None:
                then(removed)

    @staticmethod
    def _discard_blocked(tx: Transaction, queue: Queue, incoming: Incoming) -> None:
        discarded = [row for row in queue.blocked if row.incoming is incoming]
        for row in discarded:
            tx.write(queue.blocked_table, row.queuing_order, None)
        queue.blocked = [row for row in queue.blocked if row.incoming is not incoming]

        def bring_back() -> None:  # other rows may have come meanwhile, hence the sort
            queue.blocked = sorted([*queue.blocked, *discarded], key=lambda row: row.queuing_order)
            if queue.is_enqueue_enabled:
                queue.unblock()

        tx.on_rollback(bring_back)

    @staticmethod
    def _put_back(queue: Queue, incoming: Incoming, ready: list[QueueRow], retained: list[QueueRow]) -> None:
        if ready:
            queue.put_back(ready)
        for row in retained:
            queue.rows[row.queuing_order] = row
        incoming.retained = retained

    def create_target(
        self, tx: Transaction, database: Database, service: Service, conversation_id: str, header: DialogHeader
    ) -> ConversationEndpoint:
        """Make the target endpoint of a new conversation; raise Refusal."""
        catalog = database.catalog
        contract = catalog.contracts.get(header.contract)
        if contract is None:
            raise Refusal(8425, header.contract)
        if header.contract not in service.contracts:
            raise Refusal(8408, service.name, header.contract)
        group = ConversationGroup(random_guid(self._entropy), service.service_id, service.queue)
        terms = DialogTerms(
            database.handles.next(),
            conversation_id,
            is_initiator=False,
            service_name=service.name,
            service_id=service.service_id,
            contract=contract,
            far_service=header.from_service,
            lifetime=header.lifetime_ns,
            is_encrypted=header.is_encrypted,
            priority=catalog.priority_for(contract.name, service.name, header.from_service),
        )
        endpoint = ConversationEndpoint(database, service, terms, group, header.from_broker_instance, STARTED_INBOUND)
        database.remember(endpoint)
        tx.on_rollback(partial(database.forget, endpoint))
        tx.store_endpoint(endpoint)
        tx.on_commit(partial(self.deadlines.watch, endpoint))
        return endpoint


def _validate(receiver: ConversationEndpoint, message_type: MessageType, sequence: int, body: bytes | None) -> None:
    """Check a body against its message type; the far side's may be another.

    A body that is empty is NULL, and so valid XML (R. Rusanu, 2011-01-15). A fragment is valid too, as for the type
    xml."""
    if message_type.validation is Validation.EMPTY:
        if body:
            raise Refusal(8430)
    elif message_type.validation is Validation.XML and body:
        collections = receiver.database.catalog.xml_schema_collections
        try:
            value = xml_values.from_binary(body)
            if (collection := collections.get(message_type.schema_collection)) is not None:
                xml_schemas.validate(collection.text, value)
        except SqlServerError as error:
            raise InvalidXml(receiver.terms, sequence, message_type.name, error.text) from None
