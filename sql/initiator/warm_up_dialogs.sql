/*
Purpose:   dbo.WarmUpDialogs sends one message of 50 bytes on every conversation, so that each has its row in
           sys.sysdercv of the target before the load begins.
Called by: the lab, once per pool, after dbo.CreateDialogs.
Assumes:   the instances are linked. The messages have no payload header, so no run's accounting counts them;
           reset/messages.sql removes them from the target once the transmission queue is empty.
Variables: Database (name of the initiator's database),
           MessageType (name of the message type)
*/
USE [$(Database)];
GO

CREATE OR ALTER PROCEDURE dbo.WarmUpDialogs
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;

    DECLARE @sent int;
    DECLARE @handle uniqueidentifier;
    DECLARE @body varchar(50);

    SET @sent = 0;
    SET @body = REPLICATE('x', 50);

    -- STATIC, because SEND changes the rows behind the view. Only conversations that can send: those that began here
    -- and are started or conversing.
    DECLARE conversations CURSOR LOCAL STATIC FOR
        SELECT conversation_handle
        FROM sys.conversation_endpoints
        WHERE is_initiator = 1 AND state IN ('SO', 'CO');

    OPEN conversations;
    FETCH NEXT FROM conversations INTO @handle;

    BEGIN TRANSACTION;
    WHILE @@FETCH_STATUS = 0
    BEGIN
        SEND ON CONVERSATION @handle MESSAGE TYPE [$(MessageType)] (@body);

        SET @sent = @sent + 1;
        IF @sent % 1000 = 0
        BEGIN
            COMMIT TRANSACTION;
            BEGIN TRANSACTION;
        END;

        FETCH NEXT FROM conversations INTO @handle;
    END;
    COMMIT TRANSACTION;

    CLOSE conversations;
    DEALLOCATE conversations;
END;
GO
