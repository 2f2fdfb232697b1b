"""Delivery: what becomes of a message at the endpoint it is for.

The same code takes messages from the network and from this instance. It checks what the receiver's side of the contract
says, moves the endpoint through its states and stages the queue row; the row is seen by receivers at commit. A refusal
is a broker-made error with a negative code, which goes back to the sender.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING
from xml.parsers import expat

from harness.embedded.broker import system
from harness.embedded.broker.conversations import ConversationEndpoint, ConversationGroup
from harness.embedded.broker.objects import MessageType, Service, Validation
from harness.embedded.broker.queues import Queue, QueueRow
from harness.embedded.broker.states import CLOSED, CONVERSING, STARTED_INBOUND, EndpointEvent, EndpointState, successor
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError

if TYPE_CHECKING:
    from harness.embedded.broker.database import Database
    from harness.embedded.broker.engine import Engine
    from harness.embedded.broker.frames import DialogHeader

_BINARY = Validation.BINARY
_MINUTE = 60_000_000_000
# A closed target endpoint is kept for half an hour so that a replayed first message is recognised
# (Rusanu, 2014-03-31, on sys.conversation_endpoints.security_timestamp).
CLOSED_ENDPOINT_RETENTION_NS = 30 * _MINUTE


class Refusal(Exception):
    """The broker refuses a message: the sender's conversation gets an Error with this negative code."""

    def __init__(self, number: int, *arguments: object) -> None:
        self.code = -number
        self.description = SqlServerError(number, *arguments).text
        super().__init__(self.description)


def is_well_formed_xml(body: bytes | None) -> bool:
    if not body:
        return False
    # XML in T-SQL is nvarchar more often than not: UTF-16 without a byte order mark, which expat would not guess.
    if body[:2] != b"\xff\xfe" and len(body) > 1 and body[1] == 0:
        body = b"\xff\xfe" + body
    parser = expat.ParserCreate()
    try:
        parser.Parse(body, True)
    except expat.ExpatError:
        return False
    return True


def validate(message_type: MessageType, body: bytes | None) -> bool:
    """Whether a body is what the message type says."""
    if message_type.validation is _BINARY:
        return True
    if message_type.validation is Validation.EMPTY:
        return not body
    return is_well_formed_xml(body)


