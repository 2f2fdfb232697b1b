/*
Purpose:   dbo.SubmitOrder sends one order on the client's conversation, in a transaction of its own.
Called by: every client thread, as a login that may execute this procedure and nothing else.
Assumes:   @handle is one of dbo.dialogs. EXECUTE AS OWNER, because SEND needs RECEIVE permission on the queue of the
           service that sends, and a client must not have it.
Variables: Database (name of the initiator's database),
           Prefix (begins the name of every object outside the lab's databases; may be empty),
           MessageType (name of the message type)
*/
USE [$(Database)];
GO

CREATE OR ALTER PROCEDURE dbo.SubmitOrder
    @handle uniqueidentifier,
    @body varbinary(max)
WITH EXECUTE AS OWNER
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;

    SEND ON CONVERSATION @handle MESSAGE TYPE [$(MessageType)] (@body);
END;
GO

GRANT EXECUTE ON OBJECT::dbo.SubmitOrder TO [$(Prefix)Client];
GO
