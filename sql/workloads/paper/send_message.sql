/*
Purpose:   dbo.SendMessage sends one message in one transaction: the unit of the paper's load.
Called by: every client thread, in a closed or an open loop, on its own connection and its own dialog, as a login that may
           execute this procedure and nothing else.
Assumes:   @handle is one of dbo.dialogs, and the caller has no transaction of its own open. The clients' user exists.
           "To send a message, the current user must have RECEIVE permission on the queue of every service that
           sends the message." A test client must not have that right, with which it could empty the queue. Hence
           EXECUTE AS OWNER. It costs one switch of context for each call, to a token that SQL Server caches. A
           signature (ADD SIGNATURE) would have to be verified instead; it needs a key, a certificate and a user, and
           every CREATE OR ALTER removes it. Nothing documents that ownership chains cover SEND. The paper describes
           such a procedure without a listing. The database's owner must be a login that SQL Server can resolve
           (common/database.sql).
Variables: Database (name of the initiator's database),
           Prefix (begins the name of every object outside the lab's databases; may be empty),
           MessageType (name of the message type)
*/
USE [$(Database)];
GO

CREATE OR ALTER PROCEDURE dbo.SendMessage
    @handle uniqueidentifier,
    @body varbinary(max)
WITH EXECUTE AS OWNER
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;

    BEGIN TRANSACTION;

    SEND ON CONVERSATION @handle MESSAGE TYPE [$(MessageType)] (@body);

    COMMIT TRANSACTION;
END;
GO

GRANT EXECUTE ON OBJECT::dbo.SendMessage TO [$(Prefix)Client];
GO
