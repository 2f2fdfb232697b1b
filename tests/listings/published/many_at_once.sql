-- RECEIVE into a table variable under a cursor; a message that fails is undone alone and ends its dialog with the error.
CREATE QUEUE [Target] WITH STATUS = ON; CREATE SERVICE [s] ON QUEUE [Target] ([DEFAULT]);
CREATE TABLE dbo.stored (id int IDENTITY, n int, at datetime)
CREATE TABLE dbo.failed (text nvarchar(4000))
GO
CREATE PROCEDURE [read_all]
AS
SET NOCOUNT ON;
DECLARE @messages TABLE (
    queuing_order BIGINT,
    conversation_handle UNIQUEIDENTIFIER,
    message_type_name SYSNAME,
    message_body VARBINARY(MAX));
DECLARE each
    CURSOR FORWARD_ONLY READ_ONLY
    FOR SELECT conversation_handle, message_type_name, message_body
        FROM @messages
        ORDER BY queuing_order;
DECLARE @h UNIQUEIDENTIFIER, @mt SYSNAME, @mb VARBINARY(MAX);
BEGIN TRANSACTION;
WAITFOR(RECEIVE
    queuing_order,
    conversation_handle,
    message_type_name,
    message_body
    FROM [Target]
    INTO @messages), TIMEOUT 2000;
WHILE EXISTS (SELECT * FROM @messages)
BEGIN
    OPEN each;
    WHILE (1=1)
    BEGIN
        FETCH NEXT FROM each INTO @h, @mt, @mb;
        IF (@@FETCH_STATUS != 0)
            BREAK;
        IF (N'http://schemas.microsoft.com/SQL/ServiceBroker/EndDialog' = @mt)
        BEGIN
            END CONVERSATION @h;
        END
        ELSE IF N'http://schemas.microsoft.com/SQL/ServiceBroker/Error' = @mt
        BEGIN
            END CONVERSATION @h;
            INSERT dbo.failed SELECT SUBSTRING(CAST(@mb AS nvarchar(max)), CHARINDEX('<Code>', CAST(@mb AS nvarchar(max))), 99)
        END
        ELSE
        BEGIN
            SAVE TRANSACTION one;
            BEGIN TRY
                INSERT dbo.stored (n, at) SELECT 1, CAST(CURRENT_TIMESTAMP AS datetime)
                UPDATE dbo.stored SET n = 1000 / CONVERT(int, CONVERT(nvarchar(max), @mb)) WHERE id = SCOPE_IDENTITY()
            END TRY
            BEGIN CATCH
                DECLARE @error INT, @text NVARCHAR(4000);
                SELECT @error = ERROR_NUMBER(), @text = ERROR_MESSAGE();
                IF XACT_STATE() = 1
                BEGIN
                    ROLLBACK TRANSACTION one
                    END CONVERSATION @h WITH ERROR = @error DESCRIPTION = @text;
                END
                ELSE
                    THROW;
            END CATCH
        END
    END
    CLOSE each;
    DELETE FROM @messages;
    COMMIT;
    BEGIN TRANSACTION;
    WAITFOR(RECEIVE queuing_order, conversation_handle, message_type_name, message_body FROM [Target] INTO @messages), TIMEOUT 2000;
END
COMMIT;
DEALLOCATE each;
GO
DECLARE @h UNIQUEIDENTIFIER, @i int;
BEGIN DIALOG CONVERSATION @h FROM SERVICE [s] TO SERVICE N's', N'current database' WITH ENCRYPTION = OFF;
SET @i = 1;
WHILE @i <= 20
BEGIN
    DECLARE @body nvarchar(4) = CAST(@i AS nvarchar(4));
    SEND ON CONVERSATION @h (@body);
    SET @i += 1;
END;
END CONVERSATION @h;
BEGIN DIALOG CONVERSATION @h FROM SERVICE [s] TO SERVICE N's', N'current database' WITH ENCRYPTION = OFF;
SEND ON CONVERSATION @h (N'0');
EXEC read_all;
IF (SELECT COUNT(*) FROM dbo.stored WHERE n = 1000 / id) <> 20 OR EXISTS (SELECT * FROM sys.conversation_endpoints WHERE state <> 'CD') THROW 50000, 'not all in order', 1;
IF (SELECT COUNT(*) FROM dbo.failed WHERE text LIKE '<Code>8134</Code><Description>Divide by zero%') <> 1 THROW 50000, 'no error', 1;
GO
