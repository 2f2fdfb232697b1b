/*
Purpose:   dbo.SendMessage sends one message in one transaction: the unit of the paper's load.
Called by: every client thread, in a closed loop, on its own connection and its own dialog.
Assumes:   @handle is one of dbo.dialogs. The caller has RECEIVE on the queue of the service (client_grants.sql)
           and no transaction of its own open.
Variables: Database (name of the initiator's database)
*/
USE [$(Database)];
GO

CREATE OR ALTER PROCEDURE dbo.SendMessage
    @handle uniqueidentifier,
    @body varbinary(max)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;

    BEGIN TRANSACTION;

    SEND ON CONVERSATION @handle MESSAGE TYPE [//MySSB.com/Lab/M_Test] (@body);

    COMMIT TRANSACTION;
END;
GO
