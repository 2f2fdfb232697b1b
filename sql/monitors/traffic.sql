/*
Purpose:   how many rows have been inserted into each queue of this database and deleted from it; the difference of two
           readings, divided by the seconds between them, is messages in and out per second.
Called by: harness monitors, at every look, in every database.
Assumes:   VIEW DATABASE STATE, from SQL Server 2022 on VIEW DATABASE PERFORMANCE STATE. A RECEIVE deletes rows: they are
           ghosts at first. The totals last as long as the cached metadata of an index, and begin at 0 again afterwards.
           A RECEIVE that is rolled back stays counted.
           https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-db-index-operational-stats-transact-sql
Variables: none
Columns:   object_id (int: of the queue's internal table), inserted, deleted, ghosts (bigint)
*/
SELECT
    t.object_id,
    i.leaf_insert_count AS inserted,
    i.leaf_delete_count AS deleted,
    i.leaf_ghost_count AS ghosts
FROM sys.internal_tables AS t
    CROSS APPLY sys.dm_db_index_operational_stats(DB_ID(), t.object_id, 1, NULL) AS i
WHERE t.internal_type = 201;
GO
