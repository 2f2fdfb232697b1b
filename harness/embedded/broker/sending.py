"""SEND, and what a commit does with what was sent.

Where a message goes is decided when its transaction commits. To a service of this instance it goes straight into the
queue, in the same commit: no transmission queue, no acknowledgement. Otherwise, and when the target queue cannot take
it now, it becomes a row of the transmission queue, and the transmitter has it from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from harness.embedded.broker import system
from harness.embedded.broker.conversations import ConversationEndpoint, TransmissionRow
from harness.embedded.broker.delivery import Refusal, validate
from harness.embedded.broker.frames import DialogHeader
from harness.embedded.broker.objects import MessageType
from harness.embedded.broker.queues import RETAINED_SENT, Queue
from harness.embedded.broker.routing import Local, Unknown, status_text
from harness.embedded.broker.states import (
    CLOSED,
    CONVERSING,
    DISCONNECTED_OUTBOUND,
    STARTED_OUTBOUND,
    EndpointEvent,
    EndpointState,
    successor,
)
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting

if TYPE_CHECKING:
    from harness.embedded.broker.database import Database
    from harness.embedded.broker.engine import Engine

_FAILED = (EndpointState.ERROR, EndpointState.CLOSED)
MESSAGE_SIZE_MAX = 2**31 - 1  # varbinary(max)


class Sending:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def send(
        self, database: Database, tx: Transaction, handles: Sequence[str], message_type: str | None, body: bytes | None
    ) -> Waiting[None]:
        """SEND ON CONVERSATION ( handle [, ...] ) [ MESSAGE TYPE type ] [ ( body ) ]: all of them or none."""
        name = system.DEFAULT if message_type is None else message_type
        endpoints = self._find(database, handles)
        engine = self._engine
        for endpoint in endpoints:
            if not endpoint.group.try_acquire(tx):
                yield from endpoint.group.acquire(tx, engine.waits)
            self._check(endpoint, name, body)
        platform, size_bytes = engine.platform, len(body or b"")
        for endpoint in endpoints:
            yield from platform.cpu("send", 1, size_bytes)
            yield from platform.latch(endpoint.page)
            self.append(tx, endpoint, name, body)
        engine.counters.sends += 1

    @staticmethod
    def _find(database: Database, handles: Sequence[str]) -> list[ConversationEndpoint]:
        if len(handles) == 1:
            endpoint = database.endpoints.get(handles[0])
            if endpoint is None:
                raise SqlServerError(8426, handles[0])
            return [endpoint]
        endpoints: dict[str, ConversationEndpoint] = {}
        for position, handle in enumerate(handles, start=1):
            if handle in endpoints:
                raise SqlServerError(8451, handle, position)
            endpoint = database.endpoints.get(handle)
            if endpoint is None:
                raise SqlServerError(8435, handle, position)
            endpoints[handle] = endpoint
        return list(endpoints.values())

    def _check(self, endpoint: ConversationEndpoint, name: str, body: bytes | None) -> None:
        state = endpoint.state
        if state is not CONVERSING and successor(state, EndpointEvent.SEND) is None:
            raise SqlServerError(8429, endpoint.state_desc)
        usage = endpoint.contract.usages.get(name)
        if usage is None:
            raise SqlServerError(8431 if name in endpoint.database.message_types else 8428, name)
        if endpoint.is_initiator:
            if not usage.is_sent_by_initiator:
                raise SqlServerError(8432, name)
        elif not usage.is_sent_by_target:
            raise SqlServerError(8434, name)
        if body is not None and len(body) > MESSAGE_SIZE_MAX:
            raise SqlServerError(8459, MESSAGE_SIZE_MAX)
        if not validate(usage.message_type, body):
            raise SqlServerError(8430)
        queue = endpoint.service.queue
        if queue.is_retention_enabled and not queue.is_enqueue_enabled:
            raise SqlServerError(9618, queue.name)

    def append(self, tx: Transaction, endpoint: ConversationEndpoint, name: str, body: bytes | None) -> None:
        """The next message of this side; END CONVERSATION comes here too."""
        sequence = endpoint.send_sequence
        endpoint.send_sequence = sequence + 1
        tx.on_rollback(partial(setattr, endpoint, "send_sequence", sequence))
        if endpoint.state is STARTED_OUTBOUND:
            self._engine.delivery.change_state(tx, endpoint, CONVERSING)
        tx.writes.append(
            (
                endpoint.database.desend_table,
                endpoint.conversation_handle,
                (sequence + 1,),
            )
        )
        tx.sent.append(TransmissionRow(endpoint, sequence, name, body, self._engine.clock.utc_ns()))

    # What a commit does with it

    def prepare(self, tx: Transaction) -> None:
        """Decides where the transaction's messages go and stages them there."""
        queued: list[TransmissionRow] = []
        for row in tx.sent:
            endpoint = row.endpoint
            if endpoint.service.queue.is_retention_enabled and endpoint.state is CONVERSING:
                self._retain(tx, row)
            if endpoint.unacknowledged or endpoint.staged or not self._deliver_here(tx, row):
                endpoint.staged += 1
                queued.append(row)
                stored = (row.message_type_name, row.message_body, row.enqueue_time)
                tx.writes.append((endpoint.database.xmit_table, row.key, stored))
        if queued:
            tx.on_rollback(partial(self._unstage, queued))
            tx.on_commit(partial(self._queue, queued))

    def _deliver_here(self, tx: Transaction, row: TransmissionRow) -> bool:
        endpoint = row.endpoint
        destination = self._engine.router.destination(endpoint)
        if isinstance(destination, Local):
            return self.deliver_locally(tx, row, destination)
        if isinstance(destination, Unknown):
            self._refused(tx, endpoint, Refusal(8490, destination.service_name))
            return True
        return False

    def deliver_locally(self, tx: Transaction, row: TransmissionRow, destination: Local) -> bool:
        """Puts a message into a queue of this instance; False if it must wait in the transmission queue."""
        engine, sender = self._engine, row.endpoint
        receiver = engine.conversations.get((sender.conversation_id, not sender.is_initiator))
        queue: Queue = receiver.service.queue if receiver is not None else destination.service.queue
        if not queue.is_enqueue_enabled:
            sender.transmission_status = status_text(28021)
            return False
        if sender.is_encrypted and self._lacks_master_key(sender, destination):
            return False
        if receiver is not None and receiver.changing is not None and receiver.changing is not tx:
            receiver.changing.on_end(partial(engine.transmitter.wake, sender))
            return False
        is_new = receiver is None
        try:
            if receiver is None and (row.message_sequence_number > 0 or not sender.is_initiator):
                # It was there and is no longer (END ... WITH CLEANUP, a dropped service).
                if _ends(row):
                    self._acknowledged_at_once(tx, sender, row, destination)
                    return True
                raise Refusal(8462)
            if receiver is None:
                receiver = engine.delivery.create_target(
                    tx, destination.database, destination.service, sender.conversation_id, self.header(sender)
                )
            elif receiver.state is CLOSED and not _ends(row):
                raise Refusal(8462)
            if sender.is_initiator and sender.first_is_acknowledged:
                receiver.first_is_acknowledged = True
            if receiver.state is not CLOSED:
                assert receiver.receive_sequence == row.message_sequence_number, "a local message out of sequence"
                engine.delivery.accept(tx, receiver, row.message_type_name, row.message_body)
        except Refusal as refusal:
            if is_new and receiver is not None:
                engine.delivery.remove(tx, receiver)
            self._refused(tx, sender, refusal)
            return True
        engine.counters.enqueued_local += 1
        self._acknowledged_at_once(tx, sender, row, destination)
        return True

    def _acknowledged_at_once(
        self, tx: Transaction, sender: ConversationEndpoint, row: TransmissionRow, destination: Local
    ) -> None:
        if not sender.first_is_acknowledged:
            if sender.is_initiator:
                tx.on_commit(partial(setattr, sender, "first_is_acknowledged", True))
            else:  # what the initiator accepts from the target shows that it knows of the target
                sender.first_is_acknowledged = True
                tx.on_rollback(partial(setattr, sender, "first_is_acknowledged", False))
        if sender.far_broker_instance is None:
            sender.far_broker_instance = destination.database.service_broker_guid
            tx.on_rollback(partial(setattr, sender, "far_broker_instance", None))
            sender.database.store_endpoint(tx, sender)
        if _ends(row) and sender.state is DISCONNECTED_OUTBOUND:
            self._engine.delivery.close(tx, sender)

    def _lacks_master_key(self, sender: ConversationEndpoint, destination: Local) -> bool:
        """Dialogs inside one database need no keys; between two, both databases need a master key."""
        if destination.database is sender.database:
            return False
        for database in (sender.database, destination.database):
            if not database.principals.has_master_key:
                sender.transmission_status = status_text(28054, database.name, 25)
                return True
        return False

    def _refused(self, tx: Transaction, sender: ConversationEndpoint, refusal: Refusal) -> None:
        self._engine.delivery.raise_error(tx, sender, refusal.code, refusal.description)

    def _retain(self, tx: Transaction, row: TransmissionRow) -> None:
        endpoint = row.endpoint
        queue = endpoint.service.queue
        message_type: MessageType = endpoint.database.message_types[row.message_type_name]
        copy = queue.new_row(
            endpoint, row.message_sequence_number, message_type, row.message_body, row.enqueue_time, RETAINED_SENT
        )
        tx.writes.append((queue.table, copy.queuing_order, copy.stored()))
        tx.arrived.append(copy)

    @staticmethod
    def _unstage(rows: list[TransmissionRow]) -> None:
        for row in rows:
            row.endpoint.staged -= 1

    def _queue(self, rows: list[TransmissionRow]) -> None:
        engine = self._engine
        for row in rows:
            endpoint = row.endpoint
            endpoint.staged -= 1
            if endpoint.is_gone or endpoint.state in _FAILED:
                engine.store.commit_lazily([(endpoint.database.xmit_table, row.key, None)])
                continue
            endpoint.add_unacknowledged(row)
            endpoint.database.transmission_queue[row.key] = row
            engine.transmitter.wake(endpoint)
        engine.counters.enqueued_transmission += len(rows)

    def header(self, endpoint: ConversationEndpoint) -> DialogHeader:
        """What every message of this endpoint says about the dialog; made once."""
        if endpoint.header is None or endpoint.header.to_broker_instance != endpoint.far_broker_instance:
            endpoint.header = DialogHeader(
                endpoint.far_service,
                endpoint.far_broker_instance,
                endpoint.service.name,
                endpoint.database.service_broker_guid,
                endpoint.contract.name,
                endpoint.lifetime,
                endpoint.is_encrypted,
                self._certificate(endpoint),
            )
        return endpoint.header

    def _certificate(self, endpoint: ConversationEndpoint) -> bytes | None:
        if not endpoint.is_encrypted or not endpoint.is_initiator:
            return None
        binding = endpoint.database.binding_for(endpoint.far_service)
        if binding is None or binding.is_anonymous_on:
            return None
        owned = endpoint.database.principals.certificates_of(endpoint.service.owner, self._engine.clock.utc_ns())
        return owned[0].blob if owned else None


def _ends(row: TransmissionRow) -> bool:
    return row.message_type_name in (system.END_DIALOG, system.ERROR)
