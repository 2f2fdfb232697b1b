"""RECEIVE and GET CONVERSATION GROUP, with or without WAITFOR, and what five rollbacks in a row do to a queue."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from harness.embedded.broker.conversations import ConversationEndpoint, ConversationGroup
from harness.embedded.broker.queues import RETAINED_RECEIVED, Queue, QueueRow
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import MILLISECOND, Waiting

if TYPE_CHECKING:
    from harness.embedded.broker.database import Database
    from harness.embedded.broker.engine import Engine

Item = TypeVar("Item")

# "Five consecutive rollbacks set the queue to OFF": the manual, "Poison message detection". The number is fixed.
POISON_ROLLBACKS = 5
_ALL = 2**63


class Receiving:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def receive(
        self,
        database: Database,
        tx: Transaction,
        queue: Queue,
        *,
        top: int | None,
        conversation_handle: str | None,
        conversation_group_id: str | None,
        wait: bool,
        timeout_ms: int | None,
    ) -> Waiting[list[QueueRow]]:
        """The messages of one conversation group: the next available one, or the one that is named."""
        limit = _ALL if top is None else top
        if conversation_handle is not None:
            if conversation_handle not in database.endpoints:
                raise SqlServerError(8426, conversation_handle)
            attempt = partial(self._from_conversation, database, tx, queue, conversation_handle, limit)
        elif conversation_group_id is not None:
            if conversation_group_id not in database.groups:
                raise SqlServerError(8436, conversation_group_id)
            attempt = partial(self._from_group, database, tx, queue, conversation_group_id, limit)
        else:
            attempt = partial(self._from_next_group, tx, queue, limit)
        self._engine.counters.receives += 1
        yield from self._engine.platform.cpu("receive")
        is_selective = conversation_handle is not None or conversation_group_id is not None
        rows = yield from self._attempt(queue, attempt, limit == 0, is_selective, wait, timeout_ms)
        if rows:
            size_bytes = sum([len(row.message_body or b"") for row in rows])
            yield from self._engine.platform.cpu("received_message", len(rows), size_bytes)
        return rows

    def get_conversation_group(
        self, tx: Transaction, queue: Queue, *, wait: bool, timeout_ms: int | None
    ) -> Waiting[str | None]:
        """Locks the next group that has messages; each call in a transaction gets another one."""

        def attempt() -> list[ConversationGroup]:
            group = queue.first_available()
            if group is None:
                return []
            self._lock(tx, queue, group)
            return [group]

        groups = yield from self._attempt(queue, attempt, False, False, wait, timeout_ms)
        return groups[0].conversation_group_id if groups else None

    def _attempt(  # noqa: PLR0917
        self,
        queue: Queue,
        attempt: Callable[[], list[Item]],
        is_void: bool,
        is_selective: bool,
        wait: bool,
        timeout_ms: int | None,
    ) -> Waiting[list[Item]]:
        self._require_enabled(queue)
        found = attempt()
        monitor = queue.monitor
        if monitor is not None:
            monitor.receive_issued(len(found))
        if found or is_void:
            return found
        if wait and timeout_ms != 0:
            found = yield from self._wait(queue, attempt, is_selective, timeout_ms)
        if not found and not is_selective and queue.monitor is not None:
            queue.monitor.receive_came_back_empty()
        elif found and queue.monitor is not None:
            queue.monitor.receive_issued(len(found))
        return found

    def _wait(
        self, queue: Queue, attempt: Callable[[], list[Item]], is_selective: bool, timeout_ms: int | None
    ) -> Waiting[list[Item]]:
        engine = self._engine
        clock = engine.clock
        started_ns = clock.now_ns
        deadline_ns = None if timeout_ms is None or timeout_ms < 0 else started_ns + timeout_ms * MILLISECOND
        place = queue.selective_waiters if is_selective else queue.waiters
        queue.receivers_waiting += not is_selective
        task = engine.scheduler.current
        engine.waits.begin(task, "BROKER_RECEIVE_WAITFOR", started_ns)
        try:
            while True:
                remaining_ns = None if deadline_ns is None else deadline_ns - clock.now_ns
                if remaining_ns is not None and remaining_ns <= 0:
                    return []
                yield place.wait(remaining_ns)
                self._require_enabled(queue)
                found = attempt()
                if found:
                    return found
        finally:
            queue.receivers_waiting -= not is_selective
            engine.waits.end(task, clock.now_ns)
            if not is_selective and queue.monitor is not None:
                queue.monitor.wait_ended()

    @staticmethod
    def _require_enabled(queue: Queue) -> None:
        if queue.is_dropped:
            raise SqlServerError(208, queue.qualified_name)
        if not queue.is_receive_enabled:
            raise SqlServerError(9617, f"{queue.database.name}.{queue.schema}.{queue.name}")

    # Attempts: each takes what is there now, or nothing

    def _from_next_group(self, tx: Transaction, queue: Queue, limit: int) -> list[QueueRow]:
        group = queue.first_available()
        if tx.locks:
            group = self._or_own(tx, queue, group)
        if group is None or limit == 0:
            return []
        self._lock(tx, queue, group)
        return self._take(tx, queue, group.ready.values(), limit)

    @staticmethod
    def _or_own(tx: Transaction, queue: Queue, free: ConversationGroup | None) -> ConversationGroup | None:
        """Groups that the transaction has locked itself take part, too."""
        best, best_key = free, free.heap_entry[:2] if free is not None and free.heap_entry is not None else None
        for lock in tx.locks:
            if isinstance(lock, ConversationGroup) and lock.ready and lock.queue is queue:
                key = min((-endpoint.priority, endpoint.ready[0].queuing_order) for endpoint in lock.ready.values())
                if best_key is None or key < best_key:
                    best, best_key = lock, key
        return best

    def _from_conversation(
        self, database: Database, tx: Transaction, queue: Queue, handle: str, limit: int
    ) -> list[QueueRow]:
        endpoint = database.endpoints.get(handle)
        if endpoint is None or not endpoint.ready or endpoint.service.queue is not queue:
            return []
        return self._take(tx, queue, [endpoint], limit) if self._lock(tx, queue, endpoint.group) else []

    def _from_group(
        self, database: Database, tx: Transaction, queue: Queue, group_id: str, limit: int
    ) -> list[QueueRow]:
        group = database.groups.get(group_id)
        if group is None or not group.ready or group.queue is not queue or not self._lock(tx, queue, group):
            return []
        return self._take(tx, queue, group.ready.values(), limit)

    @staticmethod
    def _lock(tx: Transaction, queue: Queue, group: ConversationGroup) -> bool:
        """A group that somebody else has locked counts as one without messages."""
        if not group.try_acquire(tx):
            return False
        queue.withdraw(group)
        return True

    def _take(
        self, tx: Transaction, queue: Queue, endpoints: Iterable[ConversationEndpoint], limit: int
    ) -> list[QueueRow]:
        """Conversation by conversation, by descending priority; in each by sequence."""
        in_order = list(endpoints)
        if len(in_order) > 1:
            in_order.sort(key=lambda endpoint: (-endpoint.priority, endpoint.conversation_handle))
        taken: list[QueueRow] = []
        for endpoint in in_order:
            if len(taken) >= limit:
                break
            rows = queue.take(endpoint, limit - len(taken))
            tx.on_rollback(partial(queue.put_back, rows))
            taken += rows
        if taken:
            if queue not in tx.received_from:
                tx.received_from += (queue,)
            if queue.is_retention_enabled:
                self._retain(tx, queue, taken)
            else:
                table, writes = queue.table, tx.writes
                for row in taken:
                    writes.append((table, row.queuing_order, None))
        return taken

    @staticmethod
    def _retain(tx: Transaction, queue: Queue, rows: list[QueueRow]) -> None:
        for row in rows:
            row.status = RETAINED_RECEIVED
            tx.write(queue.table, row.queuing_order, row.stored())
            queue.rows[row.queuing_order] = row
            row.endpoint.retained.append(row)
        tx.on_rollback(partial(_unretain, rows))

    # Poison messages

    def rolled_back(self, queues: Iterable[Queue]) -> None:
        """A transaction that received from these queues has been rolled back."""
        engine = self._engine
        engine.counters.rollbacks += 1
        for queue in queues:
            queue.rollbacks += 1
            if queue.is_poison_message_handling_enabled and queue.rollbacks >= POISON_ROLLBACKS:
                queue.rollbacks = 0
                engine.log(f"The queue '{queue.qualified_name}' was disabled: {POISON_ROLLBACKS} rollbacks in a row.")
                engine.scheduler.spawn(queue.database.disable_queue(queue), f"disable {queue.qualified_name}")


def _unretain(rows: list[QueueRow]) -> None:
    for row in rows:
        row.endpoint.retained.remove(row)
