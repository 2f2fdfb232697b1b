/*
Purpose:   the event notification that says when a queue needs a reader.
Called by: an administrator, once for each queue, after service.sql. Again where the activator says that the
           notification was dropped, or that its conversation has ended: the server drops it then, or sends nothing more.
Assumes:   the queue has no activation procedure, which drop_procedure.sql removes: a queue has one or the other (errors
           9717 and 9718). Readers that are killed in a transaction roll back, and five rollbacks in
           a row disable the queue, unless ALTER QUEUE ... WITH POISON_MESSAGE_HANDLING (STATUS = OFF).
Variables: Database (name of the database), Queue (the queue that is watched, with its schema),
           Notification (name of the event notification), NotificationService (name of the service that gets it)
*/
USE [$(Database)];
GO

IF EXISTS (
    SELECT 1 FROM sys.event_notifications WHERE name = N'$(Notification)' AND parent_id = OBJECT_ID(N'$(Queue)')
)
    DROP EVENT NOTIFICATION [$(Notification)] ON QUEUE $(Queue);
GO

CREATE EVENT NOTIFICATION [$(Notification)]
    ON QUEUE $(Queue)
    FOR QUEUE_ACTIVATION
    TO SERVICE N'$(NotificationService)', N'current database';
GO
