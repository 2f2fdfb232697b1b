/*
Purpose:   how far the target is: messages stored, messages in its queue, and queue readers.
Called by: the sweep while a cell settles, at most ten times a second, and at both ends of the measured window, on the
           target.
Assumes:   VIEW SERVER STATE. Counts rows from metadata, which neither reads the tables nor waits for locks. The figures
           change before the commit.
           Where messages are counted, the table of processed messages does not exist: `processed` is NULL.
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
        SELECT SUM(p.rows)
        FROM sys.internal_tables AS t
        JOIN sys.partitions AS p ON p.object_id = t.object_id
        WHERE t.parent_object_id = OBJECT_ID(N'$(Queue)')
            AND p.index_id = 1
    ) AS queue_depth,
    (
        SELECT COUNT(*)
        FROM sys.dm_broker_activated_tasks AS a
        WHERE a.database_id = DB_ID()
            AND a.queue_id = OBJECT_ID(N'$(Queue)')
    ) AS readers;
