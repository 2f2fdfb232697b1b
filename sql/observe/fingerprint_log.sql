/*
Purpose:   of how many virtual log files the log of the lab's database consists.
Called by: the sweep, when a lab opens, for the manifest; the doctor, on every instance.
Assumes:   VIEW DATABASE STATE, from SQL Server 2022 on VIEW DATABASE PERFORMANCE STATE; SQL Server 2017.
           https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-db-log-info-transact-sql
Variables: none
Columns:   virtual_log_files (int), active_virtual_log_files (int), largest_mb (float); no row where nothing is known
*/
SELECT
    COUNT(*) AS virtual_log_files,
    SUM(CASE WHEN vlf_active = 1 THEN 1 ELSE 0 END) AS active_virtual_log_files,
    MAX(vlf_size_mb) AS largest_mb
FROM sys.dm_db_log_info(DB_ID())
HAVING COUNT(*) > 0;
