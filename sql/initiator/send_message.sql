/*
Purpose:   dbo.SendMessage sends one message in one transaction: the unit of the paper's load.
Called by: every client thread, in a closed loop, on its own connection and its own dialog, as a login that may
           execute this procedure and nothing else.
Assumes:   @handle is one of dbo.dialogs, and the caller has no transaction of its own open.
           "To send a message, the current user must have RECEIVE permission on the queue of every service that
           sends the message." That is no right for a test client: it could empty the queue. Therefore EXECUTE AS
           OWNER, as the paper has it on the target's queue. It costs one switch of context per call, to a token
           that SQL Server caches. A certificate's signature (ADD SIGNATURE) would cost a look at the signature
           instead, no less, and takes a key, a certificate and a user, and goes with every CREATE OR ALTER; that
           ownership chains cover SEND is nowhere promised. The body is the paper's. The database's owner must be
           a login that SQL Server can resolve (common/database.sql).
Variables: Database (name of the initiator's database)
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

    SEND ON CONVERSATION @handle MESSAGE TYPE [//MySSB.com/Lab/M_Test] (@body);

    COMMIT TRANSACTION;
END;
GO
