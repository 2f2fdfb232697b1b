-- Errors: 8426
-- A table of dialogs to reuse: a dialog that is gone costs its caller error 8426 and is replaced; every third message ends one.
CREATE TABLE [Pool] (
    SPID INT NOT NULL,
    FromService SYSNAME NOT NULL,
    ToService SYSNAME NOT NULL,
    Handle UNIQUEIDENTIFIER NOT NULL,
    SendCount BIGINT NOT NULL,
    PRIMARY KEY (SPID, FromService, ToService),
    UNIQUE (Handle));
CREATE QUEUE dbo.SenderQueue; CREATE SERVICE [sender] ON QUEUE dbo.SenderQueue;
CREATE QUEUE dbo.TargetQueue; CREATE SERVICE [target] ON QUEUE dbo.TargetQueue ([DEFAULT]);
GO
IF EXISTS (SELECT * FROM sys.procedures WHERE NAME = N'usp_Take') DROP PROCEDURE [usp_Take];
GO
CREATE PROCEDURE [usp_Take] (@from SYSNAME, @to SYSNAME, @handle UNIQUEIDENTIFIER OUTPUT, @count BIGINT OUTPUT)
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @taken TABLE (SPID INT, FromService SYSNAME, ToService SYSNAME NOT NULL, Handle UNIQUEIDENTIFIER, SendCount BIGINT);
    BEGIN TRANSACTION;
    DELETE @taken;
    UPDATE TOP(1) [Pool] WITH(READPAST)
             SET SPID = @@SPID
             OUTPUT INSERTED.* INTO @taken
             WHERE FromService = @from
             AND ToService = @to;
    IF @@ROWCOUNT > 0
    BEGIN
           SET @handle = (SELECT Handle FROM @taken);
           SET @count = (SELECT SendCount FROM @taken);
    END
    ELSE
    BEGIN
           BEGIN DIALOG CONVERSATION @handle
                 FROM SERVICE @from
                 TO SERVICE @to
                 WITH ENCRYPTION = OFF;
           BEGIN CONVERSATION TIMER (@handle) TIMEOUT = 3600;
           INSERT INTO [Pool] VALUES (@@SPID, @from, @to, @handle, 0);
           SET @count = 0;
    END
    COMMIT
END;
GO
CREATE PROCEDURE [usp_Send] (@from SYSNAME, @to SYSNAME, @type SYSNAME, @body VARBINARY(MAX))
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @handle UNIQUEIDENTIFIER, @count BIGINT;
    DECLARE @tries INT, @error INT, @text VARCHAR(50);
    SELECT @tries = 1;
    BEGIN TRANSACTION;
    WHILE (1=1)
    BEGIN
        EXEC usp_Take @from, @to, @handle OUTPUT, @count OUTPUT;
        SEND ON CONVERSATION @handle MESSAGE TYPE @type (@body);
        SELECT @error = @@ERROR;
        IF @error = 0
        BEGIN
            IF @count >= 2
            BEGIN
                END CONVERSATION @handle;
                DELETE [Pool] WHERE Handle = @handle;
            END
            ELSE
                UPDATE [Pool] SET SendCount = @count + 1 WHERE Handle = @handle;
            BREAK;
        END
        SELECT @tries = @tries+1;
        IF @tries > 10
        BEGIN
            SET @text = (SELECT CAST( @handle AS VARCHAR(50)));
            RAISERROR (N'Failed to SEND on %s for more than 10 times. Error %i.', 16, 1, @text, @error) WITH LOG;
            BREAK;
        END
        DELETE FROM [Pool] WHERE Handle = @handle;
        SELECT @handle = NULL;
    END
    COMMIT;
END
GO
EXEC usp_Send 'sender', 'target', 'DEFAULT', 0x01;
GO 4
DECLARE @h uniqueidentifier = (SELECT Handle FROM Pool);
END CONVERSATION @h WITH CLEANUP;
GO
EXEC usp_Send 'sender', 'target', 'DEFAULT', 0x02;
IF (SELECT COUNT(DISTINCT conversation_handle) FROM dbo.TargetQueue) <> 3 OR (SELECT SendCount FROM Pool) <> 1 THROW 50000, 'not three dialogs', 1;
GO
