/*
Purpose:   how far the target is, where its queue retains messages: retained ones are not counted.
Called by: the sweep, in place of target_progress.sql.
Assumes:   VIEW SERVER STATE, and SELECT permission on the queue (see queue_depth_retention.sql).
Variables: Queue (the target's queue, with its schema)
Columns:   processed, queue_depth (both bigint), readers (int)
*/
SELECT
    (
        SELECT SUM(p.rows)
        FROM sys.partitions AS p
        WHERE p.object_id = OBJECT_ID(N'dbo.messageDrop')
            AND p.index_id IN (0, 1)
    ) AS processed,
    (
        SELECT COUNT_BIG(*)
        FROM $(Queue) AS m WITH (NOLOCK)
        WHERE m.status IN (1, 2)
    ) AS queue_depth,
    (
        SELECT COUNT(*)
        FROM sys.dm_broker_activated_tasks AS a
        WHERE a.database_id = DB_ID()
            AND a.queue_id = OBJECT_ID(N'$(Queue)')
    ) AS readers;
