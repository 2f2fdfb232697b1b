/*
Purpose:   the number of messages in the lab's queue.
Called by: the sampler, once a second, on every instance.
Assumes:   counts the rows of the queue's internal table from its metadata: SELECT COUNT(*) on the queue would wait
           for the readers' locks. With RETENTION = OFF a row is a message that is ready, or one of which a fragment
           or a predecessor is still missing. The figure changes before the commit: a message being received
           is not counted. So zero means that nothing waits, not that everything is committed.
Variables: Queue (this side's queue, with its schema)
Columns:   queue_name, messages (bigint)
*/
SELECT q.name AS queue_name, SUM(p.rows) AS messages
FROM sys.service_queues AS q
JOIN sys.internal_tables AS t ON t.parent_object_id = q.object_id
JOIN sys.partitions AS p ON p.object_id = t.object_id
WHERE q.object_id = OBJECT_ID(N'$(Queue)')
    AND p.index_id = 1
GROUP BY q.name;
