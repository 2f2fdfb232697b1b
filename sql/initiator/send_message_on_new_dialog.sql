/*
Purpose:   dbo.SendMessageOnNewDialog sends one message on a dialog of its own and ends that dialog, all in one
           transaction: "one of the least optimal methods for sending messages" of the paper, kept to be measured.
Called by: client threads of the steps of the recommendations' ladder that send so, in place of dbo.SendMessage.
Assumes:   the caller has no transaction of its own open; EXECUTE AS OWNER as in send_message.sql.
           This is fire and forget. EndDialog follows the message to the target, whose procedure ends its side when it
           receives it; nothing is sent back, so the initiator's queue stays empty, and its endpoint is gone once the
           target has acknowledged both. An error that comes back finds the dialog ended and is dropped without a word:
           whoever uses this loses messages and does not hear of it. The target keeps a closed endpoint of every
           message until half an hour after the dialog's lifetime, against replays; the default lifetime is 68 years,
           hence LIFETIME: an hour, in seconds, longer than a message waits for its turn here.
Variables: Database (name of the initiator's database), Encryption (ON as in the paper, or OFF)
*/
USE [$(Database)];
GO

CREATE OR ALTER PROCEDURE dbo.SendMessageOnNewDialog
    @service_broker_guid uniqueidentifier,
    @body varbinary(max)
WITH EXECUTE AS OWNER
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;

    DECLARE @handle uniqueidentifier;

    BEGIN TRANSACTION;

    IF N'$(Encryption)' = N'ON'
        BEGIN DIALOG @handle
            FROM SERVICE [//MySSB.com/Lab/S_Test]
            TO SERVICE N'//MySSB.com/Lab/S_Test', @service_broker_guid
            ON CONTRACT [//MySSB.com/Lab/C_Test]
            WITH LIFETIME = 3600, ENCRYPTION = ON;
    ELSE
        BEGIN DIALOG @handle
            FROM SERVICE [//MySSB.com/Lab/S_Test]
            TO SERVICE N'//MySSB.com/Lab/S_Test', @service_broker_guid
            ON CONTRACT [//MySSB.com/Lab/C_Test]
            WITH LIFETIME = 3600, ENCRYPTION = OFF;

    SEND ON CONVERSATION @handle MESSAGE TYPE [//MySSB.com/Lab/M_Test] (@body);

    END CONVERSATION @handle;

    COMMIT TRANSACTION;
END;
GO
