/*
Purpose:   the number of tempdb's data files. The paper has one for each core.
Called by: the doctor, on every instance.
Assumes:   nothing.
Variables: none
Columns:   data_files (int)
*/
SELECT COUNT(*) AS data_files
FROM tempdb.sys.database_files
WHERE type_desc = N'ROWS';
GO
