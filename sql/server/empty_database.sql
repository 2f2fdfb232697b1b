/*
Purpose:   removes everything from a database that an administrator made for the harness; the database and its mark
           stay.
Called by: harness lab clean, and an opening that failed, on a user's own servers, in the place of drop_database.sql.
Assumes:   the mark says that the database was prepared for the harness, so that all that is in it is the harness's.
           Its conversations are ended (reset/broker.sql). The ledger goes last: until then this can be run again.
Variables: Database (name of the side's database), Prefix (begins the name of every object outside the lab's databases)
*/
USE [$(Database)];
GO

DECLARE @statement nvarchar(max), @place int;
DECLARE pieces CURSOR LOCAL STATIC FORWARD_ONLY READ_ONLY FOR
    SELECT N'DROP REMOTE SERVICE BINDING ' + QUOTENAME(b.name) + N';' AS statement, 1 AS place
    FROM sys.remote_service_bindings AS b
    UNION ALL
    SELECT N'DROP ROUTE ' + QUOTENAME(r.name) + N';', 2
    FROM sys.routes AS r
    WHERE r.name <> N'AutoCreatedLocal'
    UNION ALL
    SELECT N'DROP SERVICE ' + QUOTENAME(s.name) + N';', 3
    FROM sys.services AS s
    WHERE s.service_id >= 65536
    UNION ALL
    SELECT N'DROP QUEUE ' + QUOTENAME(SCHEMA_NAME(q.schema_id)) + N'.' + QUOTENAME(q.name) + N';', 4
    FROM sys.service_queues AS q
    WHERE q.is_ms_shipped = 0
    UNION ALL
    SELECT N'DROP CONTRACT ' + QUOTENAME(c.name) + N';', 5
    FROM sys.service_contracts AS c
    WHERE c.service_contract_id >= 65536
    UNION ALL
    SELECT N'DROP MESSAGE TYPE ' + QUOTENAME(m.name) + N';', 6
    FROM sys.service_message_types AS m
    WHERE m.message_type_id >= 65536
    UNION ALL
    SELECT N'DROP PROCEDURE ' + QUOTENAME(SCHEMA_NAME(p.schema_id)) + N'.' + QUOTENAME(p.name) + N';', 7
    FROM sys.procedures AS p
    WHERE p.is_ms_shipped = 0
    UNION ALL
    SELECT N'DROP TABLE ' + QUOTENAME(SCHEMA_NAME(t.schema_id)) + N'.' + QUOTENAME(t.name) + N';', 8
    FROM sys.tables AS t
    WHERE t.is_ms_shipped = 0 AND t.name <> N'harness_ledger'
    UNION ALL
    SELECT N'DROP CERTIFICATE ' + QUOTENAME(c.name) + N';', 9
    FROM sys.certificates AS c
    UNION ALL
    SELECT N'DROP USER ' + QUOTENAME(u.name) + N';', 10
    FROM sys.database_principals AS u
    WHERE u.name LIKE N'Proxy:User[_]%' OR u.name = N'$(Prefix)Client'
    UNION ALL
    SELECT N'DROP MASTER KEY;', 11
    FROM sys.symmetric_keys AS k
    WHERE k.name = N'##MS_DatabaseMasterKey##'
    ORDER BY place;
OPEN pieces;
FETCH NEXT FROM pieces INTO @statement, @place;
WHILE @@FETCH_STATUS = 0
BEGIN
    EXECUTE (@statement);
    FETCH NEXT FROM pieces INTO @statement, @place;
END;
CLOSE pieces;
DEALLOCATE pieces;
GO

IF OBJECT_ID(N'dbo.harness_ledger', N'U') IS NOT NULL
    DROP TABLE dbo.harness_ledger;
GO
