/*
Purpose:   the instance's waits for its logs since it started: "Occurs while waiting for a log flush to complete. Common
           operations that cause log flushes are checkpoints and transaction commits" (sys.dm_os_wait_stats, WRITELOG).
Called by: the doctor, on every instance, before and after its single commits.
Assumes:   VIEW SERVER STATE. Other sessions' waits count too.
Variables: none
Columns:   waiting_tasks (bigint), wait_time_ms (bigint)
*/
SELECT SUM(w.waiting_tasks_count) AS waiting_tasks, SUM(w.wait_time_ms) AS wait_time_ms
FROM sys.dm_os_wait_stats AS w
WHERE w.wait_type = N'WRITELOG';
GO
