/*
Purpose:   the number of tempdb's data files, of which the paper has one for each core, and the size of its log.
Called by: the doctor, on every instance.
Assumes:   nothing.
Variables: none
Columns:   data_files (int), log_mb (int)
*/
SELECT
    SUM(CASE WHEN type_desc = N'ROWS' THEN 1 ELSE 0 END) AS data_files,
    SUM(CASE WHEN type_desc = N'LOG' THEN size ELSE 0 END) / 128 AS log_mb
FROM tempdb.sys.database_files;
GO
