"""Queue monitors decide when to launch a queue reader; poison message detection.

A monitor watches every queue whose activation is ON (or that has a QUEUE_ACTIVATION notification), that is enabled,
in a database whose broker is enabled. `monitor_states` has its states. It launches a reader on two occasions, in the
words of the manual ("Understanding When Activation Occurs"):

- "A new message arrives on a queue that contains no unread messages and there are no activation stored procedures
  running for the queue": in INACTIVE, at once.
- "The queue contains unread messages, there is no session waiting in a GET CONVERSATION GROUP statement or a RECEIVE
  statement without a WHERE clause, and no GET CONVERSATION GROUP statement or RECEIVE statement without a WHERE clause
  has returned an empty result set for a few seconds": in RECEIVES_OCCURRING, each time a timer of five seconds ends,
  while fewer than MAX_QUEUE_READERS run.

A reader's task calls the procedure again as long as its RECEIVE returned rows.
"""

from collections.abc import Callable, Iterable
from functools import partial

from harness.embedded.broker import ddl_services
from harness.embedded.broker.database import Database, Databases
from harness.embedded.broker.definitions import QueueOptions
from harness.embedded.broker.environment import Environment
from harness.embedded.broker.event_notifications import Notifier
from harness.embedded.broker.monitor_states import INACTIVE, NOTIFIED, TRANSITIONS, MonitorEvent
from harness.embedded.broker.queues import Queue
from harness.embedded.broker.transactions import Transaction, Transactions
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import MILLISECOND, SECOND, Delay, Task, Timer, Waiting

# "The timer threshold is 5 seconds and currently is hardcoded."
THRESHOLD_NS = 5 * SECOND
# "Service Broker provides a time-out for an external application to respond. During the time-out, Service Broker will
# not produce another notification. Once an application calls RECEIVE on the queue or the time-out expires, Service
# Broker creates another event notification if activation is required": the manual, "Understanding When Activation
# Occurs". It does not say how long the time-out is, and no measurement of it was found. It is there because "there may
# be some start up time required", so it must be longer than most programs take to start. R. Rusanu knows no second
# notification without a RECEIVE, so it can hardly be the five seconds. A minute fits both.
NOTIFICATION_TIMEOUT_NS = 60 * SECOND
AFTER_AN_ERROR_NS = 100 * MILLISECOND  # before a failed procedure is launched again; not documented
# A procedure that rolls back at once and ends would let nobody else go on, not even the task that disables its queue.
AFTER_A_ROLLBACK_NS = MILLISECOND
# "Five consecutive rollbacks set the queue to OFF": the manual, "Poison message detection". The number is fixed.
POISON_ROLLBACKS = 5
# Errors of a procedure that could not start; the launch is tried again after the threshold.
_NOT_LAUNCHED = frozenset({2812, 9614, 15517})


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
        self, environment: Environment, notifier: Notifier, activate: Callable[[Database, Queue], Waiting[None]]
    ) -> None:
        self.scheduler = environment.scheduler
        self.platform = environment.platform
        self.counters = environment.counters
        self.error_log = environment.error_log
        self.notifier = notifier
        self.activate = activate  # runs the procedure of a queue
        self.all: dict[Queue, QueueMonitor] = {}  # sys.dm_broker_queue_monitors
        self.readers: dict[Task, QueueReader] = {}  # sys.dm_broker_activated_tasks

    def readers_of(self, queue: Queue) -> list[QueueReader]:
        return [reader for reader in self.readers.values() if reader.queue is queue]

    def current_reader(self) -> QueueReader | None:
        """Find the activated task that runs now; the session of its procedure enters its `spid` there."""
        task = self.scheduler.current
        return self.readers.get(task) if task is not None else None

    def refresh(self, database: Database) -> None:
        """Start and stop monitors after a change of broker objects."""
        for queue in database.catalog.queues.values():
            is_watched = any(
                "QUEUE_ACTIVATION" in notification.events for notification in queue.notifications.values()
            ) or (queue.is_activation_enabled and queue.activation_procedure is not None)
            if not (is_watched and queue.is_receive_enabled and database.catalog.is_broker_enabled):
                queue.unwatch()
                continue
            monitor = self.all.get(queue)
            if monitor is None:
                monitor = queue.monitor = self.all[queue] = QueueMonitor(self, database, queue)
            monitor.check()


