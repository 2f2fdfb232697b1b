/*
Purpose:   the files of the lab's database and of tempdb: how many, how large, how they grow.
Called by: the sweep, when a lab opens, for the manifest.
Assumes:   nothing. Names of tempdb have the server's collation, which may be another than this database's: a UNION of both
           is Msg 451 without COLLATE.
Variables: none
Columns:   database_name, name, type_desc, physical_name, size_mb (bigint), max_size (pages; -1: the disk),
           growth (pages, or percent), is_percent_growth
*/
SELECT
    DB_NAME() AS database_name,
    name COLLATE DATABASE_DEFAULT AS name,
    type_desc,
    physical_name COLLATE DATABASE_DEFAULT AS physical_name,
    CAST(size AS bigint) * 8 / 1024 AS size_mb,
    max_size,
    growth,
    is_percent_growth
FROM sys.database_files
UNION ALL
SELECT
    N'tempdb' AS database_name,
    name COLLATE DATABASE_DEFAULT AS name,
    type_desc,
    physical_name COLLATE DATABASE_DEFAULT AS physical_name,
    CAST(size AS bigint) * 8 / 1024 AS size_mb,
    max_size,
    growth,
    is_percent_growth
FROM tempdb.sys.database_files
ORDER BY database_name, name;
