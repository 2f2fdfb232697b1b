"""Departure: routes the messages of a transaction at its commit, and delivers those to services of this instance.
SQL Server does so at SEND. Only the transaction itself can tell: it gets its messages delivered when it looks for them.

A message to a service of this instance goes straight into its queue, in the same commit, without transmission queue and
acknowledgement. Otherwise, and when the target queue cannot take it now, it becomes a row of the transmission queue,
which the transmitter sends or gives to `deliver_waiting`.
"""

from functools import partial
from itertools import islice

from harness.embedded.broker import system_objects
from harness.embedded.broker.broker_link import Dispatchers
from harness.embedded.broker.database import ConversationEndpoint, Local, TransmissionRow, Unknown
from harness.embedded.broker.delivery import Delivery, InvalidXml, Refusal
from harness.embedded.broker.endpoint_states import CLOSED, CONVERSING, DISCONNECTED_OUTBOUND, EndpointState
from harness.embedded.broker.environment import Counters
from harness.embedded.broker.queues import RETAINED_SENT
from harness.embedded.broker.router import Router, status_text
from harness.embedded.broker.transactions import Transaction, Transactions
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting

ROWS_MAX = 64  # of one conversation, in one local delivery of rows that waited
_FAILED = (EndpointState.ERROR, CLOSED)


class Departure:
    def __init__(
        self,
        transactions: Transactions,
        router: Router,
        delivery: Delivery,
        dispatchers: Dispatchers,
        counters: Counters,
    ) -> None:
        self._transactions = transactions
        self._store = transactions.store
        self._router = router
        self._delivery = delivery
        self._dispatchers = dispatchers
        self._counters = counters

    def prepare(self, tx: Transaction) -> None:
        """Stage the transaction's messages where they go."""
        queued: list[TransmissionRow] = []
        for row in tx.sent:
            endpoint = row.endpoint
            outgoing = endpoint.outgoing
            if endpoint.service.queue.is_retention_enabled and endpoint.state is CONVERSING:
                _retain(tx, row)
            if not (outgoing.unacknowledged or outgoing.staged):
                destination = self._router.destination(endpoint)
                if isinstance(destination, Local):
                    if self._deliver(tx, row, destination):
                        continue
                elif isinstance(destination, Unknown):
                    refusal = Refusal(8490, destination.service_name)
                    self._delivery.raise_error(tx, endpoint, refusal.code, refusal.description)
                    continue
            outgoing.staged += 1
            queued.append(row)
            stored = (row.message_type_name, row.message_body, row.enqueue_time)
            tx.writes.append((endpoint.database.xmit_table, row.key, stored))
        if queued:
            tx.on_rollback(partial(_unstage, queued))
            tx.on_commit(partial(self._queue, queued))

    def deliver_sent(self, tx: Transaction) -> None:
        """Deliver messages to this instance before the commit. Only the transaction sees them: it has locked their
        conversation groups. Those whose group another has locked, and those that go elsewhere, stay in `sent`."""
        fresh, waiting = tx.sent[tx.looked_at :], []
        for row in fresh:
            if row.endpoint in tx.undelivered or not self._deliver_before_commit(tx, row):
                tx.undelivered.add(row.endpoint)
                waiting.append(row)
        if len(waiting) < len(fresh):
            tx.set(tx, "sent", [*tx.sent[: tx.looked_at], *waiting])
        tx.looked_at = len(tx.sent)
        arrived, hidden = tx.arrived, []
        for arrival in arrived:
            if arrival.incoming.group.try_acquire(tx):
                arrival.queue.publish(arrival)
                tx.on_rollback(partial(arrival.queue.unpublish, arrival))
            else:
                hidden.append(arrival)
        tx.set(tx, "arrived", hidden)

    def _deliver_before_commit(self, tx: Transaction, row: TransmissionRow) -> bool:
        endpoint = row.endpoint
        if endpoint.outgoing.unacknowledged or endpoint.outgoing.staged:
            return False
        destination = self._router.destination(endpoint)
        if not isinstance(destination, Local):
            return False
        if (receiver := _receiver(endpoint)) is not None:
            if not receiver.incoming.group.try_acquire(tx):
                return False
            receiver.service.queue.withdraw(receiver.incoming.group)
        is_retained = endpoint.service.queue.is_retention_enabled and endpoint.state is CONVERSING
        if not self._deliver(tx, row, destination):
            return False
        if is_retained:
            _retain(tx, row)
        return True

    def _queue(self, rows: list[TransmissionRow]) -> None:
        for row in rows:
            endpoint = row.endpoint
            endpoint.outgoing.staged -= 1
            if endpoint.incoming.is_gone or endpoint.state in _FAILED:
                self._store.commit_lazily([(endpoint.database.xmit_table, row.key, None)])
                continue
            endpoint.outgoing.add(row)
            self._dispatchers.wake(endpoint)
        self._counters.enqueued_transmission += len(rows)

    # Local delivery

    def _deliver(self, tx: Transaction, row: TransmissionRow, destination: Local) -> bool:
        """Deliver a message in this instance; False if it must wait in the transmission queue."""
        sender = row.endpoint
        terms, outgoing = sender.terms, sender.outgoing
        receiver = _receiver(sender)
        queue = receiver.service.queue if receiver is not None else destination.service.queue
        if not queue.is_enqueue_enabled:
            outgoing.transmission_status = status_text(28021)
            return False
        if terms.is_encrypted and _lacks_master_key(sender, destination):
            return False
        if receiver is not None and receiver.changing is not None and receiver.changing is not tx:
            receiver.changing.on_end(partial(self._dispatchers.wake, sender))
            return False
        is_new = receiver is None
        try:
            if receiver is None and (row.message_sequence_number > 0 or not terms.is_initiator):
                # The endpoint existed but was removed (END ... WITH CLEANUP, a dropped service).
                if row.message_type_name in system_objects.ENDS:
                    self._acknowledge(tx, row, destination)
                    return True
                raise Refusal(8462)
            if receiver is None:
                receiver = self._delivery.create_target(
                    tx, destination.database, destination.service, terms.conversation_id, self._router.header(sender)
                )
            elif receiver.state is CLOSED and row.message_type_name not in system_objects.ENDS:
                raise Refusal(8462)
            if terms.is_initiator and sender.first_is_acknowledged and not receiver.first_is_acknowledged:
                tx.set(receiver, "first_is_acknowledged", True)
            if receiver.state is not CLOSED:
                assert receiver.receive_sequence == row.message_sequence_number, "a local message out of sequence"
                self._delivery.accept(tx, receiver, row.message_type_name, row.message_body)
        except Refusal as refusal:
            if receiver is not None and (is_new or isinstance(refusal, InvalidXml)):
                self._delivery.refused(tx, receiver, refusal)
            self._delivery.raise_error(tx, sender, refusal.code, refusal.description)
            return True
        self._counters.enqueued_local += 1
        self._acknowledge(tx, row, destination)
        return True

    def _acknowledge(self, tx: Transaction, row: TransmissionRow, destination: Local) -> None:
        sender = row.endpoint
        if not sender.first_is_acknowledged:
            if sender.terms.is_initiator:
                tx.on_commit(partial(setattr, sender, "first_is_acknowledged", True))
            else:  # a message from the target shows the initiator that the target exists
                tx.set(sender, "first_is_acknowledged", True)
        if sender.far_broker_instance is None:
            tx.set(sender, "far_broker_instance", destination.database.catalog.service_broker_guid)
            tx.store_endpoint(sender)
        if sender.state is DISCONNECTED_OUTBOUND and row.message_type_name in system_objects.ENDS:
            self._delivery.close(tx, sender)

    def deliver_waiting(self, endpoint: ConversationEndpoint) -> Waiting[None]:
        """Deliver messages that wait in the transmission queue because their commit could not deliver them."""
        if endpoint.changing is not None:
            endpoint.changing.on_end(partial(self._dispatchers.wake, endpoint))
            return
        outgoing = endpoint.outgoing
        destination = self._router.destination(endpoint)
        tx = self._transactions.begin()
        if isinstance(destination, Unknown):
            error = SqlServerError(8490, destination.service_name)
            self._delivery.raise_error(tx, endpoint, -8490, error.text)
        delivered: list[TransmissionRow] = []
        if isinstance(destination, Local):
            for row in list(islice(outgoing.unacknowledged, ROWS_MAX)):
                if not self._deliver(tx, row, destination):
                    break
                tx.write(endpoint.database.xmit_table, row.key, None)
                delivered.append(row)
        outgoing.in_flight = 0  # the transport may have had some, when the route was another
        tx.set(outgoing, "in_flight", len(delivered))
        tx.on_commit(partial(self._take_off, endpoint, delivered))
        try:
            yield from tx.commit()
        except SqlServerError:
            return  # the disk is full: the retry comes as usual
        if delivered and outgoing.unacknowledged:
            self._dispatchers.wake(endpoint)

    def _take_off(self, endpoint: ConversationEndpoint, rows: list[TransmissionRow]) -> None:
        outgoing = endpoint.outgoing
        for place, row in enumerate(rows):
            if outgoing.unacknowledged and outgoing.unacknowledged[0] is row:
                outgoing.pop()
                self._counters.dequeued_transmission += 1
                outgoing.transmission_status = ""
            elif endpoint.changing is not None:
                # END CONVERSATION WITH CLEANUP has taken the rows, and its rollback puts them back.
                endpoint.changing.on_end(partial(self._take_off, endpoint, rows[place:]))
                return