class QueueMonitor:
    """A row of sys.dm_broker_queue_monitors."""

    def __init__(self, monitors: Monitors, database: Database, queue: Queue) -> None:
        self._monitors = monitors
        self._database = database
        self.queue = queue
        self.database_id = queue.database_id
        self.queue_id = queue.object_id
        self.state = INACTIVE
        self.last_empty_rowset_time: int | None = None  # UTC ns
        self.last_activated_time: int | None = None  # UTC ns
        self._is_stopped = False
        self._quiet_since_ns = 0  # the later of: first RECEIVE after a launch, last empty one, last end of a wait
        self._timer: Timer | None = None
        self._response_timer: Timer | None = None  # until an external application has had its time to receive

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
        self._stop_response_timer()

    def message_available(self) -> None:
        """Note that a group became available: by a new message, a rollback, a released lock or ALTER QUEUE."""
        if self.state is INACTIVE:
            if not self._monitors.readers_of(self.queue):
                self._launch()
                return
            self._enter(MonitorEvent.LEFT_TO_READERS)
        if self._timer is None and self.state is not NOTIFIED:
            self._set_timer()

    def check(self) -> None:
        """Launch a reader if something can be received, after ALTER QUEUE or the end of the last reader."""
        if not self._is_stopped and self.queue.first_available() is not None:
            self.message_available()

    def receive_issued(self, rows: int) -> None:
        """Note any session's RECEIVE or GET CONVERSATION GROUP."""
        reader = self._monitors.current_reader()
        if reader is not None and reader.queue is self.queue:
            reader.received_rows = rows > 0
        if self.state is NOTIFIED:
            # "Once the Queue Monitor enters the RECEIVES_OCCURING state it will start an internal timer."
            self._stop_response_timer()
            self._quiet_since_ns = self._monitors.scheduler.clock.now_ns
        self._enter(MonitorEvent.RECEIVE)
        if self.queue.first_available() is None:
            self._enter(MonitorEvent.EMPTIED)
        elif self.state is INACTIVE:
            self.message_available()
        elif self._timer is None:
            self._set_timer()

    def receive_came_back_empty(self) -> None:
        """Reset the activation timer: "Each time a RECEIVE statement on the monitored queue returns an empty rowset
        this timer is reset", as "there is no reason to launch a new instance of the procedure"."""
        self._quiet_since_ns = self._monitors.scheduler.clock.now_ns
        self.last_empty_rowset_time = self._monitors.scheduler.clock.utc_ns()
        if self.queue.first_available() is None:
            self._enter(MonitorEvent.EMPTIED)

    def wait_ended(self) -> None:
        """Reset the activation timer: until now a session was waiting in RECEIVE."""
        self._quiet_since_ns = self._monitors.scheduler.clock.now_ns

    # Launching

    def _set_timer(self) -> None:
        due_ns = max(self._quiet_since_ns + THRESHOLD_NS, self._monitors.scheduler.clock.now_ns)
        self._timer = self._monitors.scheduler.call_at(due_ns, self._threshold)

    def _threshold(self) -> None:
        self._timer = None
        if self._is_stopped or self.state is NOTIFIED or self.queue.first_available() is None:
            return
        now_ns = self._monitors.scheduler.clock.now_ns
        if self.queue.receivers_waiting:
            self._quiet_since_ns = now_ns
        elif now_ns - self._quiet_since_ns >= THRESHOLD_NS:
            self._launch()
        self._set_timer()

    def _launch(self) -> None:
        """Launch a reader, unless MAX_QUEUE_READERS are running."""
        monitors = self._monitors
        self._quiet_since_ns = monitors.scheduler.clock.now_ns
        if not self._launches_procedures:
            if monitors.notifier.notify_of_queue(self._database, self.queue, "QUEUE_ACTIVATION"):
                self._launched()
                if self.state is NOTIFIED:
                    due_ns = monitors.scheduler.clock.now_ns + NOTIFICATION_TIMEOUT_NS
                    self._response_timer = monitors.scheduler.call_at(due_ns, self._no_response)
            return
        if len(self._monitors.readers_of(self.queue)) >= (self.queue.max_readers or 0):
            monitors.counters.task_limit_reached += 1
            return
        self._launched()
        reader = QueueReader(self.queue)
        monitors.counters.tasks_started += 1
        monitors.counters.tasks_running += 1
        reader.task = monitors.scheduler.spawn(self._run(reader), f"reader of {self.queue.qualified_name}")
        monitors.readers[reader.task] = reader

    def _launched(self) -> None:
        self.last_activated_time = self._monitors.scheduler.clock.utc_ns()
        self._enter(MonitorEvent.LAUNCHED)

    def _enter(self, event: MonitorEvent) -> None:
        self.state = TRANSITIONS[self.state, event]

    def _no_response(self) -> None:
        """Notify again if something can be received."""
        self._response_timer = None
        self._check_after(MonitorEvent.TIME_OUT)

    def _stop_response_timer(self) -> None:
        if self._response_timer is not None:
            self._response_timer.cancel()
            self._response_timer = None

    def _run(self, reader: QueueReader) -> Waiting[None]:
        monitors, queue = self._monitors, self.queue
        counters = monitors.counters
        pause_ns, event = 0, MonitorEvent.READERS_GONE
        try:
            while True:
                reader.received_rows = False
                counters.procedures_invoked += 1
                rollbacks = counters.rollbacks
                yield from monitors.platform.cpu("launch")
                yield from monitors.activate(self._database, queue)
                if not reader.received_rows or self._is_stopped:
                    break
                if counters.rollbacks != rollbacks:
                    yield Delay(AFTER_A_ROLLBACK_NS)
        except SqlServerError as error:
            pause_ns = AFTER_AN_ERROR_NS
            if error.number in _NOT_LAUNCHED:
                pause_ns, event = THRESHOLD_NS, MonitorEvent.TIME_OUT
            counters.tasks_aborted += 1
            counters.activation_errors += 1
            where = f"{self._database.name}.{queue.qualified_name}"
            monitors.error_log.write(SqlServerError(9724, reader.procedure_name, where, error.text).text)
        finally:
            counters.tasks_running -= 1
            if reader.task is not None:
                monitors.readers.pop(reader.task, None)
        monitor = monitors.all.get(queue)
        if monitor is not None and not monitors.readers_of(queue):
            monitor.last_reader_ended(event, pause_ns)

    def last_reader_ended(self, event: MonitorEvent, pause_ns: int) -> None:
        """Launch a reader again if something can be received; after an error with a pause."""
        if pause_ns:
            self._monitors.scheduler.spawn(self._check_later(event, pause_ns), "activation check")
        else:
            self._check_after(event)

    def _check_later(self, event: MonitorEvent, pause_ns: int) -> Waiting[None]:
        yield Delay(pause_ns)
        if not self._is_stopped and not self._monitors.readers_of(self.queue):
            self._check_after(event)

    def _check_after(self, event: MonitorEvent) -> None:
        self._enter(event)
        self.check()


