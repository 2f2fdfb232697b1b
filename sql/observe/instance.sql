/*
Purpose:   facts about this instance and this database.
Called by: the lab when it opens, for the manifest and for link/route.sql.
Assumes:   VIEW SERVER STATE; the connection is in the side's database.
Variables: none
Columns:   server_name, product_version, edition, version_text, database_name, service_broker_guid
           (uniqueidentifier), is_broker_enabled (bit), cpu_count (int), physical_memory_kb (bigint)
*/
SELECT
    CAST(SERVERPROPERTY(N'ServerName') AS nvarchar(128)) AS server_name,
    CAST(SERVERPROPERTY(N'ProductVersion') AS nvarchar(128)) AS product_version,
    CAST(SERVERPROPERTY(N'Edition') AS nvarchar(128)) AS edition,
    @@VERSION AS version_text,
    d.name AS database_name,
    d.service_broker_guid,
    d.is_broker_enabled,
    i.cpu_count,
    i.physical_memory_kb
FROM sys.databases AS d
CROSS JOIN sys.dm_os_sys_info AS i
WHERE d.database_id = DB_ID();
