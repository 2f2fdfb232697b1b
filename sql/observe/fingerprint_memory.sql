/*
Purpose:   the machine's memory, and the instance's share of it.
Called by: the sweep, when a lab opens, for the manifest.
Assumes:   VIEW SERVER STATE.
Variables: none
Columns:   total_physical_memory_kb, available_physical_memory_kb, system_memory_state_desc,
           physical_memory_in_use_kb, locked_page_allocations_kb, large_page_allocations_kb,
           memory_utilization_percentage
*/
SELECT
    m.total_physical_memory_kb,
    m.available_physical_memory_kb,
    m.system_memory_state_desc,
    p.physical_memory_in_use_kb,
    p.locked_page_allocations_kb,
    p.large_page_allocations_kb,
    p.memory_utilization_percentage
FROM sys.dm_os_sys_memory AS m
CROSS JOIN sys.dm_os_process_memory AS p;
