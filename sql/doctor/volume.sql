/*
Purpose:   the free space on the disk of a file of the lab's database.
Called by: the doctor, on every instance.
Assumes:   VIEW SERVER STATE.
Variables: FileId (file_id of the file; files.sql has it)
Columns:   volume, total_bytes (bigint), available_bytes (bigint)
*/
SELECT volume_mount_point AS volume, total_bytes, available_bytes
FROM sys.dm_os_volume_stats(DB_ID(), $(FileId));
GO