class PoisonDetection:
    """Disables a queue after too many rollbacks in a row."""

    def __init__(
        self, environment: Environment, databases: Databases, transactions: Transactions, notifier: Notifier
    ) -> None:
        self._counters = environment.counters
        self._error_log = environment.error_log
        self._databases = databases
        self._transactions = transactions
        self._notifier = notifier

    def rolled_back(self, queues: Iterable[Queue]) -> None:
        """Count the rollback of a transaction that received from these queues."""
        self._counters.rollbacks += 1
        for queue in queues:
            queue.rollbacks += 1
            if queue.is_poison_message_handling_enabled and queue.rollbacks >= POISON_ROLLBACKS:
                queue.rollbacks = 0
                name = queue.qualified_name
                self._error_log.write(f"The queue '{name}' was disabled: {POISON_ROLLBACKS} rollbacks in a row.")
                self._transactions.spawn(f"disable {name}", partial(self._disable, queue=queue))

    def _disable(self, tx: Transaction, queue: Queue) -> Waiting[None]:
        """Set STATUS = OFF."""
        database = self._databases.by_id(queue.database_id)
        if database is None:  # dropped meanwhile
            return
        ddl_services.alter_queue(tx, database.catalog, queue.schema, queue.name, QueueOptions(status=False))
        tx.on_commit(partial(self._notifier.notify_of_queue, database, queue, "BROKER_QUEUE_DISABLED"))
        yield from ()  # never waits, but is a task like the others
