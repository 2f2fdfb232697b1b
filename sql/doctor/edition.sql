/*
Purpose:   the instance's edition and version, and how much of its machine it may use.
Called by: the doctor, on every instance.
Assumes:   VIEW SERVER STATE. An edition's limit on processors shows as fewer schedulers than logical processors.
Variables: none
Columns:   edition, engine_edition (int: 4 is Express), product_version, cpu_count (int: logical processors),
           scheduler_count (int: those in use), physical_memory_kb (bigint; in a container, the container's limit)
*/
SELECT
    CAST(SERVERPROPERTY(N'Edition') AS nvarchar(128)) AS edition,
    CAST(SERVERPROPERTY(N'EngineEdition') AS int) AS engine_edition,
    CAST(SERVERPROPERTY(N'ProductVersion') AS nvarchar(128)) AS product_version,
    cpu_count,
    scheduler_count,
    physical_memory_kb
FROM sys.dm_os_sys_info;
GO
