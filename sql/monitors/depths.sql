/*
Purpose:   how many rows lie in each queue of this database, in its transmission queue and in sys.sysdesend, which has a
           row for each conversation endpoint.
Called by: harness monitors, at every look, in every database.
Assumes:   these are row counts from metadata. COUNT(*) would read a million rows to count a million messages, and wait
           for the locks of readers. The counts change before the commit, and retained messages are among them.
           internal_type 201 is the internal table of a queue.
           https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-partitions-transact-sql
Variables: none
Columns:   object_id (int: of a queue's internal table, or of the system table), row_count (bigint)
*/
SELECT p.object_id, p.rows AS row_count
FROM sys.partitions AS p
WHERE p.index_id = 1
    AND (p.object_id IN (OBJECT_ID(N'sys.sysxmitqueue'), OBJECT_ID(N'sys.sysdesend'))
        OR p.object_id IN (SELECT t.object_id FROM sys.internal_tables AS t WHERE t.internal_type = 201));
GO