class Delivery:
    """Puts messages where they belong; everything it does is part of the caller's transaction."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def accept(
        self, tx: Transaction, receiver: ConversationEndpoint, message_type_name: str, body: bytes | None
    ) -> None:
        """Takes the next message in sequence; raises Refusal, having changed nothing."""
        sequence = receiver.receive_sequence
        if message_type_name == system.END_DIALOG:
            self._end(tx, receiver, EndpointEvent.END_REMOTE, message_type_name, sequence, body)
        elif message_type_name == system.ERROR:
            self._end(tx, receiver, EndpointEvent.ERROR_RAISED, message_type_name, sequence, body)
        elif receiver.state is CONVERSING or receiver.state is STARTED_INBOUND:
            message_type = self._check(receiver, message_type_name, body)
            if receiver.state is STARTED_INBOUND:
                self.change_state(tx, receiver, CONVERSING)
            self.enqueue(tx, receiver, message_type, sequence, body)
        # In every other state the message is of no use to anybody: taken off the sender's hands and dropped.
        else:
            self._engine.counters.dropped += 1
        receiver.receive_sequence = sequence + 1
        tx.on_rollback(partial(setattr, receiver, "receive_sequence", sequence))
        if receiver.is_initiator and receiver.state is CLOSED:
            return  # removed
        tx.writes.append(
            (
                receiver.database.dercv_table,
                receiver.conversation_handle,
                (sequence + 1, receiver.first_is_acknowledged),
            )
        )

    def _check(self, receiver: ConversationEndpoint, name: str, body: bytes | None) -> MessageType:
        usage = receiver.contract.usages.get(name)
        if usage is None:
            raise Refusal(8498 if name in receiver.database.message_types else 8428, name)
        if receiver.is_initiator:
            if not usage.is_sent_by_target:
                raise Refusal(8437, name)
        elif not usage.is_sent_by_initiator:
            raise Refusal(8457, name)
        message_type = usage.message_type
        if message_type.validation is not _BINARY and not validate(message_type, body):
            raise Refusal(8430)
        return message_type

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
            self.change_state(tx, receiver, after)
            self.enqueue(tx, receiver, receiver.database.message_types[name], sequence, body)

    def enqueue(
        self,
        tx: Transaction,
        endpoint: ConversationEndpoint,
        message_type: MessageType,
        sequence: int,
        body: bytes | None,
    ) -> None:
        """Stages a queue row. If the queue is OFF, the row waits aside until it is ON again, and so do those that come
        after it as long as it does."""
        engine, queue = self._engine, endpoint.service.queue
        row = queue.new_row(endpoint, sequence, message_type, body, engine.clock.utc_ns())
        table = queue.table
        if queue.is_enqueue_enabled and not queue.blocked:
            tx.arrived.append(row)
        else:
            table = queue.blocked_table
            tx.on_commit(partial(queue.block, row))
        tx.writes.append((table, row.queuing_order, row.stored()))
        counters = engine.counters
        counters.enqueued += 1
        counters.enqueued_by_priority[endpoint.priority] += 1

    def change_state(self, tx: Transaction, endpoint: ConversationEndpoint, state: EndpointState) -> None:
        tx.on_rollback(partial(setattr, endpoint, "state", endpoint.state))
        endpoint.state = state
        endpoint.database.store_endpoint(tx, endpoint)

    def raise_error(self, tx: Transaction, endpoint: ConversationEndpoint, code: int, description: str) -> None:
        """The broker itself ends a conversation with an error: here, at this endpoint."""
        after = successor(endpoint.state, EndpointEvent.ERROR_RAISED)
        if after is None:
            return
        self._drop_transmissions(tx, endpoint)
        if after is CLOSED:
            self.close(tx, endpoint)
            return
        self.change_state(tx, endpoint, after)
        error = endpoint.database.message_types[system.ERROR]
        self.enqueue(tx, endpoint, error, -1, system.error_body(code, description))

    def _drop_transmissions(self, tx: Transaction, endpoint: ConversationEndpoint) -> None:
        for row in endpoint.unacknowledged:
            tx.write(endpoint.database.xmit_table, row.key, None)
        tx.on_commit(partial(self._engine.transmitter.forget, endpoint))

    def close(self, tx: Transaction, endpoint: ConversationEndpoint) -> None:
        """Both sides are done: an initiator's endpoint goes, a target's is kept for a while."""
        if endpoint.is_initiator:
            self.remove(tx, endpoint)
            return
        now_ns = self._engine.clock.utc_ns()
        tx.on_rollback(partial(setattr, endpoint, "security_timestamp", endpoint.security_timestamp))
        if endpoint.first_is_acknowledged:
            endpoint.security_timestamp = now_ns + CLOSED_ENDPOINT_RETENTION_NS
        self.change_state(tx, endpoint, CLOSED)
        tx.on_commit(partial(self._engine.expiry.closed, endpoint))

    def remove(self, tx: Transaction, endpoint: ConversationEndpoint) -> None:
        """The endpoint and everything of it go, at commit."""
        database = endpoint.database
        tx.on_rollback(partial(setattr, endpoint, "state", endpoint.state))
        endpoint.state = CLOSED
        self.discard_rows(tx, endpoint)
        handle = endpoint.conversation_handle
        for table in (database.endpoint_table, database.desend_table, database.dercv_table):
            tx.write(table, handle, None)
        for row in endpoint.unacknowledged:
            tx.write(database.xmit_table, row.key, None)
        tx.on_commit(partial(database.forget, endpoint))

    def discard_rows(
        self,
        tx: Transaction,
        endpoint: ConversationEndpoint,
        *,
        then: Callable[[list[QueueRow]], None] | None = None,
    ) -> None:
        """The conversation's messages leave its queue; `then` hears which they were."""
        queue = endpoint.service.queue
        if queue.blocked:
            self._discard_blocked(tx, queue, endpoint)
        retained, ready_count = endpoint.retained, len(endpoint.ready)
        removed = queue.discard(endpoint)
        for row in removed:
            tx.write(queue.table, row.queuing_order, None)
        if removed:
            tx.on_rollback(partial(self._put_back, queue, endpoint, removed[:ready_count], retained))
            if then is not None:
                then(removed)

    @staticmethod
    def _discard_blocked(tx: Transaction, queue: Queue, endpoint: ConversationEndpoint) -> None:
        discarded = [row for row in queue.blocked if row.endpoint is endpoint]
        for row in discarded:
            tx.write(queue.blocked_table, row.queuing_order, None)
        queue.blocked = [row for row in queue.blocked if row.endpoint is not endpoint]

        def bring_back() -> None:  # others may have come meanwhile
            queue.blocked = sorted([*queue.blocked, *discarded], key=lambda row: row.queuing_order)
            if queue.is_enqueue_enabled:
                queue.unblock()

        tx.on_rollback(bring_back)

    @staticmethod
    def _put_back(
        queue: Queue, endpoint: ConversationEndpoint, ready: list[QueueRow], retained: list[QueueRow]
    ) -> None:
        if ready:
            queue.put_back(ready)
        for row in retained:
            queue.rows[row.queuing_order] = row
        endpoint.retained = retained

    def create_target(
        self,
        tx: Transaction,
        database: Database,
        service: Service,
        conversation_id: str,
        header: DialogHeader,
    ) -> ConversationEndpoint:
        """A new conversation arrives at a service; raises Refusal."""
        contract = database.contracts.get(header.contract)
        if contract is None:
            raise Refusal(8425, header.contract)
        if header.contract not in service.contracts:
            raise Refusal(8408, service.name, header.contract)
        group = ConversationGroup(self._engine.new_guid(), service)
        endpoint = ConversationEndpoint(
            database=database,
            conversation_handle=database.handles.next(),
            conversation_id=conversation_id,
            is_initiator=False,
            service=service,
            contract=contract,
            group=group,
            far_service=header.from_service,
            far_broker_instance=header.from_broker_instance,
            lifetime=header.lifetime_ns,
            is_encrypted=header.is_encrypted,
            priority=database.priority_for(contract.name, service.name, header.from_service),
            state=STARTED_INBOUND,
        )
        database.remember(endpoint)
        tx.on_rollback(partial(database.forget, endpoint))
        database.store_endpoint(tx, endpoint)
        tx.on_commit(partial(self._engine.expiry.watch, endpoint))
        return endpoint
