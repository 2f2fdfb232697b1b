"""Sessions and requests, and what Service Broker is doing: sys.dm_exec_* and sys.dm_broker_*."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.embedded.broker.monitors import QueueMonitor
from harness.embedded.tsql.catalog.endpoint_views import ADMIN_ENDPOINT, TCP_ENDPOINT
from harness.embedded.tsql.catalog.view import (
    Context,
    View,
    attribute,
    bigint,
    bit,
    column,
    datetime,
    guid,
    int_,
    nvarchar,
    smallint,
)
from harness.embedded.tsql.instance.instance import ConnectedSession
from harness.embedded.tsql.permissions.guard import sees_server_state
from harness.embedded.tsql.permissions.rights import DBO_ID
from harness.embedded.tsql.storage.conversion import datetime_from_utc_ns


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


def _connections(context: Context) -> list[Any]:
    transport = context.engine.link.transport
    describe = getattr(transport, "connections", None)
    return list(describe()) if callable(describe) else []


def _queue_monitors(context: Context) -> list[QueueMonitor]:
    monitors = context.engine.monitors.all
    queues = [queue for database in context.engine.databases.values() for queue in database.catalog.queues.values()]
    return [monitors[queue] for queue in queues if queue in monitors]


VIEWS = [
    View(
        "dm_broker_queue_monitors",
        [
            attribute("database_id", int_),
            attribute("queue_id", int_),
            column("state", nvarchar(32), lambda monitor: monitor.state.value),
            column("last_empty_rowset_time", datetime, lambda m: datetime_from_utc_ns(m.last_empty_rowset_time)),
            column("last_activated_time", datetime, lambda m: datetime_from_utc_ns(m.last_activated_time)),
            attribute("tasks_waiting", int_),
        ],
        _queue_monitors,
    ),
    View(
        "dm_broker_activated_tasks",
        [
            attribute("spid", int_),
            attribute("database_id", smallint),
            attribute("queue_id", int_),
            attribute("procedure_name", nvarchar(650)),
            column("execute_as", int_, DBO_ID),
        ],
        lambda context: list(context.engine.monitors.readers.values()),
    ),
    View(
        "dm_broker_connections",
        [
            column("connection_id", guid, None),
            column("transport_stream_id", guid, None),
            column("state", smallint, 4),
            column("state_desc", nvarchar(60), "LOGGED_IN"),
            column("connect_time", datetime, lambda item: datetime_from_utc_ns(getattr(item, "connect_time", None))),
            column("login_time", datetime, lambda item: datetime_from_utc_ns(getattr(item, "login_time", None))),
            column("authentication_method", nvarchar(128), "Certificate"),
            column("principal_name", nvarchar(128), None),
            column("remote_user_name", nvarchar(128), None),
            column("last_activity_time", datetime, None),
            column("is_accept", bit, lambda item: int(getattr(item, "is_accept", 0))),
            column("login_state", smallint, 12),
            column("login_state_desc", nvarchar(60), "ONLINE"),
            column("total_bytes_sent", bigint, lambda item: getattr(item, "total_bytes_sent", 0)),
            column("total_bytes_received", bigint, lambda item: getattr(item, "total_bytes_received", 0)),
            column("total_sends", bigint, lambda item: getattr(item, "total_sends", 0)),
            column("total_receives", bigint, lambda item: getattr(item, "total_receives", 0)),
        ],
        _connections,
    ),
    View(
        "dm_exec_sessions",
        [
            attribute("session_id", smallint, "spid", nullable=False),
            column("login_time", datetime, lambda s: datetime_from_utc_ns(s.login_time_ns), nullable=False),
            attribute("host_name", nvarchar(128), "host"),
            attribute("program_name", nvarchar(128), "program"),
            attribute("login_name", nvarchar(128), "login", nullable=False),
            attribute("original_login_name", nvarchar(128), "login", nullable=False),
            column("status", nvarchar(30), _status, nullable=False),
            attribute("database_id", smallint, "database.database_id", nullable=False),
            column("is_user_process", bit, lambda session: int(session.is_user_process), nullable=False),
            attribute("open_transaction_count", int_, "tran_count", nullable=False),
            attribute("transaction_isolation_level", smallint, "options.isolation_level", nullable=False),
            attribute("lock_timeout", int_, "options.lock_timeout_ms", nullable=False),
            attribute("row_count", bigint, nullable=False),
            attribute("prev_error", int_, "error_number", nullable=False),
            column("endpoint_id", int_, _endpoint_id, nullable=False),
        ],
        _sessions,
    ),
    View(
        "dm_exec_requests",
        [
            attribute("session_id", smallint, "spid", nullable=False),
            column("request_id", int_, 0, nullable=False),
            column("status", nvarchar(30), _status, nullable=False),
            attribute("database_id", smallint, "database.database_id", nullable=False),
            attribute("wait_type", nvarchar(60)),
            column("blocking_session_id", smallint, 0),
            attribute("open_transaction_count", int_, "tran_count", nullable=False),
            attribute("row_count", bigint, nullable=False),
        ],
        _requests,
    ),
]
