/*
Purpose:   the text of a queue's activation procedure, which says whether and how it receives.
Called by: harness monitors, where messages of a queue stay or become more.
Assumes:   VIEW DEFINITION on the procedure; else it is NULL, as for a procedure of another database.
Variables: Queue (with its schema, in brackets)
Columns:   definition (nvarchar(max))
*/
SELECT OBJECT_DEFINITION(OBJECT_ID(q.activation_procedure)) AS definition
FROM sys.service_queues AS q
WHERE q.object_id = OBJECT_ID(N'$(Queue)');
GO
