"""Queue monitors: when a queue reader is launched.

A monitor stands beside every queue whose activation is ON (or that has a QUEUE_ACTIVATION notification), that is
enabled, in a database whose broker is enabled. It obeys two descriptions ("Understanding Queue Monitors", R. Rusanu;
the manual's "Understanding When Activation Occurs"):

- INACTIVE: nothing can be received. A message that can is reason to launch the procedure, unless one is running.
- NOTIFIED: launched, and nobody has issued a RECEIVE since. Nothing is launched in this state, however long it lasts;
  any session's RECEIVE ends it.
- RECEIVES_OCCURRING: receives are being issued. If messages are there, no session waits in a RECEIVE without WHERE, and
  for five seconds none has come back empty, one more reader is launched, up to MAX_QUEUE_READERS; then the five seconds
  begin again.

The task of a reader calls the procedure again for as long as its RECEIVE returned rows.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import MILLISECOND, SECOND, Delay, Task, Timer, Waiting

if TYPE_CHECKING:
    from harness.embedded.broker.engine import Engine
    from harness.embedded.broker.queues import Queue

# "The timer threshold is 5 seconds and currently is hardcoded."
THRESHOLD_NS = 5 * SECOND
AFTER_AN_ERROR_NS = 100 * MILLISECOND  # before a failed procedure is launched again; nobody says how long it is
# Errors of a procedure that could not even start; the launch is tried again after the threshold.
_NOT_LAUNCHED = frozenset({2812, 9613, 9614, 9653, 15517})


class MonitorState(StrEnum):
    """sys.dm_broker_queue_monitors.state"""

    INACTIVE = "INACTIVE"
    NOTIFIED = "NOTIFIED"
    RECEIVES_OCCURRING = "RECEIVES_OCCURRING"


_INACTIVE, _NOTIFIED, _RECEIVES_OCCURRING = MonitorState


class QueueReader:
    """An activated task: a row of sys.dm_broker_activated_tasks."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.database_id = queue.database.database_id
        self.queue_id = queue.object_id
        self.procedure_name = queue.activation_procedure or ""
        self.spid = 0  # entered by the session that runs the procedure
        self.received_rows = False  # by the latest RECEIVE of this run
        self.task: Task | None = None


