"""The queue in which event notifications arrive, over one connection."""

from dataclasses import dataclass, field
from typing import Any

from harness.activator import event
from harness.activator.config import Config, WatchedQueue
from harness.activator.event import Activation, NotAnEvent
from harness.activator.statements import END_DIALOG, ERROR, first_rows
from harness.failures import MachineFailure
from harness.files.script_text import substitute
from harness.lab import drivers, error_remedies, interruption
from harness.lab.drivers import Connection, Driver, OdbcError
from harness.lab.error_remedies import error_text

EVENT_NOTIFICATION = "http://schemas.microsoft.com/SQL/Notifications/EventNotification"
WAIT_MS = 1000  # for a notification; processes that have ended are noticed in between
_ANSWER_TIMEOUT_S = 30  # for a statement; a server that takes longer counts as lost
_LOCK_TIMEOUT_MS = 2000  # the server may not have noticed yet that the last activator is gone
_SHOWN = 200  # characters of an error's text

_EXISTS = "SELECT COUNT(*) FROM sys.service_queues WHERE object_id = OBJECT_ID(N'{queue}');"
_TAKE_LOCK = """
DECLARE @status int;
EXECUTE @status = sp_getapplock
    @Resource = N'harness activator {queue}', @LockMode = 'Exclusive', @LockOwner = 'Session', @LockTimeout = {ms};
SELECT @status;
"""
_RECEIVE = """
SET NOCOUNT ON;
BEGIN TRANSACTION;
WAITFOR (
    RECEIVE TOP (100) conversation_handle, message_type_name, message_body
    FROM {queue}
), TIMEOUT {ms};
"""
_MISSING = """
EXECUTE [$(Database)].sys.sp_executesql N'
SELECT CASE
    WHEN HAS_PERMS_BY_NAME(DB_NAME(), N''DATABASE'', N''VIEW DEFINITION'') = 0 THEN N''''
    WHEN NOT EXISTS (SELECT 1 FROM sys.service_queues AS q WHERE q.object_id = OBJECT_ID(N''$(Queue)'')) THEN N''queue''
    WHEN NOT EXISTS
    (
        SELECT 1
        FROM sys.event_notifications AS n
        JOIN sys.events AS e ON e.object_id = n.object_id AND e.type_desc = N''QUEUE_ACTIVATION''
        WHERE n.parent_id = OBJECT_ID(N''$(Queue)'')
    ) THEN N''notification''
    ELSE N''''
END;';
"""
_COMMIT = "IF @@TRANCOUNT > 0 COMMIT TRANSACTION;"
_END = "END CONVERSATION '{handle}';"


class NotificationsLost(MachineFailure):
    """The notifications cannot be read: no server, no login, no queue, or another activator reads them."""


@dataclass
class Received:
    """What one transaction has received."""

    activations: list[Activation] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)  # lines for the user


class Notifications:
    """A connection that holds the lock of its queue. Every method raises NotificationsLost; then open a new one."""

    def __init__(self, config: Config, driver: Driver) -> None:
        server = config.server
        self._queue = server.notification_queue
        self._place = f"{server.host}:{server.port}, {server.database}.{self._queue}"
        if reason := error_remedies.out_of_reach(server.host, server.port):
            raise NotificationsLost(f"{self._place}: {reason}")
        try:
            self._connection: Connection = drivers.connect(config.connection_string(driver))
        except OdbcError as error:
            raise NotificationsLost(f"{self._place}: {error_text(error)}") from None
        self._connection.timeout = _ANSWER_TIMEOUT_S
        try:
            self._require_queue()
            self._take_lock()
        except BaseException:
            self.close()
            raise

    def _require_queue(self) -> None:
        [[exists]] = self._run(_EXISTS.format(queue=self._queue))
        if not exists:
            remedy = "sql/activation/queue.sql creates it"
            raise NotificationsLost(f"{self._place}: there is no such queue, or the login may not see it: {remedy}")

    def _take_lock(self) -> None:
        [[status]] = self._run(_TAKE_LOCK.format(queue=self._queue.lower(), ms=_LOCK_TIMEOUT_MS))
        if status < 0:
            raise NotificationsLost(f"{self._place}: another activator reads this queue: end one of the two")

    def doubt(self, queue: WatchedQueue) -> str:
        """Return why no notification of a queue comes; "" where one may, or where the login may not see that."""
        try:
            [[missing]] = self._run(substitute(_MISSING, {"Database": queue.database, "Queue": queue.name}))
        except NotificationsLost as error:
            return f"{queue.full_name}: {error}"
        if missing == "queue":
            return f"there is no queue {queue.full_name}: check its name and database"
        if missing == "notification":
            remedy = "sql/activation/notification.sql creates one"
            return f"{queue.full_name} has no event notification QUEUE_ACTIVATION, so none will come: {remedy}"
        return ""

    def receive(self) -> Received:
        """Begin a transaction and receive what is there, or wait for it up to a second. `commit` ends it."""
        received = Received()
        for handle, kind, body in self._run(_RECEIVE.format(queue=self._queue, ms=WAIT_MS)):
            if kind == EVENT_NOTIFICATION:
                try:
                    received.activations.append(event.parse(body or b""))
                except NotAnEvent as error:
                    received.remarks.append(f"{self._queue}: a notification is ignored: {error}")
                continue
            if kind in (ERROR, END_DIALOG):
                self._run(_END.format(handle=handle))
                received.remarks.append(f"{self._queue}: {_ended(kind, body)}")
            else:
                received.remarks.append(f"{self._queue}: a message of the type {str(kind)[:_SHOWN]} is ignored")
        return received

    def commit(self) -> None:
        self._run(_COMMIT)

    def close(self) -> None:
        """Roll back what is not committed."""
        interruption.close(self._connection)

    def _run(self, statement: str) -> list[Any]:
        try:
            return first_rows(self._connection, statement)
        except OdbcError as error:
            raise NotificationsLost(f"{self._place}: {error_text(error)}") from None


def _ended(kind: str, body: bytes | None) -> str:
    """Say what has become of an event notification: EndDialog comes where it is dropped."""
    if kind == END_DIALOG:
        happened = "an event notification was dropped, alone or with its queue"
        return f"{happened}; unless there is a new one, run sql/activation/notification.sql"
    happened = f"the conversation of an event notification has ended: {_text(body)}"
    return f"{happened}; sql/activation/notification.sql begins a new one"


def _text(body: bytes | None) -> str:
    """The description in an error message: `<Error ...><Code>-1</Code><Description>...</Description></Error>`."""
    text = (body or b"").decode("utf-16", "replace")
    _, _, description = text.partition("<Description>")
    return " ".join((description.partition("</Description>")[0] or text).split())[:_SHOWN]
