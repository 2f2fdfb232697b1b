/*
Purpose:   whether the load is too much for the server or for others on it: free disk, the log, workers, blocked sessions,
           processors.
Called by: the harness on a user's own servers, every ten seconds of a run.
Assumes:   VIEW SERVER STATE; the connection is in the side's database. The first data file of a database has file_id 1,
           its first log file 2. A session without worker waits for THREADPOOL. Others are blocked where a user's session
           has waited for more than five seconds for a lock that a session of the harness holds.
           https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-os-volume-stats-transact-sql
           https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-os-waiting-tasks-transact-sql
Variables: none
Columns:   data_free_percent, log_free_percent, tempdb_free_percent (int: of the disks of their first files; NULL if
           unknown), log_used_percent (int: of the log's size), without_worker, others_blocked (int: sessions),
           processor_time_ms (bigint: of the server's process, since it started), processors (int)
*/
SELECT
    (
        SELECT CAST(100 * v.available_bytes / v.total_bytes AS int)
        FROM sys.dm_os_volume_stats(DB_ID(), 1) AS v
    ) AS data_free_percent,
    (
        SELECT CAST(100 * v.available_bytes / v.total_bytes AS int)
        FROM sys.dm_os_volume_stats(DB_ID(), 2) AS v
    ) AS log_free_percent,
    (
        SELECT CAST(100 * v.available_bytes / v.total_bytes AS int)
        FROM sys.dm_os_volume_stats(DB_ID(N'tempdb'), 1) AS v
    ) AS tempdb_free_percent,
    (
        SELECT CAST(100 * l.used_log_space_in_bytes / l.total_log_size_in_bytes AS int)
        FROM sys.dm_db_log_space_usage AS l
    ) AS log_used_percent,
    (
        SELECT COUNT(*)
        FROM sys.dm_os_waiting_tasks AS w
        WHERE w.wait_type = N'THREADPOOL'
    ) AS without_worker,
    (
        SELECT COUNT(*)
        FROM sys.dm_os_waiting_tasks AS w
        JOIN sys.dm_exec_sessions AS s ON s.session_id = w.session_id
        JOIN sys.dm_exec_sessions AS b ON b.session_id = w.blocking_session_id
        WHERE w.wait_type LIKE N'LCK%'
            AND w.wait_duration_ms > 5000
            AND s.is_user_process = 1
            AND (s.program_name IS NULL OR s.program_name <> N'service-broker-harness')
            AND b.program_name = N'service-broker-harness'
    ) AS others_blocked,
    i.process_user_time_ms + i.process_kernel_time_ms AS processor_time_ms,
    i.cpu_count AS processors
FROM sys.dm_os_sys_info AS i;
GO
