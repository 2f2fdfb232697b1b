CREATE SCHEMA [n_schema]
GO
CREATE TABLE [n_schema].[n_table] ([n_one] int NOT NULL CONSTRAINT [n_key] PRIMARY KEY, [n_two] nvarchar(5) NOT NULL CONSTRAINT [n_unique] UNIQUE DEFAULT N'x', CONSTRAINT [n_check] CHECK ([n_one] > 0))
GO
INSERT [n_schema].[n_table] ([n_one], [n_two]) VALUES (1, N'a'), (2, N'b')
GO
INSERT [n_schema].[n_table] VALUES (1, N'c')
GO
INSERT [n_schema].[n_table] VALUES (3, N'a')
GO
INSERT [n_schema].[n_table] VALUES (3, NULL)
GO
INSERT [n_schema].[n_table] VALUES (-3, N'd')
GO
INSERT [n_schema].[n_table] VALUES (3, N'abcdef')
GO
UPDATE [n_schema].[n_table] SET [n_two] = NULL WHERE [n_table].[n_one] = 1
GO
SELECT t.[n_one], [n_table].[n_two] FROM [n_schema].[n_table] JOIN [n_schema].[n_table] AS t ON t.[n_one] = [n_table].[n_one] ORDER BY t.[n_one]
GO
SELECT [n_two], COUNT(*) AS [n_one] FROM [n_schema].[n_table] GROUP BY [n_two] HAVING COUNT(*) > 0 ORDER BY [n_two] DESC
GO
WITH [n_view] AS (SELECT [n_one] AS [n_two], ROW_NUMBER() OVER (ORDER BY [n_one]) AS [n_one] FROM [n_schema].[n_table]) SELECT [n_view].[n_two], x.[n_one] FROM [n_view] CROSS APPLY (SELECT [n_view].[n_one] + 1 AS [n_one]) AS x
GO
DECLARE @t TABLE ([n_one] int NOT NULL PRIMARY KEY, [n_two] int NOT NULL UNIQUE); INSERT @t VALUES (1, 1); INSERT @t VALUES (1, 2); INSERT @t VALUES (2, 1); INSERT @t VALUES (3, NULL); UPDATE @t SET [n_two] += 1; SELECT [n_two] FROM @t
GO
CREATE INDEX [n_index] ON [n_schema].[n_table] ([n_two]) INCLUDE ([n_one])
GO
CREATE VIEW [n_schema].[n_view] AS SELECT [n_one], [n_two] FROM [n_schema].[n_table]
GO
SELECT [n_view].[n_two] FROM [n_schema].[n_view] WHERE [n_one] = 2
GO
CREATE PROCEDURE [n_schema].[n_procedure] @a int AS INSERT [n_schema].[n_table] ([n_one], [n_two]) OUTPUT inserted.[n_two] VALUES (@a, N'p'); SELECT OBJECT_NAME(@@PROCID) + N'', OBJECT_SCHEMA_NAME(@@PROCID) WHERE 1 = 0
GO
EXEC [n_schema].[n_procedure] 7
GO
DECLARE @p nvarchar(500) = QUOTENAME(N'n_schema') + N'.' + QUOTENAME(N'n_procedure'); EXEC @p 8
GO
EXEC [n_schema].[n_procedure] 7
GO
CREATE FUNCTION [n_schema].[n_function] (@a int) RETURNS TABLE AS RETURN (SELECT [n_two] FROM [n_schema].[n_table] WHERE [n_one] = @a)
GO
SELECT f.[n_two] FROM [n_schema].[n_function](1) AS f
GO
CREATE TRIGGER [n_schema].[n_trigger] ON [n_schema].[n_table] AFTER UPDATE AS IF UPDATE([n_two]) SELECT d.[n_one], i.[n_two] FROM deleted AS d JOIN inserted AS i ON i.[n_one] = d.[n_one]
GO
UPDATE q SET [n_two] = N'u' FROM [n_schema].[n_table] AS q WHERE q.[n_one] = 1
GO
DELETE [n_schema].[n_table] OUTPUT deleted.[n_one] WHERE [n_one] = 8
GO
SELECT OBJECT_ID(N'[n_schema].[n_table]') - object_id, SCHEMA_NAME(schema_id) FROM sys.tables WHERE name = N'n_table' AND SCHEMA_NAME(schema_id) <> N'n_schema'
GO
SELECT COUNT(*) FROM sys.columns WHERE object_id = OBJECT_ID(N'[n_schema].[n_table]') AND name IN (N'n_one', N'n_two')
GO
SELECT COL_LENGTH(N'[n_schema].[n_table]', N'n_two'), COLUMNPROPERTY(OBJECT_ID(N'[n_schema].[n_table]'), N'n_two', 'AllowsNull')
GO
CREATE MESSAGE TYPE [n_type] VALIDATION = NONE; CREATE CONTRACT [n_contract] ([n_type] SENT BY ANY)
GO
CREATE QUEUE [n_schema].[n_queue] WITH STATUS = ON
GO
CREATE SERVICE [n_service] ON QUEUE [n_schema].[n_queue] ([n_contract])
GO
DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE [n_service] TO SERVICE N'n_service' ON CONTRACT [n_contract] WITH ENCRYPTION = OFF; SEND ON CONVERSATION @h MESSAGE TYPE [n_type] (N'x')
GO
WAITFOR DELAY '00:00:01'; SELECT CASE WHEN message_type_name = N'n_type' AND service_name = N'n_service' AND service_contract_name = N'n_contract' THEN 1 ELSE 0 END FROM [n_schema].[n_queue]
GO
DECLARE @t TABLE ([n_one] varbinary(max), [n_two] int NOT NULL); RECEIVE message_body AS [n_one], message_sequence_number AS [n_two] FROM [n_schema].[n_queue] INTO @t; SELECT [n_two], CAST([n_one] AS nvarchar(10)) FROM @t
GO
DECLARE [n_cursor] CURSOR LOCAL FOR SELECT [n_one] FROM [n_schema].[n_table]; DECLARE @i int; OPEN [n_cursor]; FETCH NEXT FROM [n_cursor] INTO @i; CLOSE [n_cursor]; DEALLOCATE [n_cursor]; SELECT @i
GO
SELECT x.[n_one].value('.', 'int') AS [n_two] FROM (SELECT CAST('<a>5</a>' AS xml) AS d) AS s CROSS APPLY s.d.nodes('/a') AS x([n_one])
GO
ALTER TABLE [n_schema].[n_table] DROP CONSTRAINT [n_unique]
GO
ALTER TABLE [n_schema].[n_table] DROP CONSTRAINT [n_check]
GO
CREATE TYPE [n_schema].[n_ttype] AS TABLE ([n_one] int NOT NULL PRIMARY KEY)
GO
DECLARE @v [n_schema].[n_ttype]; INSERT @v ([n_one]) VALUES (4); SELECT [n_one] FROM @v
GO
DROP SERVICE [n_service]; DROP QUEUE [n_schema].[n_queue]; DROP CONTRACT [n_contract]; DROP MESSAGE TYPE [n_type]
GO
DROP TRIGGER [n_schema].[n_trigger]; DROP VIEW [n_schema].[n_view]; DROP PROCEDURE [n_schema].[n_procedure]; DROP FUNCTION [n_schema].[n_function]; DROP INDEX [n_index] ON [n_schema].[n_table]; DROP TABLE [n_schema].[n_table]; DROP TYPE [n_schema].[n_ttype]; DROP SCHEMA [n_schema]
GO
CREATE SCHEMA [n_schema]
GO
CREATE DATABASE [n_db]
GO
USE [n_db]; SELECT CASE WHEN DB_NAME() = N'n_db' THEN 1 ELSE 0 END; CREATE TABLE dbo.[n_table] ([n_one] int); INSERT dbo.[n_table] VALUES (4); USE db; SELECT [n_one] FROM [n_db].dbo.[n_table]; SELECT [n_one] FROM [n_db]..[n_table]
GO
CREATE TABLE [n_schema].[n_table] ([n_one] int IDENTITY NOT NULL CONSTRAINT [n_key] PRIMARY KEY, [n_two] int NULL CONSTRAINT [n_fk] REFERENCES [n_schema].[n_table] ([n_one]))
GO
INSERT [n_schema].[n_table] ([n_two]) VALUES (1); INSERT [n_schema].[n_table] ([n_two]) VALUES (99)
GO
DELETE [n_schema].[n_table] WHERE [n_one] = 1
GO
CREATE LOGIN [n_login] WITH PASSWORD = 'aB1-aB1-aB1'; CREATE USER [n_user] FOR LOGIN [n_login]; SELECT USER_NAME(USER_ID(N'n_user'))
GO
GRANT SELECT, INSERT ON [n_schema].[n_table] TO [n_user]; GRANT CONTROL ON SCHEMA::[n_schema] TO [n_user]
GO
EXECUTE AS USER = N'n_user'; SELECT COUNT(*) FROM [n_schema].[n_table]; SELECT CASE WHEN USER_NAME() = N'n_user' THEN 1 ELSE 0 END; REVERT
GO
REVOKE CONTROL ON SCHEMA::[n_schema] FROM [n_user]; EXECUTE AS USER = N'n_user'; DELETE [n_schema].[n_table]; REVERT
GO
CREATE CERTIFICATE [n_cert] ENCRYPTION BY PASSWORD = 'aB1-aB1-aB1' WITH SUBJECT = 'x'
GO
CREATE MESSAGE TYPE [n_type] VALIDATION = WELL_FORMED_XML; CREATE CONTRACT [n_contract] ([n_type] SENT BY INITIATOR); CREATE QUEUE [n_schema].[n_queue]; CREATE SERVICE [n_service] ON QUEUE [n_schema].[n_queue] ([n_contract])
GO
CREATE PROCEDURE [n_schema].[n_procedure] AS RETURN 3
GO
ALTER QUEUE [n_schema].[n_queue] WITH ACTIVATION (STATUS = OFF, PROCEDURE_NAME = [n_schema].[n_procedure], MAX_QUEUE_READERS = 2, EXECUTE AS N'n_user')
GO
SELECT CASE WHEN activation_procedure = N'[db].' + QUOTENAME(N'n_schema') + N'.' + QUOTENAME(N'n_procedure') THEN 1 ELSE 0 END FROM sys.service_queues WHERE name = N'n_queue'
GO
CREATE ROUTE [n_route] WITH SERVICE_NAME = N'n_service', ADDRESS = 'LOCAL'; ALTER ROUTE [n_route] WITH ADDRESS = 'TCP://h:4022'; DROP ROUTE [n_route]
GO
CREATE BROKER PRIORITY [n_priority] FOR CONVERSATION SET (CONTRACT_NAME = [n_contract], LOCAL_SERVICE_NAME = [n_service], REMOTE_SERVICE_NAME = N'n_service', PRIORITY_LEVEL = 7); SELECT COUNT(*) FROM sys.conversation_priorities WHERE name = N'n_priority'
GO
CREATE REMOTE SERVICE BINDING [n_binding] TO SERVICE N'n_service' WITH USER = [n_user]; SELECT COUNT(*) FROM sys.remote_service_bindings WHERE remote_service_name = N'n_service'; DROP REMOTE SERVICE BINDING [n_binding]
GO
CREATE EVENT NOTIFICATION [n_notification] ON QUEUE [n_schema].[n_queue] FOR QUEUE_ACTIVATION TO SERVICE N'n_service', 'current database'; SELECT COUNT(*) FROM sys.event_notifications WHERE name = N'n_notification'; DROP EVENT NOTIFICATION [n_notification] ON QUEUE [n_schema].[n_queue]
GO
GRANT SEND ON SERVICE::[n_service] TO [n_user]; GRANT RECEIVE ON [n_schema].[n_queue] TO [n_user]; GRANT EXECUTE ON [n_schema].[n_procedure] TO [n_user]
GO
EXECUTE AS USER = N'n_user'; DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE [n_service] TO SERVICE N'n_service', 'CURRENT DATABASE' ON CONTRACT [n_contract] WITH ENCRYPTION = OFF; SEND ON CONVERSATION @h MESSAGE TYPE [n_type] (N'x'); REVERT
GO
DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE [n_service] TO SERVICE N'n_service', 'CURRENT DATABASE' ON CONTRACT [n_contract] WITH ENCRYPTION = OFF; SEND ON CONVERSATION @h MESSAGE TYPE [n_type] (N'<x/>')
GO
WAITFOR DELAY '00:00:01'; SELECT CASE WHEN message_type_name = N'n_type' AND service_name = N'n_service' AND priority = 7 THEN 1 ELSE 0 END, queuing_order FROM [n_schema].[n_queue]
GO
SELECT COUNT(*) FROM sys.conversation_endpoints AS [n_alias] JOIN sys.services AS [n_other] ON [n_other].service_id = [n_alias].service_id WHERE [n_other].name = N'n_service' AND [n_alias].far_service = N'n_service'
GO
ALTER QUEUE [n_schema].[n_queue] WITH ACTIVATION (DROP); ALTER QUEUE [n_schema].[n_queue] REBUILD; ALTER SERVICE [n_service] ON QUEUE [n_schema].[n_queue] (DROP CONTRACT [n_contract])
GO
DECLARE @m table ([n_one] int, [n_two] xml); WAITFOR (RECEIVE TOP (1) queuing_order AS [n_one], CAST(message_body AS xml) AS [n_two] FROM [n_schema].[n_queue] INTO @m), TIMEOUT 100; SELECT [n_one], CAST([n_two] AS nvarchar(9)) FROM @m
GO
CREATE TABLE [#n_temp] ([n_one] int NOT NULL PRIMARY KEY, [n_two] int NULL); INSERT [#n_temp] VALUES (1, 2); INSERT [#n_temp] VALUES (1, 3); SELECT [n_two] FROM [#n_temp]; SELECT COUNT(*) FROM tempdb..[#n_temp]; DROP TABLE [#n_temp]
GO
SELECT [n_one] AS [n_two] INTO [#n_temp] FROM [n_schema].[n_table]; SELECT [n_two] FROM [#n_temp]
GO
CREATE XML SCHEMA COLLECTION [n_schema].[n_collection] AS N'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="a" type="xs:int"/></xs:schema>'
GO
DROP BROKER PRIORITY [n_priority]; DROP SERVICE [n_service]; DROP QUEUE [n_schema].[n_queue]; DROP CONTRACT [n_contract]; DROP MESSAGE TYPE [n_type]; DROP CERTIFICATE [n_cert]; DROP XML SCHEMA COLLECTION [n_schema].[n_collection]; DROP PROCEDURE [n_schema].[n_procedure]; DROP USER [n_user]; DROP LOGIN [n_login]; DROP TABLE [n_schema].[n_table]; DROP SCHEMA [n_schema]; DROP DATABASE [n_db]
