-- A trigger that a program creates for a table, rows numbered in a table variable, and the removal of it all by a timer.
CREATE TABLE dbo.Item (Id int PRIMARY KEY, Name nvarchar(50))
GO
-- What the program asks first: the columns of the table, and what its login may do.
SELECT o.name AS TABLE_NAME, c.name AS COLUMN_NAME, COLUMNPROPERTY(c.object_id, c.name, 'ordinal') AS ORDINAL_POSITION,
    ISNULL(TYPE_NAME(c.system_type_id), t.name)	AS DATA_TYPE,
    COLUMNPROPERTY(c.object_id, c.name, 'charmaxlen') AS CHARACTER_MAXIMUM_LENGTH,
    COLUMNPROPERTY(c.object_id, c.name, 'octetmaxlen') AS CHARACTER_OCTET_LENGTH,
    convert(int, CASE	-- moments
    WHEN c.system_type_id IN (40, 41, 42, 43, 58, 61) THEN NULL
    ELSE ODBCSCALE(c.system_type_id, c.scale) END)	AS NUMERIC_SCALE,
    convert(sysname, CASE WHEN c.system_type_id IN (35, 167, 175)
    THEN COLLATIONPROPERTY(c.collation_name, 'sqlcharsetname')
    WHEN c.system_type_id IN (99, 231, 239)
    THEN N'UNICODE' END) AS CHARACTER_SET_NAME