class QueueMonitor:
    """A row of sys.dm_broker_queue_monitors."""

    def __init__(self, engine: Engine, queue: Queue) -> None:
        self._engine = engine
        self.queue = queue
        self.database_id = queue.database.database_id
        self.queue_id = queue.object_id
        self.state = _INACTIVE
        self.last_empty_rowset_time: int | None = None  # UTC ns
        self.last_activated_time: int | None = None  # UTC ns
        self._is_stopped = False
        self._quiet_since_ns = 0  # the later of: first RECEIVE after a launch, last empty one, last end of a wait
        self._timer: Timer | None = None

    @property
    def tasks_waiting(self) -> int:
        return self.queue.receivers_waiting

    @property
    def readers(self) -> list[QueueReader]:
        """Those that a monitor before this one has launched count, too."""
        return self.queue.readers

    @property
    def _launches_procedures(self) -> bool:
        return self.queue.is_activation_enabled and self.queue.activation_procedure is not None

    def stop(self) -> None:
        """The monitor is gone; readers that run come to their end by themselves."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # What the monitor hears of

    def message_available(self) -> None:
        """A group of the queue can be received: new message, rollback, lock released, queue switched on."""
        if self.state is _INACTIVE:
            if not self.readers:
                self._launch()
                return
            self.state = _RECEIVES_OCCURRING
        if self._timer is None and self.state is _RECEIVES_OCCURRING:
            self._set_timer()

    def check(self) -> None:
        """ALTER QUEUE, the end of the last reader, or a new monitor: launch if there is something to receive."""
        if not self._is_stopped and self.queue.first_available() is not None:
            self.message_available()

    def receive_issued(self, rows: int) -> None:
        """Any session's RECEIVE or GET CONVERSATION GROUP."""
        reader = self._engine.current_reader()
        if reader is not None and reader.queue is self.queue:
            reader.received_rows = rows > 0
        if self.state is _NOTIFIED:
            self.state = _RECEIVES_OCCURRING
            self._quiet_since_ns = self._engine.clock.now_ns
        if self.queue.first_available() is None:
            self.state = _INACTIVE
        elif self.state is _INACTIVE:
            self.message_available()
        elif self._timer is None:
            self._set_timer()

    def receive_came_back_empty(self) -> None:
        """The activation timer is reset: "there is no reason to launch a new instance of the procedure"."""
        self._quiet_since_ns = self._engine.clock.now_ns
        self.last_empty_rowset_time = self._engine.clock.utc_ns()
        if self.state is not _NOTIFIED and self.queue.first_available() is None:
            self.state = _INACTIVE

    def wait_ended(self) -> None:
        """Up to now a session was waiting in RECEIVE: it had nothing to do."""
        self._quiet_since_ns = self._engine.clock.now_ns

    # Launching

    def _set_timer(self) -> None:
        due_ns = max(self._quiet_since_ns + THRESHOLD_NS, self._engine.clock.now_ns)
        self._timer = self._engine.scheduler.call_at(due_ns, self._threshold)

    def _threshold(self) -> None:
        self._timer = None
        if self._is_stopped or self.state is _NOTIFIED or self.queue.first_available() is None:
            return
        now_ns = self._engine.clock.now_ns
        if self.queue.receivers_waiting:
            self._quiet_since_ns = now_ns
        elif now_ns - self._quiet_since_ns >= THRESHOLD_NS:
            self._launch()
        self._set_timer()

    def _launch(self) -> None:
        """Activation is necessary; whether it occurs depends on MAX_QUEUE_READERS."""
        engine = self._engine
        self._quiet_since_ns = engine.clock.now_ns
        if not self._launches_procedures:
            if self.queue.notifications and engine.notify(self.queue, "QUEUE_ACTIVATION"):
                self._notified()
            return
        if len(self.readers) >= (self.queue.max_readers or 0):
            engine.counters.task_limit_reached += 1
            return
        self._notified()
        reader = QueueReader(self.queue)
        self.readers.append(reader)
        engine.counters.tasks_started += 1
        engine.counters.tasks_running += 1
        reader.task = engine.scheduler.spawn(self._run(reader), f"reader of {self.queue.qualified_name}")
        engine.readers[reader.task] = reader

    def _notified(self) -> None:
        self.last_activated_time = self._engine.clock.utc_ns()
        if self.state is _INACTIVE:
            self.state = _NOTIFIED

    def _run(self, reader: QueueReader) -> Waiting[None]:
        engine, queue = self._engine, self.queue
        pause_ns = 0
        try:
            while True:
                reader.received_rows = False
                engine.counters.procedures_invoked += 1
                yield from engine.platform.cpu("launch")
                yield from engine.activate(queue.database, queue)
                if not reader.received_rows or self._is_stopped:
                    break
        except SqlServerError as error:
            pause_ns = THRESHOLD_NS if error.number in _NOT_LAUNCHED else AFTER_AN_ERROR_NS
            engine.counters.tasks_aborted += 1
            engine.counters.activation_errors += 1
            engine.log(
                f"The activated proc '{reader.procedure_name}' running on queue "
                f"'{queue.database.name}.{queue.qualified_name}' output the following: '{error.text}'"
            )
        finally:
            engine.counters.tasks_running -= 1
            queue.readers.remove(reader)
            if reader.task is not None:
                engine.readers.pop(reader.task, None)
        if queue.monitor is not None and not queue.readers:
            queue.monitor.last_reader_ended(pause_ns)

    def last_reader_ended(self, pause_ns: int) -> None:
        """All procedures have exited: what can be received is reason to launch one, after an error with a pause."""
        if pause_ns:
            pause = self._check_later(pause_ns, pause_ns == THRESHOLD_NS)
            self._engine.scheduler.spawn(pause, "activation check")
        elif self.state is not _NOTIFIED:
            self._check_idle()

    def _check_idle(self) -> None:
        self.state = _INACTIVE
        self.check()

    def _check_later(self, pause_ns: int, also_if_notified: bool) -> Waiting[None]:
        """A procedure that does not exist is looked for again every five seconds; one that fails before its RECEIVE
        leaves the monitor NOTIFIED."""
        yield Delay(pause_ns)
        if not self._is_stopped and not self.readers and (also_if_notified or self.state is not _NOTIFIED):
            self._check_idle()
