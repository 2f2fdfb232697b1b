"""Expiry: acts on the deadlines of conversations."""

from __future__ import annotations

from functools import partial

from harness.embedded.broker import system_objects
from harness.embedded.broker.counters import Counters
from harness.embedded.broker.database import ConversationEndpoint
from harness.embedded.broker.deadlines import Deadline
from harness.embedded.broker.delivery import Delivery
from harness.embedded.broker.endpoint_states import CLOSED, DISCONNECTED_OUTBOUND
from harness.embedded.broker.error_log import ErrorLog
from harness.embedded.broker.transactions import Transaction, Transactions
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting


class Expiry:
    def __init__(self, transactions: Transactions, delivery: Delivery, counters: Counters, error_log: ErrorLog) -> None:
        self._transactions = transactions
        self._delivery = delivery
        self._counters = counters
        self._error_log = error_log

    def expire(self, what: Deadline, endpoint: ConversationEndpoint, due_ns: int) -> None:
        """Starts a task that acts on a deadline, in its own transaction."""
        task = self._run(what, endpoint, due_ns)
        self._transactions.scheduler.spawn(task, f"{what} of {endpoint.terms.conversation_handle}")

    def _run(self, what: Deadline, endpoint: ConversationEndpoint, due_ns: int) -> Waiting[None]:
        tx = self._transactions.begin()
        try:
            yield from endpoint.incoming.group.acquire(tx, self._transactions.waits)
            if not endpoint.incoming.is_gone:
                if what == "timer":
                    self._send_timer_message(tx, endpoint, due_ns)
                elif what == "lifetime":
                    self._end_lifetime(tx, endpoint)
                elif endpoint.state is CLOSED:
                    self._delivery.remove(tx, endpoint)
            yield from tx.commit()
        except SqlServerError as error:
            if tx.active:
                tx.rollback()
            self._error_log.write(error.text)

    def _send_timer_message(self, tx: Transaction, endpoint: ConversationEndpoint, due_ns: int) -> None:
        if endpoint.dialog_timer != due_ns:  # the timer was replaced
            return
        endpoint.dialog_timer = None
        tx.on_rollback(partial(setattr, endpoint, "dialog_timer", due_ns))
        tx.store_endpoint(endpoint)
        timer = endpoint.database.catalog.message_types[system_objects.DIALOG_TIMER]
        self._delivery.enqueue(tx, endpoint, timer, -1, None)
        self._counters.dialog_timers += 1

    def _end_lifetime(self, tx: Transaction, endpoint: ConversationEndpoint) -> None:
        if endpoint.state is DISCONNECTED_OUTBOUND:
            self._delivery.close(tx, endpoint)
        else:
            self._delivery.raise_error(tx, endpoint, -8489, SqlServerError(8489).text)
