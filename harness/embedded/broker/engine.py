"""The engine: one instance of SQL Server, as far as Service Broker needs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from harness.embedded.broker.arrival import Acceptance, Arrival
from harness.embedded.broker.broker_link import BrokerLink, Dispatchers, Inboxes, Transport
from harness.embedded.broker.catalog import Catalog
from harness.embedded.broker.database import ConversationEndpoint, Database, Databases, Local
from harness.embedded.broker.ddl_services import Severance
from harness.embedded.broker.definitions import Login
from harness.embedded.broker.delivery import Deadlines, Delivery
from harness.embedded.broker.departure import Departure
from harness.embedded.broker.dialog_security import DialogSecurity
from harness.embedded.broker.dialogs import Dialogs
from harness.embedded.broker.dynamic_routing import ConfigurationRequests
from harness.embedded.broker.environment import Counters, Environment, ErrorLog, ReplaceableEntropy
from harness.embedded.broker.event_notifications import Notifier
from harness.embedded.broker.frames import Frame
from harness.embedded.broker.keys import Keys, NoKeys
from harness.embedded.broker.monitors import Monitors, PoisonDetection
from harness.embedded.broker.queues import Queue
from harness.embedded.broker.receiving import Receiving
from harness.embedded.broker.recovery import recover
from harness.embedded.broker.router import Router
from harness.embedded.broker.transactions import Transactions
from harness.embedded.broker.transmission import Transmitter
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.platform import Platform, RealPlatform, WaitStatistics
from harness.embedded.runtime.tasks import Entropy, Scheduler, Waiting
from harness.embedded.store.group_commit import Store

# database_id and name; whether the broker is enabled after setup
SYSTEM_DATABASES = ((1, "master", False), (2, "tempdb", True), (4, "msdb", True))


def no_procedures(engine: Engine, database: Database, queue: Queue) -> Waiting[None]:
    """Fail to run an activation procedure: without T-SQL there is none."""
    raise SqlServerError(9614, queue.name)
    yield


class Engine:
    """One instance: makes and joins the parts of the broker; callers use the parts.

    Construction makes the system databases. Call `recover` once, before anything else: it loads the store. T-SQL gives
    `activate`, which runs a queue's procedure, and `sending_problem`, which says why a dialog may not reach a service
    of the instance: an empty text if it may.
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
        keys: Keys | None = None,
        hash_password: Callable[[str], bytes] = str.encode,
        error_log: ErrorLog | None = None,
        activate: Callable[[Engine, Database, Queue], Waiting[None]] = no_procedures,
        sending_problem: Callable[[Engine, ConversationEndpoint, Local], str] = lambda *sending: "",
    ) -> None:
        self.name = name
        self.version = version
        self.scheduler = scheduler
        self.store = store
        # What the store keeps of a password. Only a server has a real one: a hash costs time.
        self.hash_password = hash_password
        platform = platform or RealPlatform()
        self.clock = clock = scheduler.clock
        self.entropy = entropy = ReplaceableEntropy(entropy)
        self.waits = waits = waits or WaitStatistics()  # shared with a platform that counts waits too
        self.counters = counters = Counters()
        self.error_log = error_log = error_log or ErrorLog(clock)
        keys = keys or NoKeys(entropy)
        environment = Environment(name, scheduler, clock, entropy, store, platform, waits, counters, error_log, keys)
        self.statements: Any = None  # what runs its T-SQL: the engine and it end together
        self.rows_set_aside = 0  # by recovery, because it could not read them
        self.logins: dict[str, Login] = {}  # by name, lower case
        self.databases = databases = Databases(version, environment, self._refresh)
        self.link = link = BrokerLink(transport, databases, environment)
        # The parts call each other in circles. Each circle is closed here by a lambda, which finds a part that is made
        # further below.
        self.transactions = transactions = Transactions(
            environment,
            prepare=lambda tx: departure.prepare(tx),
            deliver_sent=lambda tx: departure.deliver_sent(tx),
            rolled_back=lambda queues: poison_detection.rolled_back(queues),
        )
        self._dispatchers = dispatchers = Dispatchers(platform.dispatchers)
        self._inboxes = inboxes = Inboxes(platform.dispatchers, counters)
        security = DialogSecurity(environment)
        self.router = router = Router(databases, link, security, clock, partial(sending_problem, self))
        deadlines = Deadlines(scheduler, due=lambda *deadline: self.dialogs.expire(*deadline))
        scheduler.call_when_wall_clock_is_set(deadlines.wall_clock_set)
        self.delivery = delivery = Delivery(environment, deadlines, lambda endpoint: requests.answered(endpoint))
        departure = Departure(transactions, router, delivery, dispatchers, counters)
        self.receiving = Receiving(environment)
        self.dialogs = Dialogs(environment, transactions, delivery, dispatchers)
        requests = ConfigurationRequests(transactions, self.dialogs)
        self._transmitter = transmitter = Transmitter(environment, router, departure, dispatchers, requests)
        self.severance = Severance(delivery, transmitter)
        self.notifier = notifier = Notifier(databases, transactions, self.dialogs)
        self.monitors = Monitors(environment, notifier, partial(activate, self))
        poison_detection = PoisonDetection(environment, databases, transactions, notifier)
        acceptance = Acceptance(environment, router, security, delivery, transmitter, inboxes)
        arrival = Arrival(environment, transactions, router, acceptance, inboxes)
        transmitter.start()
        arrival.start()
        for database_id, database, is_broker_enabled in SYSTEM_DATABASES:
            catalog = databases.add(database, database_id).catalog
            catalog.is_broker_enabled = is_broker_enabled
            catalog.is_trustworthy_on = database == "msdb"

    def recover(self) -> None:
        """Load everything from the store, before anything runs."""
        self.rows_set_aside += recover(
            self.transactions,
            self.databases,
            self.logins,
            self.link,
            self.delivery.deadlines,
            self._dispatchers,
            self.error_log,
        )
        for database in self.databases.values():
            self._refresh(database.catalog)
        self.link.listen()

    def _refresh(self, catalog: Catalog) -> None:
        """Update monitors and retry waiting messages after a change of broker objects."""
        database = self.databases.get(catalog.name.lower())
        if database is not None:
            self.monitors.refresh(database)
        self._transmitter.try_all_again()

    # Called by the transport, on the loop

    def on_frames(self, peer: object, frames: Sequence[Frame]) -> None:
        """Take frames from another broker, `peer`."""
        self._inboxes.put(frames)

    def on_connection_state(self, address: tuple[str, int], is_up: bool, status: str) -> None:
        """Note that our connection is up, or down for a reason that becomes the transmission status."""
        self._transmitter.connection_changed(address, is_up, status)
