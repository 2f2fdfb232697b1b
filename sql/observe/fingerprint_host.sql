/*
Purpose:   the operating system.
Called by: the sweep, when a lab opens, for the manifest; the doctor, on every instance from SQL Server 2017 on.
Assumes:   SQL Server 2017; from SQL Server 2022 on VIEW SERVER PERFORMANCE STATE.
           https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-os-host-info-transact-sql
Variables: none
Columns:   host_platform, host_distribution, host_release
*/
SELECT host_platform, host_distribution, host_release
FROM sys.dm_os_host_info;
