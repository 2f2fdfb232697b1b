"""Departure: routes the messages of a transaction at its commit.

A message to a service of this instance goes straight into its queue, in the same commit. Otherwise, and when the target
queue cannot take it now, it becomes a row of the transmission queue, which the transmitter sends.
"""

from __future__ import annotations

from functools import partial

from harness.embedded.broker.counters import Counters
from harness.embedded.broker.database import TransmissionRow
from harness.embedded.broker.delivery import Delivery, Refusal
from harness.embedded.broker.destinations import Unknown
from harness.embedded.broker.dispatchers import Dispatchers
from harness.embedded.broker.endpoint_states import CONVERSING, EndpointState
from harness.embedded.broker.local_delivery import LocalDelivery
from harness.embedded.broker.queues import RETAINED_SENT
from harness.embedded.broker.router import Local, Router
from harness.embedded.broker.transactions import Transaction
from harness.embedded.store import Store

_FAILED = (EndpointState.ERROR, EndpointState.CLOSED)


class Departure:
    def __init__(  # noqa: PLR0917
        self,
        router: Router,
        delivery: Delivery,
        local: LocalDelivery,
        dispatchers: Dispatchers,
        store: Store,
        counters: Counters,
    ) -> None:
        self._router = router
        self._delivery = delivery
        self._local = local
        self._dispatchers = dispatchers
        self._store = store
        self._counters = counters

    def prepare(self, tx: Transaction) -> None:
        """Stages the transaction's messages where they go."""
        queued: list[TransmissionRow] = []
        for row in tx.sent:
            endpoint = row.endpoint
            outgoing = endpoint.outgoing
            if endpoint.service.queue.is_retention_enabled and endpoint.state is CONVERSING:
                _retain(tx, row)
            if not (outgoing.unacknowledged or outgoing.staged):
                destination = self._router.destination(endpoint)
                if isinstance(destination, Local):
                    if self._local.deliver(tx, row, destination):
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
