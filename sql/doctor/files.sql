/*
Purpose:   the files of the lab's database: their size, the space used in them, how far they may grow.
Called by: the doctor, on every instance.
Assumes:   size and space in pages of 8 KB. max_size -1: until the disk is full; 0 or growth 0: not at all.
Variables: none
Columns:   file_id (int), file_name, file_type (ROWS or LOG), size_bytes (bigint), used_bytes (bigint; NULL for a log:
           log_space.sql has it), max_size (int), growth (int)
*/
SELECT
    file_id,
    name AS file_name,
    type_desc AS file_type,
    CAST(size AS bigint) * 8192 AS size_bytes,
    CASE WHEN type_desc = N'ROWS' THEN CAST(FILEPROPERTY(name, N'SpaceUsed') AS bigint) * 8192 END AS used_bytes,
    max_size,
    growth
FROM sys.database_files
WHERE type_desc IN (N'ROWS', N'LOG')
ORDER BY file_id;
GO