INTO #Columns
FROM sys.objects o JOIN sys.columns c ON c.object_id = o.object_id
LEFT JOIN sys.types t ON c.user_type_id = t.user_type_id
WHERE o.type IN ('U') and SCHEMA_NAME(o.schema_id) = 'dbo' and o.name = 'Item'
IF NOT EXISTS (SELECT 1 FROM #Columns WHERE COLUMN_NAME = 'Id' AND DATA_TYPE = 'int' AND NUMERIC_SCALE = 0)
    OR NOT EXISTS (SELECT 1 FROM #Columns WHERE COLUMN_NAME = 'Name' AND CHARACTER_OCTET_LENGTH = 100 AND NUMERIC_SCALE IS NULL AND CHARACTER_SET_NAME = 'UNICODE')
    THROW 50000, 'The columns are others', 1
GO
IF NOT EXISTS (
    SELECT
        [UserName] = CASE memberprinc.[type] WHEN 'S' THEN memberprinc.[name] WHEN 'U' THEN ulogin.[name] COLLATE Latin1_General_CI_AI END,
        [Role] = roleprinc.[name],
        [ObjectName] = OBJECT_NAME(perm.major_id)
    FROM
        sys.database_role_members members
    JOIN
        sys.database_principals roleprinc ON roleprinc.[principal_id] = members.[role_principal_id]
    JOIN
        sys.database_principals memberprinc ON memberprinc.[principal_id] = members.[member_principal_id]
    LEFT JOIN
        sys.login_token ulogin on memberprinc.[sid] = ulogin.[sid]
    LEFT JOIN
        sys.database_permissions perm ON perm.[grantee_principal_id] = roleprinc.[principal_id]
    WHERE roleprinc.name = 'db_owner' AND (ulogin.sid = SUSER_SID(SUSER_SNAME()) OR ulogin.sid in((select [sid] from [sys].[database_principals] where [type] in ('R','G')))))
    THROW 50000, 'The login is no owner', 1
GO
CREATE MESSAGE TYPE [dep/Id] VALIDATION = NONE
CREATE MESSAGE TYPE [dep/End] VALIDATION = NONE
CREATE CONTRACT [dep] ([dep/Id] SENT BY INITIATOR, [dep/End] SENT BY INITIATOR)
CREATE QUEUE [dbo].[dep_Receiver] WITH STATUS = ON, RETENTION = OFF, POISON_MESSAGE_HANDLING (STATUS = OFF)
CREATE QUEUE [dbo].[dep_Sender] WITH STATUS = ON, RETENTION = OFF, POISON_MESSAGE_HANDLING (STATUS = OFF)
IF NOT EXISTS(SELECT * FROM sys.services WHERE name = 'dep_Sender')
    CREATE SERVICE [dep_Sender] ON QUEUE [dbo].[dep_Sender]
CREATE SERVICE [dep_Receiver] ON QUEUE [dbo].[dep_Receiver] ([dep])
GO
CREATE PROCEDURE [dbo].[dep_Remove]
WITH EXECUTE AS SELF
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @h AS UNIQUEIDENTIFIER;
    DECLARE @mt NVARCHAR(200);
    RECEIVE TOP(1) @h = conversation_handle, @mt = message_type_name FROM [dbo].[dep_Sender];
    IF @mt = N'http://schemas.microsoft.com/SQL/ServiceBroker/DialogTimer' OR @mt = N'http://schemas.microsoft.com/SQL/ServiceBroker/Error'
    BEGIN
        END CONVERSATION @h;
        DECLARE @schema_id INT;
        SELECT @schema_id = schema_id FROM sys.schemas WITH (NOLOCK) WHERE name = N'dbo';
        IF EXISTS (SELECT * FROM sys.triggers WITH (NOLOCK) WHERE object_id = OBJECT_ID(N'[dbo].[dep_Changed]')) DROP TRIGGER [dbo].[dep_Changed];
        IF EXISTS (SELECT * FROM sys.service_queues WITH (NOLOCK) WHERE schema_id = @schema_id AND name = N'dep_Sender') EXEC (N'ALTER QUEUE [dbo].[dep_Sender] WITH ACTIVATION (STATUS = OFF)');
        DECLARE @service INT
        SELECT @service = service_id FROM sys.services
        WHERE sys.services.name = 'dep_Receiver'
        DECLARE each CURSOR FAST_FORWARD FOR SELECT CEP.conversation_handle FROM sys.conversation_endpoints CEP
            WHERE CEP.service_id = @service AND ([state] != 'CD' OR [lifetime] > GETDATE() + 1);
        OPEN each;
        FETCH NEXT FROM each INTO @h;
        WHILE (@@FETCH_STATUS = 0) BEGIN
            END CONVERSATION @h WITH CLEANUP;
            FETCH NEXT FROM each INTO @h;
        END
        CLOSE each;
        DEALLOCATE each;
        IF (@service IS NOT NULL)
            DROP SERVICE [dep_Receiver];
        DROP SERVICE [dep_Sender];
        IF OBJECT_ID ('dbo.dep_Receiver', 'SQ') IS NOT NULL
            DROP QUEUE [dbo].[dep_Receiver];
        DROP QUEUE [dbo].[dep_Sender];
        DROP CONTRACT [dep];
        DROP PROCEDURE [dbo].[dep_Remove];
    END
END
GO
ALTER QUEUE [dbo].[dep_Sender] WITH ACTIVATION (PROCEDURE_NAME = [dbo].[dep_Remove], MAX_QUEUE_READERS = 1, EXECUTE AS N'dbo', STATUS = ON)
DECLARE @h UNIQUEIDENTIFIER
BEGIN DIALOG CONVERSATION @h FROM SERVICE [dep_Sender] TO SERVICE 'dep_Receiver' ON CONTRACT [dep] WITH ENCRYPTION = OFF
BEGIN CONVERSATION TIMER (@h) TIMEOUT = 10
DECLARE @sql nvarchar(max) = N'
CREATE TRIGGER [dep_Changed] ON [dbo].[Item]
WITH EXECUTE AS SELF
AFTER insert AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @left INT, @id int
    DECLARE @rows TABLE ([RowNumber] INT IDENTITY(1, 1), [Id] int, [Name] nvarchar(50))
    IF NOT EXISTS(SELECT 1 FROM INSERTED) RETURN
    INSERT INTO @rows SELECT [Id], [Name] FROM INSERTED
    SELECT @left = COUNT(1) FROM @rows
    BEGIN TRY
        WHILE @left > 0
        BEGIN
            SELECT @id = [Id] FROM @rows WHERE [RowNumber] = @left
            SET @left = @left - 1
            IF @id IS NOT NULL BEGIN
                ;SEND ON CONVERSATION ''' + CONVERT(nvarchar(36), @h) + ''' MESSAGE TYPE [dep/Id] (CONVERT(NVARCHAR(MAX), @id))
            END
            ;SEND ON CONVERSATION ''' + CONVERT(nvarchar(36), @h) + ''' MESSAGE TYPE [dep/End] (0x)
        END
    END TRY
    BEGIN CATCH
        DECLARE @text NVARCHAR(4000), @severity INT, @state INT
        SELECT @text = ERROR_MESSAGE(), @severity = ERROR_SEVERITY(), @state = ERROR_STATE()
        RAISERROR (@text, @severity, @state)
    END CATCH
END'
EXEC sp_executeSql @sql
GO
INSERT dbo.Item VALUES (1, N'a'), (2, N'b')
GO
DECLARE @h UNIQUEIDENTIFIER, @message VARBINARY(MAX)
USE [db]
WAITFOR (RECEIVE TOP(1) @h=Conversation_Handle, @message=message_body FROM dbo.[dep_Receiver]), TIMEOUT 1000;
IF CAST(@message AS NVARCHAR(MAX)) <> '2' OR (SELECT COUNT(*) FROM dbo.dep_Receiver) <> 3 THROW 50000, 'not four messages', 1
WAITFOR DELAY '00:00:20'
IF OBJECT_ID('dbo.dep_Sender') IS NOT NULL OR EXISTS (SELECT * FROM sys.triggers) OR OBJECT_ID('dbo.dep_Remove') IS NOT NULL THROW 50000, 'something is left', 1
GO
