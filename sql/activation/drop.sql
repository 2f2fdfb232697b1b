/*
Purpose:   removes the event notification of a queue, and the service that gets it, with its queue. "Service Broker sends
           an error to the remote side of any open conversations that use the service" (DROP SERVICE). The watched queue
           stays as it is.
Called by: an administrator, after the activator has ended.
Assumes:   nothing: objects that do not exist are skipped. Event notifications of other queues to the same service end.
Variables: Database (name of the database), Queue (the queue that was watched, with its schema),
           Notification (name of the event notification), NotificationService (name of the service that gets it),
           NotificationQueue (its queue, with its schema)
*/
USE [$(Database)];
GO

IF EXISTS (
    SELECT 1 FROM sys.event_notifications WHERE name = N'$(Notification)' AND parent_id = OBJECT_ID(N'$(Queue)')
)
    DROP EVENT NOTIFICATION [$(Notification)] ON QUEUE $(Queue);
GO

IF EXISTS (SELECT 1 FROM sys.services WHERE name = N'$(NotificationService)')
    DROP SERVICE [$(NotificationService)];
GO

IF EXISTS (SELECT 1 FROM sys.service_queues WHERE object_id = OBJECT_ID(N'$(NotificationQueue)'))
    DROP QUEUE $(NotificationQueue);
GO
