/*
Purpose:   dbo.Ask sends one request on the client's conversation and waits until the answer to it has arrived.
Called by: every client thread, as a login that may execute this procedure and nothing else.
Assumes:   @handle is one of dbo.dialogs, used by this thread alone, and the caller has no transaction of its own open:
           a request leaves only when it is committed. An answer repeats its request. Answers to others are old ones,
           to the messages that warmed the dialogs up, or to a request whose answer came too late: they are dropped.
           EXECUTE AS OWNER, because a client must not have the right to receive from the queue.
Variables: Database (name of the initiator's database),
           Prefix (begins the name of every object outside the lab's databases; may be empty),
           MessageType (name of the message type),
           Queue (this side's queue, with its schema)
*/
USE [$(Database)];
GO

CREATE OR ALTER PROCEDURE dbo.Ask
    @handle uniqueidentifier,
    @body varbinary(max)
WITH EXECUTE AS OWNER
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;

    DECLARE @answer varbinary(max);
    DECLARE @type nvarchar(256);
    DECLARE @received int;

    SEND ON CONVERSATION @handle MESSAGE TYPE [$(MessageType)] (@body);

    WHILE @answer IS NULL OR @answer <> @body
    BEGIN
        WAITFOR
        (
            RECEIVE TOP (1)
                @type = message_type_name,
                @answer = message_body
            FROM $(Queue)
            WHERE conversation_handle = @handle
        ), TIMEOUT 10000;

        SET @received = @@ROWCOUNT;

        IF @received = 0
        BEGIN
            RAISERROR (N'No answer came within ten seconds.', 16, 1);
            RETURN;
        END;

        IF @type <> N'$(MessageType)'
        BEGIN
            RAISERROR (N'The target has ended the conversation.', 16, 1);
            RETURN;
        END;
    END;
END;
GO

GRANT EXECUTE ON OBJECT::dbo.Ask TO [$(Prefix)Client];
GO
