-- Tasks that timers run: dynamic T-SQL in an activated procedure, its errors kept in a table, a procedure called by a variable.
CREATE TABLE dbo.task (
    id INT IDENTITY(1,1),
    text nvarchar(max) NOT NULL,
    ok BIT NOT NULL DEFAULT (0),
    repeats BIT NOT NULL DEFAULT (0),
    handle uniqueidentifier NULL
)
CREATE TABLE dbo.failure (
    id BIGINT IDENTITY(1, 1) PRIMARY KEY, line INT, number INT, text NVARCHAR(MAX), severity INT, state INT, task_id INT,
    at DATETIME NOT NULL DEFAULT GETUTCDATE()
)
CREATE TABLE dbo.done (n int)
GO
CREATE PROCEDURE dbo.plan_task @text NVARCHAR(MAX),
                                  @first DATETIME,
                                  @repeats BIT
AS
    DECLARE @id INT, @timeout INT, @handle UNIQUEIDENTIFIER;
    BEGIN TRANSACTION
    BEGIN TRY
        INSERT INTO dbo.task(text, repeats, handle) VALUES (@text, @repeats, NULL)
        SELECT @id = SCOPE_IDENTITY()
        SELECT @timeout = DATEDIFF(SECOND, GETDATE(), @first);
        BEGIN DIALOG CONVERSATION @handle
            FROM SERVICE [//Tasks]
            TO SERVICE '//Tasks', 'CURRENT DATABASE'
            ON CONTRACT [//Timer]
            WITH ENCRYPTION = OFF;
        BEGIN CONVERSATION TIMER (@handle)
            TIMEOUT = @timeout;
        UPDATE dbo.task SET handle = @handle WHERE ID = @id
        IF @@TRANCOUNT > 0
        BEGIN
            COMMIT;
        END
    END TRY
    BEGIN CATCH
        IF @@TRANCOUNT > 0
            BEGIN
                ROLLBACK;
            END
            THROW
    END CATCH
GO
CREATE PROCEDURE dbo.run_task
AS
    DECLARE @handle UNIQUEIDENTIFIER, @id INT, @name nvarchar(128) = OBJECT_NAME(@@PROCID)
    BEGIN TRY
        DECLARE @type sysname;
        RECEIVE TOP(1) @handle = conversation_handle,
                @type = message_type_name
        FROM TaskQueue
        IF @@ROWCOUNT = 0 OR ISNULL(@type, '') != 'http://schemas.microsoft.com/SQL/ServiceBroker/DialogTimer'
            RETURN;
        DECLARE @text NVARCHAR(MAX), @repeats BIT
        SELECT  @id = id, @text = text, @repeats = repeats
        FROM dbo.task
        WHERE handle = @handle
        IF @repeats = 0
        BEGIN
            END CONVERSATION @handle
        END
        ELSE
        BEGIN
            BEGIN CONVERSATION TIMER (@handle)
                TIMEOUT = 3;
        END
        IF OBJECT_ID(@text, 'P') IS NOT NULL
            exec @text;
        ELSE
            EXEC (@text)
        UPDATE dbo.task SET ok = 1 WHERE id = @id
    END TRY
    BEGIN CATCH
        INSERT INTO dbo.failure (line, number, text, severity, state, task_id)
        SELECT ERROR_LINE(), ERROR_NUMBER(), @name + ': ' + ERROR_MESSAGE(), ERROR_SEVERITY(), ERROR_STATE(), @id
        IF @handle != NULL
            END CONVERSATION @handle
    END CATCH;
GO
CREATE PROCEDURE dbo.often AS INSERT dbo.done VALUES (10)
GO
CREATE CONTRACT [//Timer] ([http://schemas.microsoft.com/SQL/ServiceBroker/DialogTimer] SENT BY INITIATOR)
GO
CREATE QUEUE TaskQueue
    WITH STATUS = ON,
    ACTIVATION (
        PROCEDURE_NAME = dbo.run_task,
        MAX_QUEUE_READERS = 20, -- at once
        EXECUTE AS 'dbo');
GO
CREATE SERVICE [//Tasks]
    AUTHORIZATION dbo
    ON QUEUE TaskQueue ([//Timer])
GO
DECLARE @soon datetime = DATEADD(second, 2, GETDATE());
EXEC dbo.plan_task 'INSERT dbo.done VALUES (1)', @soon, 0;
EXEC dbo.plan_task 'INSERT dbo.done VALUES (1/0)', @soon, 0;
EXEC dbo.plan_task 'dbo.often', @soon, 1;
GO
WAITFOR DELAY '00:00:10'
IF (SELECT SUM(n) FROM dbo.done) <> 31 OR (SELECT text FROM dbo.failure WHERE number = 8134) <> 'run_task: Divide by zero error encountered.' THROW 50000, 'the tasks did not run', 1;
GO
