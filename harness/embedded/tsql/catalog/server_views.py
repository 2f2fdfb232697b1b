"""The server and its machine: waits, counters, memory, configuration options."""

from __future__ import annotations

from harness.embedded.runtime.tasks import MILLISECOND
from harness.embedded.tsql.catalog.view import (
    Context,
    View,
    attribute,
    bigint,
    bit,
    column,
    datetime,
    int_,
    nchar,
    nvarchar,
)
from harness.embedded.tsql.instance.instance import Usage
from harness.embedded.tsql.storage.conversion import datetime_from_utc_ns


def _usage(context: Context) -> list[Usage]:
    return [context.instance.usage()]


def _usage_since_start(context: Context) -> list[tuple[Usage, int, int]]:
    """One row: the usage, when the instance started, and for how many milliseconds it has run."""
    clock, started_ns = context.engine.clock, context.instance.started_ns
    return [(context.instance.usage(), started_ns, (clock.utc_ns() - started_ns) // MILLISECOND)]


VIEWS = [
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
        _usage_since_start,
    ),
    View(
        "dm_os_host_info",
        [
            attribute("host_platform", nvarchar(256), nullable=False),
            attribute("host_distribution", nvarchar(256), nullable=False),
            attribute("host_release", nvarchar(256), nullable=False),
        ],
        _usage,
        since=2017,
    ),
    View(
        "dm_os_sys_memory",
        [
            attribute("total_physical_memory_kb", bigint, "physical_memory_kb", nullable=False),
            attribute("available_physical_memory_kb", bigint, nullable=False),
            column("system_memory_state_desc", nvarchar(256), None),
        ],
        _usage,
    ),
    View(
        "dm_os_process_memory",
        [
            attribute("physical_memory_in_use_kb", bigint, "process_memory_kb", nullable=False),
            column("large_page_allocations_kb", bigint, None),
            column("locked_page_allocations_kb", bigint, None),
            column("memory_utilization_percentage", int_, None),
        ],
        _usage,
    ),
    View(
        "configurations",
        [
            attribute("configuration_id", int_, "option.configuration_id", nullable=False),
            attribute("name", nvarchar(35), "option.name", nullable=False),
            attribute("value", int_),
            attribute("minimum", int_, "option.minimum"),
            attribute("maximum", int_, "option.maximum"),
            attribute("value_in_use", int_),
            attribute("description", nvarchar(255), "option.description", nullable=False),
            column("is_dynamic", bit, 1, nullable=False),
            column("is_advanced", bit, 0, nullable=False),
        ],
        lambda context: context.instance.configuration.settings(),
    ),
]
