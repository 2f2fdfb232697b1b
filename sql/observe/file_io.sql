/*
Purpose:   reads and writes of the files of all databases since the instance started, and the waits for them; the
           difference of two readings is that of a cell.
Called by: the sampler, before and after each cell, on every instance.
Assumes:   VIEW SERVER STATE. Names of files need VIEW ANY DEFINITION; without it the file's number is returned.
Variables: none
Columns:   database_name, file_name, file_type (ROWS, LOG), reads, bytes_read, read_stall_ms, writes, bytes_written,
           write_stall_ms, size_bytes (all bigint)
*/
SELECT
    DB_NAME(s.database_id) AS database_name,
    ISNULL(f.name, CONCAT(N'file ', s.file_id)) AS file_name,
    ISNULL(f.type_desc, CASE WHEN s.file_id = 2 THEN N'LOG' ELSE N'ROWS' END) AS file_type,
    s.num_of_reads AS reads,
    s.num_of_bytes_read AS bytes_read,
    s.io_stall_read_ms AS read_stall_ms,
    s.num_of_writes AS writes,
    s.num_of_bytes_written AS bytes_written,
    s.io_stall_write_ms AS write_stall_ms,
    s.size_on_disk_bytes AS size_bytes
FROM sys.dm_io_virtual_file_stats(NULL, NULL) AS s
LEFT JOIN sys.master_files AS f ON f.database_id = s.database_id AND f.file_id = s.file_id
ORDER BY database_name, file_name;
