"""Transactions: staged changes, how to undo them, and the locks that are held until the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.locks import ExclusiveLock
from harness.embedded.runtime.tasks import Cancelled, Waiting
from harness.embedded.store import Flush, Key, StoreFull, Value, Write

if TYPE_CHECKING:
    from harness.embedded.broker.conversations import TransmissionRow
    from harness.embedded.broker.engine import Engine
    from harness.embedded.broker.queues import Queue, QueueRow


# A savepoint: how many writes, undo actions, commit actions, messages sent and rows arrived there were.
Mark = tuple[int, int, int, int, int]


class Transaction:
    """What one transaction has done so far.

    Changes in memory happen at once, each with its `on_rollback`; durable ones are staged by `write` and reach the disk
    together at `commit`. What others may see only afterwards is done by `on_commit`. Messages that were sent wait in
    `sent`: where they go is decided at commit, as in SQL Server.
    """

    __slots__ = (
        "_commit_actions",
        "_end_actions",
        "_undo",
        "active",
        "arrived",
        "committed",
        "engine",
        "id",
        "lock_timeout_ns",
        "locks",
        "received_from",
        "sent",
        "waiting_for",
        "writes",
    )

    def __init__(self, engine: Engine, identifier: int) -> None:
        self.engine = engine
        self.id = identifier
        self.active = True
        self.committed = False
        self.writes: list[Write] = []
        self.locks: list[ExclusiveLock] = []
        self.waiting_for: ExclusiveLock | None = None
        self.lock_timeout_ns: int | None = None  # SET LOCK_TIMEOUT; None: for ever
        self.sent: list[TransmissionRow] = []
        self.arrived: list[QueueRow] = []  # published in their queues at commit
        self.received_from: tuple[Queue, ...] = ()
        self._undo: list[Callable[[], object]] = []
        self._commit_actions: list[Callable[[], object]] = []
        self._end_actions: list[Callable[[], object]] = []

    def write(self, table: str, key: Key, row: Value | None) -> None:
        """Stages a durable change; None deletes. Key: int, str, bytes or a tuple of these; values msgpack-able."""
        self.writes.append((table, key, row))

    def on_rollback(self, undo: Callable[[], object]) -> None:
        """Runs at rollback, newest first."""
        self._undo.append(undo)

    def on_commit(self, action: Callable[[], object]) -> None:
        """Runs after the commit is on disk and the locks are released, in order."""
        self._commit_actions.append(action)

    def on_end(self, action: Callable[[], object]) -> None:
        """Runs when the transaction is over, either way; a savepoint does not take it back."""
        self._end_actions.append(action)

    def mark(self) -> Mark:
        """A savepoint; later ones are never less."""
        return (len(self.writes), len(self._undo), len(self._commit_actions), len(self.sent), len(self.arrived))

    def rollback_to(self, mark: Mark) -> None:
        """Takes back what was done since the savepoint; locks are kept."""
        writes, undo, commit_actions, sent, arrived = mark
        self._undo_to(undo)
        del self.writes[writes:]
        del self._commit_actions[commit_actions:]
        del self.sent[sent:]
        del self.arrived[arrived:]

    def commit(self) -> Waiting[None]:
        """Returns when everything is on disk. If it cannot be (a full disk, 9002), the transaction is rolled back."""
        assert self.active, "commit of a transaction that is over"
        engine = self.engine
        if self.sent:
            engine.sending.prepare(self)
        if self.writes:
            flush = engine.store.submit(self.writes)
            task = engine.scheduler.current
            engine.waits.begin(task, "WRITELOG", engine.clock.now_ns)
            self.active = False  # what is submitted cannot be taken back
            try:
                yield from flush.wait()
            except Cancelled:
                engine.scheduler.spawn(self._finish_alone(flush), "commit")
                raise
            except StoreFull as error:
                self._roll_back()
                raise SqlServerError(9002, engine.name) from error
            finally:
                engine.waits.end(task, engine.clock.now_ns)
        self._committed()

    def _finish_alone(self, flush: Flush) -> Waiting[None]:
        """The session went away in the middle of a commit: the transaction is as durable as its flush is."""
        try:
            yield from flush.wait()
        except StoreFull:
            self._roll_back()
        else:
            self._committed()

    def _committed(self) -> None:
        self.active, self.committed = False, True
        for row in self.arrived:
            if row.endpoint.is_gone:  # NEW_BROKER, say, while this was on its way to the disk
                self.engine.store.commit_lazily([(row.queue.table, row.queuing_order, None)])
            else:
                row.queue.publish(row)
        for lock in self.locks:
            lock.release()
        for action in self._commit_actions:
            action()
        for queue in self.received_from:
            queue.rollbacks = 0
        self._end()

    def rollback(self) -> None:
        """Takes everything back and releases the locks; counts for poison detection where it received."""
        assert self.active, "rollback of a transaction that is over"
        self._roll_back()

    def _roll_back(self) -> None:
        self.active = False
        self._undo_to(0)
        for lock in self.locks:
            lock.release()
        if self.received_from:
            self.engine.receiving.rolled_back(self.received_from)
        self._end()

    def _end(self) -> None:
        for action in self._end_actions:
            action()
        # They know the transaction, and it them: forgotten, all of it is freed at once and not by a search for cycles.
        del self._undo, self._commit_actions, self._end_actions

    def _undo_to(self, length: int) -> None:
        undo = self._undo
        while len(undo) > length:
            undo.pop()()
