/*
Purpose:   the operating system.
Called by: the sweep, when a lab opens, for the manifest.
Assumes:   SQL Server 2017.
Variables: none
Columns:   host_platform, host_distribution, host_release
*/
SELECT host_platform, host_distribution, host_release
FROM sys.dm_os_host_info;
