/*
Purpose:   waits for page latches, page reads and row locks of each index of this database; the difference of two
           readings is that of a cell.
Called by: the sampler, before and after each cell, on every instance.
Assumes:   VIEW DATABASE STATE, from SQL Server 2022 on VIEW DATABASE PERFORMANCE STATE. The totals of an index last as
           long as its cached metadata, and begin at 0 again afterwards. The manual does not say whether system base
           tables such as sys.sysdesend are among the rows. For a queue's internal table, the queue's name is returned.
           https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-db-index-operational-stats-transact-sql
Variables: none
Columns:   object_id (int), schema_name, object_name, queue_schema_name, queue_name (both NULL unless it is the internal
           table of a queue), index_id (int), page_latch_waits, page_latch_wait_ms, page_io_latch_waits,
           page_io_latch_wait_ms, row_locks, row_lock_waits, row_lock_wait_ms (all bigint)
*/
SELECT
    i.object_id,
    OBJECT_SCHEMA_NAME(i.object_id) AS schema_name,
    OBJECT_NAME(i.object_id) AS object_name,
    s.name AS queue_schema_name,
    q.name AS queue_name,
    i.index_id,
    SUM(i.page_latch_wait_count) AS page_latch_waits,
    SUM(i.page_latch_wait_in_ms) AS page_latch_wait_ms,
    SUM(i.page_io_latch_wait_count) AS page_io_latch_waits,
    SUM(i.page_io_latch_wait_in_ms) AS page_io_latch_wait_ms,
    SUM(i.row_lock_count) AS row_locks,
    SUM(i.row_lock_wait_count) AS row_lock_waits,
    SUM(i.row_lock_wait_in_ms) AS row_lock_wait_ms
FROM sys.dm_db_index_operational_stats(DB_ID(), NULL, NULL, NULL) AS i
LEFT JOIN sys.internal_tables AS t ON t.object_id = i.object_id
LEFT JOIN sys.service_queues AS q ON q.object_id = t.parent_object_id
LEFT JOIN sys.schemas AS s ON s.schema_id = q.schema_id
WHERE i.page_latch_wait_count + i.page_io_latch_wait_count + i.row_lock_count > 0
GROUP BY i.object_id, i.index_id, s.name, q.name
ORDER BY i.object_id, i.index_id;
