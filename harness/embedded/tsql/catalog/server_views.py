"""The server and its machine: waits, counters, memory, configuration options; its sessions and endpoints."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from harness.embedded.errors import CATALOGUE
from harness.embedded.runtime.tasks import MILLISECOND
from harness.embedded.tsql.catalog.view import Context, View
from harness.embedded.tsql.catalog.visibility import everybody, on_server
from harness.embedded.tsql.instance.instance import ConnectedSession, Usage
from harness.embedded.tsql.permissions.guard import sees_server_state

AUTHENTICATIONS = {  # sys.service_broker_endpoints.connection_auth
    "WINDOWS NTLM": (1, "NTLM"),
    "WINDOWS KERBEROS": (2, "KERBEROS"),
    "WINDOWS NEGOTIATE": (3, "NEGOTIATE"),
    "WINDOWS": (3, "NEGOTIATE"),
    "CERTIFICATE": (4, "CERTIFICATE"),
    "WINDOWS NEGOTIATE CERTIFICATE": (7, "NEGOTIATE, CERTIFICATE"),
    "CERTIFICATE WINDOWS NEGOTIATE": (10, "CERTIFICATE, NEGOTIATE"),
}
ALGORITHMS = {"RC4": (1, "RC4"), "AES": (2, "AES"), "RC4 AES": (5, "RC4, AES"), "AES RC4": (6, "AES, RC4")}
STATES = {"STARTED": 0, "STOPPED": 1, "DISABLED": 2}
ADMIN_ENDPOINT, TCP_ENDPOINT = 1, 4  # of T-SQL, with SQL Server's ids


def _usage(context: Context) -> list[Usage]:
    return [context.instance.usage()]


def _usage_since_start(context: Context) -> list[SimpleNamespace]:
    instance, ms_ticks = context.instance, context.engine.clock.now_ns // MILLISECOND
    return [SimpleNamespace(usage=instance.usage(), sqlserver_start_time=instance.started_ns, ms_ticks=ms_ticks)]


def _schedulers(context: Context) -> list[SimpleNamespace]:
    """The one scheduler of the instance, in a model with the queue for all its processors."""
    sessions = context.instance.sessions.values()
    runnable = context.engine.scheduler.ready_tasks + context.instance.usage().runnable_tasks
    active = sum(session.is_running for session in sessions)
    return [SimpleNamespace(runnable_tasks_count=runnable, active_workers_count=active)]


def _waits(context: Context) -> Iterator[SimpleNamespace]:
    for wait_type, total in context.engine.waits.totals.items():
        yield SimpleNamespace(
            wait_type=wait_type,
            waiting_tasks_count=total.waiting_tasks_count,
            wait_time_ms=total.wait_ns // MILLISECOND,
            max_wait_time_ms=total.max_wait_ns // MILLISECOND,
            signal_wait_time_ms=total.signal_ns // MILLISECOND,
        )


# -- sessions and requests ---------------------------------------------------------------------------------------------


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


# -- endpoints ---------------------------------------------------------------------------------------------------------


def _algorithm(endpoint: Any) -> tuple[int, str]:
    if endpoint.encryption == "DISABLED":
        return 0, "NONE"
    return ALGORITHMS.get(endpoint.algorithm, (2, "AES"))


def _certificate_id(context: Context, name: str | None) -> int:
    master = context.engine.databases["master"]
    certificate = master.catalog.principals.certificate(name) if name else None
    return certificate.certificate_id if certificate is not None else 0


def _broker_endpoints(context: Context) -> Iterator[SimpleNamespace]:
    endpoint, guard = context.engine.link.endpoint, context.session.guard
    if endpoint is None:
        return
    if guard is not None and not guard.allows_on_server("VIEW DEFINITION", "ENDPOINT", endpoint.endpoint_id):
        return
    authentication = AUTHENTICATIONS.get(endpoint.authentication, (4, endpoint.authentication))
    yield SimpleNamespace(
        endpoint=endpoint,
        type=3,
        type_desc="SERVICE_BROKER",
        certificate_id=_certificate_id(context, endpoint.certificate),
        connection_auth=authentication[0],
        connection_auth_desc=authentication[1],
        encryption_algorithm=_algorithm(endpoint)[0],
        encryption_algorithm_desc=_algorithm(endpoint)[1],
    )


def _endpoints(context: Context) -> Iterator[SimpleNamespace]:
    """All endpoints. sys.dm_exec_sessions refers to those of T-SQL."""
    for name, endpoint_id in (("Dedicated Admin Connection", ADMIN_ENDPOINT), ("TSQL Default TCP", TCP_ENDPOINT)):
        endpoint = SimpleNamespace(name=name, endpoint_id=endpoint_id, state="STARTED")
        yield SimpleNamespace(endpoint=endpoint, type=2, type_desc="TSQL")
    yield from _broker_endpoints(context)


def _connections(context: Context) -> Iterator[SimpleNamespace]:
    link = context.engine.link
    for connection in link.connections():
        certificate = link.certificate_of(connection.peer_certificate)
        is_online = connection.login_time is not None
        yield SimpleNamespace(
            connection=connection,
            state=4 if is_online else 3,
            state_desc="LOGGED_IN" if is_online else "CONNECTED",
            login_state=12 if is_online else 1,
            login_state_desc="ONLINE" if is_online else "WAIT LOGIN NEGOTIATE",
            principal_name=None if certificate is None else certificate.owner,
            peer_certificate_id=None if certificate is None else certificate.certificate_id,
            encryption_algorithm=2 if connection.is_encrypted else 0,
            encryption_algorithm_desc="AES" if connection.is_encrypted else "NONE",
        )


ENDPOINT_COLUMNS = """
        name               sysname NOT NULL  <- endpoint.name
        endpoint_id        int NOT NULL      <- endpoint.endpoint_id
        principal_id       int               = 1
        protocol           tinyint NOT NULL  = 2
        protocol_desc      nvarchar(60)      = 'TCP'
        type               tinyint NOT NULL
        type_desc          nvarchar(60)
        state              tinyint
        state_desc         nvarchar(60)      <- endpoint.state
        is_admin_endpoint  bit NOT NULL
        """
COMPUTED: dict[str, Any] = {
    "state": lambda row: STATES[row.endpoint.state],
    "is_admin_endpoint": lambda row: row.endpoint.endpoint_id == ADMIN_ENDPOINT,
}

VIEWS = [
    View(
        "dm_os_wait_stats",
        """
        wait_type            nvarchar(60) NOT NULL
        waiting_tasks_count  bigint NOT NULL
        wait_time_ms         bigint NOT NULL
        max_wait_time_ms     bigint NOT NULL
        signal_wait_time_ms  bigint NOT NULL
        """,
        _waits,
        visible=everybody,
    ),
    View(
        "dm_os_schedulers",
        """
        scheduler_id          int NOT NULL           = 0
        cpu_id                smallint NOT NULL      = 0
        status                nvarchar(60) NOT NULL  = 'VISIBLE ONLINE'
        is_online             bit NOT NULL           = 1
        runnable_tasks_count  int NOT NULL
        active_workers_count  int NOT NULL
        work_queue_count      bigint NOT NULL        = 0
        """,
        _schedulers,
        visible=everybody,
    ),
    View(
        "dm_os_spinlock_stats",
        """
        name                nvarchar(256)
        collisions          bigint
        spins               bigint
        spins_per_collision real
        sleep_time          bigint
        backoffs            bigint
        """,
        lambda context: [],  # one thread runs everything
        visible=everybody,
    ),
    View(
        "dm_os_performance_counters",
        """
        object_name    nchar(128) NOT NULL
        counter_name   nchar(128) NOT NULL
        instance_name  nchar(128)
        cntr_value     bigint NOT NULL
        cntr_type      int NOT NULL
        """,
        lambda context: list(context.engine.counters.rows()),
        visible=everybody,
    ),
    View(
        "dm_os_sys_info",
        """
        cpu_count                  int NOT NULL       <- usage.cpu_count
        hyperthread_ratio          int NOT NULL       = 1
        scheduler_count            int NOT NULL       = 1
        socket_count               int                = NULL
        cores_per_socket           int                = NULL
        numa_node_count            int                = NULL
        max_workers_count          int                = NULL
        affinity_type_desc         nvarchar(60)       = NULL
        virtual_machine_type_desc  nvarchar(60)       = NULL
        sql_memory_model_desc      nvarchar(120)      = NULL
        container_type_desc        nvarchar(60)       = NULL
        committed_kb               bigint             <- usage.process_memory_kb
        committed_target_kb        bigint             = NULL
        physical_memory_kb         bigint NOT NULL    <- usage.physical_memory_kb
        process_user_time_ms       bigint NOT NULL    <- usage.process_user_time_ms
        process_kernel_time_ms     bigint NOT NULL    <- usage.process_kernel_time_ms
        ms_ticks                   bigint NOT NULL
        sqlserver_start_time       datetime NOT NULL
        """,
        _usage_since_start,
        visible=everybody,
    ),
    View(
        "dm_os_host_info",
        """
        host_platform      nvarchar(256) NOT NULL
        host_distribution  nvarchar(256) NOT NULL
        host_release       nvarchar(256) NOT NULL
        """,
        _usage,
        since=2017,
        visible=everybody,
    ),
    View(
        "dm_os_sys_memory",
        """
        total_physical_memory_kb      bigint NOT NULL  <- physical_memory_kb
        available_physical_memory_kb  bigint NOT NULL
        system_memory_state_desc      nvarchar(256)    = NULL
        """,
        _usage,
        visible=everybody,
    ),
    View(
        "dm_os_process_memory",
        """
        physical_memory_in_use_kb      bigint NOT NULL  <- process_memory_kb
        large_page_allocations_kb      bigint           = NULL
        locked_page_allocations_kb     bigint           = NULL
        memory_utilization_percentage  int              = NULL
        """,
        _usage,
        visible=everybody,
    ),
    View(
        "dm_server_services",
        """
        service_name                         nvarchar(256) NOT NULL
        startup_type_desc                    nvarchar(256) NOT NULL
        status_desc                          nvarchar(256) NOT NULL
        service_account                      nvarchar(256) NOT NULL
        instant_file_initialization_enabled  nvarchar(1) NOT NULL
        """,
        lambda context: [],  # a process, no service
        since=2012,
        visible=everybody,
    ),
    View(
        "configurations",
        """
        configuration_id  int NOT NULL            <- option.configuration_id
        name              nvarchar(35) NOT NULL   <- option.name
        value             int
        minimum           int                     <- option.minimum
        maximum           int                     <- option.maximum
        value_in_use      int
        description       nvarchar(255) NOT NULL  <- option.description
        is_dynamic        bit NOT NULL            = 1
        is_advanced       bit NOT NULL            = 0
        """,
        lambda context: context.instance.configuration.settings(),
        visible=everybody,
    ),
    View("endpoints", ENDPOINT_COLUMNS, _endpoints, **COMPUTED, visible=everybody),
    View(
        "tcp_endpoints",
        ENDPOINT_COLUMNS
        + """
        port               int NOT NULL      <- endpoint.port
        is_dynamic_port    bit NOT NULL      = 0
        ip_address         nvarchar(45)      <- endpoint.ip
        """,
        _broker_endpoints,
        **COMPUTED,
        visible=everybody,
    ),
    View(
        "service_broker_endpoints",
        ENDPOINT_COLUMNS
        + """
        is_message_forwarding_enabled  bit   = 0
        message_forwarding_size        int   = 10
        connection_auth                tinyint
        connection_auth_desc           nvarchar(60)
        certificate_id                 int
        encryption_algorithm           tinyint
        encryption_algorithm_desc      nvarchar(60)
        """,
        _broker_endpoints,
        **COMPUTED,
        visible=everybody,
    ),
    View(
        "dm_broker_connections",
        """
        connection_id               uniqueidentifier  <- connection.connection_id
        transport_stream_id         uniqueidentifier  <- connection.connection_id
        state                       smallint
        state_desc                  nvarchar(60)
        connect_time                datetime          <- connection.connect_time
        login_time                  datetime          <- connection.login_time
        authentication_method       nvarchar(128)     = 'CERTIFICATE'
        principal_name              nvarchar(128)
        remote_user_name            nvarchar(128)     = NULL
        last_activity_time          datetime          <- connection.last_activity_time
        is_accept                   bit               <- connection.is_accept
        login_state                 smallint
        login_state_desc            nvarchar(60)
        peer_certificate_id         int
        encryption_algorithm        smallint
        encryption_algorithm_desc   nvarchar(60)
        receives_posted             smallint          = 1
        is_receive_flow_controlled  bit               = 0
        sends_posted                smallint          = 0
        is_send_flow_controlled     bit               = 0
        total_bytes_sent            bigint            <- connection.total_bytes_sent
        total_bytes_received        bigint            <- connection.total_bytes_received
        total_fragments_sent        bigint            <- connection.total_fragments_sent
        total_fragments_received    bigint            <- connection.total_fragments_received
        total_sends                 bigint            <- connection.total_sends
        total_receives              bigint            <- connection.total_receives
        peer_arbitration_id         uniqueidentifier  = NULL
        """,
        _connections,
        visible=on_server("VIEW SERVER STATE"),
    ),
    View(
        "messages",
        """
        message_id       int NOT NULL
        language_id      smallint NOT NULL        = 1033
        severity         tinyint
        is_event_logged  bit NOT NULL             = 0
        text             nvarchar(2048) NOT NULL
        """,
        lambda context: [
            SimpleNamespace(message_id=number, severity=severity, text=text)
            for number, (severity, text) in sorted(CATALOGUE.items())
        ],
        visible=everybody,
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
        visible=everybody,
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
        visible=everybody,
    ),
]
