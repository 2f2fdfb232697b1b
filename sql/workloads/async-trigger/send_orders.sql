/*
Purpose:   dbo.SendOrders sends the body of each inserted order on the order's conversation, in the order of the ids and
           in the transaction of the INSERT, however many rows that has. Then it deletes the orders it has sent, so
           that the table does not grow over a long run: every order is still written, with its log records.
Called by: every INSERT into dbo.orders.
Assumes:   each handle is one of dbo.dialogs. EXECUTE AS OWNER, because SEND needs RECEIVE permission on the queue of the
           service that sends, and whoever inserts must not have it. An error rolls the INSERT back, because XACT_ABORT
           is ON in a trigger.
Variables: Database (name of the initiator's database),
           MessageType (name of the message type)
*/
USE [$(Database)];
GO

CREATE OR ALTER TRIGGER dbo.SendOrders ON dbo.orders
WITH EXECUTE AS OWNER
AFTER INSERT
AS
BEGIN
    SET NOCOUNT ON;

    DECLARE @handle uniqueidentifier;
    DECLARE @body varbinary(max);

    DECLARE orders CURSOR LOCAL STATIC FOR
        SELECT i.handle, i.body
        FROM inserted AS i
        ORDER BY i.id;

    OPEN orders;
    FETCH NEXT FROM orders INTO @handle, @body;

    WHILE @@FETCH_STATUS = 0
    BEGIN
        SEND ON CONVERSATION @handle MESSAGE TYPE [$(MessageType)] (@body);

        FETCH NEXT FROM orders INTO @handle, @body;
    END;

    CLOSE orders;
    DEALLOCATE orders;

    DELETE o
    FROM dbo.orders AS o
    INNER JOIN inserted AS i ON i.id = o.id;
END;
GO
