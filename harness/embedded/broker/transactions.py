"""Transactions: staged changes, how to undo them, and locks held until the end.

Memory is changed at once, so that a transaction sees its own changes, and each change leaves an action that undoes it.
Nobody else sees what is locked: the conversation groups that were received from or sent on. What others would see
without a lock waits for the commit: messages that arrive in a queue (`arrived`), and where sent messages go (`sent`).
A transaction that looks for what it has sent itself (RECEIVE, and the views of messages and conversations) gets that
delivered earlier, under locks (`deliver_sent`).

A commit submits its rows to the store, which flushes them with those of other transactions. From then on it cannot be
taken back: the flush decides. A session that is lost meanwhile leaves the end to a task of its own, because the locks
must be released and the messages published once the rows are on disk. Where the disk has no room, all is undone
and the error is 9002. A flush whose fate nobody knows ends the instance; no code here handles that.

Savepoints are five lengths: everything behind them is undone and forgotten, the locks stay, as in SQL Server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from harness.embedded.broker.database import ConversationEndpoint, Database, TransmissionRow
from harness.embedded.broker.endpoint_states import EndpointState
from harness.embedded.broker.environment import Environment
from harness.embedded.broker.queues import Queue, QueueRow
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.locks import ExclusiveLock
from harness.embedded.runtime.tasks import SECOND, Cancelled, Delay, Waiting
from harness.embedded.store.group_commit import Flush, Key, StoreFull, Value, Write

Name = TypeVar("Name")
Thing = TypeVar("Thing")

# A savepoint: the numbers of writes, undo actions, commit actions, sent messages and arrived rows.
Mark = tuple[int, int, int, int, int]


FULL = 9002
FULL_RETRY_NS = SECOND  # of the broker's own statements, while the disk is full


class Transactions:
    """Begins transactions and holds what their ends need."""

    def __init__(
        self,
        environment: Environment,
        prepare: Callable[[Transaction], None],
        deliver_sent: Callable[[Transaction], None],
        rolled_back: Callable[[Sequence[Queue]], None],
    ) -> None:
        self.instance = environment.instance  # its name
        self.store = environment.store
        self.scheduler = environment.scheduler
        self.waits = environment.waits
        self.error_log = environment.error_log
        self.prepare = prepare  # decides where sent messages go
        self.deliver_sent = deliver_sent  # those that go to this instance, to the transaction itself
        self.rolled_back = rolled_back  # counts towards poison detection
        # A defect in undoing or publishing a change. The rest is still done: locks must not stay for ever.
        self.defect: Callable[[Exception], None] = raise_again
        self.is_full = False  # the disk, for the last commit
        self._begun = 0

    def begin(self, database: str = "master") -> Transaction:
        """Begin a transaction. `database` is the name that an error text has."""
        self._begun += 1
        return Transaction(self, self._begun, database)

    def spawn(self, name: str, statement: Callable[[Transaction], Waiting[None]], complaint: str = "") -> None:
        """Start a task that runs a statement of the broker's own in its own transaction.

        Errors go to the error log, after `complaint`. While the disk is full the statement is run again and again: a
        timer or an end of a dialog would be lost."""
        self.scheduler.spawn(self._run(statement, complaint), name)

    def _run(self, statement: Callable[[Transaction], Waiting[None]], complaint: str) -> Waiting[None]:
        while True:
            tx = self.begin()
            try:
                yield from statement(tx)
                yield from tx.commit()
            except SqlServerError as error:
                if tx.active:
                    tx.rollback()
                if error.number != FULL:
                    self.error_log.write(complaint + error.text)
                    return
                yield Delay(FULL_RETRY_NS)
            else:
                return

    def full(self, database: str, reason: StoreFull) -> SqlServerError:
        """Make the error of a commit for which the disk has no room; the first one goes to the error log."""
        error = SqlServerError(FULL, database)
        if not self.is_full:
            self.is_full = True
            self.error_log.write(f"{error.text} The operating system says: {reason}.")
        return error


def raise_again(defect: Exception) -> None:
    """End the run at a bug."""
    raise defect


class Transaction:
    """One transaction: its changes so far, and how to end it.

    Changes in memory happen at once: `set` and `put` undo theirs, others have an `on_rollback` each. `write` stages
    durable changes, which reach the disk together at `commit`. `on_commit` actions then publish changes that others may
    see only afterwards. Sent messages wait in `sent`: the commit decides where they go, as in SQL Server.
    """

    __slots__ = (
        "_commit_actions",
        "_end_actions",
        "_of",
        "_undo",
        "active",
        "arrived",
        "committed",
        "database",
        "id",
        "lock_timeout_ns",
        "locks",
        "looked_at",
        "received_from",
        "sent",
        "undelivered",
        "waiting_for",
        "writes",
    )

    def __init__(self, transactions: Transactions, identifier: int, database: str) -> None:
        self._of = transactions
        self.id = identifier
        self.database = database
        self.active = True
        self.committed = False
        self.writes: list[Write] = []
        self.locks: list[ExclusiveLock] = []
        self.waiting_for: ExclusiveLock | None = None
        self.lock_timeout_ns: int | None = None  # SET LOCK_TIMEOUT; None: no limit
        self.sent: list[TransmissionRow] = []
        self.looked_at = 0  # rows of `sent` that `deliver_sent` has left there
        self.undelivered: set[ConversationEndpoint] = set()  # theirs: what they send later waits too
        self.arrived: list[QueueRow] = []  # published in their queues at commit
        self.received_from: tuple[Queue, ...] = ()
        self._undo: list[Callable[[], object]] = []
        self._commit_actions: list[Callable[[], object]] = []
        self._end_actions: list[Callable[[], object]] = []

    def write(self, table: str, key: Key, row: Value | None) -> None:
        """Stage a durable change; None deletes. Key: int, str, bytes or a tuple of these; values msgpack-able."""
        self.writes.append((table, key, row))

    def store_endpoint(self, endpoint: ConversationEndpoint) -> None:
        """Stage the endpoint's row."""
        self.writes.append((endpoint.database.endpoint_table, endpoint.terms.conversation_handle, endpoint.stored()))

    def change_state(self, endpoint: ConversationEndpoint, state: EndpointState) -> None:
        self.set(endpoint, "state", state)
        self.store_endpoint(endpoint)

    def set(self, thing: object, field: str, value: object) -> None:
        """Assign to a field; a rollback restores what it is now."""
        self._undo.append(partial(setattr, thing, field, getattr(thing, field)))
        setattr(thing, field, value)

    def put(self, things: dict[Name, Thing], name: Name, thing: Thing | None) -> None:
        """Put a thing under a name, None removes it; a rollback restores what is there now."""
        self._undo.append(partial(_put, things, name, things.get(name)))
        _put(things, name, thing)

    def on_rollback(self, undo: Callable[[], object]) -> None:
        """Add an action to run at rollback, newest first."""
        self._undo.append(undo)

    def on_commit(self, action: Callable[[], object]) -> None:
        """Add an action to run, in order, after the commit is on disk and the locks are released."""
        self._commit_actions.append(action)

    def on_end(self, action: Callable[[], object]) -> None:
        """Add an action to run after commit or rollback; a savepoint does not remove it."""
        self._end_actions.append(action)

    def deliver_sent(self) -> None:
        """Deliver what was sent to this instance, so that the transaction sees it; others do after the commit."""
        if len(self.sent) > self.looked_at:
            self._of.deliver_sent(self)

    def shown_in(self, queue: Queue) -> list[QueueRow]:
        """The rows that `deliver_sent` has put into the queue."""
        return self._undone_by(queue.unpublish)

    def taken_from(self, queue: Queue) -> list[QueueRow]:
        """The rows that this transaction has received and a rollback would put back."""
        return [row for rows in self._undone_by(queue.put_back) for row in rows]

    def begun_in(self, database: Database) -> list[ConversationEndpoint]:
        """The endpoints that this transaction has made and a rollback would remove."""
        return self._undone_by(database.forget)

    def _undone_by(self, undo: Callable[..., object]) -> list[Any]:
        """The arguments of the undo actions that call a method."""
        return [action.args[0] for action in self._undo if isinstance(action, partial) and action.func == undo]

    def mark(self) -> Mark:
        """Make a savepoint; no number in it is lower than in an earlier one."""
        return (len(self.writes), len(self._undo), len(self._commit_actions), len(self.sent), len(self.arrived))

    def rollback_to(self, mark: Mark) -> None:
        """Undo everything since the savepoint but keeps the locks."""
        writes, undo, commit_actions, sent, arrived = mark
        self._undo_to(undo)
        self.looked_at = 0
        self.undelivered.clear()
        del self.writes[writes:]
        del self._commit_actions[commit_actions:]
        del self.sent[sent:]
        del self.arrived[arrived:]

    def commit(self) -> Waiting[None]:
        """Return when everything is on disk; if the disk is full, roll back and raise 9002."""
        assert self.active, "commit of a transaction that is over"
        transactions = self._of
        try:
            if self.sent:
                transactions.prepare(self)
            flush = transactions.store.submit(self.writes) if self.writes else None
        except Exception:
            self._roll_back()
            raise
        if flush is not None:
            scheduler, waits = transactions.scheduler, transactions.waits
            task, clock = scheduler.current, scheduler.clock
            waits.begin(task, "WRITELOG", clock.now_ns)
            self.active = False  # submitted writes cannot be taken back
            try:
                yield from flush.wait()
            except Cancelled:
                scheduler.spawn(self._finish_alone(flush), "commit")
                raise
            except StoreFull as error:
                self._roll_back()
                raise transactions.full(self.database, error) from error
            finally:
                waits.end(task, clock.now_ns)
            transactions.is_full = False
        self._committed()

    def _finish_alone(self, flush: Flush) -> Waiting[None]:
        """End a commit whose session was lost: the transaction commits if its flush does."""
        try:
            yield from flush.wait()
        except StoreFull:
            self._roll_back()
        else:
            self._committed()

    def _committed(self) -> None:
        self.active, self.committed = False, True
        for row in self.arrived:
            if row.incoming.is_gone:  # removed during the flush, e.g. by NEW_BROKER
                self._of.store.commit_lazily([(row.queue.table, row.queuing_order, None)])
            else:
                row.queue.publish(row)
        for lock in self.locks:
            lock.release()
        self._each(self._commit_actions)
        for queue in self.received_from:
            queue.rollbacks = 0
        self._end()

    def rollback(self) -> None:
        """Undo everything and release the locks; it counts towards poison detection if it has received."""
        assert self.active, "rollback of a transaction that is over"
        self._roll_back()

    def _roll_back(self) -> None:
        self.active = False
        self._undo_to(0)
        for lock in self.locks:
            lock.release()
        if self.received_from:
            self._of.rolled_back(self.received_from)
        self._end()

    def _end(self) -> None:
        self._each(self._end_actions)
        # The actions refer to the transaction: without this cycle it is freed at once, not by the garbage collector.
        del self._undo, self._commit_actions, self._end_actions

    def _undo_to(self, length: int) -> None:
        undo = self._undo
        while len(undo) > length:
            self._each((undo.pop(),))

    def _each(self, actions: Iterable[Callable[[], object]]) -> None:
        for action in actions:
            try:
                action()
            except Exception as defect:
                self._of.defect(defect)


def _put(things: dict[Name, Thing], name: Name, thing: Thing | None) -> None:
    if thing is None:
        things.pop(name, None)
    else:
        things[name] = thing
