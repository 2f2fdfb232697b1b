"""Dynamic management views: queue monitors, activated tasks, connections, waits, counters, sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from harness.embedded.runtime.tasks import MILLISECOND
from harness.embedded.tsql.catalog.security import ADMIN_ENDPOINT, TCP_ENDPOINT
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
    nchar,
    nvarchar,
    smallint,
)
from harness.embedded.tsql.permissions.guard import sees_server_state
from harness.embedded.tsql.storage.moments import datetime_from_utc_ns

if TYPE_CHECKING:
    from harness.embedded.tsql.session.session import Session

DBO = 1


def _usage(context: Context) -> list[tuple[Any, int, int]]:
    """One row: the process, when it started, how long it has run (ms)."""
    clock, started_ns = context.engine.clock, context.instance.started_ns
    return [(context.instance.usage(), started_ns, (clock.utc_ns() - started_ns) // MILLISECOND)]


def _sessions(context: Context) -> list[Session]:
    if not sees_server_state(context.session):
        return [context.session]
    return list(context.instance.sessions.values())


def _requests(context: Context) -> Iterator[Session]:
    return (session for session in _sessions(context) if session.is_running)


def _endpoint_id(session: Session) -> int:
    return ADMIN_ENDPOINT if session.is_administrative else TCP_ENDPOINT


def _status(session: Session) -> str:
    if session.wait_type is not None:
        return "suspended"
    return "running" if session.is_running else "sleeping"


def _connections(context: Context) -> list[Any]:
    transport = context.engine.transport
    describe = getattr(transport, "connections", None)
    return list(describe()) if callable(describe) else []


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
        lambda context: list(context.engine.queue_monitors()),
    ),
    View(
        "dm_broker_activated_tasks",
        [
            attribute("spid", int_),
            attribute("database_id", smallint),
            attribute("queue_id", int_),
            attribute("procedure_name", nvarchar(650)),
            column("execute_as", int_, DBO),
        ],
        lambda context: list(context.engine.activated_tasks()),
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
        "dm_os_wait_stats",
        [
            column("wait_type", nvarchar(60), lambda row: row[0], nullable=False),
            column("waiting_tasks_count", bigint, lambda row: row[1].waiting_tasks_count, nullable=False),
            column("wait_time_ms", bigint, lambda row: row[1].wait_ns // MILLISECOND, nullable=False),
            column("max_wait_time_ms", bigint, lambda row: row[1].max_wait_ns // MILLISECOND, nullable=False),
            column("signal_wait_time_ms", bigint, lambda row: row[1].signal_ns // MILLISECOND, nullable=False),
        ],
        lambda context: list(context.engine.waits.totals.items()),
    ),
    View(
        "dm_os_performance_counters",
        [
            attribute("object_name", nchar(128), nullable=False),
            attribute("counter_name", nchar(128), nullable=False),
            attribute("instance_name", nchar(128)),
            attribute("cntr_value", bigint, nullable=False),
            attribute("cntr_type", int_, nullable=False),
        ],
        lambda context: list(context.engine.counters.rows()),
    ),
    View(
        "dm_os_sys_info",
        [
            column("cpu_count", int_, lambda row: row[0].cpu_count, nullable=False),
            column("hyperthread_ratio", int_, 1, nullable=False),
            column("scheduler_count", int_, 1, nullable=False),
            column("socket_count", int_, None),
            column("cores_per_socket", int_, None),
            column("numa_node_count", int_, None),
            column("max_workers_count", int_, None),
            column("affinity_type_desc", nvarchar(60), None),
            column("virtual_machine_type_desc", nvarchar(60), None),
            column("sql_memory_model_desc", nvarchar(120), None),
            column("container_type_desc", nvarchar(60), None),
            column("committed_kb", bigint, lambda row: row[0].process_memory_kb),
            column("committed_target_kb", bigint, None),
            column("physical_memory_kb", bigint, lambda row: row[0].physical_memory_kb, nullable=False),
            column("process_user_time_ms", bigint, lambda row: row[0].process_user_time_ms, nullable=False),
            column("process_kernel_time_ms", bigint, lambda row: row[0].process_kernel_time_ms, nullable=False),
            column("ms_ticks", bigint, lambda row: row[2], nullable=False),
            column("sqlserver_start_time", datetime, lambda row: datetime_from_utc_ns(row[1]), nullable=False),
        ],
        _usage,
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
