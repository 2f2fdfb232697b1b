/*
Purpose:   the queue in which event notifications arrive. harness activator reads it, and so can Microsoft's External
           Activator.
Called by: an administrator, once. A second run turns on a queue that is off.
Assumes:   the database exists and its broker is on. Poison message handling is off: every activator that is killed
           rolls a RECEIVE back, and five rollbacks in a row would disable the queue.
Variables: Database (name of the database), NotificationQueue (this queue, with its schema)
*/
USE [$(Database)];
GO

IF EXISTS (SELECT 1 FROM sys.service_queues WHERE object_id = OBJECT_ID(N'$(NotificationQueue)'))
    SET NOEXEC ON;
GO

CREATE QUEUE $(NotificationQueue);
GO

SET NOEXEC OFF;
GO

ALTER QUEUE $(NotificationQueue) WITH STATUS = ON, POISON_MESSAGE_HANDLING (STATUS = OFF);
GO
