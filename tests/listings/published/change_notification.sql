-- A trigger that a program creates for a table, rows numbered in a table variable, and the removal of it all by a timer.
CREATE TABLE dbo.Item (Id int PRIMARY KEY, Name nvarchar(50))
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
