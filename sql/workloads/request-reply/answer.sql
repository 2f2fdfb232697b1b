/*
Purpose:   dbo.Answer, the activation procedure: receives up to ReceiveTop requests of one conversation, stores them, and
           answers each with its own body, all in one transaction.
Called by: Service Broker, up to MaxQueueReaders at once (target/activation.sql).
Assumes:   the tables of target/. An error ends the procedure and returns the requests to the queue; five such rollbacks
           in a row disable the queue.
Variables: Database (name of the target's database),
           ReceiveTop (messages that one RECEIVE takes at most),
           ReceiveTimeoutMs (how long a reader without messages stays, in ms),
           MessageType (name of the message type),
           Queue (this side's queue, with its schema)
*/
USE [$(Database)];
GO

CREATE OR ALTER PROCEDURE dbo.Answer
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
    DECLARE @messages int;
    DECLARE @handle uniqueidentifier;
    DECLARE @body varbinary(max);

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

        -- What the harness counts: every message once, in its order on the conversation, and every RECEIVE.
        INSERT INTO dbo.receiveCount (messages, received_at, session_id)
        VALUES (@messages, SYSUTCDATETIME(), @@SPID);

        INSERT INTO dbo.messageDrop (messageVal)
        SELECT CAST(r.message_body AS varbinary(2000))
        FROM @received AS r
        WHERE r.message_type_name = N'$(MessageType)'
        ORDER BY r.conversation_handle, r.message_sequence_number;

        DECLARE requests CURSOR LOCAL STATIC FOR
            SELECT r.conversation_handle, r.message_body
            FROM @received AS r
            WHERE r.message_type_name = N'$(MessageType)'
            ORDER BY r.conversation_handle, r.message_sequence_number;

        OPEN requests;
        FETCH NEXT FROM requests INTO @handle, @body;

        WHILE @@FETCH_STATUS = 0
        BEGIN
            SEND ON CONVERSATION @handle MESSAGE TYPE [$(MessageType)] (@body);

            FETCH NEXT FROM requests INTO @handle, @body;
        END;

        CLOSE requests;
        DEALLOCATE requests;

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
