"""The engine: one instance of SQL Server, as far as Service Broker needs it."""

from __future__ import annotations

from collections.abc import Sequence

from harness.embedded.broker.acceptance import Acceptance, Replies
from harness.embedded.broker.arrival import Arrival
from harness.embedded.broker.broker_link import BrokerLink, Transport
from harness.embedded.broker.catalog import Catalog, Changes
from harness.embedded.broker.counters import Counters
from harness.embedded.broker.database import ConversationEndpoint, Databases
from harness.embedded.broker.ddl_services import Severance
from harness.embedded.broker.deadlines import Deadlines
from harness.embedded.broker.delivery import Delivery
from harness.embedded.broker.departure import Departure
from harness.embedded.broker.dialog_headers import DialogHeaders
from harness.embedded.broker.dialogs import Dialogs
from harness.embedded.broker.dispatchers import Dispatchers, Inboxes
from harness.embedded.broker.error_log import ErrorLog
from harness.embedded.broker.expiry import Expiry
from harness.embedded.broker.frames import Frame
from harness.embedded.broker.identifiers import ReplaceableEntropy
from harness.embedded.broker.identities import Login
from harness.embedded.broker.local_delivery import LocalDelivery
from harness.embedded.broker.monitors import Monitors
from harness.embedded.broker.notifications import Notifier
from harness.embedded.broker.poison import PoisonDetection
from harness.embedded.broker.receiving import Receiving
from harness.embedded.broker.recovery import recover
from harness.embedded.broker.router import Router
from harness.embedded.broker.sending import Sending
from harness.embedded.broker.transactions import Transactions
from harness.embedded.broker.transmission import Transmitter
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.platform import Platform, RealPlatform
from harness.embedded.runtime.tasks import Entropy, Scheduler
from harness.embedded.runtime.waits import WaitStatistics
from harness.embedded.store import Store

# database_id and name; whether the broker is enabled after setup
SYSTEM_DATABASES = ((1, "master", False), (2, "tempdb", True), (4, "msdb", True))


class Engine:
    """One instance: makes and joins the parts of the broker; callers use the parts.

    Construction makes the system databases. Call `recover` once, before anything else: it loads the store.
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
        self.store = store
        platform = platform or RealPlatform()
        self.clock = clock = scheduler.clock
        self.entropy = entropy = ReplaceableEntropy(entropy)
        self.waits = waits = waits or WaitStatistics()  # shared with a platform that counts waits too
        self.counters = counters = Counters()
        self.error_log = error_log = ErrorLog(clock)
        self.logins: dict[str, Login] = {}  # by name, lower case
        # By id and is_initiator.
        self.conversations: dict[tuple[str, bool], ConversationEndpoint] = {}
        conversations = self.conversations
        changes = Changes()
        changes.committed = self._refresh
        self.databases = databases = Databases(version, clock, entropy, store, changes, conversations)
        self.link = link = BrokerLink(transport, databases, counters, error_log)
        self.transactions = transactions = Transactions(name, store, scheduler, waits)
        self._deadlines = deadlines = Deadlines(scheduler)
        self._dispatchers = dispatchers = Dispatchers(platform.dispatchers)
        self._inboxes = inboxes = Inboxes(platform.dispatchers, counters)
        router = Router(databases, changes, link, clock)
        headers = DialogHeaders(clock)
        self.delivery = delivery = Delivery(clock, entropy, counters, deadlines)
        deadlines.due = Expiry(transactions, delivery, counters, error_log).expire
        local = LocalDelivery(conversations, delivery, headers, router, dispatchers, transactions, counters)
        transactions.prepare = Departure(router, delivery, local, dispatchers, store, counters).prepare
        self.sending = sending = Sending(clock, platform, waits, counters)
        self.receiving = Receiving(scheduler, platform, waits, counters)
        self.dialogs = Dialogs(clock, entropy, platform, waits, sending, delivery, deadlines, dispatchers)
        self._transmitter = transmitter = Transmitter(
            scheduler, platform, dispatchers, router, link, headers, local, databases, counters
        )
        self.severance = Severance(conversations, delivery, transmitter)
        notifier = Notifier(transactions, self.dialogs, sending, error_log)
        self.monitors = Monitors(scheduler, platform, notifier, counters, error_log)
        transactions.rolled_back = PoisonDetection(databases, transactions, notifier, counters, error_log).rolled_back
        replies = Replies(databases, router)
        acceptance = Acceptance(conversations, delivery, transmitter, replies, inboxes, router, counters, error_log)
        arrival = Arrival(inboxes, acceptance, conversations, router, link, transactions, store, platform)
        for database_id, database, is_broker_enabled in SYSTEM_DATABASES:
            databases.add(database, database_id).catalog.is_broker_enabled = is_broker_enabled
        transmitter.start()
        arrival.start(scheduler)

    def recover(self) -> None:
        """Loads everything from the store, before anything runs."""
        recover(self.transactions, self.databases, self.logins, self.link, self._deadlines, self._dispatchers)
        for database in self.databases.values():
            self._refresh(database.catalog)
        self.link.listen()

    def _refresh(self, catalog: Catalog) -> None:
        """Updates monitors and retries waiting messages after a change of broker objects."""
        database = self.databases.get(catalog.name.lower())
        if database is not None:
            self.monitors.refresh(database)
        self._transmitter.try_all_again()

    # Called by the transport, on the loop

    def on_frames(self, peer: object, frames: Sequence[Frame]) -> None:
        """Takes frames from another broker, `peer`."""
        self._inboxes.put(frames)

    def on_connection_state(self, address: tuple[str, int], up: bool, error: str) -> None:
        """Notes that our connection is up or down; `error` becomes the transmission status."""
        text = SqlServerError(9754, error).text if error else ""
        self._transmitter.connection_changed(address, up, text)
