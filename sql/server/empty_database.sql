/*
Purpose:   drops everything in a database that an administrator created for the harness; the database and its mark
           remain.
Called by: harness lab clean, and an opening that failed, on a user's own servers, instead of drop_database.sql.
Assumes:   the mark says that the database was prepared for the harness, so everything in it belongs to the harness.
           reset/broker.sql has removed its conversations. The ledger is dropped last: until then this can be repeated.
Variables: Database (name of the side's database), Prefix (begins the name of every object outside the lab's databases)
*/
USE [$(Database)];
GO

-- Names of services, contracts and message types have a binary collation, so one UNION cannot hold other names too.
DECLARE @pieces table (place int NOT NULL, statement nvarchar(1000) NOT NULL);
INSERT INTO @pieces (place, statement)
SELECT 1, N'DROP REMOTE SERVICE BINDING ' + QUOTENAME(b.name) + N';'
FROM sys.remote_service_bindings AS b;
INSERT INTO @pieces (place, statement)
SELECT 2, N'DROP ROUTE ' + QUOTENAME(r.name) + N';'
FROM sys.routes AS r
WHERE r.name <> N'AutoCreatedLocal';
INSERT INTO @pieces (place, statement)
SELECT 3, N'DROP SERVICE ' + QUOTENAME(s.name) + N';'
FROM sys.services AS s
WHERE s.service_id >= 65536;
INSERT INTO @pieces (place, statement)
SELECT 4, N'DROP QUEUE ' + QUOTENAME(SCHEMA_NAME(q.schema_id)) + N'.' + QUOTENAME(q.name) + N';'
FROM sys.service_queues AS q
WHERE q.is_ms_shipped = 0;
INSERT INTO @pieces (place, statement)
SELECT 5, N'DROP CONTRACT ' + QUOTENAME(c.name) + N';'
FROM sys.service_contracts AS c
WHERE c.service_contract_id >= 65536;
INSERT INTO @pieces (place, statement)
SELECT 6, N'DROP MESSAGE TYPE ' + QUOTENAME(m.name) + N';'
FROM sys.service_message_types AS m
WHERE m.message_type_id >= 65536;
INSERT INTO @pieces (place, statement)
SELECT 7, N'DROP PROCEDURE ' + QUOTENAME(SCHEMA_NAME(p.schema_id)) + N'.' + QUOTENAME(p.name) + N';'
FROM sys.procedures AS p
WHERE p.is_ms_shipped = 0;
INSERT INTO @pieces (place, statement)
SELECT 8, N'DROP TABLE ' + QUOTENAME(SCHEMA_NAME(t.schema_id)) + N'.' + QUOTENAME(t.name) + N';'
FROM sys.tables AS t
WHERE t.is_ms_shipped = 0 AND t.name <> N'harness_ledger';
INSERT INTO @pieces (place, statement)
SELECT 9, N'DROP CERTIFICATE ' + QUOTENAME(c.name) + N';'
FROM sys.certificates AS c;
INSERT INTO @pieces (place, statement)
SELECT 10, N'DROP USER ' + QUOTENAME(u.name) + N';'
FROM sys.database_principals AS u
WHERE u.name LIKE N'Proxy:User[_]%' OR u.name = N'$(Prefix)Client';
INSERT INTO @pieces (place, statement)
SELECT 11, N'DROP MASTER KEY;'
FROM sys.symmetric_keys AS k
WHERE k.name = N'##MS_DatabaseMasterKey##';

DECLARE @statement nvarchar(1000);
DECLARE pieces CURSOR LOCAL FAST_FORWARD FOR
    SELECT p.statement FROM @pieces AS p ORDER BY p.place;
OPEN pieces;
FETCH NEXT FROM pieces INTO @statement;
WHILE @@FETCH_STATUS = 0
BEGIN
    EXECUTE (@statement);
    FETCH NEXT FROM pieces INTO @statement;
END;
CLOSE pieces;
DEALLOCATE pieces;
GO

IF OBJECT_ID(N'dbo.harness_ledger', N'U') IS NOT NULL
    DROP TABLE dbo.harness_ledger;
GO
