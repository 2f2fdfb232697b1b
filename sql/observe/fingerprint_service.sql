/*
Purpose:   whether the service of the instance may initialize data files instantly, and how it starts.
Called by: the sweep, when a lab opens, for the manifest; the doctor, on every instance.
Assumes:   VIEW SERVER STATE, from SQL Server 2022 on VIEW SERVER SECURITY STATE. Whether pages are locked in memory is
           sql_memory_model_desc of fingerprint_system.sql. The service's account is not read.
           https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-server-services-transact-sql
Variables: none
Columns:   service_name, startup_type_desc, status_desc, instant_file_initialization_enabled (Y or N); no row where the
           instance is no service
*/
SELECT service_name, startup_type_desc, status_desc, instant_file_initialization_enabled
FROM sys.dm_server_services
WHERE service_name LIKE N'SQL Server (%';
