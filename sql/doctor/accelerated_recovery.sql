/*
Purpose:   whether the lab's database has accelerated database recovery, which writes row versions and more log.
Called by: the doctor, on every instance.
Assumes:   SQL Server 2019 or later: older versions lack the column.
Variables: none
Columns:   is_accelerated_database_recovery_on (bit)
*/
SELECT is_accelerated_database_recovery_on
FROM sys.databases
WHERE database_id = DB_ID();
GO
