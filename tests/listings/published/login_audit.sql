-- Failed logins, and changes of tables, arrive in a queue and are written to a table.
CREATE QUEUE dbo.AuditQueue;
GO
CREATE SERVICE [//Audit/Service]
AUTHORIZATION [dbo]
ON QUEUE [dbo].[AuditQueue]
([http://schemas.microsoft.com/SQL/Notifications/PostEventNotification])
GO
CREATE ROUTE AuditRoute
WITH SERVICE_NAME = '//Audit/Service',
ADDRESS = 'LOCAL';
GO
DECLARE @guid [uniqueidentifier]
,@SQL [varchar](max);
SELECT @guid = [service_broker_guid]
FROM [master].[sys].[databases]
WHERE [name] = DB_NAME()
SET @SQL = 'IF EXISTS (SELECT * FROM sys.server_event_notifications
WHERE name = ''FailedLogins'')
DROP EVENT NOTIFICATION FailedLogins ON SERVER
CREATE EVENT NOTIFICATION FailedLogins
ON SERVER
WITH fan_in
FOR AUDIT_LOGIN_FAILED
TO SERVICE ''//Audit/Service'', '''
+ CAST(@guid AS [varchar](50)) + ''';'
EXEC (@SQL)
GO
CREATE EVENT NOTIFICATION NewTables
    ON DATABASE
    FOR CREATE_TABLE, DROP_TABLE
    TO SERVICE '//Audit/Service', 'current database';
GO
CREATE TABLE Audited
(  
	id int IDENTITY(1, 1),
	what sysname NOT NULL,
	who sysname NULL,
	at datetime NOT NULL DEFAULT GETDATE()
	CONSTRAINT PK_Audited PRIMARY KEY (id)
)
GO
CREATE PROCEDURE dbo.WriteAudit
WITH EXECUTE AS OWNER
AS
BEGIN
   SET NOCOUNT ON;
   DECLARE @message_body XML;
   DECLARE @written TABLE (id int, who sysname NULL, source nvarchar(20), how int);
   WHILE (1 = 1)
   BEGIN
       WAITFOR
       (
           RECEIVE TOP(1) @message_body = message_body
               FROM dbo.AuditQueue
       ), TIMEOUT 500;
       IF (@@ROWCOUNT = 0)
           BREAK;
       INSERT Audited (what, who)
       OUTPUT inserted.id, inserted.who, N'audit', 1 INTO @written
       SELECT @message_body.value('(/EVENT_INSTANCE/EventType)[1]', 'sysname')
           + ' ' + @message_body.value('(/EVENT_INSTANCE/ObjectName)[1]', 'sysname'),
           @message_body.value('(/EVENT_INSTANCE/LoginName)[1]', 'varchar(128)')
   END
   IF EXISTS (SELECT * FROM @written WHERE source <> N'audit' OR how <> 1) THROW 50000, 'OUTPUT', 1
END
GO
CREATE TABLE Noticed (a int)
GO
WAITFOR DELAY '0:0:1'
EXEC dbo.WriteAudit
IF (SELECT COUNT(*) FROM Audited WHERE what IN ('CREATE_TABLE Audited', 'CREATE_TABLE Noticed') AND who = 'sa') <> 2
    THROW 50000, 'The new tables are not in the audit.', 1
IF (SELECT COUNT(*) FROM sys.event_notification_event_types WHERE type_name LIKE '%login%') <> 2
    THROW 50000, 'The types of events are missing.', 1
DROP EVENT NOTIFICATION FailedLogins ON SERVER
DROP EVENT NOTIFICATION NewTables ON DATABASE
