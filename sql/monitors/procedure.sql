/*
Purpose:   whether the text of a queue's activation procedure has the word RECEIVE and the queue's name.
Called by: harness monitors, where messages of a queue do not move.
Assumes:   VIEW DEFINITION on the procedure; else the columns are NULL, as for a procedure of another database.
Variables: Queue (with its schema, in brackets)
Columns:   receive_at, queue_at (int: the place of the first character; 0 where the text does not have it)
*/
SELECT
    CHARINDEX(N'RECEIVE', OBJECT_DEFINITION(OBJECT_ID(q.activation_procedure))) AS receive_at,
    CHARINDEX(q.name, OBJECT_DEFINITION(OBJECT_ID(q.activation_procedure))) AS queue_at
FROM sys.service_queues AS q
WHERE q.object_id = OBJECT_ID(N'$(Queue)');
GO
