/*
Purpose:   dbo.SendMessageOnNewDialog sends one message on a dialog of its own and ends that dialog, all in one
           transaction: "one of the least optimal methods for sending messages" of the paper, kept for comparison.
Called by: client threads of the techniques that send in this way, instead of dbo.SendMessage.
Assumes:   the caller has no open transaction; for EXECUTE AS OWNER see send_message.sql.
           This is fire and forget. EndDialog follows the message to the target, whose procedure ends its side when it
           receives it; nothing is sent back, so the initiator's queue stays empty, and its endpoint is removed once the
           target has acknowledged both. An error that comes back finds the dialog ended and is dropped silently, so
           messages may be lost unnoticed. Against replays the target keeps a closed endpoint for every message until
           half an hour after the dialog's lifetime. The default lifetime is 68 years; hence LIFETIME, an hour, which is
           longer than a message waits here.
Variables: Database (name of the initiator's database), Encryption (ON as in the paper, or OFF),
           Prefix (begins the name of every object outside the lab's databases; may be empty),
           MessageType (name of the message type),
           Contract (name of the contract),
           Service (name of this side's service),
           TargetService (name of the target's service)
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
            FROM SERVICE [$(Service)]
            TO SERVICE N'$(TargetService)', @service_broker_guid
            ON CONTRACT [$(Contract)]
            WITH LIFETIME = 3600, ENCRYPTION = ON;
    ELSE
        BEGIN DIALOG @handle
            FROM SERVICE [$(Service)]
            TO SERVICE N'$(TargetService)', @service_broker_guid
            ON CONTRACT [$(Contract)]
            WITH LIFETIME = 3600, ENCRYPTION = OFF;

    SEND ON CONVERSATION @handle MESSAGE TYPE [$(MessageType)] (@body);

    END CONVERSATION @handle;

    COMMIT TRANSACTION;
END;
GO

GRANT EXECUTE ON OBJECT::dbo.SendMessageOnNewDialog TO [$(Prefix)Client];
GO
