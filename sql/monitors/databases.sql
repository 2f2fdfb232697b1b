/*
Purpose:   the user databases of the instance and their brokers, and msdb where Database Mail has its queues.
Called by: harness monitors, first and now and then.
Assumes:   nothing. OBJECT_ID is NULL where the login may not use msdb. A login sees master, tempdb and its own databases, and all with VIEW ANY DATABASE, which public has
           unless it was revoked.
Variables: none
Columns:   database_id (int), database_name, is_broker_enabled, service_broker_guid
*/
SELECT
    d.database_id,
    d.name AS database_name,
    d.is_broker_enabled,
    d.service_broker_guid
FROM sys.databases AS d
WHERE d.database_id > 4
    OR
    (
        d.name = N'msdb'
        AND OBJECT_ID(N'msdb.dbo.ExternalMailQueue') IS NOT NULL
    )
ORDER BY d.name;
GO
