/*
Purpose:   whether the instance reports that it runs in a container.
Called by: the sweep, when a lab opens, for the manifest.
Assumes:   VIEW SERVER STATE, SQL Server 2019.
Variables: none
Columns:   container_type_desc
*/
SELECT container_type_desc
FROM sys.dm_os_sys_info;
