/*
Purpose:   the services of this database, each with its queue: the far side of a message that waits elsewhere is found
           by its service.
Called by: harness monitors, when it begins and some times a minute, in every database.
Assumes:   the login sees services on which it has some permission; VIEW DEFINITION in the database shows all.
Variables: none
Columns:   service_name, queue_id (int)
*/
SELECT s.name AS service_name, s.service_queue_id AS queue_id
FROM sys.services AS s
JOIN sys.service_queues AS q ON q.object_id = s.service_queue_id
WHERE q.is_ms_shipped = 0
ORDER BY s.name;
GO
