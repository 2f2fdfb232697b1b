/*
Purpose:   how many tasks could run but wait for a processor, and how many workers have a task, at this moment.
Called by: the sampler, once a second, on every instance.
Assumes:   VIEW SERVER STATE. A scheduler is a processor of the instance; only those that run user requests count. An
           active worker runs, could run (runnable) or waits (suspended). A queued task waits for a worker.
           https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-os-schedulers-transact-sql
Variables: none
Columns:   schedulers, runnable_tasks, active_workers (all int), queued_tasks (bigint)
*/
SELECT
    COUNT(*) AS schedulers,
    SUM(runnable_tasks_count) AS runnable_tasks,
    SUM(active_workers_count) AS active_workers,
    SUM(work_queue_count) AS queued_tasks
FROM sys.dm_os_schedulers
WHERE status = N'VISIBLE ONLINE';
