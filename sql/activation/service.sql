/*
Purpose:   the service to which event notifications are sent. The contract exists in every database.
Called by: an administrator, once, after queue.sql.
Assumes:   the queue exists.
Variables: Database (name of the database), NotificationQueue (its queue, with its schema),
           NotificationService (name of this service)
*/
USE [$(Database)];
GO

IF EXISTS (SELECT 1 FROM sys.services WHERE name = N'$(NotificationService)')
    SET NOEXEC ON;
GO

CREATE SERVICE [$(NotificationService)]
    ON QUEUE $(NotificationQueue) ([http://schemas.microsoft.com/SQL/Notifications/PostEventNotification]);
GO

SET NOEXEC OFF;
GO