def _receiver(sender: ConversationEndpoint) -> ConversationEndpoint | None:
    """The other side of a conversation in this instance; None before its first message."""
    return sender.database.conversations.get((sender.terms.conversation_id, not sender.terms.is_initiator))


def _unstage(rows: list[TransmissionRow]) -> None:
    for row in rows:
        row.endpoint.outgoing.staged -= 1


def _retain(tx: Transaction, row: TransmissionRow) -> None:
    endpoint = row.endpoint
    queue = endpoint.service.queue
    message_type = endpoint.database.catalog.message_types[row.message_type_name]
    copy = queue.new_row(
        endpoint.incoming, row.message_sequence_number, message_type, row.message_body, row.enqueue_time, RETAINED_SENT
    )
    tx.writes.append((queue.table, copy.queuing_order, copy.stored()))
    tx.arrived.append(copy)


def _lacks_master_key(sender: ConversationEndpoint, destination: Local) -> bool:
    """Nothing is encrypted inside an instance, but the databases need a master key. The manual says that one database
    alone needs none; D. Wentzel ("Encryption Weirdness") shows on a server that its messages wait with 28050."""
    if destination.database is sender.database:
        is_missing = sender.database.catalog.master_key_error() is not None
        if is_missing:
            sender.outgoing.transmission_status = status_text(28050)
        return is_missing
    for database in (sender.database, destination.database):
        if (code := database.catalog.master_key_error()) is not None:
            sender.outgoing.transmission_status = status_text(28054, database.name, code)
            return True
    return False
