-- An activated procedure answers; a sender ends its dialogs by a timer and a message of its own; several readers; cleaning up.
CREATE MESSAGE TYPE [//Act/Request] VALIDATION = WELL_FORMED_XML;
CREATE MESSAGE TYPE [//Act/Reply] VALIDATION = WELL_FORMED_XML;
CREATE MESSAGE TYPE [//Act/Last] VALIDATION = EMPTY;
CREATE CONTRACT [//Act/Contract]
      ([//Act/Request]
       SENT BY INITIATOR,
       [//Act/Reply]
       SENT BY TARGET,
       [//Act/Last] SENT BY INITIATOR
      );
CREATE QUEUE TargetQueue;
CREATE SERVICE [//Act/Target] ON QUEUE TargetQueue ([//Act/Contract]);
CREATE QUEUE AskQueue;
CREATE SERVICE [//Act/Ask] ON QUEUE AskQueue;
CREATE TABLE dbo.Replies
(
    AColumn INT,
    BColumn DATETIME DEFAULT(GETDATE())
)
GO
CREATE PROCEDURE AnswerAll
AS
  DECLARE @h UNIQUEIDENTIFIER;
  DECLARE @body NVARCHAR(100);
  DECLARE @type sysname;
  WHILE (1=1)
  BEGIN
    BEGIN TRANSACTION;
    WAITFOR
    ( RECEIVE TOP(1)
        @h = conversation_handle,
        @body = message_body,
        @type = message_type_name
      FROM TargetQueue
    ), TIMEOUT 5000;
    IF (@@ROWCOUNT = 0)
    BEGIN
      ROLLBACK TRANSACTION;
      BREAK;
    END
    IF @type =
       N'//Act/Request'
    BEGIN
       DECLARE @reply NVARCHAR(100);
       SELECT @reply =
       N'<Reply/>';
       SEND ON CONVERSATION @h
              MESSAGE TYPE
              [//Act/Reply]
              (@reply);
    END
    ELSE IF @type = N'//Act/Last' END CONVERSATION @h
    ELSE IF @type =
        N'http://schemas.microsoft.com/SQL/ServiceBroker/Error'
    BEGIN
       END CONVERSATION @h;
    END
    COMMIT TRANSACTION;
  END
GO
CREATE PROC KeepReplies
AS
BEGIN
    DECLARE @h UNIQUEIDENTIFIER, @type SYSNAME
    WHILE 1 = 1
    BEGIN
        SET @h = NULL
        RECEIVE TOP (1) @h = conversation_handle, @type = message_type_name FROM AskQueue
        IF @h IS NULL BREAK
        IF @type = N'http://schemas.microsoft.com/SQL/ServiceBroker/DialogTimer'
            SEND ON CONVERSATION @h MESSAGE TYPE [//Act/Last]
        ELSE IF @type = N'http://schemas.microsoft.com/SQL/ServiceBroker/EndDialog'
            END CONVERSATION @h
        ELSE
            INSERT dbo.Replies
            (
                AColumn
            )
            SELECT TOP(5)
                number
            FROM
            (
                SELECT 1 AS number UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6
            ) x
            ORDER BY number DESC
    END
END
GO
ALTER QUEUE TargetQueue
    WITH ACTIVATION
    ( STATUS = ON,
      PROCEDURE_NAME = AnswerAll,
      MAX_QUEUE_READERS = 10,
      EXECUTE AS SELF
    );
ALTER QUEUE AskQueue WITH ACTIVATION (STATUS = ON, PROCEDURE_NAME = KeepReplies, MAX_QUEUE_READERS = 4, EXECUTE AS OWNER)
GO
DECLARE @h UNIQUEIDENTIFIER;
BEGIN TRANSACTION;
BEGIN DIALOG @h
     FROM SERVICE [//Act/Ask]
     TO SERVICE N'//Act/Target'
     ON CONTRACT [//Act/Contract]
     WITH
         ENCRYPTION = OFF;
BEGIN CONVERSATION TIMER (@h) TIMEOUT = 2
SEND ON CONVERSATION @h MESSAGE TYPE [//Act/Request] (N'<Request/>');
COMMIT TRANSACTION;
GO 4
WAITFOR DELAY '00:00:06';
IF (SELECT COUNT(*) FROM dbo.Replies WHERE AColumn > 1) <> 20 OR EXISTS (SELECT * FROM sys.conversation_endpoints WHERE state <> 'CD') THROW 50000, 'an endpoint is left', 1;
IF EXISTS (SELECT * FROM sys.services
           WHERE name =
           N'//Act/Target')
     DROP SERVICE
     [//Act/Target];
IF EXISTS (SELECT * FROM sys.service_queues
           WHERE name = N'TargetQueue')
     DROP QUEUE TargetQueue;
DROP SERVICE [//Act/Ask];
DROP QUEUE AskQueue;
IF EXISTS (SELECT * FROM sys.service_contracts
           WHERE name =
           N'//Act/Contract')
     DROP CONTRACT
     [//Act/Contract];
IF EXISTS (SELECT * FROM sys.service_message_types
           WHERE name =
           N'//Act/Request')
     DROP MESSAGE TYPE
     [//Act/Request];
GO
