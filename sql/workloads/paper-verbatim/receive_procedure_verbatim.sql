/*
Purpose:   dbo.SRPerf_Queue_LabTest as the paper prints it: no order of what it stores, no error handling, a rollback
           where nothing came. The paper's text has in addition a table with the count of each RECEIVE, which its listing
           leaves out: the statement with dbo.receiveCount.
Called by: Service Broker, up to MAX_QUEUE_READERS at once (target/activation.sql).
Assumes:   the tables of target/. An error that ends its statement alone loses what the RECEIVE took, because the
           rest is committed; one that ends the batch returns it, and the fifth in a row disables the queue. The messages
           EndDialog and Error are stored like others, and their conversations are not ended: dialogs that end
           stay in sys.conversation_endpoints.
Variables: Database (name of the target's database),
           ReceiveTop (messages that one RECEIVE takes at most; 10000 in the paper),
           ReceiveTimeoutMs (how long a reader without messages stays, in ms; 3000 in the paper),
           Queue (this side's queue, with its schema)
*/
USE [$(Database)];
GO

CREATE OR ALTER PROCEDURE dbo.SRPerf_Queue_LabTest
AS
BEGIN
    DECLARE @receive table
    (
        message_type sysname,
        message_body varbinary(max),
        [dialog] uniqueidentifier
    );
    -- A variable, because parsers expect a number after TIMEOUT and find a name before sqlcmd has replaced it.
    DECLARE @timeout_ms int = $(ReceiveTimeoutMs);
    DECLARE @messages int;

    WHILE 1 = 1
    BEGIN
        BEGIN TRANSACTION;

        WAITFOR
        (
            RECEIVE TOP ($(ReceiveTop))
                message_type_name,
                message_body,
                conversation_handle
            FROM $(Queue)
            INTO @receive
        ), TIMEOUT @timeout_ms;

        SET @messages = @@ROWCOUNT;

        IF @messages = 0
        BEGIN
            ROLLBACK TRANSACTION;
            BREAK;
        END;

        INSERT INTO dbo.receiveCount (messages, received_at, session_id)
        VALUES (@messages, SYSUTCDATETIME(), @@SPID);

        INSERT INTO dbo.messageDrop (messageVal)
        SELECT CAST(message_body AS varbinary(2000))
        FROM @receive;

        DELETE FROM @receive;

        COMMIT TRANSACTION;
    END;
END;
GO
