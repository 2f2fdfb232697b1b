/*
Purpose:   rows, pages and ghost records of the lab's queue: what RECEIVE has deleted and a task of the server has still
           to remove; the pages of the database's transmission queue, its conversations, and the server's memory.
Called by: the sweep, before each cell, on every instance.
Assumes:   VIEW SERVER STATE, from SQL Server 2022 on VIEW SERVER PERFORMANCE STATE. By the manual
           sys.dm_db_index_physical_stats takes the internal table of a queue from SQL Server 2016 on. SAMPLED reads all
           pages of an index below 10,000 pages, else 1 % of them. The manual does not say whether its ghost records are
           those of the sample alone, so compare them with those of the same server only. In a string, because a server
           without that function cannot parse its use.
           https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-db-index-physical-stats-transact-sql
           https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-db-partition-stats-transact-sql
Variables: Queue (this side's queue, with its schema)
Columns:   messages (bigint: rows), pages (bigint: of both indexes and of the bodies), ghost_records (bigint: of the
           clustered index), transmission_pages (bigint: of sys.sysxmitqueue), conversations (bigint: endpoints),
           memory_mib (bigint: of the server's process); NULL where the server does not show them
*/
IF OBJECT_ID(N'sys.dm_db_index_physical_stats') IS NULL
    SELECT
        SUM(p.rows) AS messages,
        CAST(NULL AS bigint) AS pages,
        CAST(NULL AS bigint) AS ghost_records,
        CAST(NULL AS bigint) AS transmission_pages,
        (SELECT COUNT_BIG(*) FROM sys.conversation_endpoints) AS conversations,
        (SELECT m.physical_memory_in_use_kb / 1024 FROM sys.dm_os_process_memory AS m) AS memory_mib
    FROM sys.internal_tables AS t
    JOIN sys.partitions AS p ON p.object_id = t.object_id
    WHERE t.parent_object_id = OBJECT_ID(N'$(Queue)')
        AND p.index_id = 1
ELSE
    EXECUTE
    (N'
    SELECT
        SUM(CASE WHEN p.index_id = 1 THEN p.row_count ELSE 0 END) AS messages,
        SUM(p.used_page_count) AS pages,
        (
            SELECT SUM(s.ghost_record_count)
            FROM sys.internal_tables AS i
            CROSS APPLY sys.dm_db_index_physical_stats(DB_ID(), i.object_id, 1, NULL, ''SAMPLED'') AS s
            WHERE i.parent_object_id = OBJECT_ID(N''$(Queue)'')
                AND s.alloc_unit_type_desc = N''IN_ROW_DATA''
        ) AS ghost_records,
        (
            SELECT SUM(x.used_page_count)
            FROM sys.dm_db_partition_stats AS x
            WHERE x.object_id = OBJECT_ID(N''sys.sysxmitqueue'')
        ) AS transmission_pages,
        (
            SELECT SUM(x.row_count)
            FROM sys.dm_db_partition_stats AS x
            WHERE x.object_id = OBJECT_ID(N''sys.sysdesend'') AND x.index_id = 1
        ) AS conversations,
        (SELECT m.physical_memory_in_use_kb / 1024 FROM sys.dm_os_process_memory AS m) AS memory_mib
    FROM sys.internal_tables AS t
    JOIN sys.dm_db_partition_stats AS p ON p.object_id = t.object_id
    WHERE t.parent_object_id = OBJECT_ID(N''$(Queue)'')
    ');
