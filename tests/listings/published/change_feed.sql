-- A trigger put together from the columns of its table sends JSON, compressed; a function finds the conversation; OPENJSON reads it.
CREATE SCHEMA mdm
GO
CREATE USER reader WITHOUT LOGIN
ALTER ROLE db_owner ADD MEMBER reader
GO
CREATE TABLE dbo.Event1 (Id int IDENTITY PRIMARY KEY, Name nvarchar(50), At datetime2(0), Version timestamp)
CREATE CONTRACT [//Chatter] ([DEFAULT] SENT BY ANY);
CREATE QUEUE dbo.[Feed_Queue] WITH POISON_MESSAGE_HANDLING (STATUS = OFF)
CREATE SERVICE [Feed] ON QUEUE dbo.[Feed_Queue] ([//Chatter])
GO
CREATE FUNCTION [mdm].[udfServiceGetConversationHandle]
(
    @sourceService NVARCHAR(100),
    @farService NVARCHAR(100)
)
RETURNS UNIQUEIDENTIFIER
WITH EXECUTE AS N'reader' -- who may see the services
AS
BEGIN
    DECLARE @conversationHandle UNIQUEIDENTIFIER = NULL;
    SELECT
        @conversationHandle = cep.conversation_handle
    FROM sys.conversation_groups as cgs
    INNER JOIN sys.services as svc
        ON svc.service_id = cgs.service_id
    INNER JOIN sys.conversation_endpoints as cep
        ON cgs.conversation_group_id = cep.conversation_group_id
    WHERE svc.name = @sourceService
        AND cep.far_service = @farService
        AND cep.is_initiator = 1
        AND cep.state <> N'ER'
        AND cep.state <> N'CD' --CLOSED
    RETURN @conversationHandle;
END
GO
DECLARE @triggerStatement NVARCHAR(MAX), @select NVARCHAR(MAX), @sqlInserted NVARCHAR(MAX)
SET @triggerStatement = N'
CREATE TRIGGER dbo.[FeedTrigger]
ON dbo.[Event1]
WITH EXECUTE AS OWNER
AFTER INSERT, UPDATE, DELETE
NOT FOR REPLICATION
AS
SET NOCOUNT ON;
BEGIN
	DECLARE @message VARBINARY(MAX)
	DECLARE @InsertedJSON NVARCHAR(MAX)
	%inserted_select_statement%
	SET @message = compress(COALESCE(@InsertedJSON, N''{"Inserted":[]}''))
	DECLARE @ConvHandle UNIQUEIDENTIFIER = mdm.udfServiceGetConversationHandle(N''Feed'', N''Feed'')
	IF @ConvHandle IS NULL
		BEGIN DIALOG @ConvHandle
			FROM SERVICE [Feed] TO SERVICE ''Feed'' ON CONTRACT [//Chatter] WITH ENCRYPTION=OFF;
	SEND ON CONVERSATION @ConvHandle MESSAGE TYPE [DEFAULT] (@message);
END
'
SET @select = STUFF((SELECT ',' + '[' + COLUMN_NAME + ']'
	FROM INFORMATION_SCHEMA.COLUMNS
	WHERE DATA_TYPE NOT IN ('text','ntext','image') AND TABLE_SCHEMA = 'dbo' AND TABLE_NAME = 'Event1' AND COLUMN_NAME <> 'Version'
	FOR XML PATH ('')
	), 1, 1, '')
SET @sqlInserted = N'SET @InsertedJSON = (SELECT ' + @select + N' FROM INSERTED FOR JSON AUTO, ROOT(''Inserted''))'
SET @triggerStatement = REPLACE(@triggerStatement, '%inserted_select_statement%', @sqlInserted)
EXEC sp_executesql @triggerStatement
GO
CREATE TYPE dbo.Feed_Results AS TABLE (Id int, Name nvarchar(50))
CREATE TABLE dbo.Read_Events (Id int, Name nvarchar(50))
GO
CREATE PROCEDURE dbo.Store_Events @events dbo.Feed_Results READONLY AS
	INSERT dbo.Read_Events SELECT Id, Name FROM @events
GO
INSERT dbo.Event1 (Name, At) VALUES (N'one', '2026-01-02'), (N'two', NULL)
;WITH newest AS (SELECT TOP (1) * FROM dbo.Event1 ORDER BY Id DESC)
UPDATE newest SET Name = N'changed'
;WITH newest AS (SELECT TOP (1) * FROM dbo.Event1 ORDER BY Id DESC)
DELETE FROM newest
GO
DECLARE @events dbo.Feed_Results
DECLARE @received TABLE (body varbinary(max))
WAITFOR (RECEIVE message_body FROM dbo.[Feed_Queue] INTO @received), TIMEOUT 1000
INSERT @events
SELECT event.Id, event.Name
FROM @received AS r
CROSS APPLY (SELECT CAST(DECOMPRESS(r.body) AS nvarchar(max)) AS text) AS t
CROSS APPLY OPENJSON(t.text, '$.Inserted') WITH (Id int, Name nvarchar(50)) AS event
EXEC dbo.Store_Events @events
IF (SELECT STRING_AGG(Name, ',') FROM dbo.Read_Events) <> N'one,two,changed' THROW 50000, 'other events', 1
IF (SELECT COUNT(*) FROM sys.conversation_endpoints) <> 2 THROW 50000, 'one conversation for all', 1
IF (SELECT COUNT(*) FROM dbo.Event1) <> 1 THROW 50000, 'the newest is gone', 1
GO
