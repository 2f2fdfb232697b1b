/*
Purpose:   processors and memory as the instance sees them; in a container, its limits.
Called by: the sweep, when a lab opens, for the manifest.
Assumes:   VIEW SERVER STATE, SQL Server 2016 SP2 (sockets).
Variables: none
Columns:   cpu_count, scheduler_count, socket_count, cores_per_socket, numa_node_count, hyperthread_ratio,
           max_workers_count, affinity_type_desc, virtual_machine_type_desc, sql_memory_model_desc,
           physical_memory_kb, committed_kb, committed_target_kb
*/
SELECT
    cpu_count,
    scheduler_count,
    socket_count,
    cores_per_socket,
    numa_node_count,
    hyperthread_ratio,
    max_workers_count,
    affinity_type_desc,
    virtual_machine_type_desc,
    sql_memory_model_desc,
    physical_memory_kb,
    committed_kb,
    committed_target_kb
FROM sys.dm_os_sys_info;
