/*
Purpose:   how much of the log of the lab's database is in use.
Called by: the doctor, on every instance.
Assumes:   VIEW SERVER STATE.
Variables: none
Columns:   total_bytes (bigint), used_bytes (bigint)
*/
SELECT total_log_size_in_bytes AS total_bytes, used_log_space_in_bytes AS used_bytes
FROM sys.dm_db_log_space_usage;
GO
