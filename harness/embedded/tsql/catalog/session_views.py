"""Sessions and requests, and what Service Broker is doing: sys.dm_exec_* and sys.dm_broker_*."""

from __future__ import annotations

from collections.abc import Iterator

from harness.embedded.broker.monitors import QueueMonitor
from harness.embedded.tsql.catalog.server_views import ADMIN_ENDPOINT, TCP_ENDPOINT
from harness.embedded.tsql.catalog.view import Context, View
from harness.embedded.tsql.instance.instance import ConnectedSession
from harness.embedded.tsql.permissions.guard import sees_server_state


def _sessions(context: Context) -> list[ConnectedSession]:
    if not sees_server_state(context.session):
        return [context.session]
    return list(context.instance.sessions.values())


def _requests(context: Context) -> Iterator[ConnectedSession]:
    return (session for session in _sessions(context) if session.is_running)


def _endpoint_id(session: ConnectedSession) -> int:
    return ADMIN_ENDPOINT if session.is_administrative else TCP_ENDPOINT


def _status(session: ConnectedSession) -> str:
    if session.wait_type is not None:
        return "suspended"
    return "running" if session.is_running else "sleeping"


def _queue_monitors(context: Context) -> list[QueueMonitor]:
    monitors = context.engine.monitors.all
    queues = [queue for database in context.engine.databases.values() for queue in database.catalog.queues.values()]
    return [monitors[queue] for queue in queues if queue in monitors]


VIEWS = [
    View(
        "dm_broker_queue_monitors",
        """
        database_id             int
        queue_id                int
        state                   nvarchar(32)  <- state.value
        last_empty_rowset_time  datetime
        last_activated_time     datetime
        tasks_waiting           int
        """,
        _queue_monitors,
    ),
    View(
        "dm_broker_activated_tasks",
        """
        spid            int
        database_id     smallint
        queue_id        int
        procedure_name  nvarchar(650)
        execute_as      int            = 1
        """,
        lambda context: list(context.engine.monitors.readers.values()),
    ),
    View(
        "dm_exec_sessions",
        """
        session_id                   smallint NOT NULL       <- spid
        login_time                   datetime NOT NULL       <- login_time_ns
        host_name                    nvarchar(128)           <- host
        program_name                 nvarchar(128)           <- program
        login_name                   nvarchar(128) NOT NULL  <- login
        original_login_name          nvarchar(128) NOT NULL  <- login
        status                       nvarchar(30) NOT NULL
        database_id                  smallint NOT NULL       <- database.database_id
        is_user_process              bit NOT NULL
        open_transaction_count       int NOT NULL            <- tran_count
        transaction_isolation_level  smallint NOT NULL       <- options.isolation_level
        lock_timeout                 int NOT NULL            <- options.lock_timeout_ms
        row_count                    bigint NOT NULL
        prev_error                   int NOT NULL            <- error_number
        endpoint_id                  int NOT NULL
        """,
        _sessions,
        status=_status,
        endpoint_id=_endpoint_id,
    ),
    View(
        "dm_exec_requests",
        """
        session_id              smallint NOT NULL      <- spid
        request_id              int NOT NULL           = 0
        status                  nvarchar(30) NOT NULL
        database_id             smallint NOT NULL      <- database.database_id
        wait_type               nvarchar(60)
        blocking_session_id     smallint               = 0
        open_transaction_count  int NOT NULL           <- tran_count
        row_count               bigint NOT NULL
        """,
        _requests,
        status=_status,
    ),
]
