/*
Purpose:   the services of this database, each with its queue: the far side of a message that waits elsewhere is found
           by its service, and so is the queue to which an event notification goes.
Called by: harness monitors, when it begins and some times a minute, in every database.
Assumes:   the login sees services on which it has some permission; VIEW DEFINITION in the database shows all.
Variables: none
Columns:   service_name, queue_id (int)
*/
SELECT s.name AS service_name, s.service_queue_id AS queue_id
FROM sys.services AS s
ORDER BY s.name;
GO
