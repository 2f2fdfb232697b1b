-- A body whose tags do not match, sent encrypted, is answered by an Error message to an activated procedure.
CREATE PROCEDURE [Processed] AS
BEGIN
    DECLARE @h uniqueidentifier
    ;RECEIVE TOP (1) @h = conversation_handle FROM AskingQueue
    END CONVERSATION @h
END
GO
CREATE MESSAGE TYPE [Request]  VALIDATION = WELL_FORMED_XML
CREATE MESSAGE TYPE [Response] VALIDATION = WELL_FORMED_XML
CREATE CONTRACT [Payment]
(
    [Response] SENT BY TARGET,
    [Request] SENT BY INITIATOR
)
CREATE QUEUE AskingQueue WITH STATUS = ON
CREATE QUEUE PayingQueue WITH STATUS = ON
CREATE SERVICE Asking ON QUEUE AskingQueue(Payment)
GO
CREATE SERVICE Paying ON QUEUE PayingQueue(Payment)
GO
ALTER QUEUE AskingQueue WITH ACTIVATION (STATUS = ON, PROCEDURE_NAME = [Processed], MAX_QUEUE_READERS = 4, EXECUTE AS SELF)
CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'Str0ng!'
GO
BEGIN TRY
    BEGIN TRANSACTION
    DECLARE @h UNIQUEIDENTIFIER
    DECLARE @body NVARCHAR(MAX)
    BEGIN DIALOG CONVERSATION @h
        FROM SERVICE [Asking]
        TO SERVICE 'Paying'
        ON CONTRACT [Payment]

        SET @body = '<Payment><Card>4565</Card></payment>'

        ;SEND ON CONVERSATION @h MESSAGE TYPE [Request](@body);
        PRINT 'Sent'
        COMMIT
END TRY
BEGIN CATCH
    PRINT 'Rolled back'
    ROLLBACK
END CATCH
SELECT * FROM PAYINGqueue
GO
WAITFOR DELAY '00:00:05'
IF EXISTS (SELECT * FROM sys.conversation_endpoints WHERE is_initiator = 1) THROW 50000, 'the dialog is left', 1
GO
