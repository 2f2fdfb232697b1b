"""Event notifications of queues: QUEUE_ACTIVATION (external activation) and BROKER_QUEUE_DISABLED."""

from __future__ import annotations

from functools import partial
from xml.sax.saxutils import escape

from harness.embedded.broker import ddl_queues, system_objects
from harness.embedded.broker.database import Database
from harness.embedded.broker.definitions import EventNotification
from harness.embedded.broker.dialogs import Dialogs
from harness.embedded.broker.error_log import ErrorLog, datetime_text
from harness.embedded.broker.queues import Queue
from harness.embedded.broker.sending import Sending
from harness.embedded.broker.transactions import Transactions
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import MILLISECOND, Waiting


class Notifier:
    """Sends notifications on conversations that stay open: "ending one stops the messages and it does not reopen"."""

    def __init__(self, transactions: Transactions, dialogs: Dialogs, sending: Sending, error_log: ErrorLog) -> None:
        self._transactions = transactions
        self._dialogs = dialogs
        self._sending = sending
        self._error_log = error_log

    def notify(self, database: Database, queue: Queue, event: str) -> bool:
        """Sends an event of a queue to all its notifications of that event; False if there are none."""
        interested = [one for one in queue.notifications.values() if one.event == event]
        for notification in interested:
            self._transactions.scheduler.spawn(
                self._send(database, queue, notification), f"notification {notification.name}"
            )
        return bool(interested)

    def _send(self, database: Database, queue: Queue, notification: EventNotification) -> Waiting[None]:
        tx = self._transactions.begin()
        try:
            if notification.conversation_handle is None:
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
                notification.conversation_handle = handle
                tx.on_rollback(partial(setattr, notification, "conversation_handle", None))
                ddl_queues.store_notification(tx, database.catalog, queue, notification)
            elif notification.conversation_handle not in database.endpoints:
                tx.rollback()
                return
            body = self._body(database, queue, notification)
            handles = [notification.conversation_handle]
            yield from self._sending.send(tx, database, handles, system_objects.EVENT_NOTIFICATION, body)
            yield from tx.commit()
        except SqlServerError as error:
            if tx.active:
                tx.rollback()
            self._error_log.write(f"Event notification '{notification.name}' could not be sent: {error.text}")

    def _body(self, database: Database, queue: Queue, notification: EventNotification) -> bytes:
        now_ns = self._transactions.scheduler.clock.utc_ns()
        elements = (
            ("EventType", notification.event),
            ("PostTime", datetime_text(now_ns // MILLISECOND * MILLISECOND)),
            ("SPID", "0"),
            ("ServerName", self._transactions.instance),
            ("LoginName", "sa"),
            ("UserName", "dbo"),
            ("DatabaseName", database.name),
            ("SchemaName", queue.schema),
            ("ObjectName", queue.name),
            ("ObjectType", "QUEUE"),
        )
        inner = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in elements)
        return f"\ufeff<EVENT_INSTANCE>{inner}</EVENT_INSTANCE>".encode("utf-16-le")
