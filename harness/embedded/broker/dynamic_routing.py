"""Dynamic routing: asks the service SQL/ServiceBroker/BrokerConfiguration for what a dialog lacks.

A database that has a route to that service, and none to the service of a dialog, sends it a MissingRoute message; where
a dialog to another instance has no remote service binding, a MissingRemoteServiceBinding message. The application
behind it creates the route or binding and ends the conversation, or ends it with an error; the broker then tries to
route again. A dialog with ENCRYPTION = OFF then goes on without a binding, too.
"Service Broker sends one MissingRoute message at a time for a specific service, regardless of the number of
conversations to the service." Requests are kept in memory: a restart asks again.
"""

import html
from functools import partial

from harness.embedded.broker import system_objects
from harness.embedded.broker.database import ConversationEndpoint, Database
from harness.embedded.broker.dialogs import Dialogs
from harness.embedded.broker.router import BROKER_CONFIGURATION
from harness.embedded.broker.transactions import Transaction, Transactions
from harness.embedded.runtime.tasks import SECOND, Waiting

# "After a time-out period, Service Broker again requests a route": how long is not documented.
PAUSE_NS = 60 * SECOND

_Missing = tuple[int, str, str | None, str]  # database_id, service, broker instance, message type


class ConfigurationRequests:
    def __init__(self, transactions: Transactions, dialogs: Dialogs) -> None:
        self._transactions = transactions
        self._clock = transactions.scheduler.clock
        self._dialogs = dialogs
        self._open: dict[str, _Missing] = {}  # by conversation handle
        self._not_before_ns: dict[_Missing, int] = {}

    def ask(self, endpoint: ConversationEndpoint, request: str) -> None:
        """Ask for what this endpoint's messages lack unless a request is open or was answered a short while ago."""
        # A binding is for a service in every broker instance.
        instance = endpoint.far_broker_instance if request == system_objects.MISSING_ROUTE else None
        missing = (endpoint.database.database_id, endpoint.terms.far_service, instance, request)
        if missing in self._open.values() or self._clock.now_ns < self._not_before_ns.get(missing, 0):
            return
        self._not_before_ns[missing] = self._clock.now_ns + PAUSE_NS
        self._transactions.spawn(
            f"way to {missing[1]}",
            partial(self._send, database=endpoint.database, missing=missing),
            f"A route or remote service binding for service '{missing[1]}' could not be requested: ",
        )

    def _send(self, tx: Transaction, database: Database, missing: _Missing) -> Waiting[None]:
        _, service, instance, name = missing
        handle = yield from self._dialogs.begin(
            tx,
            database,
            from_service=system_objects.BROKER_SERVICE,
            to_service=BROKER_CONFIGURATION,
            contract=system_objects.CONFIGURATION_NOTICE,
            encryption=False,
            is_system=True,
        )
        elements = f"<SERVICE_NAME>{html.escape(service, quote=False)}</SERVICE_NAME>"
        if instance is not None:
            elements += f"<BROKER_INSTANCE>{html.escape(instance, quote=False)}</BROKER_INSTANCE>"
        element = name.rpartition("/")[2]
        body = f'\ufeff<{element} xmlns="{name}">{elements}</{element}>'.encode("utf-16-le")
        yield from self._dialogs.send(tx, database, [handle], name, body)
        tx.put(self._open, handle, missing)

    def answered(self, endpoint: ConversationEndpoint) -> None:
        """End this side of a request that the configuration service has ended, and try to route again."""
        if endpoint.terms.far_service != BROKER_CONFIGURATION:
            return
        handle = endpoint.terms.conversation_handle
        missing = self._open.pop(handle, None)
        if missing is not None:
            self._not_before_ns[missing] = self._clock.now_ns + PAUSE_NS
            if missing[3] == system_objects.MISSING_BINDING:
                endpoint.database.unbound_services.add(missing[1])
        self._transactions.spawn(f"end {handle}", partial(self._end, database=endpoint.database, handle=handle))

    def _end(self, tx: Transaction, database: Database, handle: str) -> Waiting[None]:
        changes = database.catalog.changes
        changes.count()
        tx.on_commit(partial(changes.committed, database.catalog))
        yield from self._dialogs.end(tx, database, handle)
