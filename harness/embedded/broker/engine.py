"""One instance of SQL Server, as far as Service Broker goes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Protocol

from harness.embedded.broker.arrival import Arrival
from harness.embedded.broker.conversations import ConversationEndpoint
from harness.embedded.broker.counters import Counters
from harness.embedded.broker.database import HANDLE_PREFIX_BYTES, Database
from harness.embedded.broker.ddl_instance import InstanceStatements
from harness.embedded.broker.delivery import Delivery
from harness.embedded.broker.dialogs import Dialogs
from harness.embedded.broker.expiry import Expiry
from harness.embedded.broker.frames import Frame
from harness.embedded.broker.identifiers import random_guid
from harness.embedded.broker.monitors import QueueMonitor, QueueReader
from harness.embedded.broker.notifications import Notifier
from harness.embedded.broker.objects import BrokerEndpoint
from harness.embedded.broker.queues import Queue
from harness.embedded.broker.receiving import Receiving
from harness.embedded.broker.recovery import recover
from harness.embedded.broker.routing import Router
from harness.embedded.broker.security import Login
from harness.embedded.broker.sending import Sending
from harness.embedded.broker.transactions import Transaction
from harness.embedded.broker.transmission import Transmitter
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.platform import Platform, RealPlatform
from harness.embedded.runtime.tasks import SECOND, Entropy, Scheduler, Task, Waiting
from harness.embedded.runtime.waits import WaitStatistics
from harness.embedded.store import Store

ERROR_LOG_LINES = 1000
# database_id and name; whether the broker is enabled after setup
SYSTEM_DATABASES = ((1, "master", False), (2, "tempdb", True), (4, "msdb", True))


class Transport(Protocol):
    """Carries frames between brokers; implemented over TCP by `embedded.server`, by arrays in tests."""

    def listen(self, host: str, port: int) -> None: ...

    def stop_listening(self) -> None: ...

    def send(self, address: tuple[str, int], frames: Sequence[Frame]) -> None:
        """Never blocks. What cannot be delivered may be lost: the broker sends again what is not acknowledged."""
        ...


class Engine(InstanceStatements):
    """One instance: databases, logins, the broker endpoint, and the machinery between them.

    After construction the system databases are there; `recover` brings what the store has and must be called once,
    before anything else.
    """

    def __init__(
        self,
        *,
        name: str,
        version: str,
        scheduler: Scheduler,
        entropy: Entropy,
        store: Store,
        transport: Transport | None = None,
        platform: Platform | None = None,
        waits: WaitStatistics | None = None,
    ) -> None:
        self.name = name
        self.version = version
        self.scheduler = scheduler
        self.clock = scheduler.clock
        self.entropy = entropy
        self.store = store
        self.transport = transport
        self.platform: Platform = platform or RealPlatform()
        self.waits = waits or WaitStatistics()  # given where the platform counts waits too
        self.counters = Counters()
        self.error_log: deque[str] = deque(maxlen=ERROR_LOG_LINES)  # ERRORLOG, newest last
        self.databases: dict[str, Database] = {}  # by name, lower case
        self.logins: dict[str, Login] = {}  # by name, lower case
        self.broker_endpoint: BrokerEndpoint | None = None
        self.conversations: dict[tuple[str, bool], ConversationEndpoint] = {}  # by id and is_initiator
        self.readers: dict[Task, QueueReader] = {}
        self.activate: Callable[[Database, Queue], Waiting[None]] = self._no_procedures
        self._transactions = 0
        self.router = Router(self)
        self.delivery = Delivery(self)
        self.dialogs = Dialogs(self)
        self.sending = Sending(self)
        self.receiving = Receiving(self)
        self.expiry = Expiry(self)
        self.transmitter = Transmitter(self)
        self.arrival = Arrival(self)
        self._notifier = Notifier(self)
        for database_id, database, is_broker_enabled in SYSTEM_DATABASES:
            self.add_database(database, database_id).is_broker_enabled = is_broker_enabled
        self.transmitter.start()
        self.arrival.start()

    def begin_transaction(self) -> Transaction:
        self._transactions += 1
        return Transaction(self, self._transactions)

    def recover(self) -> None:
        """Loads everything from the store, before anything runs."""
        recover(self)

    def add_database(
        self, name: str, database_id: int, guid: str | None = None, handle_prefix: bytes | None = None
    ) -> Database:
        """A database with nothing but system objects, in memory."""
        prefix = handle_prefix or self.entropy.random_bytes(HANDLE_PREFIX_BYTES)
        database = Database(self, name, database_id, guid or self.new_guid(), prefix)
        database.add_system_objects(database)
        self.databases[name.lower()] = database
        self.router.changed()
        return database

    # Called by the transport, on the loop

    def on_frames(self, peer: object, frames: Sequence[Frame]) -> None:
        """Frames from another broker; `peer` is any name of it."""
        self.arrival.on_frames(frames)

    def on_connection_state(self, address: tuple[str, int], up: bool, error: str) -> None:
        """A connection of ours was made, or is gone; `error` becomes the transmission status."""
        text = SqlServerError(9754, error).text if error else ""
        self.transmitter.connection_changed(address, up, text)

    # What the parts of the broker ask of each other

    def new_guid(self) -> str:
        return random_guid(self.entropy)

    def database_of_broker(self, guid: str) -> Database | None:
        for database in self.databases.values():
            if database.service_broker_guid == guid:
                return database
        return None

    def log(self, text: str) -> None:
        """A line of ERRORLOG."""
        self.error_log.append(f"{self.datetime_text(self.clock.utc_ns())} {text}")

    @staticmethod
    def datetime_text(utc_ns: int) -> str:
        """A datetime as XML and ERRORLOG write it."""
        return datetime.fromtimestamp(utc_ns / SECOND, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")

    def notify(self, queue: Queue, event: str) -> bool:
        return self._notifier.notify(queue, event)

    def refresh(self, database: Database) -> None:
        """After a change of broker objects: monitors come and go, messages that waited try again."""
        for queue in database.queues.values():
            self._refresh_monitor(queue)
        self.transmitter.try_all_again()

    def _refresh_monitor(self, queue: Queue) -> None:
        is_watched = any(one.event == "QUEUE_ACTIVATION" for one in queue.notifications.values()) or (
            queue.is_activation_enabled and queue.activation_procedure is not None
        )
        if not (is_watched and queue.is_receive_enabled and queue.database.is_broker_enabled):
            self.stop_monitor(queue)
            return
        if queue.monitor is None:
            queue.monitor = QueueMonitor(self, queue)
        queue.monitor.check()

    @staticmethod
    def stop_monitor(queue: Queue) -> None:
        if queue.monitor is not None:
            queue.monitor.stop()
            queue.monitor = None

    def _no_procedures(self, database: Database, queue: Queue) -> Waiting[None]:
        raise SqlServerError(9614, queue.name)
        yield

    # Views

    def queue_monitors(self) -> Iterator[QueueMonitor]:
        """sys.dm_broker_queue_monitors"""
        for database in self.databases.values():
            for queue in database.queues.values():
                if queue.monitor is not None:
                    yield queue.monitor

    def activated_tasks(self) -> Iterator[QueueReader]:
        """sys.dm_broker_activated_tasks"""
        return iter(self.readers.values())

    def current_reader(self) -> QueueReader | None:
        """The activated task that runs now; the session that runs its procedure enters its `spid` there."""
        task = self.scheduler.current
        return self.readers.get(task) if task is not None else None
