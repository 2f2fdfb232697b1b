/*
Purpose:   dbo.InsertOrder inserts one order, in a transaction of its own.
Called by: every client thread, as a login that may execute this procedure and nothing else.
Assumes:   @handle is one of dbo.dialogs. The trigger of dbo.orders sends the order (send_orders.sql).
Variables: Database (name of the initiator's database),
           Prefix (begins the name of every object outside the lab's databases; may be empty)
*/
USE [$(Database)];
GO

CREATE OR ALTER PROCEDURE dbo.InsertOrder
    @handle uniqueidentifier,
    @body varbinary(max)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;

    INSERT INTO dbo.orders (handle, body)
    VALUES (@handle, @body);
END;
GO

GRANT EXECUTE ON OBJECT::dbo.InsertOrder TO [$(Prefix)Client];
GO
