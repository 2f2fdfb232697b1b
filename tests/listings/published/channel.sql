-- sys.messages, the text of a procedure put together, WAITFOR behind a lone semicolon.
CREATE CONTRACT Channel
    AUTHORIZATION [dbo]
(
    [DEFAULT] SENT BY ANY
)
IF OBJECT_ID('[dbo].Channels', 'U') IS NULL BEGIN
    CREATE TABLE [dbo].Channels (ChannelName SYSNAME CONSTRAINT PK_Channels PRIMARY KEY)
END
GO
SET NOCOUNT ON
DECLARE @name SYSNAME = 'c', @error INT, @text NVARCHAR(1024)
SELECT @error = @@ERROR
IF (0 < @error) BEGIN
    SELECT @text = 'No channel: ' +
        (CASE
            WHEN 0 < @error THEN (SELECT [text] FROM sys.messages WHERE message_id = @error)
            ELSE 'OTHER' END)
    RAISERROR (@text, 11, 1)
    RETURN
END
DECLARE @body NVARCHAR(MAX) = CAST('' AS NVARCHAR(MAX)) + '
CREATE PROCEDURE [dbo].[' + @name + '_Receive]
WITH EXECUTE AS OWNER
AS
    IF (@@TRANCOUNT = 0) BEGIN
        RAISERROR (''A TRANSACTION IS REQUIRED'', 11, 1)
        RETURN
    END
    RAISERROR (''FLUSH'', 1, 1) WITH NOWAIT
    ;DECLARE
        @h UNIQUEIDENTIFIER,
        @type SYSNAME
    ;WAITFOR(
        RECEIVE TOP (1) @h = conversation_handle, @type = message_type_name FROM [dbo].[' + @name + '_Queue]
    ), TIMEOUT 15000
    IF (@type = ''DEFAULT'') BEGIN
        SELECT
             @type AS MessageType
            ,@h AS Handle
        ;END CONVERSATION @h
    END ELSE IF (@type = ''http://schemas.microsoft.com/SQL/ServiceBroker/EndDialog'') BEGIN
        END CONVERSATION @h
    END';
EXEC (@body)
IF (0 < @@ERROR) BEGIN
    EXEC ('DROP PROCEDURE [dbo].[' + @name + '_Receive]')
    RETURN
END
EXEC ('CREATE QUEUE [dbo].[' + @name + '_Queue]')
EXEC ('CREATE SERVICE [' + @name + '] AUTHORIZATION [dbo] ON QUEUE [dbo].[' + @name + '_Queue] (Channel)')
INSERT INTO [dbo].Channels
SELECT @name AS ChannelName
GO
DECLARE @d uniqueidentifier, @from sysname = 'c'
BEGIN DIALOG CONVERSATION @d FROM SERVICE @from TO SERVICE 'c' ON CONTRACT [Channel] WITH ENCRYPTION = OFF
;SEND ON CONVERSATION @d
    (N'body')
GO
BEGIN TRAN
EXEC dbo.c_Receive
COMMIT
;WITH Known ([Name]) AS
(
    SELECT ChannelName  AS Name FROM [dbo].Channels UNION ALL
    SELECT name         AS Name FROM sys.services WHERE name = 'c' UNION ALL
    SELECT name         AS Name FROM sys.procedures
)
SELECT Name FROM Known
IF @@ROWCOUNT <> 3 OR EXISTS (SELECT * FROM sys.conversation_endpoints WHERE is_initiator = 0 AND state = 'CO') THROW 50000, 'the target goes on', 1;
GO
