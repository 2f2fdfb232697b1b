/*
Purpose:   how many data files tempdb has. The paper has one a core.
Called by: the doctor, on every instance.
Assumes:   nothing.
Variables: none
Columns:   data_files (int)
*/
SELECT COUNT(*) AS data_files
FROM tempdb.sys.database_files
WHERE type_desc = N'ROWS';
GO
