-- Objects by dynamic T-SQL, a timer that defers messages, and a loop that receives through sp_executesql.
CREATE TABLE dbo.later (
    id int IDENTITY(1,1) NOT NULL CONSTRAINT PK_later PRIMARY KEY CLUSTERED,
    handle uniqueidentifier NOT NULL,
    due datetime2(7),
    body varbinary(max),
    sent bit,
)
GO
CREATE MESSAGE TYPE [http://q/Message]
VALIDATION = NONE
GO
CREATE CONTRACT [http://q/Contract] ([http://q/Message] SENT BY ANY)
GO
CREATE PROCEDURE dbo.add_address (@address varchar(255))
AS
BEGIN
    IF NOT EXISTS(SELECT * FROM sys.[service_queues] q WHERE q.[name] = @address + '/queue')
    BEGIN
        EXECUTE( N'CREATE QUEUE [' + @address + N'/queue]
        WITH STATUS = ON')
        EXECUTE(N'CREATE SERVICE [' + @address + N'] ON QUEUE [' + @address + N'/queue] ([http://q/Contract])')
        EXECUTE(N'GRANT SEND ON SERVICE::[' + @address + N'] TO PUBLIC')
        DECLARE @sql nvarchar(max);
        SET @sql = 'IF NOT EXISTS (SELECT * FROM sys.routes WHERE name = ''' + @address + ''') BEGIN ';
        SET @sql = @sql + 'CREATE ROUTE [' + @address +'] WITH SERVICE_NAME = ''' + @address + ''', ADDRESS = ''LOCAL''';
        EXECUTE(@sql + ' END');
    END
END
GO
CREATE PROCEDURE dbo.send_at (@from varchar(255), @to varchar(255), @due datetime2(7) = NULL, @body varbinary(max) = NULL)
AS
BEGIN
    DECLARE @handle uniqueidentifier
    SET @handle = (SELECT TOP 1 handle FROM dbo.later WITH(READPAST,XLOCK,ROWLOCK))
    IF(@handle IS NULL)
        BEGIN DIALOG CONVERSATION @handle FROM SERVICE @from TO SERVICE @to ON CONTRACT [http://q/Contract] WITH ENCRYPTION = OFF;
    INSERT INTO dbo.later (handle, due, body, [sent]) VALUES (
        /* handle - uniqueidentifier */ @handle, @due, @body, CASE WHEN @due IS NULL THEN 1 ELSE 0 END )
    IF (@due IS NULL)
        SEND ON CONVERSATION @handle MESSAGE TYPE [http://q/Message] (@body);
    ELSE
        BEGIN CONVERSATION TIMER (@handle)
        TIMEOUT = DATEDIFF(SECOND, SYSUTCDATETIME(), @due);
END
GO
CREATE PROCEDURE dbo.dequeue (@queue AS varchar(255))
AS
WHILE(1=1)
BEGIN
    DECLARE @ch uniqueidentifier = NULL
    DECLARE @type varchar(256), @sql nvarchar(max)
    SET @sql = '
    RECEIVE TOP(1) @ch = conversation_handle, @TYPE = message_type_name FROM [' + @queue + '/queue]'
    BEGIN TRY
    EXEC sp_executesql
        @sql,
        N'@ch uniqueidentifier OUTPUT, @Type varchar(256) OUTPUT',
        @ch = @ch OUTPUT,
        @type = @type OUTPUT
    END TRY
    BEGIN CATCH
    END CATCH
    IF(@ch IS NULL)
        BREAK
    ELSE IF (@type = 'http://schemas.microsoft.com/SQL/ServiceBroker/DialogTimer')
    BEGIN
        DECLARE @id int, @handle uniqueidentifier, @body varbinary(max)
        DECLARE deferred CURSOR FAST_FORWARD READ_ONLY FOR
        SELECT l.[id], l.[handle], l.[body] FROM dbo.later l WITH(READPAST) WHERE l.[due] <= sysutcdatetime() AND l.[sent] = 0
        OPEN deferred
        FETCH NEXT FROM deferred INTO @id, @handle, @body
        WHILE @@FETCH_STATUS = 0
        BEGIN
            BEGIN TRY
            BEGIN
                SEND ON CONVERSATION @handle MESSAGE TYPE [http://q/Message] (@body);
            END
            END TRY
            BEGIN CATCH
            END CATCH
            UPDATE dbo.later SET [sent] = 1 WHERE [id] = @id
            FETCH NEXT FROM deferred INTO @id, @handle, @body
        END
        CLOSE deferred
        DEALLOCATE deferred
    END
END
GO
EXEC dbo.add_address 'here';
EXEC dbo.add_address 'there';
EXEC dbo.add_address 'there';
DECLARE @soon datetime2 = DATEADD(second, 2, SYSUTCDATETIME());
EXEC dbo.send_at 'here', 'there', @body = 0x01;
EXEC dbo.send_at 'here', 'there', @soon, 0x02;
WAITFOR DELAY '00:00:04';
EXEC dbo.dequeue 'here';
IF (SELECT COUNT(*) FROM [there/queue]) <> 2 OR (SELECT COUNT(*) FROM dbo.later WHERE sent = 1) <> 2 THROW 50000, 'a message is missing', 1;
DELETE l FROM dbo.later l WITH(READPAST) WHERE l.[id] < ((SELECT MAX(id) FROM dbo.later WITH(READPAST)) - 1000)
GO
