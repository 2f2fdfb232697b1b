"""Event notifications: messages to services about events of a queue, of a database, or of the server.

They travel on conversations that stay open: "ending one stops the messages and it does not reopen". Those of queues are
QUEUE_ACTIVATION (external activation) and BROKER_QUEUE_DISABLED; those of databases and of the server are raised by
T-SQL and by logins.
"""

import html
from collections.abc import Iterable
from functools import partial

from harness.embedded.broker import ddl_services, system_objects
from harness.embedded.broker.database import Database, Databases
from harness.embedded.broker.definitions import EventNotification, Watched
from harness.embedded.broker.dialogs import Dialogs
from harness.embedded.broker.endpoint_states import EndpointEvent, successor
from harness.embedded.broker.environment import datetime_text
from harness.embedded.broker.queues import Queue
from harness.embedded.broker.transactions import Transaction, Transactions
from harness.embedded.runtime.tasks import MILLISECOND, Waiting

OF_SERVER = "msdb"  # the database that keeps what is ON SERVER, and sends from there


def elements(*pairs: tuple[str, object]) -> str:
    """XML elements, from their names and contents."""
    return "".join(f"<{name}>{html.escape(str(value), quote=False)}</{name}>" for name, value in pairs)


class Notifier:
    def __init__(self, databases: Databases, transactions: Transactions, dialogs: Dialogs) -> None:
        self._databases = databases
        self._transactions = transactions
        self._dialogs = dialogs

    def notify_of_queue(self, database: Database, queue: Queue, event: str) -> bool:
        """Send an event of a queue to all its notifications of that event; False if there are none."""
        details = elements(
            ("SPID", 0),
            ("ServerName", self._transactions.instance),
            ("LoginName", "sa"),
            ("UserName", "dbo"),
            ("DatabaseName", database.name),
            ("SchemaName", queue.schema),
            ("ObjectName", queue.name),
            ("ObjectType", "QUEUE"),
        )
        return self._notify(database, queue, event, details)

    def notify(self, event: str, details: str, database: Database | None = None) -> None:
        """Send an event to the notifications ON SERVER, and to those ON DATABASE of the one where it happened."""
        if database is not None:
            self._notify(database, database.catalog.watched, event, details)
        keeper = self._databases[OF_SERVER]
        self._notify(keeper, keeper.catalog.watched_server, event, details)

    def _notify(self, database: Database, watched: Watched, event: str, details: str) -> bool:
        """Send an event to all notifications of something that are about that event; False if there are none.

        WITH FAN_IN means "to send only one message per event to any specified service for all event notifications
        that are created on the same event, are created by the same principal, specify the same service"."""
        interested = {
            (subscription.creator and (subscription.creator, subscription.service, subscription.broker_instance))
            or subscription.object_id: subscription
            for subscription in watched.notifications.values()
            if event in subscription.events
        }
        if not interested:
            return False
        now_ns = self._transactions.scheduler.clock.utc_ns() // MILLISECOND * MILLISECOND
        inner = elements(("EventType", event), ("PostTime", datetime_text(now_ns))) + details
        body = f"\ufeff<EVENT_INSTANCE>{inner}</EVENT_INSTANCE>".encode("utf-16-le")
        for notification in interested.values():
            self._transactions.spawn(
                f"notification {notification.name}",
                partial(self._send, database=database, watched=watched, notification=notification, body=body),
                f"Event notification '{notification.name}' could not be sent: ",
            )
        return True

    def _send(
        self, tx: Transaction, database: Database, watched: Watched, notification: EventNotification, body: bytes
    ) -> Waiting[None]:
        if watched.notifications.get(notification.name.lower()) is not notification:
            return  # dropped meanwhile
        handle = notification.conversation_handle
        if handle is None:
            handle = yield from self._dialogs.begin(
                tx,
                database,
                from_service=system_objects.EVENT_NOTIFICATION_SERVICE,
                to_service=notification.service,
                to_broker_instance=notification.broker_instance,
                contract=system_objects.POST_EVENT_NOTIFICATION,
                encryption=False,
                is_system=True,
            )
            tx.set(notification, "conversation_handle", handle)
            ddl_services.store_notification(tx, database.catalog, watched, notification)
        elif handle not in database.endpoints:
            return
        yield from self._dialogs.send(tx, database, [handle], system_objects.EVENT_NOTIFICATION, body)

    def end(self, tx: Transaction, database: Database, dropped: Iterable[EventNotification]) -> Waiting[None]:
        """End the conversations of dropped notifications: they "stay open until the notification is dropped"."""
        for notification in dropped:
            endpoint = database.endpoints.get(notification.conversation_handle or "")
            if endpoint is not None and successor(endpoint.state, EndpointEvent.END_LOCAL) is not None:
                yield from self._dialogs.end(tx, database, endpoint.terms.conversation_handle)
