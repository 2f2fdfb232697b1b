"""Poison message detection: disables a queue after too many rollbacks."""

from __future__ import annotations

from collections.abc import Iterable

from harness.embedded.broker import ddl_queues
from harness.embedded.broker.counters import Counters
from harness.embedded.broker.database import Databases
from harness.embedded.broker.definitions import QueueOptions
from harness.embedded.broker.error_log import ErrorLog
from harness.embedded.broker.notifications import Notifier
from harness.embedded.broker.queues import Queue
from harness.embedded.broker.transactions import Transactions
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting

# "Five consecutive rollbacks set the queue to OFF": the manual, "Poison message detection". The number is fixed.
POISON_ROLLBACKS = 5


class PoisonDetection:
    def __init__(
        self,
        databases: Databases,
        transactions: Transactions,
        notifier: Notifier,
        counters: Counters,
        error_log: ErrorLog,
    ) -> None:
        self._databases = databases
        self._transactions = transactions
        self._notifier = notifier
        self._counters = counters
        self._error_log = error_log

    def rolled_back(self, queues: Iterable[Queue]) -> None:
        """Counts the rollback of a transaction that received from these queues."""
        self._counters.rollbacks += 1
        for queue in queues:
            queue.rollbacks += 1
            if queue.is_poison_message_handling_enabled and queue.rollbacks >= POISON_ROLLBACKS:
                queue.rollbacks = 0
                name = queue.qualified_name
                self._error_log.write(f"The queue '{name}' was disabled: {POISON_ROLLBACKS} rollbacks in a row.")
                self._transactions.scheduler.spawn(self._disable(queue), f"disable {name}")

    def _disable(self, queue: Queue) -> Waiting[None]:
        """Sets STATUS = OFF in its own transaction."""
        database = self._databases.by_id(queue.database_id)
        if database is None:  # dropped meanwhile
            return
        tx = self._transactions.begin()
        try:
            ddl_queues.alter_queue(tx, database.catalog, queue.schema, queue.name, QueueOptions(status=False))
            yield from tx.commit()
        except SqlServerError as error:  # the queue was dropped meanwhile, or the disk is full
            if tx.active:
                tx.rollback()
            self._error_log.write(error.text)
            return
        self._notifier.notify(database, queue, "BROKER_QUEUE_DISABLED")
