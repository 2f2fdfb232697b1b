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
SELECT 2, N'DROP BROKER PRIORITY ' + QUOTENAME(p.name) + N';'
FROM sys.conversation_priorities AS p;
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
SELECT 7, N'ALTER TABLE ' + QUOTENAME(SCHEMA_NAME(t.schema_id)) + N'.' + QUOTENAME(t.name)
    + N' DROP CONSTRAINT ' + QUOTENAME(f.name) + N';'
FROM sys.foreign_keys AS f
JOIN sys.tables AS t ON t.object_id = f.parent_object_id;
INSERT INTO @pieces (place, statement)
SELECT 8, N'DROP PROCEDURE ' + QUOTENAME(SCHEMA_NAME(p.schema_id)) + N'.' + QUOTENAME(p.name) + N';'
FROM sys.procedures AS p
WHERE p.is_ms_shipped = 0;
INSERT INTO @pieces (place, statement)
SELECT 8, N'DROP VIEW ' + QUOTENAME(SCHEMA_NAME(v.schema_id)) + N'.' + QUOTENAME(v.name) + N';'
FROM sys.views AS v
WHERE v.is_ms_shipped = 0;
INSERT INTO @pieces (place, statement)
SELECT 8, N'DROP FUNCTION ' + QUOTENAME(SCHEMA_NAME(o.schema_id)) + N'.' + QUOTENAME(o.name) + N';'
FROM sys.objects AS o
WHERE o.is_ms_shipped = 0 AND o.type IN ('FN', 'IF', 'TF');
INSERT INTO @pieces (place, statement)
SELECT 8, N'DROP TABLE ' + QUOTENAME(SCHEMA_NAME(t.schema_id)) + N'.' + QUOTENAME(t.name) + N';'
FROM sys.tables AS t
WHERE t.is_ms_shipped = 0 AND t.name <> N'harness_ledger';
INSERT INTO @pieces (place, statement)
SELECT 8, N'DROP SYNONYM ' + QUOTENAME(SCHEMA_NAME(s.schema_id)) + N'.' + QUOTENAME(s.name) + N';'
FROM sys.synonyms AS s;
INSERT INTO @pieces (place, statement)
SELECT 8, N'DROP SEQUENCE ' + QUOTENAME(SCHEMA_NAME(s.schema_id)) + N'.' + QUOTENAME(s.name) + N';'
FROM sys.sequences AS s;
INSERT INTO @pieces (place, statement)
SELECT 8, N'DROP TYPE ' + QUOTENAME(SCHEMA_NAME(t.schema_id)) + N'.' + QUOTENAME(t.name) + N';'
FROM sys.types AS t
WHERE t.is_user_defined = 1;
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

-- Views, functions, tables and types of a workload may depend on each other in any order. So what cannot be dropped yet
-- is tried again, until nothing is left, or nothing more can be dropped.
DECLARE @statement nvarchar(1000);
DECLARE @error nvarchar(2048);
DECLARE @dropped int;

WHILE EXISTS (SELECT 1 FROM @pieces)
BEGIN
    SET @dropped = 0;

    DECLARE pieces CURSOR LOCAL STATIC FOR
        SELECT p.statement FROM @pieces AS p ORDER BY p.place;
    OPEN pieces;
    FETCH NEXT FROM pieces INTO @statement;
    WHILE @@FETCH_STATUS = 0
    BEGIN
        BEGIN TRY
            EXECUTE (@statement);
            DELETE FROM @pieces WHERE statement = @statement;
            SET @dropped = @dropped + 1;
        END TRY
        BEGIN CATCH
            SET @error = @statement + N' ' + ERROR_MESSAGE();
        END CATCH;
        FETCH NEXT FROM pieces INTO @statement;
    END;
    CLOSE pieces;
    DEALLOCATE pieces;

    IF @dropped = 0
    BEGIN
        RAISERROR (N'%s', 16, 1, @error);
        RETURN;
    END;
END;
GO

IF OBJECT_ID(N'dbo.harness_ledger', N'U') IS NOT NULL
    DROP TABLE dbo.harness_ledger;
GO
