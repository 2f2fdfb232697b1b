"""RECEIVE and GET CONVERSATION GROUP, with or without WAITFOR.

An attempt takes what is available now and never waits; with WAITFOR it is repeated each time that the queue wakes one
of those who wait. A waiter that is woken may find nothing, since another was faster, and waits again until its time is
over. Statements that name a conversation or a group wait in another place, because a message of any other group must
not wake them.

The queue monitor learns of every attempt, and of every one that came back empty: it decides by them whether readers are
too few. Statements that name what they receive say nothing about that, so the monitor does not learn that they came
back empty. Nor does it learn of a RECEIVE that fails while it delivers its rows: it stays NOTIFIED, and the rollback
does not count as one of a poison message (R. Rusanu, 2007-10-31 and 2008-08-03).
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from harness.embedded.broker.database import Database
from harness.embedded.broker.environment import Environment
from harness.embedded.broker.queues import RETAINED_RECEIVED, ConversationGroup, Incoming, Queue, QueueRow
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import MILLISECOND, Waiting

Item = TypeVar("Item")

_ALL = 2**63


class Receiving:
    def __init__(self, environment: Environment) -> None:
        self._scheduler = environment.scheduler
        self._platform = environment.platform
        self._waits = environment.waits
        self._counters = environment.counters

    def receive(
        self,
        tx: Transaction,
        database: Database,
        queue: Queue,
        *,
        top: int | None,
        conversation_handle: str | None = None,
        conversation_group_id: str | None = None,
        wait: bool = False,
        timeout_ms: int | None = None,
        deliver: Callable[[list[QueueRow]], None] | None = None,
    ) -> Waiting[list[QueueRow]]:
        """RECEIVE: takes messages of the next available conversation group, or of the one that is named.

        `wait` is WAITFOR; `timeout_ms` None waits without limit. `deliver` gets the rows, and may fail."""

        def take(rows: list[QueueRow]) -> None:
            if deliver is not None:
                deliver(rows)
            if rows and queue not in tx.received_from:
                tx.received_from += (queue,)

        tx.deliver_sent()
        limit = _ALL if top is None else top
        if conversation_handle is not None:
            attempt = partial(_from_conversation, tx, database, queue, conversation_handle, limit)
        elif conversation_group_id is not None:
            attempt = partial(_from_group, tx, database, queue, conversation_group_id, limit)
        else:
            attempt = partial(_from_next_group, tx, queue, limit)
        self._counters.receives += 1
        yield from self._platform.cpu("receive")
        is_selective = conversation_handle is not None or conversation_group_id is not None
        rows = yield from self._attempt(database, queue, attempt, take, limit == 0, is_selective, wait, timeout_ms)
        if rows:
            size_bytes = sum([len(row.message_body or b"") for row in rows])
            yield from self._platform.cpu("received_message", len(rows), size_bytes)
        return rows

    def get_conversation_group(
        self, tx: Transaction, database: Database, queue: Queue, *, wait: bool = False, timeout_ms: int | None = None
    ) -> Waiting[str | None]:
        """GET CONVERSATION GROUP: locks the next group that has messages; None without one.

        Each call in a transaction returns another group."""

        def attempt() -> list[ConversationGroup]:
            group = queue.first_available()
            if group is None:
                return []
            _lock(tx, queue, group)
            return [group]

        groups = yield from self._attempt(database, queue, attempt, lambda _: None, False, False, wait, timeout_ms)
        return groups[0].conversation_group_id if groups else None

    def _attempt(  # noqa: PLR0917
        self,
        database: Database,
        queue: Queue,
        attempt: Callable[[], list[Item]],
        take: Callable[[list[Item]], None],
        is_void: bool,
        is_selective: bool,
        wait: bool,
        timeout_ms: int | None,
    ) -> Waiting[list[Item]]:
        _require_enabled(database, queue)
        outcome = attempt()
        waits = wait and timeout_ms != 0 and not outcome and not is_void
        if not waits:
            take(outcome)
        if queue.monitor is not None:
            queue.monitor.receive_issued(len(outcome))
        if waits:
            outcome = yield from self._wait(database, queue, attempt, is_selective, timeout_ms)
            take(outcome)
            if outcome and queue.monitor is not None:
                queue.monitor.receive_issued(len(outcome))
        if not (outcome or is_void or is_selective) and queue.monitor is not None:
            queue.monitor.receive_came_back_empty()
        return outcome

    def _wait(
        self,
        database: Database,
        queue: Queue,
        attempt: Callable[[], list[Item]],
        is_selective: bool,
        timeout_ms: int | None,
    ) -> Waiting[list[Item]]:
        waits, clock = self._waits, self._scheduler.clock
        started_ns = clock.now_ns
        deadline_ns = None if timeout_ms is None or timeout_ms < 0 else started_ns + timeout_ms * MILLISECOND
        place = queue.selective_waiters if is_selective else queue.waiters
        queue.receivers_waiting += not is_selective
        task = self._scheduler.current
        waits.begin(task, "BROKER_RECEIVE_WAITFOR", started_ns)
        try:
            while True:
                remaining_ns = None if deadline_ns is None else deadline_ns - clock.now_ns
                if remaining_ns is not None and remaining_ns <= 0:
                    return []
                yield place.wait(remaining_ns)
                _require_enabled(database, queue)
                outcome = attempt()
                if outcome:
                    return outcome
        finally:
            queue.receivers_waiting -= not is_selective
            waits.end(task, clock.now_ns)
            if not is_selective and queue.monitor is not None:
                queue.monitor.wait_ended()


def _require_enabled(database: Database, queue: Queue) -> None:
    if queue.is_dropped:
        raise SqlServerError(208, queue.qualified_name)
    if not queue.is_receive_enabled:
        raise SqlServerError(9617, f"{database.name}.{queue.schema}.{queue.name}")


# Attempts: each takes available rows now and never waits. "If the conversation handle or conversation group identifier
# does not exist, or is not associated with the specified queue, the RECEIVE statement returns an error", also while it
# waits.


def _from_next_group(tx: Transaction, queue: Queue, limit: int) -> list[QueueRow]:
    group = queue.first_available()
    if tx.locks:
        group = _or_own(tx, queue, group)
    if group is None or limit == 0:
        return []
    _lock(tx, queue, group)
    return _take(tx, queue, group.ready.values(), limit)


def _or_own(tx: Transaction, queue: Queue, free: ConversationGroup | None) -> ConversationGroup | None:
    """Choose the next group among the free one and those that the transaction has locked itself."""
    best, best_key = free, free.heap_entry[:2] if free is not None and free.heap_entry is not None else None
    for lock in tx.locks:
        if isinstance(lock, ConversationGroup) and lock.ready and lock.queue is queue:
            key = min((-endpoint.terms.priority, endpoint.ready[0].queuing_order) for endpoint in lock.ready.values())
            if best_key is None or key < best_key:
                best, best_key = lock, key
    return best


def _from_conversation(tx: Transaction, database: Database, queue: Queue, handle: str, limit: int) -> list[QueueRow]:
    endpoint = database.endpoints.get(handle)
    if endpoint is None or endpoint.service.queue is not queue:
        raise SqlServerError(8426, handle)
    if not endpoint.incoming.ready:
        return []
    return _take(tx, queue, [endpoint.incoming], limit) if _lock(tx, queue, endpoint.incoming.group) else []


def _from_group(tx: Transaction, database: Database, queue: Queue, group_id: str, limit: int) -> list[QueueRow]:
    group = database.groups.get(group_id)
    if group is None or group.queue is not queue:
        raise SqlServerError(8436, group_id)
    if not group.ready or not _lock(tx, queue, group):
        return []
    return _take(tx, queue, group.ready.values(), limit)


def _lock(tx: Transaction, queue: Queue, group: ConversationGroup) -> bool:
    """Lock a group; False if another transaction has it, which counts as a group without messages."""
    if not group.try_acquire(tx):
        return False
    queue.withdraw(group)
    return True


def _take(tx: Transaction, queue: Queue, conversations: Iterable[Incoming], limit: int) -> list[QueueRow]:
    """Take rows conversation by conversation, highest priority first, each in sequence."""
    in_order = list(conversations)
    if len(in_order) > 1:
        in_order.sort(key=lambda queue_row: (-queue_row.terms.priority, queue_row.terms.conversation_handle))
    received: list[QueueRow] = []
    for incoming in in_order:
        if len(received) >= limit:
            break
        rows = queue.take(incoming, limit - len(received))
        tx.on_rollback(partial(queue.put_back, rows))
        received += rows
    if queue.is_retention_enabled:
        _retain(tx, queue, received)
    else:
        table, writes = queue.table, tx.writes
        for row in received:
            writes.append((table, row.queuing_order, None))
    return received


def _retain(tx: Transaction, queue: Queue, rows: list[QueueRow]) -> None:
    for row in rows:
        row.status = RETAINED_RECEIVED
        tx.write(queue.table, row.queuing_order, row.stored())
        queue.rows[row.queuing_order] = row
        row.incoming.retained.append(row)
    tx.on_rollback(partial(_unretain, rows))


def _unretain(rows: list[QueueRow]) -> None:
    for row in rows:
        row.incoming.retained.remove(row)
