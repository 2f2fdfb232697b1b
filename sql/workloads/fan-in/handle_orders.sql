/*
Purpose:   dbo.HandleOrders, the activation procedure: receives up to ReceiveTop orders of one conversation, works on
           them for WorkMs each, and stores them, all in one transaction. The conversation group stays locked
           meanwhile, so nobody else works on a later order of the same conversation.
Called by: Service Broker, up to MaxQueueReaders at once (target/activation.sql).
Assumes:   the tables of target/. An error ends the procedure and returns the orders to the queue; five such rollbacks
           in a row disable the queue.
Variables: Database (name of the target's database),
           ReceiveTop (messages that one RECEIVE takes at most),
           ReceiveTimeoutMs (how long a reader without messages stays, in ms),
           WorkMs (what the work on one order takes, in ms),
           MessageType (name of the message type),
           Queue (this side's queue, with its schema)
*/
USE [$(Database)];
GO

CREATE OR ALTER PROCEDURE dbo.HandleOrders
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;

    DECLARE @received table
    (
        conversation_handle uniqueidentifier NOT NULL,
        message_sequence_number bigint NOT NULL,
        message_type_name nvarchar(256) NOT NULL,
        message_body varbinary(max) NULL
    );
    DECLARE @timeout_ms int = $(ReceiveTimeoutMs);
    DECLARE @work_ms int = $(WorkMs);
    DECLARE @work datetime;
    DECLARE @messages int;
    DECLARE @handle uniqueidentifier;

    WHILE 1 = 1
    BEGIN
        BEGIN TRANSACTION;

        WAITFOR
        (
            RECEIVE TOP ($(ReceiveTop))
                conversation_handle,
                message_sequence_number,
                message_type_name,
                message_body
            FROM $(Queue)
            INTO @received
        ), TIMEOUT @timeout_ms;

        SET @messages = @@ROWCOUNT;

        IF @messages = 0
        BEGIN
            COMMIT TRANSACTION;
            BREAK;
        END;

        -- The application's work stands here.
        SET @work = DATEADD(millisecond, @work_ms * @messages, 0);
        WAITFOR DELAY @work;

        -- What the harness counts: every message once, in its order on the conversation, and every RECEIVE.
        INSERT INTO dbo.receiveCount (messages, received_at, session_id)
        VALUES (@messages, SYSUTCDATETIME(), @@SPID);

        INSERT INTO dbo.messageDrop (messageVal)
        SELECT CAST(r.message_body AS varbinary(2000))
        FROM @received AS r
        WHERE r.message_type_name = N'$(MessageType)'
        ORDER BY r.conversation_handle, r.message_sequence_number;

        -- The other side, or its broker, has ended the conversation: end it here too, or its endpoint would remain.
        DELETE FROM @received
        WHERE message_type_name = N'$(MessageType)';

        WHILE EXISTS (SELECT 1 FROM @received AS r)
        BEGIN
            SELECT TOP (1) @handle = r.conversation_handle FROM @received AS r;

            END CONVERSATION @handle;

            DELETE FROM @received WHERE conversation_handle = @handle;
        END;

        COMMIT TRANSACTION;
    END;
END;
GO
