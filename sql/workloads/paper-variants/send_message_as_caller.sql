/*
Purpose:   dbo.SendMessageAsCaller sends one message in one transaction as paper/send_message.sql does, but with the rights
           of its caller: no switch of context for each call.
Called by: client threads of a step of harness techniques.
Assumes:   as paper/send_message.sql. "To send a message, the current user must have RECEIVE permission on the queue of every
           service that sends the message" (SEND, Permissions). So this grants it to the test clients, who could then
           empty the initiator's queue: for comparison only.
Variables: Database (name of the initiator's database),
           Prefix (begins the name of every object outside the lab's databases; may be empty),
           MessageType (name of the message type),
           Queue (this side's queue, with its schema)
*/
USE [$(Database)];
GO

CREATE OR ALTER PROCEDURE dbo.SendMessageAsCaller
    @handle uniqueidentifier,
    @body varbinary(max)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;

    BEGIN TRANSACTION;

    SEND ON CONVERSATION @handle MESSAGE TYPE [$(MessageType)] (@body);

    COMMIT TRANSACTION;
END;
GO

GRANT EXECUTE ON OBJECT::dbo.SendMessageAsCaller TO [$(Prefix)Client];
GO

GRANT RECEIVE ON OBJECT::$(Queue) TO [$(Prefix)Client];
GO
