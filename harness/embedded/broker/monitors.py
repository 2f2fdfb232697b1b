"""Queue monitors: decide when to launch a queue reader.

A monitor watches every queue whose activation is ON (or that has a QUEUE_ACTIVATION notification), that is enabled,
in a database whose broker is enabled. It follows two descriptions ("Understanding Queue Monitors", R. Rusanu;
the manual's "Understanding When Activation Occurs"):

- INACTIVE: nothing can be received. A message that can be received launches the procedure unless one is running.
- NOTIFIED: the procedure is launched, and no session has issued a RECEIVE since. This state launches nothing, however
  long it lasts; any session's RECEIVE ends it.
- RECEIVES_OCCURRING: sessions issue RECEIVE. If messages are available, no session waits in a RECEIVE without WHERE and
  for five seconds none has come back empty, the monitor launches one more reader, up to MAX_QUEUE_READERS. Then the
  five seconds begin again.

A reader's task calls the procedure again as long as its RECEIVE returned rows.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from harness.embedded.broker.counters import Counters
from harness.embedded.broker.database import Database
from harness.embedded.broker.error_log import ErrorLog
from harness.embedded.broker.notifications import Notifier
from harness.embedded.broker.queues import Queue
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.platform import Platform
from harness.embedded.runtime.tasks import MILLISECOND, SECOND, Delay, Scheduler, Task, Timer, Waiting

# "The timer threshold is 5 seconds and currently is hardcoded."
THRESHOLD_NS = 5 * SECOND
AFTER_AN_ERROR_NS = 100 * MILLISECOND  # before a failed procedure is launched again; not documented
# Errors of a procedure that could not start; the launch is tried again after the threshold.
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
        self.database_id = queue.database_id
        self.queue_id = queue.object_id
        self.procedure_name = queue.activation_procedure or ""
        self.spid = 0  # entered by the session that runs the procedure
        self.received_rows = False  # by the latest RECEIVE of this run
        self.task: Task | None = None


class Monitors:
    """The queue monitors of an instance and the readers that they have launched."""

    def __init__(
        self, scheduler: Scheduler, platform: Platform, notifier: Notifier, counters: Counters, error_log: ErrorLog
    ) -> None:
        self.scheduler = scheduler
        self.platform = platform
        self.notifier = notifier
        self.counters = counters
        self.error_log = error_log
        self.activate: Callable[[Database, Queue], Waiting[None]] = _no_procedures  # T-SQL replaces it
        self.all: dict[Queue, QueueMonitor] = {}  # sys.dm_broker_queue_monitors
        self.readers: dict[Task, QueueReader] = {}  # sys.dm_broker_activated_tasks

    def readers_of(self, queue: Queue) -> list[QueueReader]:
        return [reader for reader in self.readers.values() if reader.queue is queue]

    def current_reader(self) -> QueueReader | None:
        """Finds the activated task that runs now; the session of its procedure enters its `spid` there."""
        task = self.scheduler.current
        return self.readers.get(task) if task is not None else None

    def refresh(self, database: Database) -> None:
        """Starts and stops monitors after a change of broker objects."""
        for queue in database.catalog.queues.values():
            is_watched = any(one.event == "QUEUE_ACTIVATION" for one in queue.notifications.values()) or (
                queue.is_activation_enabled and queue.activation_procedure is not None
            )
            if not (is_watched and queue.is_receive_enabled and database.catalog.is_broker_enabled):
                queue.unwatch()
                continue
            monitor = self.all.get(queue)
            if monitor is None:
                monitor = queue.monitor = self.all[queue] = QueueMonitor(self, database, queue)
            monitor.check()


def _no_procedures(database: Database, queue: Queue) -> Waiting[None]:
    raise SqlServerError(9614, queue.name)
    yield


class QueueMonitor:
    """A row of sys.dm_broker_queue_monitors."""

    def __init__(self, monitors: Monitors, database: Database, queue: Queue) -> None:
        self._monitors = monitors
        self._database = database
        self.queue = queue
        self.database_id = queue.database_id
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
    def _launches_procedures(self) -> bool:
        return self.queue.is_activation_enabled and self.queue.activation_procedure is not None

    def stop(self) -> None:
        del self._monitors.all[self.queue]
        self.queue.monitor = None
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def message_available(self) -> None:
        """Notes that a group became available: by a new message, a rollback, a released lock or ALTER QUEUE."""
        if self.state is _INACTIVE:
            if not self._monitors.readers_of(self.queue):
                self._launch()
                return
            self.state = _RECEIVES_OCCURRING
        if self._timer is None and self.state is _RECEIVES_OCCURRING:
            self._set_timer()

    def check(self) -> None:
        """Launches a reader if something can be received, after ALTER QUEUE or the end of the last reader."""
        if not self._is_stopped and self.queue.first_available() is not None:
            self.message_available()

    def receive_issued(self, rows: int) -> None:
        """Notes any session's RECEIVE or GET CONVERSATION GROUP."""
        reader = self._monitors.current_reader()
        if reader is not None and reader.queue is self.queue:
            reader.received_rows = rows > 0
        if self.state is _NOTIFIED:
            self.state = _RECEIVES_OCCURRING
            self._quiet_since_ns = self._monitors.scheduler.clock.now_ns
        if self.queue.first_available() is None:
            self.state = _INACTIVE
        elif self.state is _INACTIVE:
            self.message_available()
        elif self._timer is None:
            self._set_timer()

    def receive_came_back_empty(self) -> None:
        """Resets the activation timer: "there is no reason to launch a new instance of the procedure"."""
        self._quiet_since_ns = self._monitors.scheduler.clock.now_ns
        self.last_empty_rowset_time = self._monitors.scheduler.clock.utc_ns()
        if self.state is not _NOTIFIED and self.queue.first_available() is None:
            self.state = _INACTIVE

    def wait_ended(self) -> None:
        """Resets the activation timer: until now a session was waiting in RECEIVE."""
        self._quiet_since_ns = self._monitors.scheduler.clock.now_ns

    # Launching

    def _set_timer(self) -> None:
        due_ns = max(self._quiet_since_ns + THRESHOLD_NS, self._monitors.scheduler.clock.now_ns)
        self._timer = self._monitors.scheduler.call_at(due_ns, self._threshold)

    def _threshold(self) -> None:
        self._timer = None
        if self._is_stopped or self.state is _NOTIFIED or self.queue.first_available() is None:
            return
        now_ns = self._monitors.scheduler.clock.now_ns
        if self.queue.receivers_waiting:
            self._quiet_since_ns = now_ns
        elif now_ns - self._quiet_since_ns >= THRESHOLD_NS:
            self._launch()
        self._set_timer()

    def _launch(self) -> None:
        """Launches a reader, unless MAX_QUEUE_READERS are running."""
        monitors = self._monitors
        self._quiet_since_ns = monitors.scheduler.clock.now_ns
        if not self._launches_procedures:
            if monitors.notifier.notify(self._database, self.queue, "QUEUE_ACTIVATION"):
                self._notified()
            return
        if len(self._monitors.readers_of(self.queue)) >= (self.queue.max_readers or 0):
            monitors.counters.task_limit_reached += 1
            return
        self._notified()
        reader = QueueReader(self.queue)
        monitors.counters.tasks_started += 1
        monitors.counters.tasks_running += 1
        reader.task = monitors.scheduler.spawn(self._run(reader), f"reader of {self.queue.qualified_name}")
        monitors.readers[reader.task] = reader

    def _notified(self) -> None:
        self.last_activated_time = self._monitors.scheduler.clock.utc_ns()
        if self.state is _INACTIVE:
            self.state = _NOTIFIED

    def _run(self, reader: QueueReader) -> Waiting[None]:
        monitors, queue = self._monitors, self.queue
        counters = monitors.counters
        pause_ns = 0
        try:
            while True:
                reader.received_rows = False
                counters.procedures_invoked += 1
                yield from monitors.platform.cpu("launch")
                yield from monitors.activate(self._database, queue)
                if not reader.received_rows or self._is_stopped:
                    break
        except SqlServerError as error:
            pause_ns = THRESHOLD_NS if error.number in _NOT_LAUNCHED else AFTER_AN_ERROR_NS
            counters.tasks_aborted += 1
            counters.activation_errors += 1
            monitors.error_log.write(
                f"The activated proc '{reader.procedure_name}' running on queue "
                f"'{self._database.name}.{queue.qualified_name}' output the following: '{error.text}'"
            )
        finally:
            counters.tasks_running -= 1
            if reader.task is not None:
                monitors.readers.pop(reader.task, None)
        monitor = monitors.all.get(queue)
        if monitor is not None and not monitors.readers_of(queue):
            monitor.last_reader_ended(pause_ns)

    def last_reader_ended(self, pause_ns: int) -> None:
        """Launches a reader again if something can be received; after an error with a pause."""
        if pause_ns:
            pause = self._check_later(pause_ns, pause_ns == THRESHOLD_NS)
            self._monitors.scheduler.spawn(pause, "activation check")
        elif self.state is not _NOTIFIED:
            self._check_idle()

    def _check_idle(self) -> None:
        self.state = _INACTIVE
        self.check()

    def _check_later(self, pause_ns: int, also_if_notified: bool) -> Waiting[None]:
        """Tries a procedure that could not start every five seconds.

        A procedure that fails before its RECEIVE leaves the monitor NOTIFIED."""
        yield Delay(pause_ns)
        if (
            not self._is_stopped
            and not self._monitors.readers_of(self.queue)
            and (also_if_notified or self.state is not _NOTIFIED)
        ):
            self._check_idle()
