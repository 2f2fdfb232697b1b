"""The machine, the operating system and the instance's options: sys.dm_os_host_info, sys.dm_os_sys_memory, ..."""

from __future__ import annotations

from harness.embedded.tsql.catalog.view import Context, View, attribute, bigint, bit, column, int_, nvarchar
from harness.embedded.tsql.instance.instance import Usage


def _usage(context: Context) -> list[Usage]:
    return [context.instance.usage()]


VIEWS = [
    View(
        "dm_os_host_info",
        [
            attribute("host_platform", nvarchar(256), nullable=False),
            attribute("host_distribution", nvarchar(256), nullable=False),
            attribute("host_release", nvarchar(256), nullable=False),
            column("host_service_pack_level", nvarchar(256), "", nullable=False),
            column("host_sku", int_, None),
            column("os_language_version", int_, 0, nullable=False),
        ],
        _usage,
        since=2017,
    ),
    View(
        "dm_os_sys_memory",
        [
            attribute("total_physical_memory_kb", bigint, "physical_memory_kb", nullable=False),
            attribute("available_physical_memory_kb", bigint, nullable=False),
            column("total_page_file_kb", bigint, None),
            column("available_page_file_kb", bigint, None),
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
            column("process_physical_memory_low", bit, None),
            column("process_virtual_memory_low", bit, None),
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
