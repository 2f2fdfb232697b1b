"""Event notifications of queues: QUEUE_ACTIVATION (external activation) and BROKER_QUEUE_DISABLED."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from harness.embedded.broker import system
from harness.embedded.broker.objects import EventNotification
from harness.embedded.broker.queues import Queue
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import MILLISECOND, Waiting

if TYPE_CHECKING:
    from harness.embedded.broker.engine import Engine


class Notifier:
    """Sends notifications on conversations that stay open: "ending one stops the messages and it does not reopen"."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def notify(self, queue: Queue, event: str) -> bool:
        """Sends the event to everybody who asked for it; False if nobody did."""
        interested = [one for one in queue.notifications.values() if one.event == event]
        for notification in interested:
            self._engine.scheduler.spawn(self._send(notification), f"notification {notification.name}")
        return bool(interested)

    def _send(self, notification: EventNotification) -> Waiting[None]:
        engine, queue = self._engine, notification.queue
        database = queue.database
        tx = engine.begin_transaction()
        try:
            if notification.conversation_handle is None:
                handle = yield from engine.dialogs.begin(
                    database,
                    tx,
                    from_service=system.EVENT_NOTIFICATION_SERVICE,
                    to_service=notification.service,
                    to_broker_instance=notification.broker_instance,
                    contract=system.POST_EVENT_NOTIFICATION,
                    related_conversation=None,
                    related_group=None,
                    lifetime_s=None,
                    encryption=False,
                    is_system=True,
                )
                notification.conversation_handle = handle
                tx.on_rollback(partial(setattr, notification, "conversation_handle", None))
                database.store_notification(tx, notification)
            elif notification.conversation_handle not in database.endpoints:
                tx.rollback()
                return
            body = self._body(notification)
            yield from database.send(tx, [notification.conversation_handle], system.EVENT_NOTIFICATION, body)
            yield from tx.commit()
        except SqlServerError as error:
            if tx.active:
                tx.rollback()
            engine.log(f"Event notification '{notification.name}' could not be sent: {error.text}")

    def _body(self, notification: EventNotification) -> bytes:
        queue, engine = notification.queue, self._engine
        elements = (
            ("EventType", notification.event),
            ("PostTime", engine.datetime_text(engine.clock.utc_ns() // MILLISECOND * MILLISECOND)),
            ("SPID", "0"),
            ("ServerName", engine.name),
            ("LoginName", "sa"),
            ("UserName", "dbo"),
            ("DatabaseName", queue.database.name),
            ("SchemaName", queue.schema),
            ("ObjectName", queue.name),
            ("ObjectType", "QUEUE"),
        )
        inner = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in elements)
        return f"\ufeff<EVENT_INSTANCE>{inner}</EVENT_INSTANCE>".encode("utf-16-le")
