/*
Purpose:   the number of readers that activation has started for the lab's queue.
Called by: the sampler, once a second, on every instance.
Assumes:   VIEW SERVER STATE. No row while none runs.
Variables: Queue (this side's queue, with its schema)
Columns:   queue_name, procedure_name, tasks (int)
*/
SELECT q.name AS queue_name, a.procedure_name, COUNT(*) AS tasks
FROM sys.dm_broker_activated_tasks AS a
JOIN sys.service_queues AS q ON q.object_id = a.queue_id
WHERE a.database_id = DB_ID()
    AND a.queue_id = OBJECT_ID(N'$(Queue)')
GROUP BY q.name, a.procedure_name
ORDER BY q.name, a.procedure_name;
